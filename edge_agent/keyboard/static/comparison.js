// Before and after: what the first and the current version of the model suggest in the person's own held-out messages.

import { ask } from "./agent.js";

const element = (id) => document.getElementById(id);

const cell = (name, ...content) => {
  const made = document.createElement(name);
  made.append(...content);
  return made;
};

// The word that was meant in bold, where it is among the suggestions.
const suggested = (words, meant) =>
  cell("td", ...words.flatMap((word, at) => [at ? " · " : "", word === meant ? cell("b", word) : word]));

export async function showComparison() {
  const what = element("comparison-what");
  const table = element("comparison").querySelector("table");
  what.textContent = "Comparing…";
  try {
    const { before, now, places } = await ask("/api/comparison");
    table.hidden = places.length === 0;
    what.textContent = places.length === 0
      ? "There is nothing to compare yet: it takes a second version of the model, and messages that are held back from training."
      : "In messages of yours that are held back from training. In bold: the word that you wrote.";
    element("comparison-before").textContent = `Version ${before}`;
    element("comparison-now").textContent = `Version ${now}`;
    table.tBodies[0].replaceChildren(...places.map((place) => {
      const wrote = cell("th", `${place.beginning} `, cell("b", place.meant));
      wrote.scope = "row";
      return cell("tr", wrote, suggested(place.before, place.meant), suggested(place.now, place.meant));
    }));
  } catch (error) {
    table.hidden = true;
    what.textContent = error.message;
  }
}
