// The explorer of runs: a list of queries, and beside it the open query with the hits of both runs.
//
// In: the queries that data.py wrote. Out: elements under `root`. No text of the data is ever
// markup: everything goes through `el`, which knows text nodes and attributes only. Queries are
// found by Map, never by property, so that an id may be called __proto__. Nothing is stored and
// nothing is loaded, so that it also works in a frame without rights. Nothing is computed but
// counts and differences: what changed, and the order to read in, are Python's.
const ragscoreExplorer = (() => {
  // ---- words and signs ------------------------------------------------------------------------
  const GLYPHS = {
    win: "▲", loss: "▼", regression: "▼!", draw: "=", both_miss: "○", no_target: "–",
    only_baseline: "◁", only_candidate: "▷",
  };
  const TONES = { win: "good", loss: "mild", regression: "bad" };
  const KEYS = [
    ["↑ ↓ or j k", "previous and next query"], ["Page Up, Page Down", "a page of queries"],
    ["Home, End", "first and last query"], ["Enter", "go into the open query"],
    ["Esc", "back to the list"], ["/", "search"], ["← →", "another run"],
    ["t", "unfold all texts"], ["c", "copy code of the list"], ["l", "copy a link to the query"],
    ["?", "this list"],
  ];
  const HELP = "doc: target: answer: text: tag: search there; a metric's name takes a range."
    + " Put values with spaces in quotes.";
  const FIRST = 20; // hits of a list that are drawn at once, beside those that met a target
  const PREVIEW = 230; // characters of a folded passage
  const NONE = "–";

  // ---- texts and elements ---------------------------------------------------------------------
  // The rule of frames/escaping.py: what a browser follows instead of showing it is shown as code.
  const UNSEEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069"
    + "\\ufff9-\\ufffb\\ufffe\\uffff]|[\\ud800-\\udbff](?![\\udc00-\\udfff])"
    + "|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]", "g");
  const hex = (one, digits) => one.charCodeAt(0).toString(16).padStart(digits, "0");

  function visible(text) {
    return String(text).replace(/\r\n/g, "\n").replace(UNSEEN,
      (one) => (one < "\u0080" ? `\\x${hex(one, 2)}` : `\\u${hex(one, 4)}`));
  }

  /** An element. Children are elements, texts, or nothing; attributes that are null are left out. */
  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (known(value) && value !== false) made.setAttribute(name, value);
    }
    for (const child of children.flat()) {
      if (!known(child) || child === false) continue;
      made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
    }
    return made;
  }

  const LAYERS = { span: ["mark", "what the target asks for"], term: ["b", null],
    found: ["strong", null] };
  /** A text with what stands out in it; layers are names and ranges. */
  function marked(text, layers, from, to) {
    return ragscorePassages.pieces(text, layers, from, to).map((piece) =>
      piece.names.reduce((inner, name) => el(LAYERS[name][0], { class: `x-${name}`,
        title: LAYERS[name][1] }, inner), piece.text));
  }
  const rangesOf = (text, sought) => sought.flatMap((one) => ragscorePassages.places(text, one))
    .sort((a, b) => a.from - b.from);
  /** A text in which what is sought stands out. */
  function found(text, sought) {
    const ranges = rangesOf(text, sought);
    return ranges.length ? marked(text, [["found", ranges]]) : [text];
  }
  /** An id, whole: it may break after . # / _ and :, and anywhere where it has to. */
  function whole(id, sought = []) {
    if (rangesOf(id, sought).length) return el("span", { class: "x-id" }, found(id, sought));
    const parts = id.length > 500 ? [id] : id.split(/(?<=[.#/_:])/);
    return el("span", { class: "x-id" }, parts.flatMap((part) => [part, el("wbr")]).slice(0, -1));
  }

  const known = (value) => value !== null && value !== undefined;
  const line = (text, length = 300) => text.slice(0, length).replace(/\s+/g, " ");
  const count = (n) => n.toLocaleString("en-US");
  const many = (n, one) => `${count(n)} ${n === 1 ? one : one === "query" ? "queries" : `${one}s`}`;
  function number(value, decimals) {
    if (!known(value)) return NONE;
    const text = value.toFixed(decimals);
    return /^-[0.]*$/.test(text) ? text.slice(1) : text.replace("-", "−");
  }
  const signed = (value, decimals) => {
    const text = number(value, decimals);
    return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
  };
  /** A literal of Python: JSON's strings are all valid there. */
  const python = (value) => JSON.stringify(value);

  async function unpack(base64) {
    const bytes = Uint8Array.from(atob(base64.trim()), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  // ---- hits of two runs -----------------------------------------------------------------------
  /** Hits of one call of two runs that are the same passage; each gets its rank in the other. */
  function pair(left, right) {
    // The first of two hits with one id goes with the first of the other run, and so on.
    const waiting = new Map(), pairs = [];
    for (const hit of left) waiting.set(hit.id, [...(waiting.get(hit.id) ?? []), hit]);
    for (const hit of right) {
      const mate = waiting.get(hit.id)?.shift();
      if (!mate) continue;
      [hit.other, mate.other] = [mate.place, hit.place];
      pairs.push([mate, hit]);
    }
    return pairs;
  }
  const direction = (from, to) => (to < from ? "up" : to > from ? "down" : "same");
  const ARROWS = { up: "↑", down: "↓" };

  // ---- the explorer ---------------------------------------------------------------------------
  /** `options`: link, code, state; `select` is called with the id of the query that is open. */
  function boot(root, data, options = {}) {
    const { queries, runs, metrics, slices, items } = data;
    const name = root.id || "x", code = options.code ?? "cmp";
    const isPaired = runs.length > 1;
    const others = runs.map((_, r) => r).filter((r) => r > 0 || !isPaired);
    const primary = metrics.flatMap((one, m) => (one.primary ? [m] : []));
    const placeOf = new Map(queries.map((query, i) => [query.id, i]));
    // `run` is compared with the first one; `outcomes` null: what changed; `metric` -1: no metric
    const ui = { run: others[0], outcomes: null, search: "", metric: -1, sort: null, open: -1,
      isUnfolded: false, isDeep: false, list: [] };
    const sides = () => (isPaired ? [0, ui.run] : [ui.run]);

    // -- what is known of a query
    const of = (i, r = ui.run) => queries[i].runs[r];
    const isChanged = (i) => !isPaired || known(of(i).order);
    const value = (m, i, r = ui.run) => of(i, r).metrics[m];
    function delta(m, i) {
      if (!isPaired) return value(m, i);
      return known(value(m, i, 0)) && known(value(m, i)) ? value(m, i) - value(m, i, 0) : null;
    }
    /** 1 better, -1 worse, 0 neither. */
    const sense = (m, change) => Math.sign(change ?? 0) * (metrics[m].better === "lower" ? -1 : 1);
    const targetsOf = (i) => queries[i].targets;
    /** The hits of a run as they are drawn; `place` is the rank within its call. */
    const hitsOf = (i, r) => (of(i, r).hits ?? []).map((one) => ({ run: r, place: one.rank, call: 1,
      targets: [], ...items[one.item], ...one, isTarget: known(one.grade) }));
    /** Queries of the same conversation, by turn; none without one. */
    function turnsOf(i) {
      const own = queries[i].conversation;
      return known(own) ? queries.map((_, j) => j).filter((j) => queries[j].conversation === own)
        .sort((a, b) => (queries[a].turn ?? Infinity) - (queries[b].turn ?? Infinity)) : [];
    }
    const slicesOf = (i, s) => queries[i].slices[s].map((c) => slices[s].values[c]);

    // -- the skeleton
    root.classList.add("rs-explorer");
    const say = el("div", { class: "x-unseen", role: "status" });
    const chips = el("div", { class: "x-chips", role: "group", "aria-label": "Outcome" });
    const search = el("input", { type: "search", placeholder: "Search, or doc: answer: tag: …",
      title: `Ids and texts of queries. ${HELP}`, "aria-label": `Search. ${HELP}`,
      oninput: () => { ui.search = search.value; refilter(); } });
    const metric = metricChoice();
    const pickers = slices.map(({ name: slice, values }) => {
      const made = el("select", { "aria-label": slice, onchange: () => {
        ui.search = search.value = ragscoreSeeking.changed(ui.search, fields,
          (one) => one.name === slice, made.value ? [slice, made.value] : null);
        refilter();
      } }, el("option", { value: "" }, slice), values.map((one) => el("option", { value: one },
        line(one, 60))));
      return made;
    });
    const head = el("div", { class: "x-line x-headline", role: "row" });
    const empty = el("div", { class: "x-none", hidden: true }, el("p", {}, queries.length
      ? "No query matches." : "There are no queries."), queries.length > 0 && el("button",
      { type: "button", onclick: () => showAll() }, "Clear all filters"));
    const list = el("div", { class: "x-space", role: "presentation", onclick: (event) => {
      const row = event.target.closest(".x-line");
      if (!row) return;
      grid.focus();
      open(row.query);
      enter(false);
    } });
    const body = el("div", { class: "x-body", role: "rowgroup", tabindex: "-1" }, list, empty);
    const grid = el("div", { class: "x-grid", role: "grid", tabindex: "0", "aria-label": "Queries" },
      el("div", { role: "rowgroup" }, head), body);
    const status = el("p", { role: "status" });
    const foot = el("div", { class: "x-foot" }, status,
      data.left_out.map((text) => el("p", { class: "x-small" }, text)));
    const panel = el("div", { class: "x-query", role: "region", tabindex: "-1",
      "aria-label": "Query" });
    const runChoice = others.length > 1 && el("select", { "aria-label": "Compared run",
      onchange: () => choose(Number(runChoice.value)) },
    others.map((r) => el("option", { value: r }, runs[r].id)));
    const said = el("p", { class: "x-verdict" });
    const more = el("details", { class: "x-more" });
    const frame = el("div", { class: "x-frame", "data-view": "list" },
      el("div", { class: "x-top" }, said, more,
        isPaired && el("div", { class: "x-row" }, chips, runChoice && el("label",
          { class: "x-runs" }, runChoice, el("span", {}, `against ${runs[0].id}`)))),
      el("div", { class: "x-main" },
        el("div", { class: "x-list", role: "region", "aria-label": "List of queries" },
          el("div", { class: "x-tools" }, search, metric, pickers,
            el("button", { type: "button", "aria-label": "Keys", title: "Keys (?)",
              onclick: () => help() }, "?")),
          grid, foot),
        panel),
      say);
    root.append(frame);

    function metricChoice() {
      const option = (m) => el("option", { value: m }, metrics[m].name);
      const rest = metrics.map((_, m) => m).filter((m) => !primary.includes(m));
      const group = (label, which) => which.length > 0 && el("optgroup", { label },
        which.map(option));
      return el("select", { "aria-label": "Last column", title: "What the last column shows",
        hidden: metrics.length === 0, onchange: (event) => {
          ui.metric = Number(event.target.value);
          ui.sort = null;
          rows.clear();
          refilter();
        } }, el("option", { value: -1 }, isPaired ? "change" : "read first"),
      group("primary metrics", primary), group("other metrics", rest));
    }
    /** Of several runs the line on the chosen one stands on top. */
    function drawVerdict() {
      const lines = data.verdict, start = `${runs[ui.run].id} against `;
      const own = isPaired ? lines.find((text) => text.startsWith(start)) : data.title;
      const rest = lines.filter((text) => text !== own);
      said.textContent = visible(own);
      more.replaceChildren(el("summary", {}, many(rest.length, "more line")),
        ...rest.map((text) => el("p", {}, text)));
      more.hidden = rest.length === 0;
    }

    // -- which queries
    const has = (text, sought) => known(text) && String(text).toLowerCase().includes(sought);
    const inItems = (fields_) => (i, sought) => sides().some((r) => (of(i, r).hits ?? [])
      .some((hit) => fields_.some((field) => has(items[hit.item][field], sought))));
    // Where a word with a prefix is sought; names of slices and metrics are prefixes, too.
    const places = {
      doc: inItems(["id", "doc", "path"]),
      text: inItems(["text"]),
      target: (i, sought) => targetsOf(i).some((one) => has(one.name, sought)
        || has(one.others, sought)),
      answer: (i, sought) => sides().some((r) => has(of(i, r).answer, sought)),
      tag: (i, sought) => slices.some((_, s) => slicesOf(i, s).some((one) => has(one, sought))),
    };
    const sliceOf = new Map(slices.map((slice, s) => [slice.name, s]));
    const metricOf = new Map(metrics.map((one, m) => [one.name, m]));
    const fields = new Set([...Object.keys(places), ...sliceOf.keys(), ...metricOf.keys()]);
    const parsed = () => ragscoreSeeking.parse(ui.search, fields);
    /** What is sought in a place, in small letters. */
    function sought(place) {
      const { tokens, rest } = parsed();
      return [...(place === "query" && rest ? [rest] : []), ...tokens.filter((one) =>
        one.name === place).map((one) => one.value)].map((one) => one.toLowerCase());
    }
    /** Tell if a query is what a token asks for. */
    function passes({ name: field, value: asked }, i) {
      const low = asked.toLowerCase(), m = metricOf.get(field), s = sliceOf.get(field);
      if (s !== undefined) {
        const isValue = slices[s].values.some((one) => one.toLowerCase() === low);
        return slicesOf(i, s).some((one) => (isValue ? one.toLowerCase() === low : has(one, low)));
      }
      if (m === undefined) return places[field](i, low);
      const ranges = ragscoreSeeking.ranges(asked);
      const isIn = (one, [from, to]) => known(one) && one >= from && one <= to;
      return Boolean(ranges) && isIn(value(m, i), ranges.at(-1))
        && (ranges.length < 2 || isIn(value(m, i, 0), ranges[0]));
    }
    /** The queries that the search box leaves: either value of a prefix, and every prefix. */
    function searched() {
      const { tokens, rest } = parsed(), low = rest.toLowerCase();
      const all = queries.map((_, i) => i).filter((i) => has(queries[i].id, low)
        || has(queries[i].text, low));
      return [...new Set(tokens.map((one) => one.name))].reduce((left, field) =>
        left.filter((i) => tokens.some((one) => one.name === field && passes(one, i))), all);
    }
    const nothingChanged = () => !queries.some((_, i) => isChanged(i));
    function isWanted(i) {
      if (ui.outcomes) return ui.outcomes.includes(of(i).outcome);
      return isChanged(i) || nothingChanged();
    }

    // -- in which order: Python's, unless a column is chosen
    const COLUMNS = {
      outcome: { label: "Outcome", key: (i) => of(i).order },
      id: { label: "Id", key: (i) => queries[i].id },
      text: { label: "Query", key: (i) => queries[i].text },
      change: { label: isPaired ? "Change" : "Read first", key: (i) => (ui.metric < 0 ? of(i).order
        : delta(ui.metric, i)) },
    };
    const shown = isPaired ? ["outcome", "id", "text", "change"] : ["id", "text", "change"];
    function sorting() {
      const lower = ui.metric >= 0 && metrics[ui.metric].better === "lower";
      return ui.sort ?? (ui.metric < 0 ? { column: shown.at(isPaired ? 0 : -1), way: 1 }
        : { column: "change", way: lower ? -1 : 1 }); // the worst first
    }
    function sort(list_) {
      const { column, way } = sorting(), { key } = COLUMNS[column];
      return list_.map((i) => [key(i), i]).sort(([one, a], [two, b]) => {
        if (known(one) !== known(two)) return known(one) ? -1 : 1; // no value: last, either way
        return known(one) && one !== two ? (one < two ? -1 : 1) * way : a - b;
      }).map(([, i]) => i);
    }

    /** Filter and sort again; the open query stays open, in the list or not. */
    function refilter() {
      const left = searched();
      ui.list = sort(left.filter(isWanted));
      list.replaceChildren(...ui.list.map(rowOf));
      grid.setAttribute("aria-rowcount", ui.list.length + 1);
      drawHead();
      if (isPaired) drawChips(left);
      const isCut = ui.list.length < queries.length;
      status.replaceChildren(el("b", {}, isCut ? `${count(ui.list.length)} of ${
        many(queries.length, "query")}` : many(queries.length, "query")), !isCut && isPaired
        && nothingChanged() ? " – none changed " : " ", isCut ? el("button", { type: "button",
        class: "x-link x-all", onclick: () => showAll() }, "Show all") : "");
      empty.hidden = ui.list.length > 0;
      const { tokens } = parsed();
      slices.forEach((one, s) => {
        pickers[s].value = tokens.find((token) => token.name === one.name)?.value ?? "";
      });
      const bar = panel.querySelector(".x-place");
      if (bar) bar.textContent = placeText();
      reveal();
    }
    function pick(outcomes) {
      ui.outcomes = outcomes;
      refilter();
    }
    function showAll() {
      ui.search = search.value = "";
      pick(isPaired ? data.outcomes : null);
    }

    // -- chips, head and rows of the list
    function drawChips(left) {
      const focused = [...chips.children].indexOf(document.activeElement);
      const isAll = ui.outcomes?.length === data.outcomes.length;
      const chip = (label, n, on, act, title, word) => el("button", { type: "button", title,
        class: `x-chip x-tone-${TONES[word] ?? "none"}`, "aria-pressed": String(on), onclick: act },
      word && el("span", { class: "x-glyph", "aria-hidden": "true" }, GLYPHS[word] ?? ""), label,
      " ", el("b", {}, count(n)));
      const toggle = (word) => {
        const now = isAll ? [] : ui.outcomes ?? [];
        const next = now.includes(word) ? now.filter((one) => one !== word) : [...now, word];
        pick(next.length ? next : null);
      };
      const here = new Set(queries.map((_, i) => of(i).outcome));
      chips.replaceChildren(
        chip("changed", left.filter(isChanged).length, ui.outcomes === null, () => pick(null),
          "Queries with another outcome, other targets, or another value of a primary metric"),
        chip("all", left.length, isAll, () => pick(data.outcomes), "Every query"),
        el("span", { class: "x-between" }),
        ...data.outcomes.filter((word) => here.has(word)).map((word) => chip(word,
          left.filter((i) => of(i).outcome === word).length,
          !isAll && Boolean(ui.outcomes?.includes(word)), () => toggle(word), `Only ${word}`, word)));
      chips.children[focused]?.focus();
    }
    function drawHead() {
      const { column, way } = sorting();
      const longest = queries.reduce((most, { id }) => Math.max(most, id.length), 2);
      const widths = { outcome: "108px", id: `${Math.min(longest, 20) * 7.3 + 4}px`,
        text: "minmax(0, 1fr)", change: "minmax(92px, max-content)" };
      grid.style.setProperty("--columns", shown.map((one) => widths[one]).join(" "));
      const focused = [...head.children].findIndex((one) => one.contains(document.activeElement));
      head.replaceChildren(...shown.map((one) => {
        const on = one === column;
        const label = one === "change" && ui.metric >= 0
          ? (isPaired ? "Δ " : "") + metrics[ui.metric].name : COLUMNS[one].label;
        return el("div", { role: "columnheader", class: one === "change" ? "x-right" : null,
          "aria-sort": on ? (way > 0 ? "ascending" : "descending") : "none" },
        el("button", { type: "button", title: one === "outcome" ? "Sort by what to read first"
          : `Sort by ${label}`, onclick: () => {
          ui.sort = { column: one, way: on ? -way : 1 };
          refilter();
        } }, label, el("span", { class: "x-sort", "aria-hidden": "true" },
          on ? (way > 0 ? "▲" : "▼") : "↕")));
      }));
      head.children[focused]?.firstChild.focus();
    }
    function changeText(i) {
      if (ui.metric < 0) return of(i).change ?? (of(i).error ? "failed" : "");
      const { decimals } = metrics[ui.metric], change = delta(ui.metric, i);
      return isPaired ? toned(ui.metric, change) : number(change, decimals);
    }
    function toned(m, change) {
      const better = sense(m, change);
      return el("span", { class: better > 0 ? "x-good" : better < 0 ? "x-bad" : null },
        `${["▼ ", "", "▲ "][better + 1]}${signed(change, metrics[m].decimals)}`);
    }
    const cells = {
      outcome: ({ outcome }) => outcome && el("span",
        { class: `x-outcome x-tone-${TONES[outcome] ?? "none"}` }, el("span", { class: "x-glyph",
          "aria-hidden": "true" }, GLYPHS[outcome] ?? ""), outcome),
      id: (_, i) => line(queries[i].id, 120),
      text: (_, i) => line(queries[i].text),
      change: (_, i) => changeText(i),
    };
    const rows = new Map(); // of the chosen run and metric
    function rowOf(i) {
      if (!rows.has(i)) {
        const made = el("div", { class: "x-line", role: "row", id: `${name}-row-${i}`,
          "aria-selected": String(i === ui.open) }, shown.map((one) => el("div", { role: "gridcell",
          class: `x-cell-${one}${one === "change" ? " x-right" : ""}` }, cells[one](of(i), i))));
        made.query = i;
        rows.set(i, made);
      }
      return rows.get(i);
    }
    /** Mark the open row, and bring it in sight within the list alone: the page stays. */
    function reveal() {
      list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
      const row = rows.get(ui.open);
      if (!row?.isConnected) return grid.removeAttribute("aria-activedescendant");
      row.setAttribute("aria-selected", "true");
      grid.setAttribute("aria-activedescendant", row.id);
      const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
      if (top < body.scrollTop) body.scrollTop = top;
      else if (bottom > body.scrollTop + body.clientHeight) {
        body.scrollTop = bottom - body.clientHeight;
      }
    }

    // -- opening queries
    let isDue = false;
    function open(i) {
      if (i === ui.open) return;
      ui.open = i;
      ui.isDeep = false;
      reveal();
      tell();
      if (isDue) return;
      isDue = true; // a query is drawn once a frame, however fast keys come
      requestAnimationFrame(() => { isDue = false; drawPanel(); });
    }
    function move(by) {
      if (ui.list.length === 0) return;
      const at = ui.list.indexOf(ui.open) + by;
      open(ui.list[Math.min(Math.max(at, 0), ui.list.length - 1)]);
    }
    /** Go into the open query: on a phone it takes the place of the list. */
    function enter(focus = true) {
      if (ui.open < 0) return;
      frame.dataset.view = "query";
      if (focus || grid.offsetParent === null) panel.focus({ preventScroll: true });
    }
    function leave() {
      frame.dataset.view = "list";
      grid.focus();
      reveal();
    }
    function choose(run) {
      ui.run = run;
      runChoice.value = String(run);
      rows.clear();
      drawVerdict();
      refilter();
      drawPanel();
    }

    // -- the open query
    function runName(r) {
      const swatch = el("span", { class: "x-swatch", "aria-hidden": "true" });
      swatch.style.background = /^#[0-9a-f]{6}$/i.test(runs[r].colour) ? runs[r].colour : "none";
      return el("span", {}, swatch, runs[r].id);
    }
    function placeText() {
      const at = ui.list.indexOf(ui.open);
      return at < 0 ? "not in the list as filtered" : `${count(at + 1)} of ${count(ui.list.length)}`;
    }
    function drawPanel() {
      const i = ui.open;
      panel.scrollTop = 0;
      drawLines = () => {};
      watch.disconnect();
      if (i < 0) {
        panel.replaceChildren(el("p", { class: "x-muted" }, "Choose a query in the list."));
        return;
      }
      panel.setAttribute("aria-label", `Query ${visible(line(queries[i].id, 80))}`);
      const { outcome, note: cause } = of(i);
      panel.replaceChildren(...[
        toolbar(),
        el("div", { class: "x-title" }, el("h3", {}, whole(queries[i].id)),
          outcome && el("span", { class: `x-badge x-tone-${TONES[outcome] ?? "none"}` },
            `${GLYPHS[outcome] ?? ""} ${outcome}`),
          cause && el("span", {}, cause)),
        ...talk(i), facts(i), measures(i), targetTable(i), hitsPart(i), answersPart(i),
        checksPart(i), allMetrics(i),
      ].filter(Boolean));
      drawLines();
    }
    function toolbar() {
      const button = (label, title, act, attributes = {}) => el("button", { type: "button", title,
        onclick: act, ...attributes }, label);
      return el("div", { class: "x-bar" },
        button("‹ Back", "Back to the list (Esc)", () => leave(), { class: "x-back" }),
        button("↑", "Previous query (k)", () => move(-1), { "aria-label": "Previous query" }),
        button("↓", "Next query (j)", () => move(1), { "aria-label": "Next query" }),
        el("span", { class: "x-place" }, placeText()),
        el("span", { class: "x-acts" },
          button("Copy code", "Code that gives the queries of the list (c)", () => copyCode()),
          button("Copy link", "What opens this query again (l)", () => copyLink())));
    }
    function facts(i) {
      const parts = slices.map((slice, s) => {
        if (slice.name === "conversation" && turnsOf(i).length > 1) return null; // above
        const values = slicesOf(i, s);
        return values.length ? `${slice.name} ${values.join(", ")}` : null;
      });
      const told = [queries[i].refuse && "should be refused", ...parts].filter(Boolean);
      return told.length > 0 && el("p", { class: "x-facts" }, told.join(" · "));
    }
    /** The query; where it is a turn, below the turns before it and above those after it. */
    function talk(i) {
      const asked = el("p", { class: "x-text" }, found(queries[i].text, sought("query")));
      const turns = turnsOf(i), at = turns.indexOf(i);
      if (turns.length < 2) return [asked];
      const listed = (part) => el("ol", { class: "x-turns" }, part.map((j) => {
        const { answer, refused, error } = of(j);
        const reply = error ? `failed: ${error}` : answer || (refused ? "refused" : "");
        const ranks = targetsOf(j).map((one) => one.places[ui.run]).filter(known);
        return el("li", {}, el("button", { type: "button", class: "x-turn",
          title: `Open ${line(queries[j].id, 80)}`, onclick: () => open(j) },
        el("b", {}, `${queries[j].turn ?? NONE} `), line(queries[j].text),
        el("span", { class: "x-muted x-small" }, ranks.length ? `  first rank ${
          Math.min(...ranks)}` : targetsOf(j).length ? "  nothing found" : ""),
        reply && el("span", { class: "x-said" }, `→ ${line(reply, 200)}`)));
      }));
      const after = turns.slice(at + 1);
      return [
        el("h4", { class: "x-talk" }, `Turn ${queries[i].turn ?? NONE} of ${turns.length}`,
          " in conversation ", whole(queries[i].conversation)),
        listed(turns.slice(0, at)), asked,
        after.length > 0 && el("details", { class: "x-after" }, el("summary", {},
          many(after.length, "later turn")), listed(after)),
      ];
    }
    function measures(i) {
      const wanted = [...new Set([...(ui.metric >= 0 ? [ui.metric] : []), ...primary])]
        .filter((m) => sides().some((r) => known(value(m, i, r))));
      return wanted.length > 0 && el("div", { class: "x-measures" }, wanted.map((m) => {
        const values = sides().map((r) => number(value(m, i, r), metrics[m].decimals));
        return el("span", {}, el("span", { class: "x-muted" }, `${metrics[m].name} `),
          values.join(" → "), isPaired && delta(m, i) ? [" ", toned(m, delta(m, i))] : "");
      }));
    }

    // -- targets
    function table(heads, lines) {
      return el("div", { class: "x-scroll" }, el("table", {}, el("thead", {}, el("tr", {},
        heads.map((one) => el("th", {}, one)))), el("tbody", {}, lines.map((cells_) =>
        el("tr", {}, cells_.map((one) => el("td", {}, one)))))));
    }
    function targetTable(i) {
      const targets = targetsOf(i), all = runs.map((_, r) => r);
      if (targets.length === 0) {
        return el("section", {}, el("h4", {}, "Targets"), el("p", {}, queries[i].refuse
          ? "None: the query should be refused." : "None: ranks are compared, nothing is scored."));
      }
      const heads = ["target", "grade", ...all.map(runName)];
      if (isPaired) heads.push(others.length > 1 ? runs[ui.run].id : "change");
      return el("section", {}, el("h4", {}, many(targets.length, "target")),
        table(heads, targets.map((one) => [
          [el("span", { class: "x-star", "aria-hidden": "true" }, "★ "),
            whole(one.name, sought("target")), one.others && el("div",
              { class: "x-muted x-small" }, "or ", whole(one.others, sought("target")))],
          one.grade ?? NONE, ...all.map((r) => rankText(i, r, one)),
          isPaired && targetChange(one)])));
    }
    function rankText(i, r, { places: ranks, calls }) {
      if (!known(ranks[r])) return of(i, r).error ? "failed" : "not found";
      return known(calls?.[r]) ? `call ${calls[r]}, rank ${ranks[r]}` : String(ranks[r]);
    }
    function targetChange({ places: ranks, calls }) {
      const [before, after] = [ranks[0], ranks[ui.run]];
      const later = (calls?.[ui.run] ?? 0) - (calls?.[0] ?? 0);
      const [text, tone] = !known(before) && !known(after) ? ["○ missed", "muted"]
        : !known(before) ? ["▲ found", "good"] : !known(after) ? ["▼ lost", "bad"]
          : later < 0 ? ["▲ earlier call", "good"] : later > 0 ? ["▼ later call", "mild"]
            : after < before ? ["▲ up", "good"] : after > before ? ["▼ down", "mild"]
              : ["= same", "muted"];
      return el("span", { class: `x-nowrap x-${tone}` }, text);
    }

    // -- hits
    const distinctive = ragscorePassages.distinctive(queries.map((one) => one.text));
    function hitsPart(i) {
      const lists = sides().map((r) => hitsOf(i, r));
      const calls = sides().map((r) => of(i, r).calls ?? []);
      const n = lists.flat().length - lists.flatMap(few).length;
      const all = n > 0 && el("button", { type: "button", class: "x-link", onclick: () => {
        ui.isDeep = true;
        drawPanel();
      } }, `Show ${many(n, "more hit")}`);
      const key = isPaired && lists.flat().length > 0 && el("p", { class: "x-key" },
        "Lines join the same passage: solid up, dashed down, dotted same; thick and ★ for targets.");
      const most = Math.max(...calls.flat().map((one) => one.call), 0);
      if (most < 2 && calls.flat().every((one) => !one.query && !one.tool && !one.error)) {
        return el("section", { "aria-label": "Hits" }, sideBySide(i, lists, sides().map(runHead)),
          all, key);
      }
      // A document may come back in another call of the other run.
      lists.forEach((hits, side) => {
        const call = new Map((lists[1 - side] ?? []).toReversed().map((one) => [one.id, one.call]));
        for (const hit of hits) hit.elsewhere = call.get(hit.id) ?? null;
      });
      const parts = [];
      for (let at = 1; at <= most; at += 1) {
        const made = calls.map((own) => own.find((one) => one.call === at) ?? null);
        if (made.every((one) => one === null)) continue;
        const heads = sides().map((r, side) => el("div", {}, parts.length === 0 && runHead(r),
          callHead(i, made[side], lists[side], calls[side])));
        parts.push(el("div", { class: "x-call", role: "group", "aria-label": `Call ${at}` },
          sideBySide(i, lists.map((hits) => hits.filter((hit) => hit.call === at)), heads, made)));
      }
      return el("section", { "aria-label": "Hits" }, el("h4", {}, many(most, "call")),
        sides().map((r) => failure(of(i, r).error, `${runs[r].id} failed: `)), parts, all, key);
    }
    const few = (hits) => (ui.isDeep ? hits : hits.filter((hit, at) => at < FIRST || hit.isTarget));
    const runHead = (r) => el("div", { class: "x-runhead" }, runName(r));
    const failure = (error, words) => error && el("div", { class: "x-error" }, el("b", {}, words),
      el("span", { class: "x-long" }, error));
    /** What a call asked, and what it gave: hits, targets that it was first to find, repeats. */
    function callHead(i, call, hits, calls) {
      if (call === null) return null;
      const { query: asked } = call, targets = targetsOf(i);
      const same = asked && calls.find((one) => one.call < call.call && one.query === asked);
      const words = !asked ? null : same ? `the same text as call ${same.call}`
        : asked === queries[i].text ? "the query itself" : `“${asked}”`;
      const own = hits.filter((hit) => hit.call === call.call);
      const before = new Set(hits.filter((hit) => hit.call < call.call)
        .flatMap((hit) => hit.targets));
      const names = [...new Set(own.flatMap((hit) => hit.targets))].filter((t) => !before.has(t)
        && targets[t].grade >= 1).map((t) => targets[t].name);
      const repeated = own.filter((hit) => known(hit.repeats)).length;
      return el("div", { class: "x-callhead" },
        el("p", {}, el("b", {}, `Call ${call.call}`), call.tool && ` · ${line(call.tool, 80)}`,
          known(call.elapsed_ms) && el("span", { class: "x-muted" },
            ` · ${count(Math.round(call.elapsed_ms))} ms`)),
        words && el("p", { class: `x-long${words.startsWith("“") ? "" : " x-muted"}` }, words),
        own.length > 0 && el("p", { class: "x-small" }, el("span", { class: "x-muted" },
          many(own.length, "hit"), repeated > 0 && `, ${repeated} returned before`),
        names.length > 0 && el("span", { class: "x-star" }, " · ★ first to find ",
          names.flatMap((one, at) => [at > 0 && ", ", whole(one)]))));
    }
    function sideBySide(i, lists, heads, made) {
      const columns = lists.map((hits, side) => {
        const r = sides()[side], call = made?.[side], error = made ? call?.error : of(i, r).error;
        return el("div", {}, failure(error, made ? "This call failed: " : "This run failed: "),
          hits.length === 0 && !error && el("p", { class: "x-muted" }, !made ? "No hits."
            : call ? "No documents." : "No such call."),
          el("ol", { class: "x-hits", "aria-label": `Hits of ${visible(runs[r].id)}${
            call ? `, call ${call.call}` : ""}` }));
      });
      const pairs = lists.length > 1 ? pair(...lists) : [];
      lists.forEach((hits, side) => columns[side].lastChild.append(...few(hits).map((hit) =>
        hitRow(hit, lists.length > 1 ? side : null, i))));
      if (lists.length === 1) {
        return el("div", { class: "x-sides x-alone" }, heads[0], columns[0]);
      }
      const canvas = svg("svg", { class: "x-lines", "aria-hidden": "true" });
      const before = drawLines;
      drawLines = () => { before(); lines(canvas, pairs); };
      for (const column of columns) watch.observe(column);
      return el("div", { class: "x-sides" }, heads[0], el("span"), heads[1], columns[0], canvas,
        columns[1]);
    }
    function movement(hit, side, i) {
      if (side === null || of(i, sides()[1 - side]).error) return "";
      if (known(hit.other)) {
        const way = side === 0 ? direction(hit.place, hit.other) : direction(hit.other, hit.place);
        return way === "same" ? "= same" : `${ARROWS[way]} ${side === 0 ? "to" : "from"} ${hit.other}`;
      }
      if (known(hit.elsewhere)) return `${side === 0 ? "to" : "from"} call ${hit.elsewhere}`;
      return side === 0 ? "gone" : "new";
    }
    function hitRow(hit, side, i) {
      const row = el("li", { class: `x-hit${hit.isTarget ? " x-is-target" : ""}` });
      row.hit = hit;
      const button = el("button", { type: "button", "aria-expanded": "false", onclick: () => {
        unfold(row, button.getAttribute("aria-expanded") !== "true");
        light(row);
      } },
      el("span", { class: "x-rank" }, String(hit.place)),
      el("span", {}, whole(hit.id, sought("doc")), hit.isTarget && el("span", { class: "x-star" },
        " ★", el("span", { class: "x-small" }, ` grade ${hit.grade}`)),
      known(hit.repeats) && el("span", { class: "x-muted x-small" }, ` as in call ${hit.repeats}`)),
      el("span", { class: `x-move${known(hit.other) ? "" : " x-muted"}` }, movement(hit, side, i)),
      el("span", { class: "x-under" }, el("span", {}, hit.heading || ""),
        known(hit.score) && el("span", { class: "x-right" }, number(hit.score, 3))),
      known(hit.text) && preview(hit, i));
      row.append(button);
      if (ui.isUnfolded) unfold(row, true);
      return row;
    }
    /** What stands out in a hit's text: words of the query, what is sought, what is expected. */
    function layers(hit, i) {
      const snippets = hit.isTarget ? [...hit.targets.flatMap((t) => targetsOf(i)[t].snippets ?? []),
        ...queries[i].checks.filter((one) => one.kind === "expected_substring")
          .map((one) => one.text)] : [];
      const wanted = snippets.map((one) => one.trim().replace(/(…|\.\.\.)$/, "").toLowerCase());
      return [["term", ragscorePassages.termsIn(hit.text, distinctive(queries[i].text))],
        ["found", rangesOf(hit.text, sought("text"))], ["span", rangesOf(hit.text, wanted)]];
    }
    function preview(hit, i) {
      const over = layers(hit, i), [terms, ...strong] = over.map(([, ranges]) => ranges);
      const first = strong[1][0] ?? strong[0][0];
      const from = ragscorePassages.start(hit.text, first, terms, PREVIEW);
      return el("span", { class: "x-preview" }, from > 0 && "…",
        marked(hit.text, over, from, Math.min(hit.text.length, from + PREVIEW)));
    }
    function unfold(row, on) {
      const { hit } = row;
      row.firstElementChild.setAttribute("aria-expanded", String(on));
      row.querySelector(".x-inside")?.remove();
      if (!on) return;
      const about = [["document", hit.doc !== hit.id && hit.doc],
        ["path", hit.path !== hit.doc && hit.path !== hit.id && hit.path],
        ["heading", hit.heading],
        ["meets", hit.targets.map((t) => targetsOf(ui.open)[t].name).join(", ")],
        ["score", known(hit.score) && String(Number(hit.score.toPrecision(6)))]]
        .filter(([, text]) => text);
      row.append(el("div", { class: "x-inside" }, known(hit.text)
        ? el("p", { class: "x-long" }, marked(hit.text, layers(hit, ui.open)))
        : el("p", { class: "x-muted" }, "No text of this hit is here; ",
          el("code", {}, `${code}.explore(texts=…)`), " brings texts."),
      about.length > 0 && el("dl", {}, about.flatMap(([term, text]) => [el("dt", {}, `${term}: `),
        el("dd", {}, text)]))));
    }
    /** Mark the passage of a hit in both lists, and faintly its document's other passages. */
    function light({ hit }) {
      for (const one of panel.querySelectorAll(".x-hit")) {
        one.classList.toggle("x-lit", one.hit.id === hit.id);
        one.classList.toggle("x-kin", one.hit.id !== hit.id && known(hit.doc)
          && one.hit.doc === hit.doc);
      }
    }

    // -- lines between the same passages
    function svg(tag, attributes) {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, text] of Object.entries(attributes)) made.setAttribute(key, text);
      return made;
    }
    let drawLines = () => {};
    const watch = new ResizeObserver(() => drawLines());
    /** Rows wrap and unfold, so lines go by where rows stand, not by rank. */
    function lines(canvas, pairs) {
      const box = canvas.getBoundingClientRect(), half = box.width / 2;
      const rowOfHit = new Map([...panel.querySelectorAll(".x-hit")].map((row) => [row.hit, row]));
      const middle = (hit) => {
        const at = rowOfHit.get(hit)?.firstElementChild.getBoundingClientRect();
        return at ? Math.round(at.top + at.height / 2 - box.top) : null;
      };
      // All is measured before anything is drawn: a drawing in between would be laid out again.
      const ends = pairs.map((both) => both.map(middle));
      canvas.replaceChildren(...pairs.flatMap(([left, right], at) => {
        const [from, to] = ends[at];
        if (from === null || to === null) return [];
        return svg("path", {
          class: `x-${direction(left.place, right.place)}${left.isTarget ? " x-target" : ""}`,
          d: `M1 ${from} C ${half} ${from}, ${half} ${to}, ${box.width - 1} ${to}`,
        });
      }));
    }

    // -- answers, citations, judgments, checks
    function answersPart(i) {
      const reference = queries[i].reference_answer;
      const cards = sides().map((r) => answerCard(i, r)).filter(Boolean);
      return (cards.length > 0 || reference) && el("section", {}, el("h4", {},
        isPaired ? "Answers" : "Answer"), el("div", { class: "x-cards" }, cards),
      reference && el("details", {}, el("summary", {}, "Reference answer"),
        el("p", { class: "x-long" }, reference)));
    }
    function answerCard(i, r) {
      const { answer, refused, refusal_reason: reason, elapsed_ms: elapsed, error, citations = [],
        judgments = [] } = of(i, r);
      if (![answer, refused, elapsed, error, citations[0], judgments[0]].some(known)) return null;
      return el("div", { class: "x-card" },
        el("div", {}, el("b", {}, runName(r)), known(elapsed) && el("span",
          { class: "x-muted x-small" }, `  ${number(elapsed, elapsed < 10 ? 1 : 0)} ms`)),
        failure(error, "This run failed: "),
        known(refused) && !error && stance(refused, queries[i].refuse, reason),
        answer ? withMarkers(answer, citations, r) : !error && !refused && answer === ""
          && el("p", { class: "x-muted" }, "(empty answer)"),
        citations.length > 0 && el("ul", { "aria-label": "Citations" }, citations.map((one) =>
          el("li", {}, citeButton(one, r), " ", citedWhere(one, i, r)))),
        judgments.length > 0 && el("ul", { "aria-label": "Judgments" }, judgments.map((one) =>
          el("li", {}, el("b", {}, one.criterion ?? ""), " ", [one.verdict,
            known(one.value) ? String(Number(one.value.toFixed(3))) : null].filter(known).join(", "),
          one.item && el("span", { class: "x-muted" }, ` – ${line(one.item, 200)}`),
          one.reason && el("div", { class: "x-muted x-small" }, one.reason)))));
    }
    function stance(refused, should, reason) {
      const says = refused ? `refused${reason ? ` (${reason})` : ""}` : "answered";
      if (refused !== should) {
        return el("p", { class: "x-bad" },
          `▼ ${says}, though it should be ${should ? "refused" : "answered"}`);
      }
      return el("p", { class: should ? "x-good" : "x-muted" }, should ? `▲ ${says}, as it should`
        : says);
    }
    /** Tell if a hit is what a citation names: its chunk, else its document or path. */
    const isCited = (hit, { chunk_id: chunk, doc_id: doc, path }) => (known(chunk)
      ? hit.id === chunk : (known(doc) && hit.doc === doc) || (known(path) && hit.path === path));
    function citedWhere(one, i, r) {
      const hit = hitsOf(i, r).find((other) => isCited(other, one));
      return el("span", {}, whole(hit?.id ?? one.label), el("span", { class: "x-muted" },
        hit ? ` – hit ${hit.rank}` : " – not among the hits"));
    }
    function citeButton(one, r) {
      const rowOfIt = () => [...panel.querySelectorAll(".x-hit")].find((row) => row.hit.run === r
        && isCited(row.hit, one));
      return el("button", { type: "button", class: "x-cite", title: "Go to the hit",
        onclick: () => {
          if (!rowOfIt() && !ui.isDeep) {
            ui.isDeep = true;
            drawPanel();
          }
          const row = rowOfIt();
          if (!row) return note("The cited passage is not among the hits.");
          unfold(row, true);
          light(row);
          row.scrollIntoView({ block: "center" });
          row.classList.add("x-flash");
          row.firstElementChild.focus({ preventScroll: true });
        } }, one.marker || "cited");
    }
    /** An answer whose markers are buttons; the longest marker that stands at a place counts. */
    function withMarkers(answer, citations, r) {
      const by = new Map(citations.filter((one) => one.marker).map((one) => [one.marker, one]));
      const markers = [...by.keys()].sort((a, b) => b.length - a.length).map(RegExp.escape
        ?? ((one) => one.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")));
      const parts = markers.length ? answer.split(new RegExp(`(${markers.join("|")})`)) : [answer];
      return el("p", { class: "x-long" }, parts.flatMap((part, at) => (at % 2
        ? [citeButton(by.get(part), r)] : found(part, sought("answer")))));
    }
    function checksPart(i) {
      const { checks } = queries[i];
      const word = (met) => (!known(met) ? NONE : met ? el("span", { class: "x-good" }, "▲ met")
        : el("span", { class: "x-bad" }, "▼ not met"));
      return checks.length > 0 && el("section", {}, el("h4", {}, "Checks of the answer"),
        table(["check", ...sides().map(runName)], checks.map((one) => [[el("span",
          { class: "x-muted" }, `${one.kind} `), one.text],
        ...sides().map((r) => word(one.met[r]))])));
    }
    function allMetrics(i) {
      const all = runs.map((_, r) => r);
      const any = metrics.map((_, m) => m).filter((m) => all.some((r) => known(value(m, i, r))));
      return any.length > 0 && el("section", {}, el("details", {}, el("summary", {},
        many(any.length, "metric")), table(["metric", ...all.map(runName)], any.map((m) =>
        [metrics[m].name, ...all.map((r) => number(value(m, i, r), metrics[m].decimals))]))));
    }

    // -- code and links
    const isOnPage = options.link === "hash";
    const address = () => `#x.q=${encodeURIComponent(queries[ui.open]?.id ?? "")}`;
    const asked = () => new URLSearchParams(location.hash.slice(1)).get("x.q");
    const copyCode = () => copy(`part = ev.golden.select([${
      ui.list.map((i) => python(queries[i].id)).join(", ")}])`, "Code for these queries");
    function copyLink() {
      if (isOnPage) {
        return copy(location.href.replace(/#.*$/s, "") + address(), "Link to this query");
      }
      const which = code === "ev" ? `, runs=[${runs.map((one) => python(one.id)).join(", ")}]` : "";
      return copy(`${code}.explore(${python(queries[ui.open]?.id ?? "")}${which})`,
        "Code that opens this query");
    }
    /** Frames may not have the clipboard, so the text is also shown, ready to be copied. */
    function copy(text, what) {
      frame.querySelector(".x-out")?.remove();
      const before = document.activeElement;
      const close = () => { box.remove(); (frame.contains(before) ? before : grid).focus(); };
      const heading = el("b", {}, what);
      const area = el("textarea", { readonly: true, rows: Math.min(5, 1 + text.length / 90 | 0),
        "aria-label": what });
      area.value = text;
      const box = el("div", { class: "x-out", role: "group", "aria-label": what },
        el("div", { class: "x-row" }, heading, el("button", { type: "button",
          "aria-label": "Close", onclick: close }, "✕")), area);
      box.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      });
      frame.append(box);
      area.focus();
      area.select();
      const copied = () => { heading.textContent = `${what} – copied`; note(`${what} copied`); };
      const refused = () => { heading.textContent = `${what} – press Ctrl+C to copy`; };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(copied, refused);
      else refused(); // not in a secure context
    }
    function note(message) { say.textContent = visible(message); }

    // -- what is open, in and out
    let writing = 0;
    function tell() {
      const query = queries[ui.open]?.id ?? null;
      options.select?.({ query });
      clearTimeout(writing); // browsers limit changes: keys held down make one, not hundreds
      if (isOnPage && isReady && asked() !== query) {
        writing = setTimeout(() => history.replaceState(history.state, "", address()), 250);
      }
    }
    function show({ query, outcome, search: text }) {
      if (outcome !== undefined) {
        const wanted = outcome && data.outcomes.filter((word) => outcome.includes(word));
        ui.outcomes = wanted?.length ? wanted : null;
      }
      if (typeof text === "string") ui.search = search.value = text;
      refilter();
      if (!known(query)) return;
      if (!placeOf.has(query)) return note(`There is no query ${line(String(query), 80)} here.`);
      open(placeOf.get(query));
      frame.dataset.view = "query";
    }
    /** Open the query of the address, wherever on the page the explorer is folded away. */
    function follow() {
      if (!root.isConnected || asked() === null) return;
      clearTimeout(writing); // it stands there already
      show({ query: asked() });
      for (let fold = root.closest("details"); fold; fold = fold.parentElement.closest("details")) {
        fold.open = true;
      }
      root.scrollIntoView({ block: "nearest" });
    }
    if (isOnPage) {
      addEventListener("hashchange", follow);
      document.addEventListener("click", (event) => { // a link to the query that is open already
        if (event.target.closest?.('a[href^="#x.q="]')?.hash === location.hash) follow();
      });
    }

    // -- keys
    function help() {
      const dialog = el("dialog", { "aria-label": "Keys" }, el("b", {}, "Keys"),
        el("table", {}, KEYS.map(([keys, does]) => el("tr", {}, el("td", {},
          el("kbd", {}, keys)), el("td", {}, does)))),
        el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
      dialog.addEventListener("close", () => dialog.remove());
      frame.append(dialog);
      dialog.showModal();
    }
    const page = () => Math.max(1, Math.floor(body.clientHeight
      / (list.firstChild?.offsetHeight || 28)) - 1);
    function turn(by) {
      const next = others[others.indexOf(ui.run) + by];
      if (next !== undefined) choose(next);
    }
    /** Keys that act in the list only: elsewhere they scroll and move as everywhere. */
    const inList = {
      ArrowDown: () => move(1), ArrowUp: () => move(-1),
      PageDown: () => move(page()), PageUp: () => move(-page()),
      Home: () => move(-Infinity), End: () => move(Infinity),
      Enter: () => enter(), ArrowLeft: () => turn(-1), ArrowRight: () => turn(1),
    };
    const anywhere = {
      j: () => move(1), k: () => move(-1),
      "/": () => { leave(); search.focus(); search.select(); },
      t: () => {
        ui.isUnfolded = !ui.isUnfolded;
        for (const row of panel.querySelectorAll(".x-hit")) unfold(row, ui.isUnfolded);
      },
      c: () => copyCode(), l: () => copyLink(), "?": () => help(), Escape: () => leave(),
    };
    const isAlone = root.parentElement === document.body;
    function onKey(event) {
      const { target, key } = event;
      const isOurs = root.contains(target) || (isAlone && target === document.body);
      if (!isOurs || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest("dialog")) return;
      if (target.matches("input, select, textarea")) {
        if (key === "Escape" || (target === search && (key === "Enter" || key === "ArrowDown"))) {
          event.preventDefault();
          leave();
        }
        return;
      }
      const isListed = [grid, body, document.body].includes(target);
      const act = (isListed && Object.hasOwn(inList, key) && inList[key])
        || (Object.hasOwn(anywhere, key) && anywhere[key]);
      if (!act) return;
      event.preventDefault();
      act();
    }
    document.addEventListener("keydown", onKey);

    // -- begin
    let isReady = false; // what is open at first is a selection, but no reason to write the address
    root.dataset.theme = options.theme ?? "auto";
    drawVerdict();
    show({ ...options.state, ...(isOnPage && asked() !== null && { query: asked() }) });
    if (ui.open < 0 && ui.list.length) open(ui.list[0]);
    if (ui.open < 0) drawPanel();
    isReady = true;
    return { theme: (one) => { root.dataset.theme = one; } };
  }

  return { boot, unpack };
})();
