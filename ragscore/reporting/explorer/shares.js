// What queries of a list share more often than the others: over-representation, corrected.
//
// In: for each feature how many queries have it, inside and in all. Out: p values by Fisher's exact
// test (one-sided), by Holm's correction over the features that could reach 5 % by their totals alone.
const ragscoreShares = (() => {
  const ALPHA = 0.05;

  function logFactorials(n) {
    const made = new Float64Array(n + 1);
    for (let i = 2; i <= n; i += 1) made[i] = made[i - 1] + Math.log(i);
    return made;
  }

  /** How likely at least `inside` of `chosen` queries have what `having` of `all` have. */
  function upperTail(inside, having, chosen, all, f = logFactorials(all)) {
    const choose = (n, k) => f[n] - f[k] - f[n - k];
    let p = 0;
    for (let x = Math.max(inside, having + chosen - all, 0); x <= Math.min(having, chosen); x += 1) {
      p += Math.exp(choose(having, x) + choose(all - having, chosen - x) - choose(all, chosen));
    }
    return Math.min(p, 1);
  }

  /** Features with p (corrected), smallest first, and how many were tested. */
  function tested(features, chosen, all) {
    const f = logFactorials(all);
    // Totals don't tell which queries were chosen, so leaving out by them costs no validity.
    const able = features.filter((one) =>
      upperTail(Math.min(one.having, chosen), one.having, chosen, all, f) <= ALPHA);
    const rows = able.map((one) => ({ ...one,
      raw: upperTail(one.inside, one.having, chosen, all, f) })).sort((a, b) => a.raw - b.raw);
    let p = 0;
    rows.forEach((one, at) => { p = one.p = Math.min(1, Math.max(p, one.raw * (rows.length - at))); });
    return rows;
  }

  return { ALPHA, upperTail, tested };
})();
