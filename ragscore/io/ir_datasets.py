"""Labels of the `ir_datasets` catalogue -> `Golden`, through that package (extra `ir`)."""

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import packages_of
from ragscore.io.qrels import Qrels
from ragscore.io.source import Problems


def read_ir_dataset(
    source: str, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Return the judged queries of a data set, their texts and judgements.

    Raises
    ------
    DataError
        The package isn't installed; it doesn't know the data set, or can't get it; no judgements.
    """
    problems, name = Problems(source, strict), source.partition(":")[2]
    with packages_of("ir", file=problems.file):
        import ir_datasets
    try:
        data = ir_datasets.load(name)
    except (KeyError, ValueError) as error:
        raise DataError(
            f"ir_datasets knows no {name!r}",
            file=problems.file,
            allowed="a name of ir-datasets.com",
        ) from error
    if not data.has_qrels():
        raise DataError(
            "the data set has no judgements", file=problems.file,
            allowed="a part of it that has, often named .../dev or .../test",
        )  # fmt: skip
    qrels = Qrels()
    for number, judged in enumerate(data.qrels_iter(), 1):
        qrels.add(judged.query_id, judged.doc_id, int(judged.relevance), number, problems)
    texts = {}
    if data.has_queries():
        for query in data.queries_iter():
            if query.query_id in qrels.grades:
                texts[query.query_id] = _text_of(query)
    qrels.queries = {
        query_id: {"query": texts[query_id]} if texts.get(query_id) else {}
        for query_id in qrels.grades
    }
    return qrels.golden(problems, absent_docs, catalogue)


def _text_of(query: object) -> str:
    """Return the text of a query: that which the data set calls its default, else its title."""
    default = getattr(query, "default_text", None)
    if callable(default):
        return str(default())
    names = ("text", "title", "query", "question")
    return next((str(getattr(query, name)) for name in names if getattr(query, name, None)), "")
