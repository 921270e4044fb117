"""What a person who labels has before them.

The queries with their states, and the pooled hits with what is said of each so far.

In: the rows of a golden file and pooled hits. Out: frames. It follows the file, and writes nothing.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, from_records
from ragscore.golden.labelling.golden_text import Values, same
from ragscore.golden.labelling.marks import CHATBOT, FIELD_OF, Wording, listed_ids
from ragscore.golden.labelling.pool import LABELS, labels_of, snippet_of, with_labels
from ragscore.io.golden_read import Tables, read_row
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.targets import targets_of
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.grading import decidable
from ragscore.scoring.matching import apply_rule


class Sheet:
    """Questions and hits as they stand after the last look at the file.

    Parameters
    ----------
    asked
        The queries of the runs: query_id -> text.
    near
        The last rank that counts as high.
    """

    def __init__(
        self,
        path: Path,
        wording: Wording,
        level: str,
        near: int,
        pool: pd.DataFrame,
        asked: dict[str, str],
    ) -> None:
        self.problems = Problems(path, strict=False)
        self.wording, self.level, self.near, self.asked = wording, level, near, asked
        self.rows: dict[str, Row] = {}
        self._targets: dict[str, list[dict[str, Any]]] = {}
        self._states: dict[str, str] = {}
        self.pool = with_labels(pool, self._targets_of([]), level)

    def update(self, rows: dict[str, Row]) -> None:
        """Follow the file: read the rows that changed."""
        changed = self.changed(rows)
        self.rows = dict(rows)
        for query_id in changed:
            self._targets.pop(query_id, None), self._states.pop(query_id, None)
            if query_id in rows:
                self._take(query_id, rows[query_id])
        self._label(changed)

    def changed(self, rows: dict[str, Row]) -> list[str]:
        """The queries whose rows are other ones than at the last look, come or gone ones too."""
        names = dict.fromkeys([*self.rows, *rows])
        return [
            name
            for name in names
            if name not in rows
            or name not in self.rows
            or not same(self.rows[name].values, rows[name].values)
        ]

    @property
    def names(self) -> list[str]:
        """Every query: those of the file in its order, then those that only the runs have."""
        return list(dict.fromkeys([*self.rows, *self.asked]))

    def state(self, query_id: str) -> str:
        """Labelled (something is its answer), should refuse, unlabelled, or not in the file."""
        return self._states.get(query_id, "not in the file")

    def query_of(self, query_id: str) -> str:
        """The text of a query."""
        values = self.rows[query_id].values if query_id in self.rows else {}
        return as_text(values.get(self.wording.query)) or str(self.asked.get(query_id, query_id))

    def n_positive(self, query_id: str) -> int:
        """How many targets, of whatever level, say what is right."""
        return len(
            {
                (target["level"], target["target_id"])
                for target in self._targets.get(query_id, [])
                if target["grade"] > 0
            }
        )

    @property
    def progress(self) -> tuple[int, int]:
        """How many queries of the file are labelled or said to have no answer, and how many there are."""
        return sum(self.state(name) != "unlabelled" for name in self.rows), len(self.rows)

    def questions(self) -> pd.DataFrame:
        """One row per query; `LabelSession.questions` says what its columns are."""
        names = self.names
        columns = {
            "query_id": names, "query": [self.query_of(name) for name in names],
            "state": [self.state(name) for name in names],
            "n_targets": [self.n_positive(name) for name in names],
        }  # fmt: skip
        frame = pd.DataFrame(columns).astype(
            {"query_id": "str", "query": "str", "state": "str", "n_targets": "int64"}
        )
        marks = self.pool[["query_id"]].assign(
            n_hits=1, n_right=self.pool["grade"].fillna(0) > 0, n_near_misses=self._near()
        )
        counts = (
            marks.groupby("query_id")[["n_hits", "n_right", "n_near_misses"]]
            .sum()
            .reindex(names, fill_value=0)
            .astype("int64")
            .reset_index(drop=True)
        )
        counts["n_near_misses"] = counts["n_near_misses"].where(frame["state"] == "labelled", 0)
        return pd.concat([frame, counts], axis=1)

    def near_misses(self) -> pd.DataFrame:
        """High-ranked hits without a label in labelled queries.

        Best rank first, then those on which more runs agree.
        """
        labelled = [name for name in self.rows if self.state(name) == "labelled"]
        found = self.pool[self._near() & is_among(self.pool["query_id"], labelled)]
        ordered = found.sort_values(
            ["best_rank", "n_runs", "query_id", "number"], ascending=[True, False, True, True]
        )
        return ordered.drop(columns=LABELS).reset_index(drop=True)

    def passages(self, query_id: str) -> pd.DataFrame:
        """The pooled hits of one query."""
        return self.pool[self._of(query_id)].reset_index(drop=True)

    def unmet(self, query_id: str) -> list[str]:
        """What is expected of a query and none of its hits is: "doc numpy.rint"."""
        found = labels_of(self.passages(query_id), self._targets_of([query_id]))
        seen = set(zip(found["level"], found["target_id"], strict=True))
        named = dict.fromkeys(
            (target["level"], target["target_id"])
            for target in self._targets.get(query_id, [])
            if target["grade"] > 0
        )
        return [f"{level} {name}" for level, name in named if (level, name) not in seen]

    def snippets(self, query_id: str) -> list[str]:
        """The snippets by which a query's anchors are found."""
        return [
            target["snippet"] for target in self._targets.get(query_id, []) if target.get("snippet")
        ]

    def near_first(self, query_id: str) -> list[int]:
        """Numbers of a query's hits, high-ranked ones without a label first."""
        here = self.pool[self._of(query_id)].assign(other=~self._near()[self._of(query_id)])
        return here.sort_values(["other", "number"])["number"].tolist()

    def hit(self, query_id: str, number: int) -> Values:
        """One pooled hit, unknown values as None.

        Raises
        ------
        DataError
            The query has no hit of that number.
        """
        here = self.passages(query_id)
        found = here[(here["number"] == number).to_numpy()]
        if not len(found):
            raise DataError(
                f"no hit {number!r}",
                field="number",
                allowed=f"1 to {len(here)}" if len(here) else "this question has no hits",
            )
        return {
            str(name): None if pd.isna(value) else value for name, value in found.iloc[0].items()
        }

    def snippet(self, query_id: str, hit: Values) -> str | None:
        """Wording of a hit that no other hit of the same file holds, where there are such.

        None for a hit without text.
        """
        if not hit.get("text"):
            return None
        here = self.passages(query_id)
        others = here[
            (
                (here["path"] == hit["path"])
                & (here["number"] != hit["number"])
                & here["text"].notna()
            ).to_numpy()
        ]
        return snippet_of(str(hit["text"]), others["text"])

    def met(self, values: Values, hit: Values) -> list[int]:
        """Places, among a row's targets of the session's level, of those that a hit meets."""
        if self.level != "anchor":
            own = hit.get(f"{self.level}_id")
            return [
                place
                for place, ids in enumerate(listed_ids(values.get(FIELD_OF[self.level])))
                if own in map(as_id, ids)
            ]
        supports = [
            Row({"gold_supports": [support]}, 0) for support in values.get("gold_supports") or []
        ]
        places = [
            target | {"target_id": str(place)}
            for place, row in enumerate(supports)
            for target in targets_of(row, hit["query_id"], self.problems)
        ]
        targets = from_records(
            [
                {name: value for name, value in target.items() if not name.startswith("x_")}
                for target in places
            ],
            "targets",
        )
        passage = {
            name: value
            for name, value in hit.items()
            if name in ("query_id", "path", "heading", "text", "text_cut")
        }
        one = pd.DataFrame([passage]).astype(
            {name: "str" for name in passage if name != "text_cut"}
        )
        pairs = decidable(apply_rule(by_anchor(), one, targets))
        return sorted({int(name) for name in targets["target_id"].iloc[pairs["target"]]})

    def share_hits(self, query_id: str, origin: str) -> None:
        """Give a new query the hits of another one."""
        copied = self.passages(origin).drop(columns=LABELS).assign(query_id=query_id)
        others = self.pool[~self._of(query_id)]  # an id that was taken back and is given again
        self.pool = pd.concat(
            [others, with_labels(copied, self._targets_of([query_id]), self.level)],
            ignore_index=True,
        )

    def _take(self, query_id: str, row: Row) -> None:
        values, tables = dict(row.values), Tables()
        if self.wording is CHATBOT:
            values |= {
                "query": values.get("question"),
                "answerable": values.get("answerable", True),
            }
        read_row(
            Row(values | {"query": as_text(values.get("query")) or "?"}, row.line, row.lines),
            query_id,
            tables,
            self.problems,
            "unlabelled",
        )
        self._targets[query_id] = tables.targets
        is_refusal = tables.queries[0]["answerable"] is False
        self._states[query_id] = (
            "should refuse"
            if is_refusal
            else "labelled"
            if self.n_positive(query_id)
            else "unlabelled"
        )

    def _label(self, names: list[str]) -> None:
        """Say again of the hits of some queries which targets they meet."""
        rows = np.flatnonzero(is_among(self.pool["query_id"], names))
        if len(rows):
            fresh = with_labels(
                self.pool.iloc[rows].drop(columns=LABELS).reset_index(drop=True),
                self._targets_of(names),
                self.level,
            )
            for column in LABELS:
                self.pool.loc[self.pool.index[rows], column] = fresh[column].set_axis(
                    self.pool.index[rows], axis=0
                )

    def _targets_of(self, names: Iterable[str]) -> pd.DataFrame:
        return from_records(
            [target for name in names for target in self._targets.get(name, [])], "targets"
        )

    def _of(self, query_id: str) -> npt.NDArray[np.bool_]:
        return is_among(self.pool["query_id"], [query_id])

    def _near(self) -> npt.NDArray[np.bool_]:
        return (self.pool["grade"].isna() & (self.pool["best_rank"] <= self.near)).to_numpy(
            dtype=bool
        )
