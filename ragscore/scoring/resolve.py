"""Expected chunk ids get the document and span they had, so that the span rule finds them after re-chunking."""

from dataclasses import replace

import pandas as pd

from ragscore.frames.cast import cast
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.scoring.matching import lookup

_PLACE, _SPAN = ["doc_id", "path"], ["start", "end", "span_unit"]
_DTYPES = {
    "chunk_id": "str",
    "doc_id": "str",
    "path": "str",
    "start": "Int64",
    "end": "Int64",
    "span_unit": "str",
}


def resolve_spans(golden: Golden, known: Results | pd.DataFrame) -> Golden:
    """Give expected chunk ids the document and span they had, from any run or catalogue that still knows them.

    The span rule can then find them after re-chunking. An explicit step, so that adding a run never
    changes another run's score; the golden hash leaves resolved locators out. Ids that nobody knows
    keep no span.

    Parameters
    ----------
    golden
        Its chunk targets are resolved; locators they have already stay, and a span is taken whole
        or not at all.
    known
        Results (their chunk catalogue if they have one, and their hits), or a frame with chunk_id,
        doc_id, start, end and span_unit.

    Raises
    ------
    DataError
        One chunk id with two different spans: chunk ids of different chunkers collide. A target
        whose document isn't the one that its chunk stands in.
    """
    check_type(golden, Golden, "golden")
    check_type(known, (Results, pd.DataFrame), "known", "Results or a DataFrame with chunk_id")
    is_chunk = golden.targets["level"] == "chunk"
    if "chunk_id" not in golden.targets or not is_chunk.any():
        return golden
    spans = _spans_of(_catalogue(known), golden.targets.loc[is_chunk, "chunk_id"])
    resolved = golden.targets.reindex(
        columns=list(dict.fromkeys([*golden.targets.columns, *_DTYPES]))
    )
    found = resolved[["chunk_id"]].merge(spans, on="chunk_id", how="left").set_index(resolved.index)
    _refuse_other_places(resolved[is_chunk], found[is_chunk])
    unplaced = is_chunk & resolved["start"].isna()
    for name in [*_PLACE, *_SPAN]:
        takes = unplaced if name in _SPAN else is_chunk & resolved[name].isna()
        resolved[name] = resolved[name].where(~takes, found[name])
    return replace(golden, targets=resolved)


def _catalogue(known: Results | pd.DataFrame) -> pd.DataFrame:
    """Everything that is known of chunks, as text and whole numbers."""
    if isinstance(known, pd.DataFrame) and "chunk_id" not in known:
        raise DataError(
            "no column chunk_id",
            field="known",
            allowed="a frame with chunk_id, doc_id, start, end and span_unit",
        )
    frames = (
        [known]
        if isinstance(known, pd.DataFrame)
        else [frame for frame in (known.chunks, known.hits) if frame is not None]
    )
    parts = [frame.reindex(columns=list(_DTYPES)) for frame in frames if "chunk_id" in frame]
    typed = [
        pd.DataFrame(
            {
                name: cast(part[name].reset_index(drop=True), dtype, "known")
                for name, dtype in _DTYPES.items()
            }
        )
        for part in parts
    ]
    return (
        pd.concat(typed, ignore_index=True)
        if typed
        else pd.DataFrame({name: pd.Series([], dtype=dtype) for name, dtype in _DTYPES.items()})
    )


def _spans_of(catalogue: pd.DataFrame, chunk_ids: pd.Series) -> pd.DataFrame:
    """One row per chunk with a span.

    What one row leaves open another may tell, but none may contradict it.
    """
    rows = catalogue[
        lookup(catalogue["chunk_id"], pd.Index(chunk_ids.unique())) >= 0
    ].drop_duplicates()
    by_chunk = rows.groupby("chunk_id", sort=False)
    # Contradictions first: `first` takes each column's first value that is there, so a whole span
    # is one span only if all agree.
    n_values = by_chunk[[*_PLACE, *_SPAN]].nunique()
    twice = sorted(n_values.index[(n_values > 1).any(axis=1)])
    if twice:
        found = f"{len(twice)} chunk ids have more than one span: {', '.join(twice[:10])}"
        raise DataError(
            found, field="chunk_id", allowed="one span per chunk id; resolve from one chunker's run"
        )
    spans = by_chunk.first().reset_index()
    return spans[spans["start"].notna()]


def _refuse_other_places(targets: pd.DataFrame, found: pd.DataFrame) -> None:
    differs = [
        targets[name].notna() & found[name].notna() & (targets[name] != found[name])
        for name in _PLACE
    ]
    other = sorted(targets.loc[differs[0] | differs[1], "chunk_id"].unique())
    if other:
        text = (
            f"{len(other)} expected chunks stand in another document than the catalogue says:"
            f" {', '.join(other[:10])}"
        )
        raise DataError(
            text,
            field="chunk_id",
            allowed="chunk ids of the chunker that the golden set was written for",
        )
