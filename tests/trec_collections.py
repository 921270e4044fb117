"""Real TREC collections that may lie beside the checkout, and frames as pytrec_eval takes them."""

from pathlib import Path

import pytest

DATA = next(
    (
        folder / "shared" / "data"
        for folder in Path(__file__).resolve().parents
        if (folder / "shared" / "data").is_dir()
    ),
    Path("shared/data"),
)
ROBUST, RAGGY, VASWANI = (
    DATA / "trec-robust03-runs",
    DATA / "trec-rag24-raggy-dev",
    DATA / "vaswani-npl",
)


def needs(folder):
    return pytest.mark.skipif(
        not folder.is_dir(), reason=f"{folder.name} is not beside this checkout"
    )


def as_dicts(frame, column):
    return {
        query_id: dict(zip(rows["doc_id"], rows[column].tolist(), strict=True))
        for query_id, rows in frame.groupby("query_id")
    }
