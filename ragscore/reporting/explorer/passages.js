"use strict";
// What a passage shows as evidence: words of the query.
//
// In: texts. Out: ranges [from, to) of them, and a text cut into pieces by its ranges. No elements.
const ragscorePassages = (() => {
  const COMMON = 0.06; // a word of more queries than this share distinguishes none of them
  const FEW = 20; // queries below which no word is common

  /** The words of a text with their places; `key` is what makes two words equal. */
  function words(text) {
    return [...text.matchAll(/[\p{L}\p{N}]+/gu)].map((found) => {
      const key = found[0].toLowerCase();
      return { key: key.length > 3 ? key.replace(/s$/, "") : key, from: found.index,
        to: found.index + found[0].length };
    });
  }
  const keys = (text) => [...new Set(words(text).map((one) => one.key))];

  /** How to get the words that set a query apart from the others: two letters at least. */
  function distinctive(texts) {
    const n = new Map();
    for (const text of texts) for (const key of keys(text ?? "")) n.set(key, (n.get(key) ?? 0) + 1);
    const most = texts.length < FEW ? Infinity : Math.max(2, COMMON * texts.length);
    return (text) => new Set(keys(text).filter((key) => key.length > 1 && !(n.get(key) > most)));
  }

  const termsIn = (text, terms) => words(text).filter((one) => terms.has(one.key));

  /** Where a text has what is sought, whatever the case. */
  function places(text, sought) {
    const found = [], lowered = text.toLowerCase();
    if (!sought || lowered.length !== text.length) return found; // "İ" grows: places don't hold
    for (let at = lowered.indexOf(sought); at >= 0 && found.length < 1000;
      at = lowered.indexOf(sought, at + sought.length)) {
      found.push({ from: at, to: at + sought.length });
    }
    return found;
  }

  /** A text as pieces, each with the names of the layers that cover it. */
  function pieces(text, layers, begin = 0, end = text.length) {
    const inside = layers.map(([name, ranges]) => [name, ranges.filter((one) =>
      one.from < end && one.to > begin)]);
    const cuts = [...new Set([begin, end, ...inside.flatMap(([, ranges]) =>
      ranges.flatMap((one) => [Math.max(one.from, begin), Math.min(one.to, end)]))])]
      .sort((a, b) => a - b);
    const at = inside.map(() => 0);
    return cuts.slice(0, -1).map((from, c) => ({ text: text.slice(from, cuts[c + 1]),
      names: inside.filter(([, ranges], l) => {
        while (at[l] < ranges.length && ranges[at[l]].to <= from) at[l] += 1;
        return ranges[at[l]]?.from <= from;
      }).map(([name]) => name) }));
  }

  /** Where to begin showing a part of a text: at its span, else where most ranges stand. */
  function start(text, span, ranges, length) {
    let best = span?.from ?? 0, most = 0;
    if (!span) ranges.forEach((one, i) => {
      let n = 0;
      while (i + n < ranges.length && ranges[i + n].to <= one.from + length - 60) n += 1;
      if (n > most) [best, most] = [one.from, n];
    });
    if (best < length / 3) return 0;
    const space = text.lastIndexOf(" ", best - 20);
    return space > best - 60 ? space + 1 : best;
  }

  return { distinctive, termsIn, places, pieces, start };
})();
