// Fetches the page again every two seconds and takes its picture over; without script a meta refresh does it.
"use strict";

const PERIOD_MS = 2000;

async function refresh() {
  const stale = document.getElementById("stale");
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("picture");
      const shown = document.getElementById("picture");
      const scrolled = [...shown.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
      const busy = shown.contains(document.activeElement) || String(getSelection());
      if (!busy) {
        shown.replaceWith(fresh);
        fresh.querySelectorAll(".scroll").forEach((element, i) => { element.scrollLeft = scrolled[i] ?? 0; });
      }
      stale.hidden = true;
    } catch {
      stale.hidden = false;
    }
  }
  setTimeout(refresh, PERIOD_MS);
}

setTimeout(refresh, PERIOD_MS);
