// Keeps a page alive: when the coordinator says that there is something new, the page is fetched again and the parts
// that differ take the place of the old ones. Without script a meta refresh does it.
"use strict";

const AGAIN_MS = 5000; // how often we look ourselves where no stream is to be had
const SILENT_MS = 40000; // longer than two heartbeats

const stale = document.getElementById("stale");
let seen = document.body.dataset.revision;
let stream = null;
let timer = 0;

// What a person typed or chose and has not sent is nowhere else.
function filled(control) {
  if (control.matches("select")) {
    const proposed = Math.max(0, [...control.options].findLastIndex((option) => option.defaultSelected));
    return control.selectedIndex !== proposed;
  }
  return control.value !== control.defaultValue || control.checked !== control.defaultChecked;
}

// A part that a person is reading, typing in or standing on stays as it is until they leave it, and one that holds
// what they typed until it is sent.
function inUse(part) {
  if ([...part.querySelectorAll("input, select")].some(filled)) return true;
  const selection = getSelection();
  const selecting = !selection.isCollapsed && selection.containsNode(part, true);
  return selecting || (part.contains(document.activeElement) && document.activeElement !== part);
}

const PARTS = "section[id], p[id], nav[id]";

function takeOver(fresh) {
  const shown = document.getElementById("picture");
  const ids = (root) => [...root.querySelectorAll(PARTS)].map((part) => part.id).join(" ");
  if (ids(fresh) !== ids(shown) && !inUse(shown)) {
    shown.replaceChildren(...fresh.childNodes);
    return;
  }
  for (const part of fresh.querySelectorAll(PARTS)) {
    const old = document.getElementById(part.id);
    if (old && shown.contains(old)) replace(old, part);
  }
}

function replace(old, part) {
  for (const details of old.querySelectorAll("details[open]")) {
    part.querySelector(`#${details.id}`)?.setAttribute("open", "");
  }
  if (old.outerHTML === part.outerHTML || inUse(old)) return;
  const scrolled = [...old.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
  const fresh = part.cloneNode(true);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((element, i) => { element.scrollLeft = scrolled[i] ?? 0; });
}

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    seen = page.body.dataset.revision;
    takeOver(page.getElementById("picture"));
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  }
}

function listen() {
  clearTimeout(timer);
  stream?.close();
  stream = null;
  if (document.hidden) return; // a page that nobody sees takes nobody's place
  stream = new EventSource(`/live?seen=${encodeURIComponent(seen)}`);
  stream.onmessage = () => { expect(); refresh(); };
  stream.addEventListener("beat", expect);
  stream.onopen = expect;
  stream.onerror = () => {
    // Without a connection the browser tries again by itself; refused, it does not.
    if (stream.readyState === EventSource.CLOSED) lookAround();
    else refresh();
  };
}

function expect() {
  clearTimeout(timer);
  timer = setTimeout(() => { refresh(); listen(); }, SILENT_MS);
}

function lookAround() {
  clearTimeout(timer);
  timer = setTimeout(async () => { await refresh(); listen(); }, AGAIN_MS);
}

// Deadlines run down between two pictures.
function tick() {
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = Math.max(0, Number(element.dataset.until) - Date.now() / 1000);
    element.textContent = left < 60 ? `${Math.floor(left)} s` : `${Math.floor(left / 60)} min ${Math.floor(left % 60)} s`;
  }
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); listen(); });
setInterval(tick, 1000);
listen();
