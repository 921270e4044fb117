"""Labels of the `ir_datasets` catalogue -> `Golden`, through that package (extra `ir`)."""

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import packages_of
from ragscore.io.frames_in import frame_table
from ragscore.io.labels import labels_of
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
    rows = [(one.query_id, one.doc_id, int(one.relevance)) for one in data.qrels_iter()]
    judged = pd.DataFrame(rows, columns=["query_id", "doc_id", "grade"])
    texts = {}
    if data.has_queries():
        texts = {one.query_id: _text_of(one) or None for one in data.queries_iter()}
    table = frame_table(judged.assign(query=judged["query_id"].map(texts).astype("str")), name)
    return labels_of(table, {one: one for one in table.fields}, problems, absent_docs, catalogue)


def _text_of(query: object) -> str:
    """Return the text of a query: that which the data set calls its default, else its title."""
    default = getattr(query, "default_text", None)
    if callable(default):
        return str(default())
    names = ("text", "title", "query", "question")
    return next((str(getattr(query, name)) for name in names if getattr(query, name, None)), "")
