// The search box as a small language: `doc:`, `target:` and the like, `tag:io`, `mrr@10:0..0.5`.
//
// In: the text of the box and the names that it may use. Out: tokens, and the text with one put in
// or taken away. So that the box, and with it a link, holds every filter of the list.
const ragscoreSeeking = (() => {
  const TOKEN = /(?<!\S)("(?:[^"\\]|\\.)*"|[^\s":]+):("(?:[^"\\]|\\.)*"|[^\s"]+)(?!\S)/gu;

  function plain(part) {
    if (!part.startsWith('"')) return part;
    try {
      return JSON.parse(part);
    } catch {
      return part.slice(1, -1);
    }
  }
  const quoted = (part) => (/^[^\s":\\]+$/u.test(part) ? part : JSON.stringify(part));

  /** Tokens with their place, and the rest, which is sought as it stands. */
  function parse(text, names) {
    const tokens = [];
    for (const found of text.matchAll(TOKEN)) {
      let [name, value] = [plain(found[1]), plain(found[2])];
      const [more, ...rest] = found[2].split(":"); // a name may have one, too: recall@5:doc:0..1
      if (rest.length && names.has(`${name}:${more}`)) [name, value] = [`${name}:${more}`, rest.join(":")];
      if (names.has(name)) {
        tokens.push({ name, value, from: found.index, to: found.index + found[0].length });
      }
    }
    let rest = "", from = 0;
    for (const one of tokens) {
      rest += text.slice(from, one.from);
      from = one.to;
    }
    rest += text.slice(from);
    return { tokens, rest: tokens.length ? rest.trim().replace(/\s+/g, " ") : rest };
  }

  const token = (name, value) => `${quoted(name)}:${/^[^\s"\\]+$/u.test(value) ? value
    : JSON.stringify(value)}`;

  /** The text without some tokens, and with one more. */
  function changed(text, names, isGone, more = null) {
    const { tokens, rest } = parse(text, names);
    const kept = tokens.filter((one) => !isGone(one)).map((one) => token(one.name, one.value));
    return [rest, ...kept, ...(more ? [token(...more)] : [])].filter(Boolean).join(" ");
  }

  /** "0..0.5", "0.5..", "1": a range, both ends in it; "a..b>c..d" is two. Null: no range. */
  function ranges(value) {
    const found = value.split(">").map((part) => {
      const ends = /^(-?[\d.]*?\d)?(\.\.)(-?[\d.]*\d)?$/.exec(part) ?? /^(-?[\d.]+)$/.exec(part);
      if (!ends) return null;
      const [low, high] = ends[2] ? [ends[1], ends[3]] : [ends[1], ends[1]];
      return [low === undefined ? -Infinity : Number(low), high === undefined ? Infinity
        : Number(high)];
    });
    return found.length > 2 || found.some((one) => !one || one.some(Number.isNaN)) ? null : found;
  }

  return { parse, changed, ranges };
})();
