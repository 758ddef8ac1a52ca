"use strict";

// What the page adds to plain links and forms: pictures by drop and paste, keys, and the states
// between a question and its answer. Without this file every link and form still works.
(() => {
  const find = (id) => document.getElementById(id);
  const [search, box, options] = [find("search"), find("q"), find("options")];
  const [upload, picker, answer, drop] = [find("upload"), find("picture"), find("answer"), find("drop")];
  const view = () => answer.querySelector(".view");
  const shownPicture = () => answer.querySelector("input[name=image][form=search]");

  let typing = false; // the last question was typed, so the next keystroke refines it
  let latest = null; // the request whose answer is awaited

  function setBusy(on) {
    document.body.classList.toggle("busy", on);
    answer.setAttribute("aria-busy", String(on));
  }

  function showTrouble(title, detail) {
    const trouble = find("trouble").content.cloneNode(true);
    trouble.querySelector("h1").textContent = title;
    trouble.querySelector(".lead").textContent = detail;
    trouble.querySelector(".again").href = location.pathname + location.search;
    answer.replaceChildren(trouble);
    htmx.process(answer);
    find("verdict").textContent = `${title}. ${detail}`;
  }

  function forgetPicture() {
    picker.value = "";
    const shown = upload.querySelector(".choose img");
    if (shown) {
      URL.revokeObjectURL(shown.src);
      shown.remove();
    }
  }

  // Where pictures can be added or put together, those that are dropped or pasted go there.
  function takePictures(files) {
    const together = find("pictures");
    const field = together ?? find("added-picture") ?? picker;
    const carried = new DataTransfer();
    for (const file of [...(together?.files ?? []), ...files]) carried.items.add(file);
    field.files = carried.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function goHome() {
    box.value = "";
    shownPicture()?.remove();
    htmx.trigger(search, "submit");
    box.focus();
  }

  // A diagram wider than the screen begins where its visitor is.
  function centre() {
    const [sheet, here] = [answer.querySelector(".sheet"), answer.querySelector(".hasse [aria-current]")];
    if (!here) return;
    const [outer, inner] = [sheet.getBoundingClientRect(), here.getBoundingClientRect()];
    sheet.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  }

  // A new view brings its words into the box; its heading takes the focus that its link lost.
  function settle(keepBox) {
    const shown = view();
    if (!shown) return;
    if (!keepBox) box.value = shown.dataset.query ?? box.value;
    const key = find("key"); // remembered until the tab is closed, and nowhere but here
    if (key) key.value ||= sessionStorage.getItem("hasse-key") ?? "";
    const brought = shown.querySelector("#claim"); // asks about the picture in the picker
    const together = find("pictures");
    if (together && picker.files.length) takePictures(picker.files);
    if (!brought) forgetPicture();
    centre();
    if (document.activeElement === document.body) shown.querySelector("h1")?.focus({ preventScroll: true });
  }

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const typed = detail.triggeringEvent?.type === "input";
    if (typed && typing) detail.headers["Hasse-Typing"] = "1";
    typing = typed;
    if (detail.elt === search && !box.value.trim()) delete detail.parameters.q;
    if (detail.elt === search && box.value.trim()) delete detail.parameters.image;
  });
  // A page that was come back to shows its picture, but the browser no longer has the file.
  document.addEventListener("htmx:confirm", (event) => {
    if (event.target.id !== "claim" || picker.files.length) return;
    event.preventDefault();
    showTrouble("Choose the picture once more", "Hasse forgets the pictures that visitors bring, and so did this page.");
  });
  document.addEventListener("htmx:beforeSend", ({ detail }) => {
    latest = detail.xhr;
    setBusy(true);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.xhr === latest) setBusy(false);
    if (detail.elt.id !== "add" || !detail.successful) return;
    const key = find("key")?.value;
    detail.elt.reset();
    if (key) {
      sessionStorage.setItem("hasse-key", key);
      find("key").value = key;
    }
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (/^text\/html/.test(detail.xhr.getResponseHeader("Content-Type") ?? "")) return;
    detail.shouldSwap = false;
    let problem = {};
    try {
      problem = JSON.parse(detail.xhr.responseText);
    } catch {
      // Something between here and the service answered in its own words; ours are clearer.
    }
    showTrouble("That did not work", problem.detail ?? "The answer was not one that this page can read.");
  });
  document.addEventListener("htmx:sendError", () => {
    showTrouble("Hasse does not answer", "The service cannot be reached. Is it still running?");
  });
  document.addEventListener("htmx:afterSettle", ({ detail }) => {
    if (detail.target === answer) settle(detail.requestConfig?.elt === search);
  });
  // What was typed and ticked is kept with the page that is come back to; files cannot be.
  document.addEventListener("htmx:beforeHistorySave", () => {
    for (const field of find("together")?.elements ?? []) {
      if (field.type === "textarea") field.textContent = field.value;
      else if (field.type === "checkbox" || field.type === "radio") field.toggleAttribute("checked", field.checked);
      else if (field.id === "find") field.setAttribute("value", field.value);
    }
  });
  document.addEventListener("htmx:historyRestore", () => {
    typing = false;
    setBusy(false);
    const asked = new URLSearchParams(location.search);
    if (asked.get("brought") !== upload.elements.brought.value) forgetPicture();
    settle(false);
    for (const name of ["k", "mode"]) {
      const said = asked.get(name) ?? search.dataset[name];
      for (const form of [search, upload]) form.elements[name].value = said;
    }
    if (find("pictures") && find("found").querySelector("img[src^='data:']")) {
      find("pictures-hint").textContent = "Choose your pictures once more: this page forgot them.";
    }
  });
  centre();
  if (find("key")) find("key").value = sessionStorage.getItem("hasse-key") ?? "";
  document.addEventListener("htmx:historyCacheMissLoadError", () => location.reload());

  options.addEventListener("change", ({ target }) => {
    if (target.name in upload.elements) upload.elements[target.name].value = search.elements[target.name].value;
    const together = find("together");
    if (together) together.elements[target.name].value = search.elements[target.name].value;
    if (together && find("found").querySelector(".proof")) htmx.trigger(together, "submit");
    else if (picker.files.length) htmx.trigger(upload, "submit");
    else if (box.value.trim() || shownPicture()) htmx.trigger(search, "submit");
  });
  document.addEventListener("click", ({ target }) => {
    if (!options.contains(target)) options.open = false;
  });

  picker.addEventListener("change", (event) => {
    const [file] = picker.files;
    if (!file) return;
    const limit = Number(upload.dataset.limit);
    if (file.size > limit) {
      event.stopImmediatePropagation();
      forgetPicture();
      showTrouble("That picture is too large", `At most ${Math.floor(limit / 1e6)} MB can be sent. A smaller copy will do: details do not matter.`);
      return;
    }
    upload.elements.brought.value = Date.now().toString(36);
    upload.querySelector(".choose img")?.remove();
    const preview = new Image();
    preview.alt = "";
    preview.src = URL.createObjectURL(file);
    upload.querySelector(".choose").prepend(preview);
  }, true);

  answer.addEventListener("change", ({ target }) => {
    if (target.id !== "pictures") return;
    const size = [...target.files].reduce((sum, file) => sum + file.size, 0);
    const limit = Number(find("together").dataset.limit);
    target.setCustomValidity(size > limit ? `Together at most ${Math.floor(limit / 1e6)} MB can be sent. Smaller copies will do.` : "");
    target.reportValidity();
  });

  // Arrows go along the diagram: up and down to the nearest of the next row, sideways within one.
  function step(node, key) {
    const place = (one) => {
      const { left, top, width } = one.querySelector("rect").getBoundingClientRect();
      return { x: left + width / 2, y: top };
    };
    const here = place(node);
    const [along, way] = { ArrowUp: ["y", -1], ArrowDown: ["y", 1], ArrowLeft: ["x", -1], ArrowRight: ["x", 1] }[key];
    const across = along === "y" ? "x" : "y";
    const far = ([, there]) => 1000 * Math.abs(there[along] - here[along]) + Math.abs(there[across] - here[across]);
    const [next] = [...node.ownerSVGElement.querySelectorAll("a")]
      .map((one) => [one, place(one)])
      .filter(([, there]) => (there[along] - here[along]) * way > 1)
      .filter(([, there]) => along === "y" || Math.abs(there.y - here.y) < 1)
      .sort((a, b) => far(a) - far(b));
    next?.[0].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const writing = event.target.closest("input:not([type=radio]), textarea, select");
    if (event.key === "/" && !writing) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key.startsWith("Arrow") && event.target.closest(".hasse a")) {
      event.preventDefault();
      step(event.target.closest(".hasse a"), event.key);
    } else if (event.key === "Escape" && (options.open || !writing || writing === box)) {
      event.preventDefault();
      if (options.open) {
        options.open = false;
        options.querySelector("summary").focus();
      } else if (box.value || view()?.dataset.view !== "welcome") {
        goHome();
      }
    }
  });

  // Only files from outside: a picture of the page that is dragged about is not a question.
  let inside = false;
  let depth = 0;
  const carriesFile = (event) => !inside && event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragstart", () => { inside = true; });
  document.addEventListener("dragend", () => { inside = false; });
  document.addEventListener("dragenter", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    depth += 1;
    drop.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (carriesFile(event) && --depth <= 0) {
      depth = 0;
      drop.hidden = true;
    }
  });
  document.addEventListener("dragover", (event) => {
    if (carriesFile(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    depth = 0;
    drop.hidden = true;
    if (event.dataTransfer.files.length) takePictures(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    takePictures(event.clipboardData.files);
  });
})();
