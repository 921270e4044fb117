"""Labels of the `ir_datasets` catalogue -> `Golden`, through that package (extra `ir`)."""

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import packages_of
from ragscore.io.formats.qrels import consistent, judged_once
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
    lines = (
        (number, one.query_id, one.doc_id, int(one.relevance))
        for number, one in enumerate(data.qrels_iter(), 1)
    )
    judged = judged_once(consistent(lines, problems), problems)
    queries = data.queries_iter() if data.has_queries() else ()
    texts = {one.query_id: {"query": text} for one in queries if (text := _text_of(one))}
    return judged.golden(problems, absent_docs, catalogue, texts)


def _text_of(query: object) -> str:
    """Return the text of a query: that which the data set calls its default, else its title."""
    default = getattr(query, "default_text", None)
    if callable(default):
        return str(default())
    names = ("text", "title", "query", "question")
    return next((str(getattr(query, name)) for name in names if getattr(query, name, None)), "")
