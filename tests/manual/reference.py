"""The parts of the reference that are made from the code: `python -m tests.manual --reference`.

A page holds them between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`, with prose by
hand around them. The pages of `reference/api/` are made whole.
"""

import importlib
import inspect
import re
from argparse import Action, ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import ragscore
from ragscore import plot
from ragscore.cli import make_parser
from ragscore.frames.kinds import KINDS
from ragscore.frames.verbs import Accessor, Verb
from ragscore.io.columns import GOLDEN_ROLES, RESULT_ROLES
from ragscore.io.foreign import TOOLS
from ragscore.io.golden_read import CHECK_FIELDS, ID_FIELDS, TAG_FIELDS
from ragscore.io.registry import FORMATS, TABLES
from ragscore.io.run_file import CALL, CITATION_KINDS, HIT, SPAN_FIELDS, SPAN_UNITS
from ragscore.scoring.metrics import TABLE
from ragscore.store.tables import FRAMES
from tests.manual import NOTEBOOKS, pages

PART = re.compile(r"(<!-- generated:([\w-]+) -->\n).*?(<!-- /generated:\2 -->)", flags=re.S)


def texts() -> dict[Path, str]:
    """Return each page with generated parts, as it should be."""
    found = {NOTEBOOKS / "reference" / "api" / f"{name}.md": api_page(name) for name in API}
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if PART.search(text):
            found[page] = PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n{part[3]}", text)
    return found


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([one.replace("|", "\\|") for one in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def ticked(names: Iterable[str], between: str = ", ") -> str:
    return between.join(f"`{one}`" for one in names)


def open_of(kind: Any) -> list[str]:
    return [f"{prefix}*" for prefix in kind.open_prefixes]


# -- api.md and api/: the names that Sphinx describes --

# Page -> its title, its first sentence, and its parts: heading -> names below `ragscore`.
API: dict[str, tuple[str, str, dict[str, list[str]]]] = {
    "functions": (
        "Functions",
        "The verbs of `rs`: load, evaluate, compare, score, check, collect, judge and label.",
        {
            "Load": ["load_golden", "load_results"],
            "Score": ["evaluate", "compare", "score"],
            "Look before": ["validate", "supported_metrics", "metrics"],
            "Add a metric": ["metric", "scoring.metrics.Metric"],
            "Make new data": ["collect", "judge", "label_sheet", "add_labels"],
        },
    ),
    "evaluation": (
        "Evaluation",
        "What `rs.evaluate` returns: runs scored against a golden set, and all that can be asked.",
        {"": ["Evaluation"]},
    ),
    "data": (
        "Golden sets and results",
        "What goes in, and the error of unusable input.",
        {"": ["Golden", "Results", "Reading", "DataError"]},
    ),
    "comparison": (
        "Comparisons",
        "What `ev.compare` returns.",
        {
            "": [
                "Comparison",
                "analysis.comparison.gate.Gate",
                "analysis.slices.SliceComparison",
            ]
        },
    ),
    "analyses": (
        "Analyses",
        "What the other methods of an evaluation return. These objects are never made by hand.",
        {
            "": [
                "Leaderboard",
                "golden.coverage.Coverage",
                "analysis.refusals.Refusals",
                "analysis.extras.score_threshold.RiskCoverage",
                "analysis.extras.agents.CallReport",
                "analysis.extras.agents.Conversations",
                "analysis.failure_causes.Failures",
                "analysis.extras.answers.Nuggets",
                "analysis.extras.paraphrase_groups.Paraphrases",
                "analysis.repeats.Repeats",
                "analysis.extras.retriever_report.RetrieverReport",
                "analysis.query_view.QueryView",
                "golden.health.GoldenHealth",
                "analysis.trend.Trend",
            ]
        },
    ),
    "store": (
        "Stores",
        "Runs as Parquet files in a folder.",
        {"": ["RunStore"]},
    ),
    "pages": (
        "Reports and explorers",
        "What `ev.report`, `ev.explore` and `cmp.explore` return.",
        {"": ["Report", "reporting.explorer.explorer.Explorer"]},
    ),
    "plot": ("rs.plot", "A frame in, matplotlib Axes out.", {"": ["plot"]}),
    "match": ("rs.match", "Matching, step by step.", {"": ["match"]}),
    "io": ("rs.io", "Formats of your own, and frames for other tools.", {"": ["io"]}),
    "judging": (
        "rs.judging",
        "Language models as judges of answers, and how far to trust them.",
        {"": ["judging"]},
    ),
    "labelling": (
        "Labelling panel",
        "A view of a label sheet in a notebook.",
        {"": ["golden.panel.LabelPanel"]},
    ),
    "extras": (
        "rs.extras",
        "What only some ask: functions of an evaluation, and what only some systems need.",
        {
            "": [
                "extras",
                "analysis.extras.answers.Behaviour",
                "analysis.extras.document_versions.Freshness",
                "analysis.extras.corpora.Lint",
                "analysis.extras.corpora.NeedleSet",
                "analysis.extras.gains.Gain",
                "analysis.extras.gains.candidate_documents",
                "analysis.extras.gains.novelty_per_chunk",
                "analysis.extras.gains.novelty_all_pairs",
                "analysis.extras.gains.lexical_novelty",
            ]
        },
    ),
    "stats": ("rs.stats", "Statistics on arrays.", {"": ["stats"]}),
}
NAMESPACES = ("io", "match", "stats", "plot", "judging", "extras")


CONSTANTS = {
    "match.Rule": "A matching rule: a function of hits and targets. It returns the row positions of"
    " those that match: two arrays, of hits and of targets.",
    "plot.theme": "The look of pictures as parameters of matplotlib, for pictures of your own.",
}


def found(name: str) -> Any:
    """Return what a name below `ragscore` stands for."""
    value: Any = ragscore
    for part in name.split("."):
        if not hasattr(value, part):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value


def members(cls: type) -> list[str]:
    """Return the methods and properties that a class has from this package."""
    kinds = (classmethod, staticmethod, property, cached_property, Verb)
    ours = [owner for owner in cls.__mro__ if owner.__module__.startswith("ragscore")]
    return sorted(
        {
            name
            for owner in ours
            for name, value in vars(owner).items()
            if name[0] != "_" and (inspect.isfunction(value) or isinstance(value, kinds))
        }
    )


def api_page(name: str) -> str:
    """Return a page whose names Sphinx describes by their docstrings."""
    title, sentence, parts = API[name]
    lines = [f"# {title}", "", sentence]
    for heading, names in parts.items():
        if heading:
            lines += ["", f"## {heading}"]
        described = [directive(each) for one in names for each in expanded(one)]
        lines += ["", "```{eval-rst}", "\n\n".join(described), "```"]
    return "\n".join([*lines, ""])


def expanded(name: str) -> list[str]:
    """Return a name, or those of a namespace."""
    return [f"{name}.{one}" for one in found(name).__all__] if name in NAMESPACES else [name]


def directive(name: str) -> str:
    """Return the directive by which Sphinx describes a name."""
    value = found(name)
    if inspect.isclass(value):
        lines = [f".. autoclass:: ragscore.{name}"]
        if listed := members(value):
            lines.append(f"   :members: {', '.join(listed)}")
        if isinstance(inspect.getattr_static(value, "plot", None), Accessor):
            lines += ["", *pictures_of(value)]
        return "\n".join(lines)
    if inspect.isfunction(value):
        return f".. autofunction:: ragscore.{name}"
    namespace, _, short = name.rpartition(".")
    lines = [f".. py:data:: {short}", f"   :module: ragscore.{namespace}"]
    if not callable(value):
        lines.append(f"   :value: {value!r}")
    return "\n".join([*lines, "", f"   {CONSTANTS[name]}"])


# Methods that most results inherit; api.md names them once.
SHARED = ("to_markdown", "to_json", "from_json")


def api_tables() -> str:
    """Return tables of names, one for each page: Sphinx adds what each does, and the links."""
    parts = []
    for page, (title, sentence, groups) in API.items():
        names = [each for group in groups.values() for one in group for each in expanded(one)]
        parts += [f"## {title}", f"{sentence} [In full](api/{page}.md)."]
        classes = [one for one in names if inspect.isclass(found(one)) and members(found(one))]
        constants = [one for one in names if one in CONSTANTS]
        if others := [one for one in names if one not in (*classes, *constants)]:
            parts.append(summary(others))
        if constants:
            told = ", ".join(f"`{one.rpartition('.')[2]}`" for one in constants)
            parts.append(f"Constants: {told}.")
        for one in classes:
            if len(names) > 1:
                parts.append(f"### {one.rpartition('.')[2]}")
            cls = found(one)
            listed = [name for name in members(cls) if name in vars(cls) or name not in SHARED]
            parts.append(summary([one, *(f"{one}.{name}" for name in listed)]))
    return "\n\n".join(parts)


def summary(names: list[str]) -> str:
    rows = [f"   ~ragscore.{name}" for name in names]
    lines = ["```{eval-rst}", ".. autosummary::", "   :nosignatures:", "", *rows, "```"]
    return "\n".join(lines)


def pictures_of(cls: Any) -> list[str]:
    """Return the directive that describes `plot`, whose methods are functions of `rs.plot`."""
    usual, *others = (
        f":func:`plot.{draw.__name__}() <ragscore.plot.{draw.__name__}>`"
        if draw.__name__ in plot.__all__
        else f"``plot.{draw.__name__}()``"
        for draw in cls.plot.pictures
    )
    text = ["   .. py:method:: plot(...)", "", f"      Draw the usual picture: {usual}."]
    return text + ["", f"      Others: {', '.join(others)}."] * bool(others)


# -- metrics.md --

# Heading -> the first and the last metric of its part of the table.
METRICS = {
    "ranking": ("hit@k", "11pt_avg"),
    "passed": ("found", "passed"),
    "answer": ("answer_checks", "rouge_l", "key_facts_literal", "empty_response"),
    "citations": ("citation_present", "citation_fabricated"),
    "judged": ("key_facts", "judge_failed"),
    "refusals": ("refusal_correct", "false_refusal"),
    "sources": ("attribution_hit", "scope_miss_proxy"),
    "operation": ("timeout", "n_documents"),
}


def metrics_of(part: str) -> list[Any]:
    """Return the metrics of a part of metrics.md, in the order of the table."""
    names = list(TABLE)
    bounds = [names.index(name) for name in METRICS[part]]
    return [
        TABLE[name]
        for first, last in zip(bounds[::2], bounds[1::2], strict=True)
        for name in names[first : last + 1]
    ]


def metric_table(part: str) -> str:
    return table(
        ["metric", "formula", "better", "NaN when", "elsewhere"],
        (
            [
                f"`{one.name}`" + ("" if one.default else " ○"),
                plain(one.formula),
                one.better if one.range == "0 to 1" else f"{one.better}; {one.range}",
                plain(one.nan_when),
                plain(one.also),
            ]
            for one in metrics_of(part)
        ),
    )


def plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([_*])", r"\\\1", in_cell(text))


# -- golden-file.md and run-file.md --


# name -> what it holds, what it means, and the column that it becomes where that isn't its name's.
Fields = dict[str, tuple[str, ...]]


def field_table(fields: Fields, becomes: Callable[[str], str] | None = None) -> str:
    return table(
        ["field", "type", "meaning", "becomes"],
        (
            [f"`{name}`", kind, meaning, *(column or [becomes(name) if becomes else ""])]
            for name, (kind, meaning, *column) in fields.items()
        ),
    )


_IDS = "list, or mapping"
GOLDEN_FIELDS = {
    "needed": {
        "id": ("text", "name of the query, unique", "`queries.query_id`"),
        "query": ("text", "what is asked", "`queries.query`"),
    },
    "retrieval": {
        "answerable": ("true or false", "false: should be refused", "`queries.answerable`"),
        "expected_doc_ids": (_IDS, "documents that answer it"),
        "expected_chunk_ids": (_IDS, "chunks that answer it"),
        "expected_source_keys": (_IDS, "sources that answer it, by their keys"),
        "expected_texts": (_IDS, "texts that a hit must contain, such as sentences"),
        "chunker_version": (
            "text",
            "the chunker whose ids `expected_chunk_ids` are",
            "`targets.chunker_version`",
        ),
        "gold_supports": ("list of anchors", "passages, see below", "`targets`, level anchor"),
        "required_support_groups": (
            "list of lists",
            "targets that are needed together, by id or by position of an anchor, from 0;"
            " any one group is enough",
            "`support_groups`",
        ),
        "expected_metadata": (
            "mapping",
            "metadata that a hit must have",
            "`conditions`, and a target of level predicate",
        ),
        "expected_substrings": (
            "list of texts",
            "texts that a hit must contain",
        ),
        "must_not_contain_source_keys": ("list of texts", "sources that no hit may have"),
        "expected_empty": ("true", "no hit may come back", "`checks`, kind expected_empty"),
    },
    "answer": {
        "must_contain": ("list of texts", "texts that the answer must contain"),
        "forbidden": ("list of texts", "texts that it must not contain"),
        "expected_key_facts": (
            "list of texts, or of `{text, importance, weight}`",
            "facts that it must state; importance is vital or okay, a weight may be below 0",
        ),
        "reference_answer": ("text", "a right answer"),
        "accepted_answers": ("list of texts", "other right answers"),
        "recency_conflict_rule": (
            "text",
            "which of several supports to cite: cite_newer, cite_both, acknowledge_both",
            "`checks`, kind recency_rule",
        ),
    },
    "slices": {
        "lang": ("text", "language"),
        "difficulty": ("text", "easy, medium, hard, or your own words"),
        "category": ("text", "what kind of query it is"),
        "group": ("text", "the intent that paraphrases share"),
        "variant": ("text", "which paraphrase of its group it is"),
        "conversation": ("text", "the conversation that it is a turn of"),
        "turn": ("text", "the number of the turn"),
        "tags": ("list of texts", "tags of your own"),
        "vaults": ("list of texts", "collections to search in"),
        "folders": ("list of texts", "folders to search in"),
    },
}
SUPPORT_FIELDS = {
    "path": ("text, required", "path of the file (also `rel_path`)"),
    "heading": ("text, or list of texts", "heading, or path of headings (also `heading_path`)"),
    "snippets": ("list of texts", "texts, one of which the hit must contain", "`targets.snippet`"),
    "start": ("whole number", "first unit of the span, from 0"),
    "end": ("whole number", "the unit after its last one"),
    "span_unit": ("text", "unit of the span: line where absent"),
    "doc_id": ("text", "document that holds it"),
    "date": ("ISO 8601", "date of the source: the newest one counts"),
    "grade": ("whole number", "how well it answers; 1 where absent"),
}


def golden_column(name: str) -> str:
    for level, (field, column) in ID_FIELDS.items():
        if field == name:
            return f"`targets.{column}`, level {level}"
    frame, kind = ("checks", CHECK_FIELDS) if name in CHECK_FIELDS else ("tags", TAG_FIELDS)
    return f"`{frame}`, kind {kind[name]}" if name in kind else f"`queries.{name}`"


RUN_FIELDS = {
    "record": {
        "query_id": ("text, required", "id of the golden query", "`responses.query_id`"),
        "query": ("text", "what was asked", "`responses.query`"),
        "conversation": ("text", "the conversation of the query", "`responses.conversation`"),
        "turn": ("text or number", "its turn there", "`responses.turn`"),
        "mode": ("text", "mode of the system, such as hybrid", "`responses.mode`"),
        "hits_top_k": ("list of objects", "the hits, best first", "`hits`"),
        "answer": ("object, text or null", "the answer; null: it only searched", "`responses`"),
        "elapsed_ms": ("number", "time of search and answer", "`responses.elapsed_ms`"),
        "error": ("text or null", "why the query failed", "`responses.error`"),
        "scope": (
            "object",
            'folders that the system chose: `{"folders": [...]}`; an empty list means all',
            "`responses.scope`, as JSON",
        ),
        "latency_<phase>": ("number", "time of a phase in ms", "`responses.latency_<phase>`"),
    },
    "answer": {
        "answer": ("text", "the text of the answer"),
        "grounded": ("true or false", "whether the system takes its answer for supported"),
        "refused": ('true, false or `"unknown"`', "whether it refused; see below"),
        "refusal_reason": ("text", "why it refused"),
        "cost_usd": ("number", "money spent"),
        "citations": ("list of objects", "what the answer cites", "`citations`"),
        "usage": (
            "object",
            "`prompt_tokens` and `completion_tokens`",
            "`responses.prompt_tokens`, `.completion_tokens`",
        ),
        "hops": ("list of objects", "searches and steps on the way", "`calls`"),
    },
    "hit": {
        "rank": ("whole number from 1", "rank; the order of the list where no hit has one"),
        "call": ("whole number from 1", "which search returned it; ranks count through all"),
        "chunk_id": ("text", "id of the chunk"),
        "doc_id": ("text", "id of the document"),
        "doc_path": ("text", "path of the document's file"),
        "heading_path": ("list of texts, or text", "headings above the passage", "`hits.heading`"),
        "snippet": ("text", "text of the hit"),
        "text_cut": ("true or false", "true: `snippet` is only the beginning"),
        "source_key": ("text", "key of the source; also from `metadata`"),
        "chunker_version": ("text", "chunker of this hit"),
        "stale": ("true or false", "the system says that the document is outdated"),
        "score_kind": ("text", "what the score is: bm25, cosine, rrf, ..."),
        "retrieval": (
            "object",
            "`fusion_score`, `lexical_score`, `vector_score`",
            "`hits.score`, `.score_lexical`, `.score_vector`",
        ),
        "score": ("number", "score, where `retrieval` has none", "`hits.score`"),
        "score_lexical": ("number", "likewise", "`hits.score_lexical`"),
        "score_vector": ("number", "likewise", "`hits.score_vector`"),
        "metadata": ("object", "metadata of the hit", "`hit_meta`, one row a key"),
        "citation": (
            "object",
            "where the text is; see below",
            "`hits.path`, `.start`, `.end`, `.span_unit`",
        ),
        "start": ("whole number", "first unit of the span, beside `span_unit`", "`hits.start`"),
        "end": ("whole number", "the unit after its last one", "`hits.end`"),
        "span_unit": ("text", "unit of the span: line, page, ms, char, ...", "`hits.span_unit`"),
    },
    "citation": {
        "marker": ("text", "how the answer marks it, such as [1]", "`citations.marker`"),
        "chunk_id": ("text", "id of the cited chunk", "`citations.chunk_id`"),
        "doc_id": ("text", "id of the cited document", "`citations.doc_id`"),
        "path": ("text", "path of the cited file", "`citations.path`"),
        "span_unit": (
            "text",
            "with `start` and `end`, or by `citation`, as of a hit",
            "`citations.span_unit`",
        ),
    },
    "call": {
        "iter": (
            "whole number from 0",
            "number of the call; the order where none has one",
            "`calls.call`, from 1",
        ),
        "query": ("text", "what was asked"),
        "tool": ("text", "of which tool"),
        "kind": ("text", "kind of the call or step"),
        "start": ("ISO 8601", "when"),
        "elapsed_ms": ("number", "how long it took"),
        "n_hits": ("whole number", "hits that it returned; a step that searched nothing: none"),
        "error": ("text", "why it failed"),
        "sub_queries": ("list of texts", "what it searched for"),
        "context_chunks_added": ("whole number", "chunks that it added"),
        "forced_stop": ("true or false", "whether a limit ended it"),
        "llm_call_ms": ("number", "time in the model"),
    },
    "run": {
        "run_id": ("text", "name of the run; else that of its folder"),
        "system": ("text", "name of the system; repeats of one share it"),
        "repeat": ("whole number from 0", "which repeat of the system it is"),
        "suite": ("text", "name of the golden set"),
        "created_at": ("ISO 8601", "when it was made"),
        "commit": ("text", "commit of the system"),
        "config": ("object", "settings, of any shape (also `config_snapshot_json`)"),
        "config_hash": ("text", "hash of the settings"),
        "golden_hash": ("text", "hash of the golden set that was asked"),
        "chunker_version": ("text", "chunker; else that of `config`"),
        "k": ("whole number from 1", "hits asked for; else `eval_k` or `k` of `config`"),
        "n_queries": ("whole number", "counted again when it is loaded"),
        "n_failed": ("whole number", "counted again when it is loaded"),
        "note": ("text", "a description for reports"),
    },
    "judgment": {
        "query_id": ("text, required", "id of the query"),
        "criterion": ("text, required", "what was judged, such as faithfulness"),
        "item": ("text", "the judged part, such as a claim; empty: the whole answer"),
        "value": ("number or null", "the verdict as a number; null where judging failed"),
        "verdict": ("text", "the verdict in words"),
        "reason": ("text", "why"),
        "item_text": ("text", "text of the judged part"),
        "judge": ("text", "name of the judge"),
        "prompt_hash": ("text", "hash of its prompt"),
        "temperature": ("number", "temperature of its model"),
        "repeat": ("whole number", "which repeat of the judgment it is"),
        "tokens": ("whole number", "tokens of the call"),
        "cost_usd": ("number", "money spent on the call"),
        "input_hash": ("text", "hash of what was judged"),
        "state": ("text", "scored, not_measurable, judge_failed, skipped, not_asked"),
    },
}


def run_column(part: str) -> Callable[[str], str]:
    columns = {
        part: {name: column for name, (column, _) in fields.items()}
        for part, fields in (("hit", HIT), ("call", CALL))
    }
    frames = {
        "answer": "responses",
        "hit": "hits",
        "call": "calls",
        "run": "runs",
        "judgment": "judgments",
    }
    return lambda name: f"`{frames[part]}.{columns.get(part, {}).get(name, name)}`"


def citation_kinds() -> str:
    spans = [(kind, SPAN_FIELDS.get(kind, ("", "", 0))) for kind in CITATION_KINDS]
    return table(
        ["kind", "fields of the span, beside `path`", "`span_unit`", "the last one"],
        (
            [
                kind,
                ticked(dict.fromkeys([first, last])) if last else "any",
                SPAN_UNITS.get(kind, "no span"),
                f"`{last}` {'is part of the text' if step else 'is the first after it'}"
                if last
                else "",
            ]
            for kind, (first, last, step) in spans
        ),
    )


# -- formats.md --


def formats(side: str) -> str:
    """Return the formats of one side, from their declarations."""
    rows = []
    for one in (*FORMATS[side], TABLES[side]):
        what, told_by = one.about[:2]
        if one.options:
            what += f"; options {ticked(f'{option}=' for option in one.options)}"
        written = ", ".join(["yes", *(f"`{end}`" for end in one.suffixes)]) if one.write else ""
        rows.append([f"`{one.name}`", what, told_by, written])
    return table(["`format=`", "what it is", "recognized by", "written"], rows)


def tools() -> str:
    """Return what is read of each tool's file by its path, from its declaration."""
    return table(
        ["`format=`", "what it is", "columns"],
        (
            [
                f"`{one.name}`",
                one.about[0],
                ", ".join(
                    f"`{ours}` ← {ticked(paths.split(), ' or ')}"
                    for ours, paths in one.columns.items()
                ),
            ]
            for one in TOOLS
            if one.columns
        ),
    )


def roles(side: str) -> str:
    names = {"results": RESULT_ROLES, "golden": GOLDEN_ROLES}[side]
    return table(
        ["role", "names of columns, the surest first"],
        ([f"`{role}`", ticked(dict.fromkeys(known.split()))] for role, known in names.items()),
    )


# -- cli.md --


def commands() -> dict[str, ArgumentParser]:
    """Return the parser of each command."""
    listed = next(action for action in make_parser()._actions if action.dest == "command_name")
    return dict(listed.choices or {})


def command_table() -> str:
    return table(
        ["command", "what it does"],
        (
            [f"[`ragscore {name}`](#{name})", in_cell(" ".join((parser.description or "").split()))]
            for name, parser in commands().items()
        ),
    )


def command_sections() -> str:
    """Return a section per command, with its own options, and links to those it shares."""
    parts, shared = [], shared_groups()
    for name, parser in commands().items():
        usage = " ".join((parser.usage or "").split())
        example = (parser.epilog or "").split("\n", 1)[1].strip()
        parts += [f"### {name}", f"`{usage}`", f"For example `{example}`"]
        rows = []
        for group in parser._action_groups:
            title, options = str(group.title), group._group_actions
            if title in shared:
                names = ticked(one.option_strings[-1] for one in options)
                rows.append([names, f"see [{title}](#{title.replace(' ', '-')})"])
            else:
                rows += [option_row(one) for one in options if one.dest != "help"]
        parts.append(table(["argument or option", "meaning"], rows))
    return "\n\n".join(parts)


def shared_groups() -> dict[str, dict[str, list[str]]]:
    """Return the groups of options that several commands have: title -> option -> row."""
    groups = [one for parser in commands().values() for one in parser._action_groups[2:]]
    n_commands = Counter(str(one.title) for one in groups)
    found: dict[str, dict[str, list[str]]] = {t: {} for t, n in n_commands.items() if n > 1}
    for one in groups:
        if (title := str(one.title)) in found:
            found[title] |= {row[0]: row for row in map(option_row, one._group_actions)}
    return found


def shared_sections() -> str:
    return "\n\n".join(
        f"### {title[0].upper()}{title[1:]}\n\n{table(['option', 'meaning'], rows.values())}"
        for title, rows in shared_groups().items()
    )


def option_row(action: Action) -> list[str]:
    """Return an argument or option as it is written, and its help."""
    names = ", ".join(action.option_strings)
    value = action.metavar or (action.dest.upper() if names else action.dest)
    if action.nargs != 0:
        names += f" {value if isinstance(value, str) else ' '.join(value)}"
    return [f"`{names.strip()}`", in_cell((action.help or "").replace("%%", "%"))]


def in_cell(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# -- store-layout.md --

STORE_TABLES = {
    "responses": "query",
    "hits": "hit",
    "citations": "citation of an answer",
    "hit_meta": "hit and key of its metadata",
    "judgments": "judged item and criterion",
    "chunks": "chunk of the index",
    "reported": "value that another tool stored",
    "calls": "search or step on the way to an answer",
    "documents": "document of the corpus",
    "problems": "thing that loading could not take",
}


def store_tables() -> str:
    """Return the tables that a store keeps of a run, with their columns."""
    return table(
        ["table", "one row per", "key, beside `run_id`", "further columns"],
        (
            [
                f"`{name}`",
                STORE_TABLES[name],
                ticked(one for one in kind.key if one != "run_id"),
                ticked(
                    [one for one in kind.dtypes if one not in ("run_id", *kind.key)] + open_of(kind)
                ),
            ]
            for name, kind in ((name, KINDS[name]) for name in FRAMES)
        ),
    )


# -- data-model.md --


def frames() -> str:
    """Return one row per kind of frame: its key, and its other columns."""
    rows = []
    for name, kind in KINDS.items():
        always = [f"`{one}`" for one in kind.required if one not in kind.key]
        if sometimes := ticked([*kind.optional, *open_of(kind)]):
            always.append(f"({sometimes})")
        rows.append([f"`{name}`", ticked(kind.key) or "none", ", ".join(always)])
    return table(["frame", "key", "other columns"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "frames": frames,
    "store-tables": store_tables,
    "cli-commands": command_table,
    "cli-sections": command_sections,
    "cli-shared": shared_sections,
    "formats-results": partial(formats, "results"),
    "formats-golden": partial(formats, "golden"),
    "formats-tools": tools,
    "roles-results": partial(roles, "results"),
    "roles-golden": partial(roles, "golden"),
    "run-citation-kinds": citation_kinds,
    "api": api_tables,
    **{f"metrics-{part}": partial(metric_table, part) for part in METRICS},
    **{
        f"golden-{part}": partial(field_table, fields, golden_column)
        for part, fields in GOLDEN_FIELDS.items()
    },
    "golden-supports": partial(field_table, SUPPORT_FIELDS, lambda name: f"`targets.{name}`"),
    **{
        f"run-{part}": lambda part=part: field_table(RUN_FIELDS[part], run_column(part))
        for part in RUN_FIELDS
    },
}
