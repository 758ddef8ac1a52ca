"use strict";

// Adds to plain links and forms: pictures by drop and paste, keyboard shortcuts, and a display while
// an answer loads. Every link and form works without this file.
(() => {
  const find = (id) => document.getElementById(id);
  const [search, box, options] = [find("search"), find("q"), find("options")];
  const [upload, picker, answer, drop] = [find("upload"), find("picture"), find("answer"), find("drop")];
  const view = () => answer.querySelector(".view");
  const shownPicture = () => answer.querySelector("input[name=image][form=search]");

  const FILTERS = search.dataset.filters.split(" ");

  const [ENOUGH_BYTES, ENOUGH_PIXELS] = [1_000_000, 1600]; // of a picture that is searched by

  let typing = false; // the last search was typed, so the next keystroke refines it
  let latest = null; // the request whose answer is shown next

  function setBusy(on) {
    document.body.classList.toggle("busy", on);
    answer.setAttribute("aria-busy", String(on));
  }

  // While a person types, the results stay, and an error is shown below them.
  function showError(title, detail, isDraft) {
    if (isDraft && view()?.matches(".results")) {
      Object.assign(find("toast"), { textContent: `${title}. ${detail}`, hidden: false });
      return;
    }
    const error = find("error").content.cloneNode(true);
    error.querySelector("h1").textContent = title;
    error.querySelector(".lead").textContent = detail;
    error.querySelector(".again").href = location.pathname + location.search;
    answer.replaceChildren(error);
    htmx.process(answer);
    find("announcement").textContent = `${title}. ${detail}`;
  }

  const isDraft = ({ requestConfig }) => Boolean(requestConfig?.headers["Hasse-Draft"]);

  function clearPicture() {
    picker.value = "";
    const shown = upload.querySelector(".choose img");
    if (shown) {
      URL.revokeObjectURL(shown.src);
      shown.remove();
    }
  }

  // Dropped or pasted pictures go to the file field of the visible form, if there is one.
  function addFiles(files) {
    const combined = find("pictures");
    const field = combined ?? find("added-picture") ?? picker;
    const transfer = new DataTransfer();
    for (const file of [...(combined?.files ?? []), ...files]) transfer.items.add(file);
    field.files = transfer.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  // Scroll a diagram that is wider than the screen to its current caption.
  function centre() {
    const [sheet, here] = [answer.querySelector(".sheet"), answer.querySelector(".hasse [aria-current]")];
    if (!here) return;
    const [outer, inner] = [sheet.getBoundingClientRect(), here.getBoundingClientRect()];
    sheet.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  }

  // The next search has the filters of this view.
  function followAddress() {
    const params = new URLSearchParams(location.search);
    for (const name of ["mode", ...FILTERS]) {
      const value = params.get(name) ?? search.dataset[name] ?? "";
      for (const form of [search, upload]) form.elements[name].value = value;
    }
    // An order without a question is that of a timeline: a question begins with the best.
    search.elements.sort.value = params.has("q") ? params.get("sort") ?? "" : "";
  }

  // The address that `hasse serve` prints has the key of its run, which this browser keeps.
  const given = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (given) {
    localStorage.setItem("hasse-key", given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  const kept = given ?? localStorage.getItem("hasse-key");
  if (given || (kept && !sessionStorage.getItem("hasse-key"))) sessionStorage.setItem("hasse-key", kept);
  function fillKeys() {
    const key = sessionStorage.getItem("hasse-key");
    document.body.classList.toggle("keyed", Boolean(key) && key === localStorage.getItem("hasse-key"));
    for (const field of answer.querySelectorAll("input[name=key]")) field.value ||= key ?? "";
  }
  document.addEventListener("hasse:refused", () => { // such as the key of an earlier run
    for (const store of [sessionStorage, localStorage]) store.removeItem("hasse-key");
    fillKeys();
  });

  // A new view sets the search box, and its heading gets the focus that the clicked link lost.
  function settle(keepBox) {
    const shown = view();
    if (!shown) return;
    if (!keepBox) box.value = shown.dataset.query ?? box.value;
    fillKeys();
    if (find("pictures") && picker.files.length) addFiles(picker.files);
    if (!find("claim") && !find("tabs")) clearPicture(); // these two forms send the picture again
    centre();
    if (document.activeElement === document.body) shown.querySelector("h1")?.focus({ preventScroll: true });
  }

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const typed = detail.triggeringEvent?.type === "input";
    if (typed && typing) detail.headers["Hasse-Typing"] = "1";
    if (typed) detail.headers["Hasse-Draft"] = "1";
    if (detail.elt.matches(".take")) detail.parameters.key = sessionStorage.getItem("hasse-key") ?? "";
    typing = typed;
    if (detail.elt === search && !box.value.trim()) delete detail.parameters.q;
    if (detail.elt === search && box.value.trim()) for (const name of ["image", "similar"]) delete detail.parameters[name];
  });
  // After going back, the page shows its picture, but the browser no longer has the file.
  document.addEventListener("htmx:confirm", (event) => {
    if (!["claim", "tabs"].includes(event.target.id) || picker.files.length) return;
    event.preventDefault();
    showError("Choose the picture once more", "Neither Hasse nor this page keeps uploaded pictures.");
  });
  document.addEventListener("htmx:beforeSend", ({ detail }) => {
    find("toast").hidden = true;
    if (detail.elt.closest(".next")) return; // the shown hits stay
    latest = detail.xhr;
    setBusy(true);
    pausePictures();
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.xhr === latest) {
      setBusy(false);
      resumePictures();
    }
    const hasFurtherHits = detail.requestConfig.elt.closest(".next") && detail.xhr.responseText.includes('<li class="card');
    if (hasFurtherHits) replaceAddress(detail.pathInfo.requestPath);
    const key = detail.requestConfig.elt.elements?.key?.value;
    if (key && detail.successful) sessionStorage.setItem("hasse-key", key);
    if (key && detail.xhr.status === 403) document.dispatchEvent(new Event("hasse:refused"));
    if (detail.elt.id !== "add" || !detail.successful) return;
    detail.elt.reset();
    if (key) find("key").value = key;
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (/^text\/html/.test(detail.xhr.getResponseHeader("Content-Type") ?? "")) return;
    detail.shouldSwap = false;
    let problem = {};
    try {
      problem = JSON.parse(detail.xhr.responseText);
    } catch {
      // A proxy answered, not the service.
    }
    showError("That did not work", problem.detail ?? "The answer cannot be read.", isDraft(detail));
  });
  document.addEventListener("htmx:sendError", ({ detail }) => {
    showError("Hasse does not answer", "The service cannot be reached. Is it still running?", isDraft(detail));
  });
  // Set the filters before a link of the new view, which reads them, can be clicked.
  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target === answer) followAddress();
  });
  document.addEventListener("htmx:afterSettle", ({ detail }) => {
    if (detail.target === answer) settle(detail.requestConfig?.elt === search);
  });
  // Save typed texts and ticks for the way back. Files cannot be saved.
  document.addEventListener("htmx:beforeHistorySave", () => {
    for (const field of find("combine")?.elements ?? []) {
      if (field.type === "textarea") field.textContent = field.value;
      else if (field.type === "checkbox" || field.type === "radio") field.toggleAttribute("checked", field.checked);
      else if (field.id === "find") field.setAttribute("value", field.value);
    }
  });
  document.addEventListener("htmx:historyRestore", () => {
    typing = false;
    setBusy(false);
    followAddress();
    const params = new URLSearchParams(location.search);
    if (params.get("upload") !== upload.elements.upload.value) clearPicture();
    settle(false);
    if (find("pictures") && find("result").querySelector("img[src^='data:']")) {
      find("pictures-hint").textContent = "Choose your pictures once more: this page forgot them.";
    }
  });
  // A browser sends six requests at a time. Pictures of the last answer must not delay a search.
  let pausedPictures = [];
  function pausePictures() {
    resumePictures();
    pausedPictures = [...answer.querySelectorAll("img")].filter((image) => !image.complete).map((image) => [image, image.src, image.srcset]);
    for (const [image] of pausedPictures) image.src = image.srcset = "";
  }
  function resumePictures() {
    for (const [image, src, srcset] of pausedPictures) if (image.isConnected) Object.assign(image, { srcset, src });
    pausedPictures = [];
  }
  // Scrolling changes the address. If htmx did it, it would keep a copy of all hits each time.
  function replaceAddress(path) {
    history.replaceState({ htmx: true }, "", path);
    sessionStorage.setItem("htmx-current-path-for-history", path);
  }
  // The next hits are fetched before the last row is visible.
  const endObserver = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) htmx.trigger(target.querySelector("a"), "near");
  }, { rootMargin: "0px 0px 1500px" });
  function watchEnds() {
    for (const end of answer.querySelectorAll(".next")) endObserver.observe(end);
  }
  // A month that goes on in the next hits has one heading.
  function joinHeadings() {
    const headings = [...answer.querySelectorAll("#hits > .heading")];
    headings.forEach((one, at) => at && one.textContent === headings[at - 1].textContent && one.remove());
    markYear();
  }
  // The scrubber shows the current year.
  function markYear() {
    const years = answer.querySelectorAll(".scrubber > ol > li > a");
    if (!years.length) return;
    const headings = [...answer.querySelectorAll("#hits > .heading")];
    const top = headings.findLast((one) => one.getBoundingClientRect().top < innerHeight / 2) ?? headings[0];
    for (const year of years) {
      if (top?.textContent.endsWith(year.textContent)) year.setAttribute("aria-current", "true");
      else year.removeAttribute("aria-current");
    }
  }
  for (const event of ["htmx:afterSettle", "htmx:historyRestore"]) document.addEventListener(event, () => { watchEnds(); joinHeadings(); });
  document.addEventListener("scroll", markYear, { passive: true });
  watchEnds();
  joinHeadings();

  centre();
  fillKeys();
  document.addEventListener("htmx:historyCacheMissLoadError", () => location.reload());

  options.addEventListener("change", ({ target }) => {
    if (target.name in upload.elements) upload.elements[target.name].value = search.elements[target.name].value;
    const combine = find("combine");
    if (combine) combine.elements[target.name].value = search.elements[target.name].value;
    if (combine && find("result").querySelector(".proof")) htmx.trigger(combine, "submit");
    else if (find("tabs") && picker.files.length) find("tabs").querySelector("[aria-current]").click();
    else if (picker.files.length) htmx.trigger(upload, "submit");
    else if (box.value.trim() || shownPicture() || FILTERS.includes(target.name)) htmx.trigger(search, "submit");
  });
  // The choice of filters is fetched when it is opened.
  options.addEventListener("toggle", async () => {
    if (!options.open) return;
    const [choice, params] = [find("narrow"), new URLSearchParams(new FormData(search))];
    const reply = await fetch(`${choice.dataset.address}?${params}`, { headers: { "HX-Request": "true" } });
    if (!reply.ok) return;
    const fetched = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector(".view");
    fetched.querySelector("h1").remove();
    choice.replaceChildren(fetched);
    htmx.process(choice);
  });
  options.addEventListener("click", ({ target }) => {
    if (target.closest("#narrow a")) options.open = false;
  });
  // Without a secure connection browsers have no clipboard, but still copy a selection.
  async function copy(button) {
    const path = button.querySelector("span");
    getSelection().selectAllChildren(path);
    try {
      await navigator.clipboard.writeText(path.textContent);
    } catch {
      document.execCommand("copy");
    }
    button.classList.add("copied");
    find("announcement").textContent = "The path was copied.";
    setTimeout(() => button.classList.remove("copied"), 1500);
  }

  document.addEventListener("click", ({ target }) => {
    if (!options.contains(target)) options.open = false;
    for (const menu of answer.querySelectorAll(".sort[open]")) menu.open = menu.contains(target);
    const path = target.closest("button.path");
    if (path) copy(path);
  });

  // Reduce a large picture before it is sent: a search needs no more pixels. A picture that this
  // browser cannot read is sent unchanged.
  async function reduce(file) {
    if (file.size < ENOUGH_BYTES) return file;
    try {
      const bitmap = await createImageBitmap(file);
      const scale = Math.min(1, ENOUGH_PIXELS / Math.max(bitmap.width, bitmap.height));
      const canvas = new OffscreenCanvas(Math.round(scale * bitmap.width), Math.round(scale * bitmap.height));
      canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      const smaller = await canvas.convertToBlob({ type: "image/jpeg", quality: 0.9 });
      return smaller.size < file.size ? new File([smaller], file.name, { type: "image/jpeg" }) : file;
    } catch {
      return file;
    }
  }

  let reducedFile = null; // the file in the picker that may be sent
  picker.addEventListener("change", async (event) => {
    const [file] = picker.files;
    if (!file || file === reducedFile) return;
    event.stopImmediatePropagation();
    const small = await reduce(file);
    if (picker.files[0] !== file) return; // another one was chosen meanwhile
    const limit = Number(upload.dataset.limit);
    if (small.size > limit) {
      clearPicture();
      showError("That picture is too large", `You can send at most ${Math.floor(limit / 1e6)} MB. Use a smaller copy: fine details do not matter here.`);
      return;
    }
    upload.elements.upload.value = Date.now().toString(36);
    upload.querySelector(".choose img")?.remove();
    const preview = new Image();
    preview.alt = "";
    preview.addEventListener("error", () => preview.remove()); // this browser cannot show a HEIC
    preview.src = URL.createObjectURL(small);
    upload.querySelector(".choose").prepend(preview);
    const transfer = new DataTransfer();
    transfer.items.add(small);
    picker.files = transfer.files;
    [reducedFile] = picker.files;
    picker.dispatchEvent(new Event("change", { bubbles: true }));
  }, true);

  answer.addEventListener("change", ({ target }) => {
    if (target.id !== "pictures") return;
    const size = [...target.files].reduce((sum, file) => sum + file.size, 0);
    const limit = Number(find("combine").dataset.limit);
    target.setCustomValidity(size > limit ? `You can send at most ${Math.floor(limit / 1e6)} MB in all. Use smaller copies.` : "");
    target.reportValidity();
  });

  // Arrow keys move in a diagram and among pictures: to the nearest of the next row, or sideways.
  function moveFocus(node, key, nodes) {
    const position = (link) => {
      const { left, top, width } = (link.querySelector("rect") ?? link).getBoundingClientRect();
      return { x: left + width / 2, y: top };
    };
    const here = position(node);
    const [along, direction] = { ArrowUp: ["y", -1], ArrowDown: ["y", 1], ArrowLeft: ["x", -1], ArrowRight: ["x", 1] }[key];
    const across = along === "y" ? "x" : "y";
    const distance = ([, there]) => 1000 * Math.abs(there[along] - here[along]) + Math.abs(there[across] - here[across]);
    const [next] = nodes
      .map((link) => [link, position(link)])
      .filter(([, there]) => (there[along] - here[along]) * direction > 1)
      .filter(([, there]) => along === "y" || Math.abs(there.y - here.y) < 1)
      .sort((a, b) => distance(a) - distance(b));
    // A row of pictures goes on in the next one.
    const beyond = along === "x" && node.matches(".shot") ? nodes[nodes.indexOf(node) + direction] : null;
    (next?.[0] ?? beyond)?.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const writing = event.target.closest("input:not([type=radio]), textarea, select");
    if (document.querySelector("dialog[open]")) return; // it has keys of its own
    if (event.key === "?" && !writing) {
      find("keys").showModal();
    } else if (event.key === "/" && !writing) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key.startsWith("Arrow") && event.target.closest(".hasse a")) {
      event.preventDefault();
      moveFocus(event.target.closest(".hasse a"), event.key, [...answer.querySelectorAll(".hasse a")]);
    } else if (event.key.startsWith("Arrow") && event.target.closest("#answer .card .shot")) {
      event.preventDefault();
      const shots = [...answer.querySelectorAll(".card .shot")].filter((shot) => shot.checkVisibility());
      moveFocus(event.target, event.key, shots);
    } else if (["ArrowLeft", "ArrowRight"].includes(event.key) && !writing && !event.target.closest("summary, button, video")) {
      [...answer.querySelectorAll(".card .shot")].find((shot) => shot.getBoundingClientRect().top > 0)?.focus();
    } else if (event.key === "Escape" && (options.open || writing === box)) {
      event.preventDefault(); // a search field would lose its words
      if (options.open) options.querySelector("summary").focus();
      else box.blur();
      options.open = false;
    }
  });

  // Only files from outside: dragging a picture of the page is not an upload.
  let isOwnDrag = false;
  let dragDepth = 0; // elements that the drag has entered and not left
  const carriesFile = (event) => !isOwnDrag && event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragstart", () => { isOwnDrag = true; });
  document.addEventListener("dragend", () => { isOwnDrag = false; });
  document.addEventListener("dragenter", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    dragDepth += 1;
    drop.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (carriesFile(event) && --dragDepth <= 0) {
      dragDepth = 0;
      drop.hidden = true;
    }
  });
  document.addEventListener("dragover", (event) => {
    if (carriesFile(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    dragDepth = 0;
    drop.hidden = true;
    if (event.dataTransfer.files.length) addFiles(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    addFiles(event.clipboardData.files);
  });
})();
