// What stands on the keys. Rows of letters from left to right; `long` is what holding a letter offers besides it.

const LATIN = {
  a: "àáâäæãåā", c: "çćč", d: "ðď", e: "éèêëēėęě", g: "ğ", i: "íìîïīıi", l: "łľ", n: "ñńň", o: "óòôöœøõō", r: "řŕ",
  s: "ßśšş", t: "ťþ", u: "úùûüūůű", y: "ýÿ", z: "žźż",
};
const CYRILLIC = { е: "ё", и: "іїй", ь: "ъ", г: "ґ", у: "ў", э: "є", і: "ї", є: "э" };

export const LAYOUTS = {
  qwerty: { name: "QWERTY", rows: ["qwertyuiop", "asdfghjkl", "zxcvbnm"], long: LATIN },
  qwertz: { name: "QWERTZ (Deutsch)", rows: ["qwertzuiopü", "asdfghjklöä", "yxcvbnmß"], long: LATIN },
  azerty: { name: "AZERTY (français)", rows: ["azertyuiop", "qsdfghjklm", "wxcvbn'"], long: LATIN },
  spanish: { name: "QWERTY (español)", rows: ["qwertyuiop", "asdfghjklñ", "zxcvbnm"], long: LATIN },
  russian: { name: "ЙЦУКЕН (русский)", rows: ["йцукенгшщзх", "фывапролджэ", "ячсмитьбю"], long: CYRILLIC },
  ukrainian: { name: "ЙЦУКЕН (українська)", rows: ["йцукенгшщзхї", "фівапролджє", "ячсмитьбю"], long: CYRILLIC },
};

export const SIGNS = [
  ["1234567890", "-/:;()&@\"", "#€$%*+='"],
  ["[]{}<>^~|\\", "_£¥§°•…–—", "«»„“”¿¡"],
];

// Language -> its own name and the layout most of its people type on.
export const LANGUAGES = {
  en: { name: "English", layout: "qwerty" },
  de: { name: "Deutsch", layout: "qwertz" },
  es: { name: "español", layout: "spanish" },
  fr: { name: "français", layout: "azerty" },
  it: { name: "italiano", layout: "qwerty" },
  pt: { name: "português", layout: "qwerty" },
  ru: { name: "русский", layout: "russian" },
  uk: { name: "українська", layout: "ukrainian" },
  und: { name: "another language", layout: "qwerty" },
};
