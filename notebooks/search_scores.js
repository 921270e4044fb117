// What a match is worth in a search: a word of a title most, then a word of a text, then a name of
// the Python reference. A part of a name is worth least: many methods share one.
var Scorer = {
  objNameMatch: 4,
  objPartialMatch: 1,
  objPrio: { 0: 5, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
