"use strict";

// A picture that fills the screen. Hits are links to their pages, which work without this file.
(() => {
  const viewer = document.getElementById("viewer");
  const [stage, picture, at] = [".stage", ".stage img", ".at"].map((name) => viewer.querySelector(name));
  const [panel, zoom, about] = ["aside", ".zoom", ".about"].map((name) => viewer.querySelector(name));
  const PLACE = "#large"; // in the address while the viewer is open, so that going back closes it
  let shown = null; // the link of the picture
  let asked = 0; // the last picture whose facts were asked for

  // Pictures in closed details cannot be stepped to.
  const all = () => [...document.querySelectorAll("#answer .shot[data-image]")].filter((shot) => shot.checkVisibility());

  // Pixel by pixel, and at least twice as large as before.
  function setZoom(on) {
    const widest = Number(/ (\d+)w$/.exec(picture.srcset)?.[1] ?? 0);
    const ratio = picture.getAttribute("width") / picture.getAttribute("height");
    const whole = Math.min(stage.clientWidth, stage.clientHeight * ratio);
    picture.style.width = on ? `${Math.max(widest, 2 * whole)}px` : "";
    picture.sizes = on ? picture.style.width : "100vw";
    viewer.classList.toggle("zoomed", on);
    zoom.setAttribute("aria-pressed", String(on));
  }

  // Zoom to the point (x, y) of the screen, or out again.
  function zoomAt(x, y) {
    const box = picture.getBoundingClientRect();
    const [across, down] = [(x - box.left) / box.width, (y - box.top) / box.height];
    setZoom(!viewer.classList.contains("zoomed"));
    stage.scrollLeft = across * picture.offsetWidth - x;
    stage.scrollTop = down * picture.offsetHeight - y;
  }

  async function showFacts() {
    if (panel.hidden) return;
    const image = (asked = shown.dataset.image);
    const url = new URL(viewer.dataset.facts, location.href);
    url.searchParams.set("image", image);
    const answer = await fetch(url, { headers: { "HX-Request": "true" } });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (asked !== image) return; // another picture is shown by now
    found.querySelectorAll("title, #announcement").forEach((one) => one.remove());
    panel.replaceChildren(...found.body.childNodes);
  }

  function show(shot) {
    shown = shot;
    const small = shot.querySelector("img");
    picture.removeAttribute("srcset");
    setZoom(false);
    picture.src = small.currentSrc || small.src; // until the large one is there
    picture.alt = small.alt;
    for (const side of ["width", "height"]) picture.setAttribute(side, small.getAttribute(side));
    if (shot.dataset.srcset) picture.srcset = shot.dataset.srcset;
    else picture.src = shot.dataset.large;
    const shots = all();
    const place = shots.indexOf(shot);
    at.textContent = shots.length > 1 ? `${place + 1} of ${shots.length}: ${small.alt}` : small.alt;
    viewer.querySelector(".before").disabled = place < 1;
    viewer.querySelector(".after").disabled = place === shots.length - 1;
    const next = shots[place + 1];
    if (next) new Image().src = next.dataset.large;
    shot.scrollIntoView({ block: "nearest" }); // the list goes on behind the viewer
    showFacts();
  }

  function step(way) {
    const shots = all();
    const next = shots[shots.indexOf(shown) + way];
    if (next) show(next);
  }

  function open(shot) {
    history.pushState(history.state, "", PLACE);
    viewer.showModal();
    show(shot);
  }

  function close() {
    viewer.close();
    picture.removeAttribute("srcset");
    picture.removeAttribute("src");
    shown?.focus({ preventScroll: true });
    shown?.scrollIntoView({ block: "nearest" });
  }

  function toggleFacts() {
    panel.hidden = !panel.hidden;
    about.setAttribute("aria-expanded", String(!panel.hidden));
    showFacts();
  }

  // Before htmx, which would load the page of the link.
  document.addEventListener("click", (event) => {
    const shot = event.target.closest?.("#answer .shot[data-image]");
    if (!shot || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    open(shot);
  }, true);

  // Before htmx, too: the answer behind the viewer has not changed.
  addEventListener("popstate", (event) => {
    if (!viewer.open) return;
    event.stopImmediatePropagation();
    close();
  });
  if (location.hash === PLACE) history.replaceState(history.state, "", location.pathname + location.search);

  viewer.addEventListener("cancel", (event) => {
    event.preventDefault();
    if (viewer.classList.contains("zoomed")) setZoom(false);
    else history.back();
  });
  viewer.addEventListener("click", ({ target, clientX, clientY }) => {
    const button = target.closest("button");
    if (button?.matches(".close")) history.back();
    else if (button?.matches(".before")) step(-1);
    else if (button?.matches(".after")) step(1);
    else if (button?.matches(".about")) toggleFacts();
    else if (button?.matches(".zoom")) zoomAt(innerWidth / 2, innerHeight / 2);
    else if (target === picture) zoomAt(clientX, clientY);
    else if (target === stage) history.back();
  });
  viewer.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const zoomed = viewer.classList.contains("zoomed");
    if (event.key === "ArrowLeft" && !zoomed) step(-1);
    else if (event.key === "ArrowRight" && !zoomed) step(1);
    else if (["z", "+", "-"].includes(event.key)) zoomAt(innerWidth / 2, innerHeight / 2);
    else if (event.key === "i") toggleFacts();
    else if (event.key === "?") document.getElementById("keys").showModal();
    else return;
    event.preventDefault();
  });

  // A finger that moves sideways goes on; while zoomed it moves the picture.
  let start = null;
  stage.addEventListener("pointerdown", (event) => {
    start = event.pointerType === "touch" && event.isPrimary ? event : null;
  });
  stage.addEventListener("pointerup", (event) => {
    if (!start || viewer.classList.contains("zoomed")) return;
    const [across, down] = [event.clientX - start.clientX, event.clientY - start.clientY];
    start = null;
    if (Math.abs(across) > 60 && Math.abs(across) > 2 * Math.abs(down)) step(across < 0 ? 1 : -1);
  });
})();
