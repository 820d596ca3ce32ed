// Words whose full stop ends no sentence, by language. A sentence may end in one all the same; then a person presses
// Shift, which is less work than to take back a capital in the middle of each sentence that has one.

const EVERYWHERE = "dr prof st nr tel max min vol resp cf vs etc ca approx jr sr";
const LISTS = {
  en: "mr mrs ms mx rev hon gen col sgt capt lt gov sen rep pres e.g i.e al dept est inc ltd co corp fig figs ed eds "
    + "ph.d ave blvd rd apt ext incl excl misc tech jan feb aug sept oct nov dec tue tues wed thu thurs fri viz pp a.k.a "
    + "jun jul hrs lbs oz esq messrs univ mt hwy bldg govt intl assoc",
  de: "z.b d.h u.a u.ä o.ä usw bzw evtl ggf str hr hrn fr inkl exkl vgl sog bspw mio mrd jh jhd std tägl "
    + "feb mär apr jun jul aug sep sept okt nov dez abb bes anm aufl bd hrsg verf "
    + "zzgl abzgl ggü allg eigtl urspr zz zt i.d.r m.e lt mind geb kath ev dipl hbf "
    + "abs bsp bzgl chr einschl ing lfd sek zzt",
  fr: "ex j.-c m mm mme mlle p.ex av bd env tél hab éd janv févr juil déc c.-à-d chap fig oct nov ste boul réf adr",
  es: "sra srta dra ud uds vd vds pág págs núm núms aprox ee.uu uu ee p.ej ej av avda izq dcha dpto d dña atte fig cap "
    + "arq gral ing lic art cía sto sta profa máx mín ene feb abr jun jul ago sept oct nov dic",
  it: "sig sigg sig.ra dott dott.ssa ecc es pag pagg ing avv arch geom p.es sec cap fig cfr spett egr gent "
    + "art rif genn feb apr lug sett ott nov dic",
  pt: "sra srta dra p.ex pág págs núm av apto dep exmo exma eng arq tel cap fig aprox séc exa obs "
    + "art ltda srs profa máx mín depto ref jan fev abr jun jul ago nov",
  ru: "т.е т.к т.д т.п т.н г гг ул д кв стр см напр руб коп тыс млн млрд др пр им о обл р рис табл мин сек проф доц "
    + "англ прим шт акад тел обл просп янв февр апр авг сент окт нояб дек",
  uk: "т.д т.п т.зв вул ім р рр див напр грн тис млн млрд ін м обл рис табл хв сек проф доц буд кв стор "
    + "тел акад січ квіт верес жовт груд",
};
const SETS = Object.fromEntries(
  Object.entries(LISTS).map(([language, words]) => [language, new Set(`${EVERYWHERE} ${words}`.split(" "))]),
);
const ANY = new Set(EVERYWHERE.split(" "));
const INITIALS = /^(\p{L}\.){2,}$/u; // U.S., p.m., z.B.
const INITIAL = /^(?!I)\p{Lu}\.$/u; // J. Smith; a sentence may end in I

const SPACED = /^(?![èéàâôаиоуяюєії]\.)\p{Ll}\.$/u; // z. B., d. h., p. ex.; no word of one letter
const LONGEST_CONTEXT = 10;
const WORDS_IN_FRENCH = /^[ay]\.$/u; // ce qu'il y a.
// Words of their own, too: in a date (a first name, words of dialects) and after a reference (a cape) only.
const IN_GERMAN_CONTEXT = /(?:^|[^\p{L}\p{N}])(?:(?:\d{1,2}\.?|am|im)\s(?:jan|mo|di|mi|do|sa)|(?:vgl\.|siehe|s\.|in|im)\skap)\.$/iu;

// Whether a word, with its full stop, is an abbreviation after what stands before it.
export function isAbbreviation(word, language, before = "") {
  const bare = word.replace(/^[^\p{L}\p{N}]+|["'’‘)\]”“»«]+$/gu, "");
  if (!bare.endsWith(".") || bare.endsWith("..")) return false;
  const code = language.split("-")[0];
  if (code === "de" && /^\d{1,2}\.$/u.test(bare)) return true; // am 3. Mai
  if (code === "de" && IN_GERMAN_CONTEXT.test(before.slice(-LONGEST_CONTEXT) + bare)) return true;
  if (code === "fr" && WORDS_IN_FRENCH.test(bare)) return false;
  if (code !== "en" && SPACED.test(bare)) return true;
  return INITIALS.test(bare) || INITIAL.test(bare) || (SETS[code] ?? ANY).has(bare.slice(0, -1).toLowerCase());
}
