// The explorer of runs: a list of queries, and beside it the open query with the hits of both runs.
//
// In: the columns that data.py wrote. Out: elements under `root`. No text of the data is ever
// markup: everything goes through `el`, which knows text nodes and attributes only. Queries are
// found by Map, never by property, so that an id may be called __proto__. Nothing is stored and
// nothing is loaded, so that it also works in a frame without rights.
const ragscoreExplorer = (() => {
  // ---- words and signs ------------------------------------------------------------------------
  const GLYPHS = {
    win: "▲", loss: "▼", regression: "▼!", draw: "=", both_miss: "○", no_target: "–",
    only_baseline: "◁", only_candidate: "▷",
  };
  const TONES = { win: "good", loss: "mild", regression: "bad" };
  const CHANGED = ["win", "loss", "regression", "only_baseline", "only_candidate"];
  // Among changes of one size the worse one comes first.
  const SEVERITY = ["regression", "loss", "only_baseline", "only_candidate", "win", "draw",
    "both_miss", "no_target"];
  const KEYS = [
    ["↑ ↓ or j k", "previous and next query"], ["Page Up, Page Down", "a page of queries"],
    ["Home, End", "first and last query"], ["Enter", "go into the open query"],
    ["Esc", "back to the list"], ["[ ]", "previous and next changed query"],
    ["/", "search"],
    ["← →", "another run"], ["t", "unfold all texts"], ["c", "copy code of the list"],
    ["l", "copy a link to the query"], ["?", "this list"],
  ];
  const HELP = "doc: target: answer: text: tag: search there; change:0.1..1 and a metric's"
    + " name take a range. Put values with spaces in quotes.";
  const SPARE = 8; // rows drawn above and below those in sight
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
      else if (value !== null && value !== undefined && value !== false) {
        made.setAttribute(name, value);
      }
    }
    for (const child of children.flat()) {
      if (child === null || child === undefined || child === false) continue;
      made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
    }
    return made;
  }

  function svg(tag, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
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

  /** An id, whole: it may break after . # / _ and :, and anywhere where it has to. */
  function whole(id, sought = []) {
    const ranges = sought.flatMap((one) => ragscorePassages.places(id, one));
    if (ranges.length) {
      return el("span", { class: "x-id" }, marked(id, [["found",
        ranges.sort((a, b) => a.from - b.from)]]));
    }
    const parts = id.length > 500 ? [id] : id.split(/(?<=[.#/_:])/);
    return el("span", { class: "x-id" }, parts.flatMap((part) => [part, el("wbr")]).slice(0, -1));
  }

  const line = (text, length = 300) => text.slice(0, length).replace(/\s+/g, " ");
  const known = (value) => value !== null && value !== undefined;
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

  // ---- the data -------------------------------------------------------------------------------
  /** Columns as questions. `run` is the chosen run, `base` the one it is compared with, or -1. */
  class Model {
    constructor(data) {
      if (data.version !== 1) throw new Error(`data of version ${data.version}, not 1`);
      this.data = data;
      this.queries = data.queries;
      this.n = this.queries.id.length;
      this.runs = data.runs;
      const baseline = data.runs.findIndex((one) => one.role === "baseline");
      this.base = data.runs.length < 2 ? -1 : Math.max(baseline, 0);
      this.others = data.runs.map((_, r) => r).filter((r) => r !== this.base);
      this.run = this.others[0];
      this.items = data.items;
      this.lowered = new Map();
      this.row = new Map(this.queries.id.map((id, i) => [id, i]));
      this.metrics = data.metrics ?? [];
      this.slices = data.slices ?? [];
      this.primary = this.metrics.flatMap((one, m) => (one.primary ? [m] : []));
      this.paired = this.base >= 0;
      this.judged = this.paired
        && this.others.some((r) => this.queries.outcome?.[r]?.some((code) => code >= 0));
    }

    /** The tables, and the place of a query in them. */
    at(i) { return [this.data, i]; }

    outcome(i, run = this.run) {
      const code = this.queries.outcome?.[run]?.[i] ?? -1;
      return code < 0 ? null : this.data.outcomes[code];
    }
    size(i) { return this.queries.change?.[this.run]?.[i] ?? null; }
    changed(i) {
      return !this.paired || CHANGED.includes(this.outcome(i)) || this.size(i) > 0;
    }
    note(i) { return this.queries.note?.[this.run]?.[i] ?? ""; }
    /** The note without the targets that it names: they stand in a table of their own. */
    brief(i) { return this.note(i).split(";", 1)[0]; }
    value(m, i, run = this.run) { return this.queries.metric?.[m]?.[run]?.[i] ?? null; }
    delta(m, i) {
      const [before, after] = [this.value(m, i, this.base), this.value(m, i)];
      return known(before) && known(after) ? after - before : null;
    }
    /** 1 better, -1 worse, 0 neither. */
    sense(m, delta) {
      return Math.sign(delta ?? 0) * (this.metrics[m].better === "lower" ? -1 : 1);
    }
    codes(s, i) {
      const code = this.queries.slice?.[s]?.[i];
      return Array.isArray(code) ? code : known(code) && code >= 0 ? [code] : [];
    }
    error(i, run) { return this.data.answers?.error?.[run]?.[i] || null; }

    item(code) {
      const one = (name) => this.items?.[name]?.[code] ?? null;
      return { id: one("id") ?? "", doc: one("doc"), path: one("path"), heading: one("heading"),
        text: one("text") };
    }
    /** Flags of the items that have a text in any of these columns, whatever the case. */
    itemsWith(names, sought) {
      const flags = new Uint8Array(this.items?.id?.length ?? 0);
      for (const name of names.filter((one) => this.items?.[one])) {
        if (!this.lowered.has(name)) {
          this.lowered.set(name, this.items[name].map((one) => one?.toLowerCase() ?? ""));
        }
        this.lowered.get(name).forEach((one, c) => { if (one.includes(sought)) flags[c] = 1; });
      }
      return flags;
    }
    /** Tell if a run returned any item with a flag. */
    returned(i, run, flags) {
      const [{ hits }, at] = this.at(i);
      const [from, to] = [hits?.start?.[run]?.[at] ?? 0, hits?.start?.[run]?.[at + 1] ?? 0];
      for (let j = from; j < to; j += 1) if (flags[hits.item[run][j]]) return true;
      return false;
    }
    hits(i, run) {
      const [{ hits }, at] = this.at(i);
      const [from, to] = [hits?.start?.[run]?.[at] ?? 0, hits?.start?.[run]?.[at + 1] ?? 0];
      const found = [];
      for (let j = from; j < to; j += 1) {
        const one = (name) => hits[name]?.[run]?.[j] ?? null;
        const targets = one("target") ?? [];
        const grade = one("grade");
        const rank = one("rank") ?? j - from + 1;
        // `rank` names a hit; `place` is its rank within its call, which is what is shown.
        found.push({ run, rank, place: one("place") ?? rank, call: one("call") ?? 1,
          repeats: one("repeats"), score: one("score"), grade, targets,
          isTarget: known(grade) || targets.length > 0, span: one("span"),
          ...this.item(one("item")) });
      }
      return found;
    }
    targets(i) {
      const [{ targets }, at] = this.at(i);
      const found = [];
      for (let j = targets?.start?.[at] ?? 0; j < (targets?.start?.[at + 1] ?? 0); j += 1) {
        found.push({ name: targets.name[j] ?? "", grade: targets.grade?.[j] ?? null,
          others: targets.others?.[j] ?? "", ...Object.fromEntries(["rank", "call"].map((name) =>
            [`${name}s`, this.runs.map((_, r) => targets[name]?.[r]?.[j] ?? null)])) });
      }
      return found;
    }
    part(name, i, run) {
      const [{ [name]: table }, at] = this.at(i);
      const start = run === undefined ? table?.start : table?.start?.[run];
      const found = [];
      for (let j = start?.[at] ?? 0; j < (start?.[at + 1] ?? 0); j += 1) {
        found.push((field, of = run) => (of === undefined ? table[field]?.[j]
          : table[field]?.[of]?.[j]) ?? null);
      }
      return found;
    }
    /** The searches of a run for a query; none where it is not known how many there were. */
    calls(i, run) {
      const names = ["call", "asked", "tool", "elapsed_ms", "error", "n_hits", "is_read"];
      return this.part("calls", i, run).map((one) =>
        Object.fromEntries(names.map((name) => [name, one(name)])));
    }
    /** Queries of the same conversation, by turn; none without one. */
    turns(i) {
      const own = this.queries.conversation?.[i];
      if (!known(own)) return [];
      const turn = (j) => this.queries.turn[j] ?? Infinity;
      return this.queries.id.map((_, j) => j)
        .filter((j) => this.queries.conversation[j] === own).sort((a, b) => turn(a) - turn(b));
    }
    answer(i, run) {
      const [{ answers }, at] = this.at(i);
      const one = (name) => answers?.[name]?.[run]?.[at] ?? null;
      return { reference: answers?.reference?.[at] ?? null, text: one("text"), refused: one("refused"), reason: one("reason"),
        latency: one("latency_ms") };
    }
  }

  /** Hits of one call of two runs, each with the rank of the same document in the other, or null. */
  function pair(left, right) {
    // The first of two hits with one id goes with the first of the other run, and so on.
    const waiting = new Map();
    for (const hit of left) {
      hit.other = null;
      waiting.set(hit.id, [...(waiting.get(hit.id) ?? []), hit]);
    }
    const pairs = [];
    for (const hit of right) {
      const mate = waiting.get(hit.id)?.shift() ?? null;
      hit.other = mate ? mate.place : null;
      if (mate) {
        mate.other = hit.place;
        pairs.push([mate, hit]);
      }
    }
    return pairs;
  }
  const direction = (from, to) => (to < from ? "up" : to > from ? "down" : "same");
  const ARROWS = { up: "↑", down: "↓", same: "=" };

  // ---- the explorer ---------------------------------------------------------------------------
  function boot(root, data, options = {}) {
    const model = new Model(data);
    const { queries } = model;
    const code = options.code ?? "cmp";
    const name = root.id || "x";
    const ui = { outcome: null, search: "", metric: -1, sort: null, open: -1, hit: null, unfold: false, deep: false, rows: [], place: new Map() };
    let layout = "", rowHeight = 28, drawLines = () => {}, frameAsked = false, told = "";
    const lowered = [];
    let distinctive = null, terms = new Set(); // of all queries, and of the open one
    if (!model.paired) ui.metric = model.primary[0] ?? (model.metrics.length ? 0 : -1);

    // -- the skeleton
    root.classList.add("rs-explorer");
    const say = el("div", { class: "x-unseen", role: "status" });
    const chips = el("div", { class: "x-chips", role: "group", "aria-label": "Outcome" });
    const search = el("input", { type: "search", placeholder: "Search, or doc: answer: tag: …", title:
      `Ids and texts of queries. ${HELP}`, "aria-label":
      "Search ids and texts of queries, doc: target: answer: text: tag:", oninput: () => { ui.search = search.value; refilter(); } });
    const metric = metricChoice();
    const pickers = model.slices.map(({ name: slice, values }) => {
      const made = el("select", { "aria-label": slice, onchange: () => seek(ragscoreSeeking.changed(
        ui.search, fields, (one) => one.name === slice, made.value ? [slice, made.value] : null)) },
      el("option", { value: "" }, slice), values.map((one) => el("option", { value: one },
        line(String(one), 60))));
      return made;
    });
    const headline = el("div", { class: "x-line x-headline", role: "row", "aria-rowindex": "1" });
    const space = el("div", { class: "x-space", role: "presentation" });
    const empty = el("div", { class: "x-none", hidden: true });
    const body = el("div", { class: "x-body", role: "rowgroup", tabindex: "-1",
      onscroll: () => ask() }, space, empty);
    const grid = el("div", { class: "x-grid", role: "grid", tabindex: "0", "aria-label": "Queries" },
      el("div", { role: "rowgroup" }, headline), body);
    const status = el("p", { role: "status" });
    const foot = el("div", { class: "x-foot" }, status,
      (data.left_out ?? []).map((text) => el("p", { class: "x-small" }, text)));
    const panel = el("div", { class: "x-query", role: "region", tabindex: "-1",
      "aria-label": "Query" });
    const runChoice = model.others.length > 1 && el("select", { "aria-label": "Compared run",
      onchange: () => choose(Number(runChoice.value)) },
    model.others.map((r) => el("option", { value: r }, data.runs[r].id)));
    const [verdict, ...more] = data.verdict ?? [];
    const said = el("p", { class: "x-verdict" }, verdict ?? data.title ?? "");
    const frame = el("div", { class: "x-frame", "data-view": "list" },
      el("div", { class: "x-top" },
        said,
        more.length > 0 && el("details", { class: "x-more" },
          el("summary", {}, many(more.length, "more line")), more.map((text) => el("p", {}, text))),
        el("div", { class: "x-row" }, chips, runChoice && el("label", { class: "x-runs" },
          model.paired ? `${data.runs[model.base].id} against` : "run", runChoice))),
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
      const option = (m) => el("option", { value: m }, model.metrics[m].name);
      const rest = model.metrics.map((_, m) => m).filter((m) => !model.primary.includes(m));
      const group = (label, of) => of.length > 0 && el("optgroup", { label }, of.map(option));
      const made = el("select", { "aria-label": "Metric", title: "Metric of the last column",
        onchange: () => { ui.metric = Number(made.value); ui.sort = null; refilter(); } },
      model.paired && el("option", { value: -1 }, "all primaries"),
      group("primary metrics", model.primary), group("other metrics", rest));
      made.value = String(ui.metric);
      made.hidden = model.metrics.length === 0;
      return made;
    }

    const change = (i) => (ui.metric < 0 ? model.size(i) : model.delta(ui.metric, i));

    // -- which queries, in which order
    const wanted = () => (model.judged ? ui.outcome : null);
    const anyChanged = () => {
      for (let i = 0; i < model.n; i += 1) if (model.changed(i)) return true;
      return false;
    };
    function text(i) {
      lowered[i] ??= `${queries.id[i]}\n${queries.text[i] ?? ""}`.toLowerCase();
      return lowered[i];
    }
    const size = (i) => {
      if (ui.metric < 0) return model.size(i);
      const delta = model.delta(ui.metric, i);
      return known(delta) ? Math.abs(delta) : null;
    };
    // Where a word with a prefix is sought; names of slices and metrics are prefixes, too.
    const places = {
      target: (i, has) => model.targets(i).some((one) => has(one.name) || has(one.others)),
      answer: (i, has) => sides().some((r) => has(model.answer(i, r).text)),
      tag: (i, has) => model.slices.some((slice, s) =>
        model.codes(s, i).some((c) => has(String(slice.values[c])))),
    };
    const sliceOf = new Map(model.slices.map((slice, s) => [slice.name, s]));
    const metricOf = new Map(model.metrics.map((one, m) => [one.name, m]));
    const ofItems = { doc: ["id", "doc", "path"], text: ["text"] }; // what of an item is sought
    const fields = new Set([...Object.keys(ofItems), ...Object.keys(places), ...sliceOf.keys(), ...metricOf.keys(),
      "change"]);
    let parsedOf = null, parsedAs = null;
    function parsed() {
      if (parsedOf !== ui.search) {
        parsedAs = ragscoreSeeking.parse(ui.search, fields);
        parsedOf = ui.search;
      }
      return parsedAs;
    }
    const sought = (...names) => {
      const { tokens, rest } = parsed();
      return [...(names.includes("query") && rest ? [rest] : []), ...tokens.filter((one) =>
        names.includes(one.name)).map((one) => one.value)].map((one) => one.toLowerCase());
    };
    /** A text in which what is sought stands out. */
    const found_ = (text_, ...names) => {
      const ranges = sought(...names).flatMap((one) => ragscorePassages.places(text_, one));
      return ranges.length ? marked(text_, [["found", ranges.sort((a, b) => a.from - b.from)]])
        : [text_];
    };
    function seek(text_) {
      ui.search = search.value = text_;
      refilter();
    }
    /** What a token asks of a query, as a function. */
    function passing({ name: field, value }) {
      const s = sliceOf.get(field), m = metricOf.get(field);
      const range = ragscoreSeeking.ranges(value);
      if (s !== undefined) {
        const own = model.slices[s].values.map((one) => String(one).toLowerCase());
        const exact = own.indexOf(value.toLowerCase());
        if (exact >= 0) return (i) => model.codes(s, i).includes(exact);
        const some = new Set(own.flatMap((one, c) => (one.includes(value.toLowerCase()) ? [c] : [])));
        return (i) => model.codes(s, i).some((c) => some.has(c));
      }
      if (m !== undefined || field === "change") {
        const inside = (one, [low, high]) => known(one) && one >= low && one <= high;
        if (!range) return () => false;
        if (field === "change") return (i) => inside(change(i), range[0]);
        return (i) => inside(model.value(m, i), range.at(-1))
          && (range.length < 2 || inside(model.value(m, i, model.base), range[0]));
      }
      const low = value.toLowerCase();
      if (Object.hasOwn(ofItems, field)) {
        const flags = model.itemsWith(ofItems[field], low), of = sides();
        return (i) => of.some((r) => model.returned(i, r, flags));
      }
      const has = (text_) => known(text_) && String(text_).toLowerCase().includes(low);
      const answers = new Map(); // of one list: what is sought goes through every hit
      return (i) => {
        if (!answers.has(i)) answers.set(i, places[field](i, has));
        return answers.get(i);
      };
    }
    const passes_ = new Map();
    /** The tests that are on, each with what the list is told to be cut by. */
    function tests() {
      const { tokens, rest } = parsed(), made = [];
      if (rest) {
        const low = rest.toLowerCase();
        made.push({ by: "the search", passes: (i) => text(i).includes(low) });
      }
      for (const field of new Set(tokens.map((one) => one.name))) {
        const own = tokens.filter((one) => one.name === field);
        const any = own.map((one) => {
          const key = JSON.stringify([one.name, one.value, model.run, ui.metric]);
          if (!passes_.has(key)) passes_.set(key, passing(one));
          return passes_.get(key);
        });
        made.push({ by: field, passes: (i) => any.some((passes) => passes(i)) });
      }
      return made;
    }
    const quiet = { none: false };
    function byOutcome() {
      const set = wanted();
      if (!model.paired || quiet.none && set === null) return () => true;
      if (set === null) return (i) => model.changed(i);
      return set.length === data.outcomes.length ? () => true
        : (i) => set.includes(model.outcome(i));
    }

    function filter() {
      const checks = tests(), passes = byOutcome();
      const found = { rows: [], outcomes: new Map(), hidden: new Map(), by: new Map(),
        changed: 0, all: 0 };
      const add = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
      for (let i = 0; i < model.n; i += 1) {
        const failed = checks.find((one) => !one.passes(i));
        const isIn = passes(i);
        if (failed) {
          add(found.by, failed.by);
          continue;
        }
        // Chips count what they would show, so they come after every other filter.
        const outcome = model.outcome(i);
        add(found.outcomes, outcome);
        found.all += 1;
        if (model.changed(i)) found.changed += 1;
        if (isIn) found.rows.push(i);
        else add(found.hidden, outcome ?? "unchanged");
      }
      return found;
    }

    const severity = (i) => {
      const at = SEVERITY.indexOf(model.outcome(i));
      return at < 0 ? SEVERITY.length : at;
    };
    const COLUMNS = {
      outcome: { label: "Outcome", first: 1, key: severity },
      id: { label: "Id", first: 1, key: (i) => queries.id[i] },
      text: { label: "Query", first: 1, key: (i) => queries.text[i] ?? "" },
      first: { label: "First rank", first: 1, key: (i) => queries.first?.[model.run]?.[i] ?? null },
      change: { label: "Change", first: -1, key: (i) => (model.paired ? size(i)
        : ui.metric < 0 ? null : model.value(ui.metric, i)) },
    };
    const shown = () => (model.judged ? ["outcome", "id", "text", "change"]
      : model.paired ? ["id", "text", "change"] : ["id", "text", "first", "change"]);
    function order(rows) {
      const { column, way } = sorting();
      const key = COLUMNS[column].key;
      const keys = new Map(rows.map((i) => [i, key(i)]));
      const ties = column === "change" && model.paired ? severity : () => 0;
      rows.sort((a, b) => {
        const [one, two] = [keys.get(a), keys.get(b)];
        if (known(one) !== known(two)) return known(one) ? -1 : 1; // no value: last, either way
        if (known(one) && one !== two) return (one < two ? -1 : 1) * way;
        return ties(a) - ties(b) || a - b;
      });
    }
    function sorting() {
      if (ui.sort) return ui.sort;
      if (model.paired) return { column: "change", way: -1 };
      // One run: the worst first.
      const lower = ui.metric >= 0 && model.metrics[ui.metric].better === "lower";
      return { column: "change", way: lower ? -1 : 1 };
    }

    /** Filter and sort again; the open query stays open, in the list or not. */
    function refilter() {
      const found = filter();
      order(found.rows);
      ui.rows = found.rows;
      ui.place = new Map(found.rows.map((i, at) => [i, at]));
      drawn.clear();
      space.replaceChildren();
      space.style.height = `${ui.rows.length * rowHeight}px`;
      grid.setAttribute("aria-rowcount", ui.rows.length + 1);
      drawHead();
      drawChips(found);
      drawStatus(found);
      model.slices.forEach((one, s) => {
        pickers[s].value = parsed().tokens.find((token) => token.name === one.name)?.value ?? "";
      });
      reveal();
      paint();
      const bar = panel.querySelector(".x-place");
      if (bar) bar.textContent = placeText();
      tell();
    }

    // -- chips, status, head of the list
    function chipWords() {
      const words = data.outcomes ?? [];
      const here = new Set(queries.outcome?.[model.run] ?? []);
      return words.filter((_, c) => here.has(c));
    }
    function drawChips(found) {
      if (!model.judged) {
        chips.hidden = true;
        return;
      }
      const focused = chips.contains(document.activeElement)
        && [...chips.children].indexOf(document.activeElement);
      const chip = (label, n, on, act, glyph, tone, title) => el("button", { type: "button",
        class: `x-chip x-tone-${tone}`, "aria-pressed": String(on), title, onclick: act,
        style: `--share: ${100 * n / Math.max(1, found.all)}%` },
      glyph && el("span", { class: "x-glyph", "aria-hidden": "true" }, glyph),
      label, " ", el("b", {}, count(n)));
      const set = wanted();
      const all = set?.length === data.outcomes.length;
      chips.replaceChildren(
        chip("changed", found.changed, set === null && !quiet.none, () => pick(null), null, "none",
          "Queries with another outcome, or another value of a primary metric"),
        chip("all", found.all, all || (set === null && quiet.none), () => pick(data.outcomes), null,
          "none", "Every query"),
        el("span", { class: "x-between" }),
        ...chipWords().map((word) => chip(word, found.outcomes.get(word) ?? 0,
          !all && (set ?? []).includes(word), () => toggle(word), GLYPHS[word],
          TONES[word] ?? "none", `Only ${word}`)));
      if (focused !== false && focused >= 0) chips.children[focused]?.focus();
    }
    function pick(set) {
      ui.outcome = set === null ? null : [...set];
      refilter();
    }
    function toggle(word) {
      const now = wanted() === null || wanted().length === data.outcomes.length ? [] : wanted();
      const next = now.includes(word) ? now.filter((one) => one !== word) : [...now, word];
      pick(next.length ? data.outcomes.filter((one) => next.includes(one)) : null);
    }

    function drawStatus(found) {
      const total = found.all + [...found.by.values()].reduce((a, b) => a + b, 0);
      const parts = [...[...found.hidden].map(([word, n]) => `${count(n)} ${word}`),
        ...[...found.by].map(([by, n]) => `${count(n)} by ${by}`)];
      const hiddenRows = total - ui.rows.length;
      status.replaceChildren(el("b", {}, hiddenRows ? `${count(ui.rows.length)} of `
        + many(total, "query") : many(total, "query")), quiet.none && !hiddenRows
        ? " – none changed" : "");
      if (hiddenRows) {
        status.append(` – hidden: ${visible(parts.join(", "))}. `, el("button", { type: "button",
          class: "x-link x-all", onclick: () => clearAll() }, `Show all ${count(total)}`));
      }
      space.hidden = ui.rows.length === 0;
      empty.hidden = ui.rows.length > 0;
      if (ui.rows.length === 0) drawEmpty();
    }
    function clearAll() {
      ui.search = search.value = "";
      pick(model.judged ? data.outcomes : null);
    }
    function drawEmpty() {
      empty.replaceChildren(el("p", {}, model.n ? "No query matches." : "There are no queries."),
        model.n > 0 && el("button", { type: "button", onclick: () => clearAll() },
          "Clear all filters") || "");
    }

    function drawHead() {
      const { column, way } = sorting();
      const longest = queries.id.reduce((most, id) => Math.max(most, id.length), 2);
      const widths = { outcome: "108px", id: `${Math.min(longest, 20) * 7.3 + 4}px`,
        text: "minmax(0, 1fr)", first: "74px", change: "98px" };
      grid.style.setProperty("--columns", shown().map((one) => widths[one]).join(" "));
      grid.setAttribute("aria-colcount", shown().length);
      const focused = [...headline.children].findIndex((one) =>
        one.contains(document.activeElement));
      headline.replaceChildren(...shown().map((one) => {
        const on = one === column;
        const label = one === "change" && ui.metric >= 0
          ? (model.paired ? "Δ " : "") + model.metrics[ui.metric].name : COLUMNS[one].label;
        return el("div", { role: "columnheader", class: one === "change" || one === "first"
          ? "x-right" : null, "aria-sort": on ? (way > 0 ? "ascending" : "descending") : "none" },
        el("button", { type: "button", title: `Sort by ${label}`, onclick: () => {
          const now = sorting();
          ui.sort = { column: one, way: now.column === one ? -now.way : COLUMNS[one].first };
          refilter();
        } }, label, el("span", { class: "x-sort", "aria-hidden": "true" },
          on ? (way > 0 ? "▲" : "▼") : "↕")));
      }));
      if (focused >= 0) headline.children[focused].firstChild.focus();
    }

    // -- the rows in sight
    const drawn = new Map();
    function badge(word) {
      return el("span", { class: `x-outcome x-tone-${TONES[word] ?? "none"}` },
        el("span", { class: "x-glyph", "aria-hidden": "true" }, GLYPHS[word] ?? ""), word);
    }
    function changeText(i) {
      if (!model.paired) {
        return ui.metric < 0 ? "" : number(model.value(ui.metric, i),
          model.metrics[ui.metric].decimals);
      }
      if (ui.metric < 0) {
        const how = model.size(i);
        return line(model.brief(i).replace(/\brank /g, ""), 60) || (how > 0.005 ? how.toFixed(2) : "");
      }
      const delta = model.delta(ui.metric, i);
      const sense = model.sense(ui.metric, delta);
      return el("span", { class: sense > 0 ? "x-good" : sense < 0 ? "x-bad" : null },
        (sense > 0 ? "▲ " : sense < 0 ? "▼ " : "")
        + signed(delta, model.metrics[ui.metric].decimals));
    }
    const cells = {
      outcome: (i) => (model.outcome(i) ? badge(model.outcome(i)) : ""),
      id: (i) => found_(line(queries.id[i], 120), "query"),
      text: (i) => found_(line(queries.text[i] ?? ""), "query"),
      first: (i) => queries.first?.[model.run]?.[i] ?? (model.error(i, model.run) ? "failed" : NONE),
      change: changeText,
    };
    function makeRow(at) {
      const i = ui.rows[at];
      const made = el("div", { class: "x-line", role: "row", id: `${name}-row-${i}`,
        "aria-rowindex": at + 2, "aria-selected": String(i === ui.open) },
      shown().map((one) => el("div", { role: "gridcell", class: `x-cell-${one}${
        one === "change" || one === "first" ? " x-right" : ""}` }, cells[one](i))));
      made.style.top = `${at * rowHeight}px`;
      return made;
    }
    function paint() {
      const first = Math.max(0, Math.floor(body.scrollTop / rowHeight) - SPARE);
      const last = Math.min(ui.rows.length,
        Math.ceil((body.scrollTop + Math.min(body.clientHeight, 4000)) / rowHeight) + SPARE);
      const keep = new Set();
      for (let at = first; at < last; at += 1) keep.add(at);
      // The open row is always there: aria-activedescendant names it.
      const active = ui.place.get(ui.open);
      if (active !== undefined) keep.add(active);
      for (const [at, row] of drawn) {
        if (!keep.has(at)) {
          row.remove();
          drawn.delete(at);
        }
      }
      for (const at of keep) {
        if (drawn.has(at)) drawn.get(at).setAttribute("aria-selected", ui.rows[at] === ui.open);
        else {
          drawn.set(at, makeRow(at));
          space.append(drawn.get(at));
        }
      }
      if (active === undefined) grid.removeAttribute("aria-activedescendant");
      else grid.setAttribute("aria-activedescendant", `${name}-row-${ui.open}`);
    }
    function reveal() {
      const at = ui.place.get(ui.open);
      if (at === undefined) return;
      const [top, bottom] = [at * rowHeight, (at + 1) * rowHeight];
      if (top < body.scrollTop) body.scrollTop = top;
      else if (bottom > body.scrollTop + body.clientHeight && body.clientHeight) {
        body.scrollTop = bottom - body.clientHeight;
      }
    }
    space.addEventListener("click", (event) => {
      const row = event.target.closest(".x-line");
      if (!row) return;
      const at = [...drawn].find(([, one]) => one === row)?.[0];
      if (at === undefined) return;
      grid.focus();
      open(ui.rows[at]);
      enter(false);
    });

    // Work is asked for and done once a frame, however fast keys come.
    let panelDue = false;
    function ask(withPanel = false) {
      panelDue ||= withPanel;
      if (frameAsked) return;
      frameAsked = true;
      requestAnimationFrame(() => {
        frameAsked = false;
        if (panelDue) drawPanel();
        panelDue = false;
        paint();
      });
    }

    // -- opening queries
    function open(i, hit = null) {
      if (i === ui.open && !hit) return;
      ui.open = i;
      ui.hit = hit;
      ui.deep = false;
      reveal();
      ask(true);
      tell();
    }
    function move(by) {
      if (ui.rows.length === 0) return;
      const at = ui.place.get(ui.open) ?? -1;
      open(ui.rows[Math.min(Math.max(at + by, 0), ui.rows.length - 1)]);
    }
    function moveChanged(by) {
      let at = (ui.place.get(ui.open) ?? -1) + by;
      while (at >= 0 && at < ui.rows.length && !model.changed(ui.rows[at])) at += by;
      if (at >= 0 && at < ui.rows.length) open(ui.rows[at]);
      else note(by > 0 ? "No changed query after this one." : "No changed query before this one.");
    }
    /** Go into the open query: on a phone it takes the place of the list. */
    function enter(focus = true) {
      if (ui.open < 0) return;
      frame.dataset.view = "query";
      if (focus || layout === "phone") panel.focus({ preventScroll: true });
      ask(layout === "phone");
    }
    function leave() {
      frame.dataset.view = "list";
      grid.focus();
      reveal();
      ask();
    }
    function choose(run) {
      model.run = run;
      if (runChoice) runChoice.value = String(run);
      ui.hit = null;
      quiet.none = model.judged && !anyChanged();
      headlineOfRun();
      refilter();
      ask(true);
    }
    /** Of several runs the verdict of the chosen one stands on top. */
    function headlineOfRun() {
      const own = (data.verdict ?? []).find((text) =>
        text.startsWith(`${data.runs[model.run]?.id} against `));
      said.textContent = visible(own ?? verdict ?? data.title ?? "");
    }
    /** The worst regression, else the largest loss, else what stands first. */
    function worst() {
      const of = (word) => ui.rows.filter((i) => model.outcome(i) === word)
        .reduce((best, i) => (best < 0 || (model.size(i) ?? -1) > (model.size(best) ?? -1)
          ? i : best), -1);
      for (const word of ["regression", "loss"]) if (of(word) >= 0) return of(word);
      return ui.rows[0] ?? -1;
    }

    // -- the open query
    function runName(r) {
      const swatch = el("span", { class: "x-swatch", "aria-hidden": "true" });
      swatch.style.background = /^#[0-9a-f]{6}$/i.test(data.runs[r].colour ?? "")
        ? data.runs[r].colour : "transparent";
      return el("span", {}, swatch, data.runs[r].id);
    }
    const sides = () => (model.paired ? [model.base, model.run] : [model.run]);
    const placeText = () => {
      const at = ui.place.get(ui.open);
      return at === undefined ? "not in the list as filtered"
        : `${count(at + 1)} of ${count(ui.rows.length)}`;
    };

    function drawPanel() {
      const i = ui.open;
      drawLines = () => {};
      panel.scrollTop = 0;
      if (i < 0) {
        panel.setAttribute("aria-label", "Query");
        panel.replaceChildren(el("p", { class: "x-muted" }, "Choose a query in the list."));
        return;
      }
      panel.setAttribute("aria-label", `Query ${visible(line(queries.id[i], 80))}`);
      const outcome = model.outcome(i);
      panel.replaceChildren(...[
        toolbar(),
        el("div", { class: "x-title" }, el("h3", {}, whole(queries.id[i])),
          outcome && el("span", { class: `x-badge x-tone-${TONES[outcome] ?? "none"}` },
            `${GLYPHS[outcome]} ${outcome}`),
          model.note(i) && el("span", {}, model.targets(i).length ? model.brief(i)
            : model.note(i))),
        ...talk(i), facts(i), measures(i), targetTable(i), hitsPart(i), answersPart(i),
        checksPart(i), allMetrics(i),
      ].filter(Boolean));
      if (ui.hit) light(hitElement(ui.hit.run, ui.hit.rank));
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
          button("Copy code", "Code that gives these queries (c)", () => copyCode()),
          options.link && button("Copy link", "What opens this query again (l)",
            () => copyLink())));
    }

    function facts(i) {
      const parts = [
        queries.refuse?.[i] ? "should be refused" : null,
        ...model.slices.map((slice, s) => {
          if (slice.name === "conversation" && model.turns(i).length > 1) return null; // above
          const values = model.codes(s, i).map((c) => slice.values[c]);
          return values.length ? `${slice.name} ${values.join(", ")}` : null;
        }),
      ].filter(Boolean);
      return parts.length > 0 && el("p", { class: "x-facts" }, parts.join(" · "));
    }

    /** The query; where it is a turn, below the turns before it and above those after it. */
    function talk(i) {
      const asked = el("p", { class: "x-text" }, found_(queries.text[i] || "(no text)", "query"));
      const turns = model.turns(i);
      if (turns.length < 2) return [asked];
      const at = turns.indexOf(i);
      const listed = (part) => el("ol", { class: "x-turns" }, part.map((j) => {
        const { text, refused } = model.answer(j, model.run);
        const failed = model.error(j, model.run);
        const said = failed ? `failed: ${failed}` : text || (refused ? "refused" : "");
        const first = queries.first?.[model.run]?.[j];
        return el("li", {}, el("button", { type: "button", class: "x-turn",
          title: `Open ${line(queries.id[j], 80)}`, onclick: () => open(j) },
        el("b", {}, `${queries.turn[j] ?? NONE} `), line(queries.text[j] || queries.id[j]),
        el("span", { class: "x-muted x-small" }, first ? `  first rank ${first}`
          : model.targets(j).length ? "  nothing found" : ""),
        said && el("span", { class: "x-said" }, `→ ${line(said, 200)}`)));
      }));
      const after = turns.slice(at + 1);
      return [
        el("h4", { class: "x-talk" }, `Turn ${queries.turn[i] ?? NONE} of ${turns.length} in conversation `,
          whole(String(queries.conversation[i]))),
        listed(turns.slice(0, at)), asked,
        after.length > 0 && el("details", { class: "x-after" }, el("summary", {},
          many(after.length, "later turn")), listed(after)),
      ];
    }

    function measures(i) {
      const wantedOnes = [...new Set([...(ui.metric >= 0 ? [ui.metric] : []), ...model.primary])];
      const found = wantedOnes.filter((m) => sides().some((r) => known(model.value(m, i, r))));
      return found.length > 0 && el("div", { class: "x-measures" }, found.map((m) => {
        const { name: called, decimals } = model.metrics[m];
        const values = sides().map((r) => number(model.value(m, i, r), decimals));
        const delta = model.paired ? model.delta(m, i) : null;
        const sense = model.sense(m, delta);
        return el("span", {}, el("span", { class: "x-muted" }, `${called} `), values.join(" → "),
          delta ? el("span", { class: sense > 0 ? "x-good" : "x-bad" },
            ` ${sense > 0 ? "▲" : "▼"} ${signed(delta, decimals)}`) : "");
      }));
    }

    function targetTable(i) {
      const targets = model.targets(i);
      if (targets.length === 0) {
        return model.at(i)[0].targets && el("section", {}, el("h4", {}, "Targets"), el("p", {},
          queries.refuse?.[i] ? "None: the query should be refused."
            : "None: ranks are compared, nothing is scored."));
      }
      const order_ = model.paired ? [model.base, ...model.others] : model.others;
      return el("section", {}, el("h4", {}, many(targets.length, "target")),
        el("div", { class: "x-scroll x-tall", tabindex: targets.length > 12 ? "0" : null,
          role: "group", "aria-label": "Targets" }, el("table", {},
          el("thead", {}, el("tr", {}, el("th", {}, "target"), el("th", { class: "x-right" },
            "grade"), order_.map((r) => el("th", { class: "x-right" }, runName(r))),
          model.paired && el("th", {}, order_.length > 2 ? data.runs[model.run].id : "change"))),
          el("tbody", {}, targets.map((one) => el("tr", {},
            el("td", {}, el("span", { class: "x-star", "aria-hidden": "true" }, "★ "),
              whole(one.name, sought("target")), one.others && el("div", { class: "x-muted x-small" }, "or ",
                whole(one.others, sought("target")))),
            el("td", { class: "x-right" }, known(one.grade) ? one.grade : NONE),
            order_.map((r) => el("td", { class: "x-right x-nowrap" }, rankCell(i, r, one.ranks[r],
              one.calls[r]))),
            model.paired && el("td", { class: "x-nowrap" },
              targetChange(one, model.base, model.run))))))));
    }
    function rankCell(i, r, rank, call) {
      if (known(rank)) return known(call) ? `call ${call}, rank ${rank}` : String(rank);
      return model.error(i, r) ? "failed" : "not found";
    }
    function targetChange({ ranks, calls }, from, to) {
      const [before, after] = [ranks[from], ranks[to]];
      if (!known(before) && !known(after)) return el("span", { class: "x-muted" }, "○ missed");
      if (!known(before)) return el("span", { class: "x-good" }, "▲ found");
      if (!known(after)) return el("span", { class: "x-bad" }, "▼ lost");
      if (calls[from] !== calls[to]) {
        return calls[to] < calls[from] ? el("span", { class: "x-good" }, "▲ earlier call")
          : el("span", { class: "x-mild" }, "▼ later call");
      }
      if (before === after) return el("span", { class: "x-muted" }, "= same");
      return after < before ? el("span", { class: "x-good" }, "▲ up")
        : el("span", { class: "x-mild" }, "▼ down");
    }

    // -- hits
    function hitsPart(i) {
      distinctive ??= ragscorePassages.distinctive(queries.text);
      terms = distinctive(queries.text[i] ?? "");
      drawLines = () => {};
      watch.disconnect();
      watch.observe(panel);
      watch.observe(root);
      const lists = sides().map((r) => model.hits(i, r));
      const calls = sides().map((r) => model.calls(i, r));
      if (ui.hit?.rank > FIRST) ui.deep = true;
      const more = lists.reduce((n, hits) => n + hits.length - few(hits).length, 0);
      const all = more > 0 && el("button", { type: "button", class: "x-link", onclick: () => {
        ui.deep = true;
        drawPanel();
      } }, `Show ${many(more, "more hit")}`);
      const most = Math.max(...calls.flat().map((one) => one.call), 0);
      const isBare = (one) => !one.asked && !one.tool && !one.error;
      const key = lists.length > 1 && lists.flat().length > 0 && el("p",
        { class: "x-key" },
        "Lines join the same passage: solid up, dashed down, dotted same; thick and ★ for targets.");
      if (most < 2 && calls.flat().every(isBare)) {
        return el("section", { "aria-label": "Hits" }, oneCall(i, lists, sides().map(runHead)),
          all, key);
      }
      // A document may come back in another call of the other run.
      lists.forEach((hits, side) => {
        const call = new Map((lists[1 - side] ?? []).toReversed().map((one) => [one.id, one.call]));
        for (const hit of hits) hit.elsewhere = call.get(hit.id) ?? null;
      });
      const parts = [];
      for (let n = 1; n <= most; n += 1) {
        const made = calls.map((of) => of.find((one) => one.call === n) ?? null);
        if (made.every((one) => one === null)) continue;
        const heads = sides().map((r, side) => el("div", {}, parts.length === 0 && runHead(r),
          callHead(i, made[side], lists[side], calls[side])));
        parts.push(el("div", { class: "x-call", role: "group", "aria-label": `Call ${n}` },
          oneCall(i, lists.map((hits) => hits.filter((hit) => hit.call === n)), heads, made)));
      }
      return el("section", { "aria-label": "Hits" }, el("h4", {}, many(most, "call")),
        failures(i), parts, all, key);
    }
    const few = (hits) => (ui.deep ? hits : hits.filter((hit, at) => at < FIRST || hit.isTarget));
    function oneCall(i, lists, heads, made = null) {
      return sideBySide(i, lists, lists.length > 1 ? pair(...lists) : [], heads, made);
    }
    /** What a call asked, and what it gave: hits, targets that it was first to find, repeats. */
    function callHead(i, call, hits, calls) {
      if (call === null) return null;
      const same = call.asked && calls.find((one) => one.call < call.call && one.asked === call.asked);
      const asked = !call.asked ? null : same ? `the same text as call ${same.call}`
        : call.asked === queries.text[i] ? "the query itself" : `“${call.asked}”`;
      const own = hits.filter((hit) => hit.call === call.call);
      const before = new Set(hits.filter((hit) => hit.call < call.call)
        .flatMap((hit) => hit.targets));
      const targets = model.targets(i);
      const names = [...new Set(own.flatMap((hit) => hit.targets))].filter((t) => !before.has(t)
        && !(targets[t]?.grade < 1)).map((t) => targets[t]?.name);
      const repeated = own.filter((hit) => known(hit.repeats)).length;
      return el("div", { class: "x-callhead" },
        el("p", {}, el("b", {}, `Call ${call.call}`), call.tool && ` · ${line(call.tool, 80)}`,
          known(call.elapsed_ms) && el("span", { class: "x-muted" },
            ` · ${count(Math.round(call.elapsed_ms))} ms`),
          call.is_read === false && el("span", { class: "x-mild" }, " · not scored")),
        asked && el("p", { class: `x-long${asked.startsWith("“") ? "" : " x-muted"}` }, asked),
        own.length > 0 && el("p", { class: "x-small" }, el("span", { class: "x-muted" },
          many(own.length, "hit"), repeated > 0 && `, ${repeated} returned before`),
        names.length > 0 && el("span", { class: "x-star" }, " · ★ first to find ",
          names.flatMap((one, at) => [at > 0 && ", ", whole(one ?? "")]))));
    }
    function runHead(r) {
      const kind = data.hits?.kind?.[r];
      return el("div", { class: "x-runhead" }, runName(r), kind && el("span",
        { class: "x-muted x-small" }, `  ${kind}`));
    }
    function failures(i) {
      return sides().filter((r) => model.error(i, r)).map((r) => el("div", { class: "x-error" },
        el("b", {}, `${data.runs[r].id} failed: `), el("span", { class: "x-long" },
          model.error(i, r))));
    }
    function noHits(i, r, call = null) {
      if (call?.error) {
        return el("div", { class: "x-error" }, el("b", {}, "This call failed: "),
          el("span", { class: "x-long" }, call.error));
      }
      if (call) return el("p", { class: "x-muted" }, "No documents.");
      const failed = model.error(i, r);
      return failed ? el("div", { class: "x-error" }, el("b", {}, "This run failed: "),
        el("span", { class: "x-long" }, failed)) : el("p", { class: "x-muted" }, "No hits.");
    }
    function sideBySide(i, lists, pairs, heads, made) {
      const columns = lists.map((hits, side) => {
        const r = sides()[side], call = made?.[side];
        const rows = few(hits).map((hit) => hitRow(hit, lists.length > 1 ? side : null, i));
        const list = el("ol", { class: "x-hits", "aria-label": `Hits of ${
          visible(data.runs[r].id)}${call ? `, call ${call.call}` : ""}` }, rows);
        const failed = made ? call?.error : model.error(i, r);
        if (hits.length && !failed) return list;
        return el("div", {}, made && !call
          ? el("p", { class: "x-muted" }, "No such call.") : noHits(i, r, call), hits.length > 0 && list);
      });
      if (lists.length === 1) {
        return el("div", { class: "x-sides x-alone" }, heads[0], columns[0]);
      }
      const canvas = svg("svg", { class: "x-lines", "aria-hidden": "true" });
      const box = el("div", { class: "x-sides" }, heads[0], el("span"),
        heads[1], columns[0], canvas, columns[1]);
      const others = drawLines;
      drawLines = () => { others(); lines(canvas, pairs); };
      for (const column of columns) watch.observe(column);
      return box;
    }
    /** Rows wrap and unfold, so lines go by where rows stand, not by rank. */
    function lines(canvas, pairs) {
      const box = canvas.getBoundingClientRect();
      if (!box.height) return canvas.replaceChildren();
      const rows = new Map([...panel.querySelectorAll(".x-hit")].map((row) => [row.hit, row]));
      const middle = (hit) => {
        const at = rows.get(hit)?.firstElementChild.getBoundingClientRect();
        return at ? Math.round(at.top + at.height / 2 - box.top) : null;
      };
      // All is measured before anything is drawn: a drawing in between would be laid out again.
      const ends = pairs.map((both) => both.map(middle));
      const drawing = JSON.stringify([box.width, lit, ends]);
      if (canvas.drawing === drawing) return;
      canvas.drawing = drawing;
      canvas.replaceChildren();
      pairs.forEach(([left, right], at) => {
        const [from, to] = ends[at];
        if (from === null || to === null) return;
        const way = direction(left.place, right.place);
        canvas.append(svg("path", {
          class: `x-${way}${left.isTarget || right.isTarget ? " x-target" : ""}${
            lit === left.id ? " x-lit" : ""}`,
          d: `M1 ${from} C ${box.width / 2} ${from}, ${box.width / 2} ${to}, ${box.width - 1} ${to}`,
        }));
      });
    }
    function movement(hit, side) {
      const error = side === null ? null : model.error(ui.open, sides()[1 - side]);
      if (side === null || error) return ["", ""];
      if (!known(hit.other) && known(hit.elsewhere)) {
        return [`${side === 0 ? "to" : "from"} call ${hit.elsewhere}`, "x-muted"];
      }
      if (!known(hit.other)) return side === 0 ? ["gone", "x-muted"] : ["new", "x-muted"];
      const way = side === 0 ? direction(hit.place, hit.other) : direction(hit.other, hit.place);
      if (way === "same") return ["= same", "x-muted"];
      return [`${ARROWS[way]} ${side === 0 ? "to" : "from"} ${hit.other}`, ""];
    }
    function hitRow(hit, side, i) {
      const [moved, tone] = movement(hit, side);
      const row = el("li", { class: `x-hit${hit.isTarget ? " x-is-target" : ""}` });
      row.dataset.run = hit.run;
      row.dataset.rank = hit.rank;
      row.hit = hit;
      const target = hit.isTarget && el("span", { class: "x-star" }, " ★",
        el("span", { class: "x-small" }, known(hit.grade) ? ` grade ${hit.grade}` : " target"));
      const button = el("button", { type: "button", "aria-expanded": "false", onclick: () => {
        unfold(row, button.getAttribute("aria-expanded") !== "true");
        light(row);
        ui.hit = { run: hit.run, rank: hit.rank };
        tell();
      } },
      el("span", { class: "x-rank" }, String(hit.place)),
      el("span", {}, whole(hit.id, sought("doc")), target, known(hit.repeats) && el("span",
        { class: "x-muted x-small" }, ` as in call ${hit.repeats}`)),
      el("span", { class: `x-move ${tone}` }, moved),
      el("span", { class: "x-under" }, el("span", {}, hit.heading || ""),
        known(hit.score) && el("span", { class: "x-right" }, number(hit.score, 3))),
      known(hit.text) && preview(hit));
      row.append(button);
      if (ui.unfold) unfold(row, true);
      return row;
    }
    /** What stands out in a hit's text. */
    function layers(hit) {
      return [["term", ragscorePassages.termsIn(hit.text, terms)],
        ["found", sought("text").flatMap((one) => ragscorePassages.places(hit.text, one))],
        ["span", hit.span ? [{ from: hit.span[0], to: hit.span[1] }] : []]];
    }
    function preview(hit) {
      const over = layers(hit);
      const from = ragscorePassages.start(hit.text, hit.span ?? (over[1][1][0]
        && [over[1][1][0].from]), over[0][1], PREVIEW);
      return el("span", { class: "x-preview" }, from > 0 && "…",
        marked(hit.text, over, from, Math.min(hit.text.length, from + PREVIEW)));
    }
    function unfold(row, on) {
      const button = row.firstElementChild;
      button.setAttribute("aria-expanded", String(on));
      row.querySelector(".x-inside")?.remove();
      if (!on) return;
      const { hit } = row;
      const about = [["document", hit.doc !== hit.id ? hit.doc : null],
        ["path", hit.path !== hit.doc && hit.path !== hit.id ? hit.path : null],
        ["heading", hit.heading]]
        .filter(([, value]) => value);
      const target = hit.targets.map((t) => model.targets(ui.open)[t]?.name).filter(Boolean);
      if (target.length) about.push(["meets", target.join(", ")]);
      if (known(hit.score)) about.push(["score", String(hit.score)]);
      row.append(el("div", { class: "x-inside" }, hitText(hit), about.length > 0 && el("dl", {},
        about.flatMap(([term, value]) => [el("dt", {}, `${term}: `), el("dd", {}, value)]))));
    }
    function hitText(hit) {
      if (!known(hit.text)) {
        return el("p", { class: "x-muted" }, "No text of this hit is here; ",
          el("code", {}, `${code}.explore(texts=…)`), " brings texts.");
      }
      return el("p", { class: "x-long" }, marked(hit.text, layers(hit)));
    }
    let lit = null;
    function hitElement(run, rank) {
      const r = typeof run === "number" ? run : data.runs.findIndex((one) => one.id === run);
      return panel.querySelector(`.x-hit[data-run="${r}"][data-rank="${Number(rank)}"]`);
    }
    /** Mark the passage of a hit in both lists, and faintly its document's other passages. */
    function light(row) {
      lit = row?.hit.id ?? null;
      for (const one of panel.querySelectorAll(".x-hit")) {
        one.classList.toggle("x-lit", one.hit.id === lit);
        one.classList.toggle("x-kin", one.hit.id !== lit && lit !== null
          && known(one.hit.doc) && one.hit.doc === row.hit.doc);
      }
      drawLines();
    }

    // -- answers, citations, judgments, checks
    function answersPart(i) {
      const { reference } = model.answer(i, model.run);
      const cards = sides().map((r) => answerCard(i, r)).filter(Boolean);
      return (cards.length > 0 || reference) && el("section", {}, el("h4", {},
        sides().length > 1 ? "Answers" : "Answer"), el("div", { class: "x-cards" }, cards),
      reference && el("details", {}, el("summary", {}, "Reference answer"),
        el("p", { class: "x-long" }, reference)));
    }
    function answerCard(i, r) {
      const { text: answer, refused, reason, latency } = model.answer(i, r);
      const cited = model.part("citations", i, r);
      const judged = model.part("judgments", i, r);
      const should = Boolean(queries.refuse?.[i]);
      const failed = model.error(i, r);
      if (!known(answer) && !known(refused) && !known(latency) && !cited.length && !judged.length
        && !failed) return null;
      const says = refused ? `refused${reason ? ` (${reason})` : ""}` : "answered";
      const fits = should === Boolean(refused);
      const stand = (known(refused) || should) && !failed && el("p",
        { class: fits ? "x-good" : "x-bad" }, fits ? (should ? `▲ ${says}, as it should` : `${says}`)
          : `▼ ${says}, though it should be ${should ? "refused" : "answered"}`);
      if (stand && fits && !should) stand.className = "x-muted";
      return el("div", { class: "x-card" },
        el("div", {}, el("b", {}, runName(r)), known(latency) && el("span",
          { class: "x-muted x-small" }, `  ${number(latency, latency < 10 ? 1 : 0)} ms`)),
        failed && el("div", { class: "x-error" }, el("b", {}, "This run failed: "), failed), stand,
        known(answer) && answer !== "" ? withMarkers(answer, cited, r)
          : !failed && !refused && known(answer) && el("p", { class: "x-muted" }, "(empty answer)"),
        cited.length > 0 && el("ul", { "aria-label": "Citations" }, cited.map((one) =>
          el("li", {}, citeButton(one, r), " ", citedWhere(one, r)))),
        judged.length > 0 && el("ul", { "aria-label": "Judgments" }, judged.map((one) =>
          el("li", {}, el("b", {}, String(one("criterion") ?? "")), " ",
            [one("verdict"), one("value")].filter(known).map((v) =>
              (typeof v === "number" ? String(Number(v.toFixed(3))) : v)).join(", "),
            one("item") && el("span", { class: "x-muted" }, ` – ${line(one("item"), 200)}`),
            one("reason") && el("div", { class: "x-muted x-small" }, one("reason"))))));
    }
    function citedId(one) {
      const item = one("item");
      return known(item) && item >= 0 ? model.item(item).id : null;
    }
    function citedHit(one, r) {
      const id = citedId(one);
      return id === null ? null : [...panel.querySelectorAll(".x-hit")].find((row) =>
        row.hit.id === id && row.hit.run === r);
    }
    function citedWhere(one, r) {
      const id = citedId(one);
      if (id === null) return el("span", {}, el("span", { class: "x-id" }, one("label") ?? ""),
        el("span", { class: "x-muted" }, " – not a passage that is here"));
      const at = model.hits(ui.open, r).find((hit) => hit.id === id);
      return el("span", {}, whole(id), el("span", { class: "x-muted" },
        at ? ` – hit ${at.rank}` : " – not among the hits"));
    }
    function citeButton(one, r) {
      return el("button", { type: "button", class: "x-cite", title: "Go to the hit",
        onclick: () => {
          if (!citedHit(one, r) && !ui.deep) {
            ui.deep = true;
            drawPanel();
          }
          const row = citedHit(one, r);
          if (!row) return note("The cited passage is not among the hits.");
          unfold(row, true);
          light(row);
          ui.hit = { run: row.hit.run, rank: row.hit.rank };
          const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
          row.scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
          row.classList.add("x-flash");
          row.firstElementChild.focus({ preventScroll: true });
          tell();
        } }, one("marker") || "cited");
    }
    function withMarkers(answer, cited, r) {
      const by = new Map(cited.filter((one) => one("marker")).map((one) => [one("marker"), one]));
      const parts = [];
      let from = 0;
      while (by.size) {
        let next = -1, marker = "";
        for (const one of by.keys()) {
          const at = answer.indexOf(one, from);
          if (at >= 0 && (next < 0 || at < next || (at === next && one.length > marker.length))) {
            [next, marker] = [at, one];
          }
        }
        if (next < 0 || parts.length > 400) break;
        parts.push(found_(answer.slice(from, next), "answer"), citeButton(by.get(marker), r));
        from = next + marker.length;
      }
      return el("p", { class: "x-long" }, parts.flat(), found_(answer.slice(from), "answer"));
    }
    function checksPart(i) {
      const checks = model.part("checks", i);
      const word = (met) => (met === null ? el("span", { class: "x-muted" }, NONE)
        : met ? el("span", { class: "x-good" }, "▲ met") : el("span", { class: "x-bad" }, "▼ not met"));
      return checks.length > 0 && el("section", {}, el("h4", {}, "Checks of the answer"),
        el("div", { class: "x-scroll" }, el("table", {}, el("thead", {}, el("tr", {},
          el("th", {}, "check"), sides().map((r) => el("th", {}, runName(r))))),
        el("tbody", {}, checks.map((one) => el("tr", {}, el("td", {}, el("span",
          { class: "x-muted" }, `${one("kind") ?? ""} `), one("text") ?? ""),
        sides().map((r) => el("td", { class: "x-nowrap" }, word(one("met", r))))))))));
    }
    function allMetrics(i) {
      const any = model.metrics.map((_, m) => m)
        .filter((m) => model.runs.some((_, r) => known(model.value(m, i, r))));
      if (any.length === 0) return null;
      const columns = model.paired ? [model.base, ...model.others] : model.others;
      return el("section", {}, el("details", {}, el("summary", {}, many(any.length, "metric")),
        el("div", { class: "x-scroll" }, el("table", {}, el("thead", {}, el("tr", {},
          el("th", {}, "metric"), columns.map((r) => el("th", { class: "x-right" }, runName(r))))),
        el("tbody", {}, any.map((m) => el("tr", {}, el("td", {}, model.metrics[m].name),
          columns.map((r) => el("td", { class: "x-right" },
            number(model.value(m, i, r), model.metrics[m].decimals))))))))));
    }

    // -- code and links
    /** Python that gives the queries of the list. */
    const snippet = () => `part = ${code === "cmp" ? "cmp" : "ev"}.golden.select([${
      ui.rows.map((i) => python(queries.id[i])).join(", ")}])`;
    function reopening() {
      const parts = [];
      if (ui.open >= 0) parts.push(`query=${python(queries.id[ui.open])}`);
      if (wanted()) parts.push(`outcome=[${wanted().map(python).join(", ")}]`);
      if (ui.search) parts.push(`search=${python(ui.search)}`);
      if (code === "ev") { // the baseline first, then the run that is to be open
        const order_ = [...new Set([...sides(), ...model.others])];
        parts.push(`runs=[${order_.map((r) => python(data.runs[r].id)).join(", ")}]`);
      }
      return `${code}.explore(${parts.join(", ")})`;
    }
    const address = () => `#x.q=${encodeURIComponent(queries.id[ui.open] ?? "")}`;
    const asked = () => new URLSearchParams(location.hash.slice(1)).get("x.q");
    const copyCode = () => copy(snippet(), "Code for these queries");
    const copyLink = () => (options.link === "hash"
      ? copy(location.href.replace(/#.*$/s, "") + address(), "Link to this query")
      : copy(reopening(), "Code that opens this query"));
    /** Frames may not have the clipboard, so the text is also shown, ready to be copied. */
    function copy(value, what) {
      frame.querySelector(".x-out")?.remove();
      const heading = el("b", {}, what);
      const area = el("textarea", { readonly: true, rows: Math.min(5, 1 + value.split("\n").length
        + Math.floor(value.length / 90)), "aria-label": what });
      area.value = value;
      const box = el("div", { class: "x-out", role: "group", "aria-label": what },
        el("div", { class: "x-row" }, heading, el("button", { type: "button",
          "aria-label": "Close", onclick: () => { box.remove(); back(); } }, "✕")), area);
      const before = document.activeElement;
      const back = () => (before && frame.contains(before) ? before : grid).focus();
      box.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        box.remove();
        back();
      });
      frame.append(box);
      area.focus();
      area.select();
      const copied = () => { heading.textContent = `${what} – copied`; note(`${what} copied`); };
      const refused = () => { heading.textContent = `${what} – press Ctrl+C to copy`; };
      try {
        navigator.clipboard.writeText(value).then(copied, refused);
      } catch {
        refused(); // not in a secure context
      }
    }
    function note(message) { say.textContent = visible(message); }

    // -- state, in and out
    function state() {
      return {
        query: ui.open < 0 ? null : queries.id[ui.open],
        outcome: wanted() === null ? null : [...wanted()],
        search: ui.search,
        run: model.run === undefined ? null : data.runs[model.run].id,
        hit: ui.hit && { run: data.runs[ui.hit.run].id, rank: ui.hit.rank },
      };
    }
    let writing = 0;
    function tell() {
      if (!ready) return;
      const now = JSON.stringify(state());
      if (now === told) return;
      told = now;
      options.select?.(state());
      if (options.link !== "hash" || asked() === queries.id[ui.open]) return;
      clearTimeout(writing); // browsers limit changes: keys held down make one, not hundreds
      writing = setTimeout(() => history.replaceState(history.state, "", address()), 250);
    }
    function show(next = {}) {
      const outcomes = Array.isArray(next.outcome)
        ? (data.outcomes ?? []).filter((word) => next.outcome.includes(word)) : null;
      if ("outcome" in next) ui.outcome = outcomes?.length ? outcomes : null;
      if (typeof next.search === "string") ui.search = search.value = next.search;
      const run = data.runs.findIndex((one) => one.id === next.run);
      if (model.others.includes(run)) {
        model.run = run;
        if (runChoice) runChoice.value = String(run);
        headlineOfRun();
      }
      quiet.none = model.paired && !anyChanged();
      refilter();
      if (known(next.query)) {
        const i = model.row.get(next.query);
        if (i === undefined) note(`There is no query ${line(String(next.query), 80)} here.`);
        else {
          const r = next.hit ? data.runs.findIndex((one) => one.id === next.hit.run) : -1;
          ui.open = -1;
          open(i, r >= 0 ? { run: r, rank: next.hit.rank } : null);
          frame.dataset.view = "query";
        }
      }
      ask(true);
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
    const page = () => Math.max(1, Math.floor(body.clientHeight / rowHeight) - 1);
    const turn = (by) => {
      if (model.others.length < 2) return false;
      const at = model.others.indexOf(model.run) + by;
      if (at >= 0 && at < model.others.length) choose(model.others[at]);
      return true;
    };
    /** Keys that act in the list only: elsewhere they scroll and move as everywhere. */
    const inList = {
      ArrowDown: () => move(1), ArrowUp: () => move(-1),
      PageDown: () => move(page()), PageUp: () => move(-page()),
      Home: () => move(-Infinity), End: () => move(Infinity),
      Enter: () => enter(),
    };
    const anywhere = {
      j: () => move(1), k: () => move(-1), "]": () => moveChanged(1), "[": () => moveChanged(-1),
      "/": () => { if (frame.dataset.view === "query" && layout === "phone") leave();
        search.focus(); search.select(); },
      t: () => {
        ui.unfold = !ui.unfold;
        for (const row of panel.querySelectorAll(".x-hit")) unfold(row, ui.unfold);
      },
      c: () => copyCode(), l: () => (options.link ? copyLink() : false), "?": () => help(),
      ArrowLeft: () => turn(-1), ArrowRight: () => turn(1), Escape: () => leave(),
    };
    const alone = root.parentElement === document.body;
    function onKey(event) {
      if (!root.isConnected) return document.removeEventListener("keydown", onKey);
      const { target, key } = event;
      const ours = root.contains(target) || (alone && target === document.body);
      if (!ours || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest?.("dialog")) return;
      const typing = target.matches?.("input, select, textarea:not([readonly])");
      if (typing) {
        if (key === "Escape" || (target === search && (key === "Enter" || key === "ArrowDown"))) {
          event.preventDefault();
          leave();
        }
        return;
      }
      const copied = target.closest?.(".x-out"); // what was copied gives way to the next key
      if (copied && target.readOnly && Object.hasOwn({ ...inList, ...anywhere }, key)
        && key !== "Escape") {
        copied.remove();
        grid.focus();
      }
      const listed = [grid, body, document.body].includes(target) || copied && !copied.isConnected;
      // A button in a hit or a head has its own Enter; a phone has no list beside the query.
      const act = (listed && Object.hasOwn(inList, key) && inList[key])
        || (Object.hasOwn(anywhere, key) && anywhere[key]);
      if (act && act() !== false) event.preventDefault();
    }
    document.addEventListener("keydown", onKey);

    // -- sizes: a frame off screen begins with none, so everything is measured when it has one
    function resize() {
      if (!root.isConnected) return;
      const style = getComputedStyle(frame);
      const nextHeight = Number(style.getPropertyValue("--row")) || 28;
      const reheight = nextHeight !== rowHeight;
      layout = style.getPropertyValue("--layout").trim();
      rowHeight = nextHeight;
      if (reheight) {
        drawn.clear();
        space.replaceChildren();
        space.style.height = `${ui.rows.length * rowHeight}px`;
      }
      reveal();
      paint();
      drawLines();
    }
    const watch = new ResizeObserver(() => { ask(); drawLines(); });
    new ResizeObserver(() => resize()).observe(root);
    new ResizeObserver(() => ask()).observe(body);
    if (options.link === "hash") {
      addEventListener("hashchange", () => { // a link of the page, or another address was typed
        if (!root.isConnected || asked() === null) return;
        clearTimeout(writing); // it stands there already
        show({ query: asked() });
        root.scrollIntoView({ block: "nearest" });
      });
    }

    // -- begin
    let ready = false;
    const theme = (one) => { root.dataset.theme = one ?? "auto"; };
    theme(options.theme);
    resize();
    show({ ...options.state, ...(options.link === "hash" && asked() !== null && { query: asked() }) });
    if (ui.open < 0) {
      ui.open = worst();
      reveal();
    }
    drawPanel();
    panelDue = false;
    paint();
    ready = true;
    // What is open at first is a selection, too, but no reason to write the address.
    told = JSON.stringify(state());
    options.select?.(state());
    return { show, state, resize, theme };
  }

  return { boot, unpack };
})();
