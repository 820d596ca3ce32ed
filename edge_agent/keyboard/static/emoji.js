// The emoji panel above the keys: those used last come first, and a search goes by their names. The agent gives the
// names; this browser knows which of them it draws as emoji, and remembers the last ones.

import { ask } from "./agent.js";

const KEY = "nightjar-emoji";
const MOST_RECENT = 16;

const panel = document.getElementById("emoji");
const search = document.getElementById("emoji-search");
const found = document.getElementById("emoji-found");

export class Emoji {
  #all = null; // [emoji, name]
  #onPick;

  constructor(onPick) {
    this.#onPick = onPick;
    search.addEventListener("input", () => this.#draw());
    document.getElementById("emoji-close").addEventListener("click", () => this.toggle());
    panel.addEventListener("keydown", (event) => this.#key(event));
    found.addEventListener("click", (event) => event.target.matches("button") && this.#pick(event.target.textContent));
  }

  // Whether the keys type into the search.
  get searching() {
    return document.activeElement === search;
  }

  type(character) {
    search.value += character;
    this.#draw();
  }

  erase() {
    search.value = search.value.slice(0, -1);
    this.#draw();
  }

  async toggle() {
    if (!panel.hidden) {
      if (panel.contains(document.activeElement)) document.getElementById("text").focus();
      panel.hidden = true;
      return;
    }
    this.#all ??= (await ask("/api/emoji")).map(([sign, name]) => [drawn(sign), name]).filter(([sign]) => sign !== null);
    document.getElementById("emoji-font").hidden = inColour(this.#all[0][0]);
    search.value = "";
    panel.hidden = false;
    this.#draw();
  }

  #draw() {
    const asked = search.value.toLowerCase().split(/\s+/u).filter((word) => word !== "");
    const names = new Map(this.#all);
    const recent = asked.length ? [] : recents().filter((sign) => names.has(sign));
    const fits = (name) => asked.every((part) => ` ${name}`.includes(` ${part}`) || name.includes(`-${part}`));
    const others = this.#all.filter(([sign, name]) => !recent.includes(sign) && fits(name)).map(([sign]) => sign);
    found.replaceChildren(...[...recent, ...others].map((sign, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = sign;
      button.title = names.get(sign);
      button.setAttribute("aria-label", names.get(sign));
      button.tabIndex = place === 0 ? 0 : -1; // the arrow keys go on from the first
      return button;
    }));
    if (!found.hasChildNodes()) found.textContent = "No emoji has that name.";
    found.scrollTop = 0;
  }

  #key(event) {
    const { activeElement } = document;
    const next = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
    if (event.key === "Escape") this.toggle();
    else if (next && found.contains(activeElement)) activeElement[next]?.focus();
  }

  #pick(sign) {
    const last = [sign, ...recents().filter((other) => other !== sign)].slice(0, MOST_RECENT);
    try {
      localStorage.setItem(KEY, JSON.stringify(last));
    } catch {
      // A browser that keeps nothing.
    }
    this.#onPick(sign);
  }
}

// The code point as this browser draws it in colour; null if it does not.
function drawn(sign) {
  if (/^\p{Emoji_Presentation}$/u.test(sign)) return sign;
  return /^\p{Emoji}$/u.test(sign) ? `${sign}\uFE0F` : null;
}

// Whether a font here draws the sign in colour: Raspberry Pi OS Lite has none that does.
function inColour(sign) {
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = "24px sans-serif";
  brush.fillText(sign, 0, 24);
  const { data } = brush.getImageData(0, 0, 40, 40); // red, green, blue, alpha; a box or an outline is black
  return data.some((value, place) => place % 4 < 3 && value > 0);
}

function recents() {
  try {
    const last = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(last) ? last : [];
  } catch {
    return [];
  }
}

export function forgetRecentEmoji() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // It keeps nothing.
  }
}
