// Words whose full stop ends no sentence, by language. A sentence may end in one all the same; then a person presses
// Shift, which is less work than to take back a capital in the middle of each sentence that has one.

const EVERYWHERE = "dr prof st nr tel max min vol resp cf vs etc ca approx jr sr";
const LISTS = {
  en: "mr mrs ms mx rev hon gen col sgt capt lt gov sen rep pres e.g i.e al dept est inc ltd co corp fig figs ed eds "
    + "ave blvd rd apt ext incl excl misc tech jan feb aug sept oct nov dec tue tues wed thu thurs fri viz pp a.k.a",
  de: "z.b d.h u.a u.ä o.ä usw bzw evtl ggf str hr hrn fr inkl exkl vgl sog bspw mio mrd jh jhd std tägl "
    + "zzgl abzgl ggü allg eigtl urspr zz zt i.d.r m.e lt mind geb kath ev dipl hbf",
  fr: "m mm mme mlle p.ex av bd env tél hab éd janv févr juil déc c.-à-d",
  es: "sra srta dra ud uds vd vds pág págs núm núms aprox ee.uu p.ej ej av avda izq dcha dpto d dña atte fig cap",
  it: "sig sigg sig.ra dott dott.ssa ecc es pag pagg ing avv arch geom p.es sec cap fig cfr spett egr gent",
  pt: "sra srta dra p.ex pág págs núm av apto dep exmo exma eng arq tel cap fig aprox séc",
  ru: "т.е т.к т.д т.п т.н г гг ул д кв стр см напр руб коп тыс млн млрд др пр им о обл р рис табл мин сек проф доц",
  uk: "т.д т.п т.зв вул ім р рр див напр грн тис млн млрд ін м обл рис табл хв сек проф доц буд кв стор",
};
const SETS = Object.fromEntries(
  Object.entries(LISTS).map(([language, words]) => [language, new Set(`${EVERYWHERE} ${words}`.split(" "))]),
);
const ANY = new Set(EVERYWHERE.split(" "));
const INITIALS = /^(\p{L}\.){2,}$/u; // U.S., p.m., z.B.
const INITIAL = /^(?!I)\p{Lu}\.$/u; // J. Smith; a sentence may end in I

// Whether the last word of a text, with its full stop, is an abbreviation.
export function isAbbreviation(word, language) {
  const bare = word.replace(/^[^\p{L}\p{N}]+/u, "");
  if (!bare.endsWith(".") || bare.endsWith("..")) return false;
  const code = language.split("-")[0];
  if (code === "de" && /^\d{1,2}\.$/u.test(bare)) return true; // am 3. Mai
  return INITIALS.test(bare) || INITIAL.test(bare) || (SETS[code] ?? ANY).has(bare.slice(0, -1).toLowerCase());
}
