"""Our golden file: one row per query, in YAML or JSON lines."""

from pathlib import Path

import pandas as pd

from ragscore.frames.data import Golden
from ragscore.io.golden_read import golden_of
from ragscore.io.source import Problems, Row, json_rows


def read_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one golden file; `ragscore.load_golden` documents the arguments."""
    problems = Problems(path, strict)
    golden = golden_of(file_rows(path, problems), problems, absent_docs, catalogue)
    problems.typos.warn()
    return golden


def file_rows(path: Path, problems: Problems, text: str | None = None) -> list[Row]:
    """Return the rows of a golden file.

    Pass `text` if the file's content is at hand.
    """
    if path.name.removesuffix(".gz").endswith((".yaml", ".yml")):
        from ragscore.io.yaml_rows import yaml_rows

        return list(yaml_rows(path, problems, text))
    return list(json_rows(path, problems, None if text is None else text.split("\n")))
