"use strict";

// Chooses several hits: copy their paths, search by them, remove them from the library.
(() => {
  const find = (id) => document.getElementById(id);
  const [bar, answer] = [find("selection"), find("answer")];
  const [count, start] = [bar.querySelector(".count"), find("select")];
  let last = null; // the card that a click with shift extends from

  const cards = () => [...answer.querySelectorAll(".card[data-path]")].filter((card) => card.checkVisibility());
  const chosen = () => [...answer.querySelectorAll(".card.chosen")];
  const idOf = (card) => card.id.slice(1);

  function set(card, on) {
    card.classList.toggle("chosen", on);
    card.querySelector(".shot").setAttribute("aria-pressed", String(on));
  }

  function tell() {
    const { length } = chosen();
    count.textContent = `${length.toLocaleString("en")} chosen`;
    for (const button of bar.querySelectorAll("button[data-do]")) button.disabled = !length;
  }

  function stop() {
    for (const card of chosen()) set(card, false);
    for (const shot of answer.querySelectorAll(".shot[aria-pressed]")) shot.removeAttribute("aria-pressed");
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

  function searchByThem() {
    const url = new URL(bar.dataset.combine, location.href);
    url.searchParams.set("operation", "all_of");
    for (const card of chosen().slice(0, Number(bar.dataset.most))) url.searchParams.append("image", idOf(card));
    location.assign(url);
  }

  async function remove() {
    const wanted = chosen();
    if (!confirm(`Remove ${wanted.length} from the library? Files in your folders stay.`)) return;
    const key = sessionStorage.getItem("hasse-key") ?? (bar.dataset.key && prompt("Your key"));
    let failed = 0;
    for (const card of wanted) {
      const reply = await fetch(`${bar.dataset.images}${idOf(card)}`, { method: "DELETE", headers: key ? { "X-API-Key": key } : {} });
      if (reply.ok || reply.status === 404) card.remove();
      else failed += 1;
    }
    tell();
    if (failed) count.textContent = `${failed} could not be removed`;
  }

  start.addEventListener("click", () => {
    document.body.classList.add("choosing");
    bar.hidden = false;
    tell();
  });
  bar.addEventListener("click", ({ target }) => {
    const what = target.closest("button")?.dataset;
    if (!what) return;
    if ("all" in what) cards().forEach((card) => set(card, true));
    if ("all" in what) tell();
    if ("stop" in what) stop();
    ({ copy: copyPaths, like: searchByThem, remove }[what.do] ?? (() => {}))();
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
    start.hidden = !answer.querySelector(".card[data-path]");
  };
  document.addEventListener("htmx:historyRestore", stop);
  document.addEventListener("htmx:afterSettle", settle);
  settle();
})();
