"use strict";

// Lets the form that adds a picture take many at once, and folders of them, by drop. Each picture
// is a request of its own, so one that is refused does not stop the others.
(() => {
  const TOGETHER = 3; // requests at a time
  const TRIES = 5; // of a picture that the service is too busy for
  const find = (id) => document.getElementById(id);
  const count = (number) => `${number.toLocaleString("en")} picture${number === 1 ? "" : "s"}`;
  const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  let running = false;

  function prepare() {
    const field = find("added-picture");
    if (!field || field.multiple) return;
    field.multiple = true;
    find("add").querySelector(".many").hidden = false;
  }

  function showChoice() {
    const { length } = find("added-picture").files;
    find("add").querySelector("button").textContent = length > 1 ? `Add ${count(length)}` : "Add it";
    const captions = find("captions");
    if (captions) captions.disabled = length > 1; // they are of one picture
  }

  function report(lines) {
    find("added").replaceChildren(...lines.map((line) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = line;
      return paragraph;
    }));
  }

  // Returns "added", "known", or why the service refused.
  async function send(form, file) {
    const limit = Number(form.dataset.limit);
    if (file.size > limit) return `larger than ${limit / 1e6} MB`;
    const body = new FormData();
    body.append("image", file);
    if (find("key")) body.append("key", find("key").value);
    for (let attempt = 1; ; attempt += 1) {
      const answer = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
      if ([429, 503].includes(answer.status) && attempt < TRIES) {
        await pause(Number(answer.headers.get("Retry-After")) || 1);
        continue;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) return page.querySelector("#added .notice")?.textContent ?? `status ${answer.status}`;
      return page.querySelector("#added p").textContent.startsWith("Added") ? "added" : "known";
    }
  }

  async function sendAll(form, files) {
    const [bar, button] = [form.querySelector("progress"), form.querySelector("button")];
    const [queue, refused] = [[...files], []];
    const counts = { added: 0, known: 0 };
    const sums = () => `${count(counts.added)} added, ${counts.known} known before, ${refused.length} refused.`;
    running = button.disabled = true;
    Object.assign(bar, { hidden: false, max: files.length, value: 0 });
    async function work() {
      for (let file = queue.shift(); file; file = queue.shift()) {
        let outcome;
        try {
          outcome = await send(form, file);
        } catch {
          outcome = "the service does not answer";
        }
        if (outcome in counts) counts[outcome] += 1;
        else refused.push(`${file.name}: ${outcome}`);
        bar.value += 1;
        if (form.isConnected) report([`${bar.value} of ${files.length}: ${sums()}`]);
      }
    }
    await Promise.all(Array.from({ length: TOGETHER }, work));
    running = button.disabled = false;
    bar.hidden = true;
    if (!form.isConnected) return; // the page shows something else by now
    report([sums(), ...refused.slice(0, 20), ...(refused.length > 20 ? [`and ${refused.length - 20} more`] : [])]);
    const home = document.createElement("a");
    Object.assign(home, { href: document.querySelector(".brand").href, textContent: "See the collection" });
    find("added").append(home);
    find("announcement").textContent = sums();
    if (find("key")) sessionStorage.setItem("hasse-key", find("key").value);
    find("added-picture").value = "";
    showChoice();
  }

  // A dropped folder is read to its depths; hidden files are left out. Browsers give many pictures
  // no type: the service looks at their first bytes.
  async function filesOf(entry) {
    if (entry.name.startsWith(".")) return [];
    if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
    const [reader, found] = [entry.createReader(), []];
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return found;
      for (const one of some) found.push(...await filesOf(one));
    }
  }

  document.addEventListener("drop", async (event) => {
    if (!find("added-picture")) return;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!entries.some((entry) => entry.isDirectory)) return;
    const files = (await Promise.all(entries.map(filesOf))).flat();
    const transfer = new DataTransfer();
    for (const file of files) if (!file.type || file.type.startsWith("image/")) transfer.items.add(file);
    const field = find("added-picture");
    if (!field) return;
    field.files = transfer.files;
    const others = files.length - transfer.files.length;
    report(others ? [`${others.toLocaleString("en")} of the dropped files ${others > 1 ? "are no pictures" : "is no picture"}.`] : []);
    showChoice();
  });
  document.addEventListener("change", ({ target }) => {
    if (target.id === "added-picture") showChoice();
  });
  document.addEventListener("submit", (event) => {
    const files = event.target.id === "add" ? find("added-picture").files : [];
    if (files.length < 2) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!running) sendAll(event.target, files);
  }, true);
  document.addEventListener("dragenter", () => {
    find("drop").querySelector("p").textContent =
      find("added-picture") ? "Drop pictures or folders to add them" : "Drop the picture to search by it";
  });
  for (const event of ["htmx:afterSettle", "htmx:historyRestore"]) document.addEventListener(event, prepare);
  prepare();
})();
