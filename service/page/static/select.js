"use strict";

// Chooses several hits: search by them, copy their paths, download, annotate or remove them.
(() => {
  const find = (id) => document.getElementById(id);
  const [bar, answer] = [find("selection"), find("answer")];
  const [count, start] = [bar.querySelector(".count"), find("select")];
  const form = find("say");
  let last = null; // the card that a click with shift extends from

  const cards = () => [...answer.querySelectorAll(".card[data-path]")].filter((card) => card.checkVisibility());
  const chosen = () => [...answer.querySelectorAll(".card.chosen")];
  const idOf = (card) => card.id.slice(1);

  function set(card, on) {
    card.classList.toggle("chosen", on);
    const shot = card.querySelector(".shot"); // a link, until it is a button that chooses
    shot.setAttribute("role", "button");
    shot.setAttribute("aria-pressed", String(on));
  }

  function tell() {
    const { length } = chosen();
    count.textContent = `${length.toLocaleString("en")} chosen`;
    for (const button of bar.querySelectorAll("button[data-do]")) button.disabled = !length;
  }

  function stop() {
    for (const card of chosen()) set(card, false);
    for (const shot of answer.querySelectorAll(".shot[aria-pressed]")) {
      for (const name of ["role", "aria-pressed"]) shot.removeAttribute(name);
    }
    document.body.classList.remove("choosing");
    bar.hidden = true;
    last = null;
  }

  function choose(card, extend) {
    const all = cards();
    const [from, to] = [all.indexOf(extend ? last ?? card : card), all.indexOf(card)];
    const on = extend || !card.classList.contains("chosen");
    for (const one of all.slice(Math.min(from, to), Math.max(from, to) + 1)) set(one, on);
    last = card;
    tell();
  }

  async function copyPaths() {
    const paths = chosen().map((card) => card.dataset.path).join("\n");
    const field = document.createElement("textarea");
    field.value = paths;
    bar.append(field);
    field.select();
    try {
      await navigator.clipboard.writeText(paths);
    } catch {
      document.execCommand("copy"); // without a secure connection there is no clipboard
    }
    field.remove();
    count.textContent = `${chosen().length} path${chosen().length === 1 ? "" : "s"} copied`;
  }

  const isLike = () => new URLSearchParams(location.search).get("operation") === "like";

  // A search by them; where one by likeness is shown, they are added to it.
  function searchBy(operation, name) {
    const url = new URL(bar.dataset.combine, location.href);
    if (operation === "like" && isLike()) url.search = location.search;
    url.searchParams.set("operation", operation);
    for (const card of chosen().slice(0, Number(bar.dataset.most))) url.searchParams.append(name, idOf(card));
    location.assign(url);
  }

  // By a form: what a script fetches is held in memory.
  function exportThem() {
    const sender = Object.assign(document.createElement("form"), { action: bar.dataset.export, method: "post", enctype: "multipart/form-data", hidden: true });
    for (const card of chosen()) sender.append(Object.assign(document.createElement("input"), { name: "image", value: idOf(card) }));
    document.body.append(sender);
    sender.submit();
    sender.remove();
  }

  // The key that writing takes; null where none is needed, or none is typed.
  const askKey = () => sessionStorage.getItem("hasse-key") ?? (bar.dataset.key ? prompt("Your key") : null);

  // Returns what went wrong, or "".
  async function send(url, method, body) {
    const key = askKey();
    const headers = { ...(key && { "X-API-Key": key }), ...(body && { "Content-Type": "application/json" }) };
    try {
      const reply = await fetch(url, { method, headers, body: body && JSON.stringify(body), keepalive: true });
      if (key && [401, 403].includes(reply.status)) document.dispatchEvent(new Event("hasse:refused"));
      else if (key) sessionStorage.setItem("hasse-key", key);
      return reply.ok || reply.status === 404 ? "" : (await reply.json()).detail;
    } catch {
      return "Hasse does not answer";
    }
  }

  async function say(text, what) {
    const wanted = chosen();
    const takes = what === "remove";
    const texts = takes ? { captions: [text], keywords: [text] } : { [what]: [text] };
    for (let at = 0; at < wanted.length; at += 1000) {
      const image_ids = wanted.slice(at, at + 1000).map((card) => Number(idOf(card)));
      const problem = await send(`${bar.dataset.annotations}${takes ? "/remove" : ""}`, "POST", { image_ids, ...texts });
      if (problem) {
        count.textContent = problem;
        return;
      }
    }
    count.textContent = `${takes ? "Taken away from" : "Added to"} ${wanted.length}`;
    form.reset();
  }

  function toggleForm(button) {
    form.hidden = !form.hidden;
    button.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) form.elements.text.focus();
  }

  // Pictures are removed when a minute has gone by without an undo, or the page is left.
  const undo = find("undo");
  let [removed, timer] = [[], 0]; // the ids, which are not shown meanwhile
  function hideRemoved() {
    for (const card of answer.querySelectorAll(".card[data-path]")) card.hidden = removed.includes(idOf(card));
  }
  async function carryOut(leaves) {
    clearTimeout(timer);
    undo.hidden = true;
    const ids = removed;
    const sent = [];
    for (const id of ids) {
      const reply = send(`${bar.dataset.images}${id}`, "DELETE");
      sent.push(leaves ? reply : await reply); // a page that is left cannot wait
    }
    const problems = await Promise.all(sent);
    const problem = problems.find(Boolean);
    if (problem) Object.assign(find("toast"), { textContent: problem, hidden: false });
    for (const [at, id] of ids.entries()) if (!problems[at]) find(`i${id}`)?.remove();
    removed = removed.filter((id) => !ids.includes(id));
    hideRemoved();
  }
  function remove() {
    const [ids, key] = [chosen().map(idOf), askKey()]; // a page that is left cannot ask
    if (bar.dataset.key && !key) return;
    if (key) sessionStorage.setItem("hasse-key", key);
    stop();
    removed = [...removed, ...ids];
    hideRemoved();
    clearTimeout(timer);
    timer = setTimeout(() => carryOut(false), 60_000);
    undo.querySelector("span").textContent = `${removed.length.toLocaleString("en")} removed from the library. Files in your folders stay.`;
    undo.hidden = false;
  }
  undo.querySelector("button").addEventListener("click", () => {
    clearTimeout(timer);
    removed = [];
    undo.hidden = true;
    hideRemoved();
  });
  addEventListener("pagehide", () => removed.length && carryOut(true));

  const DOING = {
    more: () => searchBy("like", "image"),
    less: () => searchBy("like", "less"),
    common: () => searchBy("all_of", "image"),
    copy: copyPaths,
    export: exportThem,
    say: toggleForm,
    remove,
  };

  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    if (chosen().length) say(form.elements.text.value, event.submitter.value);
  });
  start.addEventListener("click", () => {
    document.body.classList.add("choosing");
    bar.hidden = false;
    bar.querySelector("[data-do=less]").hidden = !isLike();
    tell();
  });
  bar.addEventListener("click", ({ target }) => {
    const what = target.closest("button")?.dataset;
    if (!what) return;
    if ("all" in what) cards().forEach((card) => set(card, true));
    if ("all" in what) tell();
    if ("stop" in what) stop();
    DOING[what.do]?.(target);
  });
  // Before the viewer and htmx.
  addEventListener("click", (event) => {
    const card = bar.hidden ? null : event.target.closest?.("#answer .card[data-path] .shot")?.closest(".card");
    if (!card) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    choose(card, event.shiftKey);
  }, true);
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || bar.hidden) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    stop();
  }, true);
  const settle = () => {
    if (!answer.querySelector(".chosen")) stop();
    hideRemoved();
    start.hidden = !answer.querySelector(".card[data-path]");
  };
  document.addEventListener("htmx:historyRestore", stop);
  document.addEventListener("htmx:afterSettle", settle);
  settle();
})();
