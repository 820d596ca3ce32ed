// What the person chose for this page, remembered by this browser; never anything that was typed.

import { LANGUAGES, LAYOUTS } from "./layouts.js";

const KEY = "nightjar-keyboard";

const spoken = navigator.languages.map((tag) => tag.split("-")[0]).find((tag) => tag in LANGUAGES) ?? "und";
const settings = { language: spoken, layout: LANGUAGES[spoken].layout, spaceTakes: true, slurs: false, ...remembered() };
const listeners = [];

function remembered() {
  try {
    const { language, layout, spaceTakes, slurs } = JSON.parse(localStorage.getItem(KEY)) ?? {};
    return {
      ...(language in LANGUAGES && { language }),
      ...(layout in LAYOUTS && { layout }),
      ...(typeof spaceTakes === "boolean" && { spaceTakes }),
      ...(typeof slurs === "boolean" && { slurs }),
    };
  } catch {
    return {}; // a browser that keeps nothing, or something else under our name
  }
}

export const chosen = () => settings;

export function choose(changes) {
  Object.assign(settings, changes);
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Then it holds until the page is closed.
  }
  listeners.forEach((listener) => listener(settings));
}

export const onChoice = (listener) => listeners.push(listener);
