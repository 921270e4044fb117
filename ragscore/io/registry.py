"""All formats, each declared once: its mark, its reader, its writer, its line in the manual.

`load_results`, `load_golden`, the command line and the manual's tables follow from these
declarations. `save` is `results.save` and `golden.save`. Users add formats with `register`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import excerpt, nearest, warn
from ragscore.frames.kinds import KINDS
from ragscore.io import golden_read, golden_write, labels, run_file, run_write, tables
from ragscore.io.cells import run_name_of
from ragscore.io.columns import ID_ROLES, OUR_LABELS, called
from ragscore.io.detect import Format, Mark, options_of
from ragscore.io.foreign import TOOLS
from ragscore.io.formats import chatbot, fields, kebab, qrels, retrievers, trec
from ragscore.io.frames_in import frame_of
from ragscore.io.importers import Tool, parts_of

_JSON = ("jsonl", "json")


RESULT_FORMATS = [
    Format(
        "per_query",
        lambda seen: max(
            Mark("query_id hits_top_k", kinds=_JSON)(seen),
            Mark(
                "query_id",
                kinds=_JSON,
                test=lambda one: not (
                    OUR_LABELS & one.keys or called(one.keys, "results", *ID_ROLES)
                ),
            )(seen),
        ),
        run_file.read_per_query,
        run_write.write_per_query,
        ("[run file](run-file.md)", "JSON lines with `query_id` and `hits_top_k`"),
        suffixes=(".jsonl",),
        keeps="runs responses hits hit_meta citations calls",
    ),
    Format(
        "chatbot",
        lambda seen: max(
            Mark("test_case_id retrieved_chunks", kinds=("jsonl",))(seen),
            Mark("metrics.json", kinds=("folder",), without="results.jsonl run.json")(seen),
        ),
        chatbot.read_chatbot,
        chatbot.write_chatbot,
        ("a chatbot's run folder: `results.jsonl`, `config.json`, `metrics.json`",
         "those files; `test_case_id` and `retrieved_chunks`"),
        keeps="runs.config runs.k runs.note runs.created_at runs.x_ responses.query"
              " responses.answer responses.error responses.scope responses.elapsed_ms"
              " responses.refused responses.latency_ responses.n_citations"
              " responses.x_ hits.chunk_id hits.path hits.heading hits.score hits.text"
              " hits.x_ citations.path citations.heading citations.x_ judgments"
              " reported",
    ),
    Format(
        "retrievers",
        Mark("query retriever", "hits error n_hits rank_first_match passed", _JSON,
             without="hits_top_k"),
        retrievers.read_retrievers,
        retrievers.write_retrievers,
        ("results of several retrievers, one record per retriever and query",
         "JSON lines with `query`, `retriever`, and `hits` or an outcome"),
        keeps="runs.k responses.query responses.error responses.elapsed_ms"
              " responses.x_ hits.chunk_id hits.source_key hits.text hits.x_ hit_meta"
              " reported",
    ),
    Format("sqlite", Mark(kinds=("sqlite",)), kebab.read_sqlite,
           about=("kebab's database", "a SQLite file")),
    Format("kebab_run", Mark("run_id per_query", kinds=_JSON), kebab.read_run,
           about=("one run of kebab as one JSON object", "JSON with `run_id` and `per_query`")),
    Format(
        "trec",
        trec.is_run,
        trec.read_run,
        trec.write_trec_run,
        ("TREC run, `qid Q0 docid rank score tag`; one run per tag",
         "six columns, the fourth a rank, the fifth a score"),
        options=("ties",),
        suffixes=(".trec", ".run"),
        keeps="hits.{level}_id hits.score",
    ),
    Format(
        "metric_report",
        lambda seen: fields.REPORT.search(seen.begin) is not None,
        fields.read_report,
        about=("metrics with their values per query, and the summary",
               "JSON with a list `metrics` of objects with `metric`"),
    ),
    *(parts_of(tool)["results"] for tool in TOOLS),
]  # fmt: skip
GOLDEN_FORMATS = [
    Format(
        "golden",
        lambda seen: max(
            Mark(kinds=("yaml",))(seen),
            Mark(
                "id query",
                kinds=_JSON,
                test=lambda one: bool(
                    OUR_LABELS & one.keys or not called(one.keys, "golden", *ID_ROLES)
                ),
            )(seen),
        ),
        golden_read.read_golden,
        golden_write.write_golden,
        ("[golden file](golden-file.md)", "YAML; JSON lines with `id` and `query`"),
        suffixes=(".yaml", ".yml", ".jsonl"),
        keeps="queries targets tags conditions support_groups checks",
    ),
    Format(
        "qrels_jsonl",
        Mark("relevant_docs", kinds=_JSON),
        qrels.read_qrels_jsonl,
        qrels.write_qrels_jsonl,
        ("graded judgements", "JSON lines with `relevant_docs` {document: grade}"),
        keeps="queries.query queries.reference_answer queries.x_ targets.{level}_id"
              " targets.grade",
    ),
    Format(
        "trec_qrels",
        qrels.is_qrels,
        qrels.read_qrels,
        qrels.write_trec_qrels,
        ("TREC qrels, `qid iter docid rel`", "four columns, the last a grade; BEIR's three"),
        options=("topics",),
        suffixes=(".qrels",),
        keeps="targets.{level}_id targets.grade",
    ),
    Format(
        "beir",
        Mark("queries.jsonl qrels", kinds=("folder",)),
        qrels.read_beir,
        qrels.write_beir,
        ("a BEIR folder", "`queries.jsonl` and the folder `qrels`"),
        options=("split",),
        keeps="queries.query queries.x_ targets.{level}_id targets.grade",
    ),
    Format(
        "predicates",
        Mark("query", kinds=_JSON, without="id query_id retriever",
             test=lambda one: bool(one.keys == {"query"} or one.keys & retrievers.PREDICATES)),
        retrievers.read_predicates,
        retrievers.write_predicates,
        ("queries judged by predicates, without ids", "JSON lines with `query` and a predicate"),
        keeps="queries targets tags conditions checks",
    ),
    Format(
        "chatbot",
        Mark("id question", "gold_supports expected_key_facts", ("jsonl",)),
        chatbot.read_chatbot_golden,
        chatbot.write_chatbot_golden,
        ("a chatbot's cases, `eval_set.jsonl`",
         "JSON lines with `id`, `question`, and anchors or key facts"),
        keeps="queries targets tags support_groups checks",
    ),
    *(parts_of(tool)["golden"] for tool in TOOLS if tool.about[2:]),
]  # fmt: skip
# Tables of any shape, for what fits none of these.
_ABOUT_TABLES = (
    "a table of any shape, in a file or a frame",
    "[names of columns](#names-of-columns)",
)
RESULT_TABLE = Format(
    "table",
    lambda seen: 0,
    tables.read_results_table,
    about=_ABOUT_TABLES,
    options=("columns", "run_id"),
)
GOLDEN_TABLE = Format(
    "table",
    lambda seen: 0,
    labels.read_golden_table,
    about=_ABOUT_TABLES,
    options=("columns",),
)
FORMATS = {"results": RESULT_FORMATS, "golden": GOLDEN_FORMATS}
TABLES = {"results": RESULT_TABLE, "golden": GOLDEN_TABLE}


# Formats of others

_registered: dict[str, dict[str, Format]] = {}  # name -> side -> format


def register(
    name: str,
    read: Callable[[Path], pd.DataFrame] | Mapping[str, str],
    mark: str = "",
    rows: str = "",
) -> None:
    """Add a format of your own, which load_results and load_golden then read.

    Registering a format of the same name again replaces it.

    Parameters
    ----------
    name
        What `format=` calls it.
    read
        A function that takes a path and returns a frame, which is read as any table is. Or, for
        JSON and CSV, our column -> its path in a row of the file, such as `{"query_id": "ask",
        "doc_id": "found.page", "score.tone": "marks.tone", "reference_answer": "right"}`.
    mark
        Names, apart by blanks, that the first record (with `rows`: the file's object) must all
        have: the files that are read without `format=`. Of several formats, that with most names is
        taken.
    rows
        The path of the list of rows in a file with one JSON object.

    Raises
    ------
    DataError
        One of ragscore's own formats has this name.
    """
    if any(name == one.name for side in FORMATS for one in (*FORMATS[side], TABLES[side])):
        raise DataError(f"ragscore has a format {name!r}", field="name", allowed="another name")
    if not callable(read):
        check_type(read, (Mapping,), "read", "a function, or our column -> its path")
    fits = Mark(mark) if mark else lambda seen: 0
    if isinstance(read, Mapping):
        parts = parts_of(Tool(name, fits, ("", mark, ""), {**read}, rows))
    else:
        parts = {
            side: Format(name, fits, partial(_read_frame, side, name, read),
                         options=TABLES[side].options)
            for side in FORMATS
        }  # fmt: skip
    _registered[name] = parts


def _read_frame(
    side: str, name: str, read: Callable[[Path], Any], path: Path, *args: Any, **options: Any
) -> Any:
    """Return what the frame holds that a registered function makes of a file."""
    if side == "results":
        options = {"run_id": run_name_of(path)} | options
    table = frame_of(read(path), f"a frame that the reader of format {name} returns")
    return TABLES[side].read(table, *args, **options)


def formats_of(side: str) -> list[Format]:
    """Return the formats of results or golden sets, registered ones too."""
    return [*FORMATS[side], *(one[side] for one in _registered.values())]


# Writing

BESIDE = [Format("judgments", lambda seen: 0, run_file.read_judgments, run_write.write_judgments)]
"""Files that no reader of results begins with."""


def save(
    data: Results | Golden, path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Path:
    """Write results or a golden set to a file or folder, as `load_*` reads it again.

    Parameters
    ----------
    path
        Its ending names the format. Of results: .jsonl our run file (one run), .trec or .run a TREC
        run; of a golden set: .yaml or .jsonl our golden file, .qrels TREC judgements. Each may end
        in .gz.
    format
        Needed only if the ending doesn't name it. Of results: per_query, trec, chatbot or
        retrievers; judgments (the judgments of one run). Of a golden set: golden, trec_qrels,
        qrels_jsonl, beir, chatbot or predicates.
    options
        What the format takes, such as `level="chunk"` for trec.

    Returns
    -------
    The path that was written.

    Raises
    ------
    DataError
        An unknown format or option; content that the format can't hold.

    Warns
    -----
    UserWarning
        Counts what the format has no place for.
    """
    is_run = isinstance(data, Results)
    check_type(path, (str, os.PathLike), "path", "a path")
    every = [*formats_of("results"), *BESIDE] if is_run else formats_of("golden")
    formats = {one.name: one for one in every if one.write is not None}
    ending = Path(os.fspath(path).removesuffix(".gz")).suffix.lower()
    of_ending = {end: one.name for one in every for end in one.suffixes}
    name = of_ending.get(ending) if format is None else format
    if not isinstance(name, str) or name not in formats:
        text = f"{path} doesn't name a format" if format is None else f"format {excerpt(name)}"
        raise DataError(
            text,
            field="format",
            allowed=f"format=, {nearest(name, formats)}; or a path that ends in"
            f" {', '.join(of_ending)}",
        )
    write: Any = formats[name].write
    known = dict([*signature(write).parameters.items()][2:])  # after the data and the path
    options_of(name, options, known)
    written: Path = write(data, os.fspath(path), **options)
    level = options.get("level", known["level"].default if "level" in known else "")
    keeps = formats[name].keeps.format(level=level).split()
    if keeps and (lost := _left_out(data, keeps)):
        warn(f"{written} has no place for {lost}")
    return written


_MADE_AGAIN = ("n_queries", "n_failed", "position", "target_id")
_IMPLIED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "system": lambda runs: runs["run_id"].astype("str"), "repeat": lambda runs: 1,
    "answerable": lambda queries: True,
}  # fmt: skip
_ROWS_OF = {"responses": "hits", "queries": "targets"}
"""Frame -> the one whose rows name its rows, where a format has no records of queries."""


def _left_out(data: Results | Golden, keeps: list[str]) -> str:
    """Return how many rows of each frame say what isn't kept: "responses: 3 (answer, error)"."""
    lost = []
    for kind in (one.name for one in fields_of(data)):
        frame = getattr(data, kind)
        if frame is None or kind.strip("_") in ("problems", "mapping", *keeps):
            continue
        kept = tuple(one.partition(".")[2] for one in keeps if one.startswith(f"{kind}."))
        made = KINDS[kind].made | _IMPLIED
        keys = ({*KINDS[kind].key} - {*made}).union(_MADE_AGAIN)
        said = frame[[one for one in frame if one not in keys and not one.startswith(kept)]].notna()
        for name in [one for one in said if one in made]:
            said[name] &= frame[name].ne(made[name](frame)).fillna(True)
        is_lost, columns = said.any(axis=1), [*said.columns[said.any()]]
        if not kept and kind not in ("runs", *_ROWS_OF):  # it has no place for any row
            is_lost, columns = pd.Series(True, frame.index), []
        if kind in _ROWS_OF and not kept:
            key = [name for name in ("run_id", "query_id") if name in frame]
            both = (one[key].astype("str") for one in (frame, getattr(data, _ROWS_OF[kind])))
            rows, named = map(pd.MultiIndex.from_frame, both)
            is_lost |= ~rows.isin(named)
        if is_lost.any():
            names = f" ({', '.join(columns)})" if columns else ""
            lost.append(f"{kind}: {int(is_lost.sum()):,}{names}")
    return "; ".join(lost)
