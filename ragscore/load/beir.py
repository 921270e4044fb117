"""A BEIR folder (`queries.jsonl`, `qrels/<split>.tsv`, perhaps `corpus.jsonl`) -> `Golden`."""

from pathlib import Path

import pandas as pd

from ragscore.frames import DataError, Golden
from ragscore.load.golden_rows import Judged
from ragscore.load.source import Problems, json_rows
from ragscore.load.topics import read_queries
from ragscore.load.trec import read_judgements


def read_beir(path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None, split: str | None = None) -> Golden:
    """The judged questions of one split, in the order of its judgements.

    A judged question without a text keeps its id as text, and judged documents that the corpus doesn't hold stay
    targets; both are counted in `problems`.
    """
    queries = path / "queries.jsonl"
    if not queries.is_file():
        raise DataError("no queries.jsonl in the folder", file=path)
    judgements = _split_file(path, split)
    of_queries, problems, judged = Problems(queries, strict), Problems(judgements, strict), Judged()
    texts = read_queries(queries, of_queries)
    read_judgements(judgements, judged, problems)
    judged.queries = {query_id: {"query": texts[query_id]} if texts.get(query_id) else {} for query_id in judged.grades}
    problems.records[:0] = of_queries.records
    if without := sum(not more for more in judged.queries.values()):
        problems.note(f"{without} of {len(judged.queries)} judged queries have no text in queries.jsonl; their id stands for it", field="query")
    _look_at_corpus(path / "corpus.jsonl", judged, problems)
    return judged.golden(problems, absent_docs, catalogue)


def _split_file(path: Path, split: str | None) -> Path:
    files = {file.stem: file for file in sorted((path / "qrels").glob("*.tsv"))}
    choices = f"one of {', '.join(files)}" if files else "files qrels/<split>.tsv"
    if split is not None and split in files:
        return files[split]
    if split is None and len(files) == 1:
        return next(iter(files.values()))
    found = "there is no qrels/*.tsv" if not files else f"{len(files)} splits" if split is None else f"no split {split!r}"
    raise DataError(found, file=path, field="split", allowed=choices)


def _look_at_corpus(corpus: Path, judged: Judged, problems: Problems) -> None:
    """Count the relevant documents that no corpus line has: no system can find them."""
    if not corpus.is_file():
        return
    of_corpus = Problems(corpus, problems.strict)
    known = {str(row.values.get("_id")) for row in json_rows(corpus, of_corpus)}
    problems.records += of_corpus.records
    absent = {doc for grades in judged.grades.values() for doc, grade in grades.items() if grade > 0} - known
    if absent:
        problems.note(f"{len(absent)} relevant documents are not in corpus.jsonl: {', '.join(sorted(absent)[:5])}", field="corpus-id")
