"""Current view of a labelling session: queries with states, hits with labels.

In: the rows of a golden file and pooled hits. Out: frames. It follows the file and writes nothing.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, from_records
from ragscore.golden.labelling.golden_text import Values, same
from ragscore.golden.labelling.marks import CHATBOT, FIELD_OF, Wording, listed_ids
from ragscore.golden.labelling.pool import (
    LABELS,
    labels_of,
    snippet_of,
    with_labels,
)
from ragscore.io.golden_read import read_row
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.targets import targets_of
from ragscore.io.values import FieldReader
from ragscore.scoring.rules import by_anchor, matched_pairs


class Sheet:
    """Queries and hits as of the last reading of the file.

    Parameters
    ----------
    asked
        Text of each query of the runs, by query_id.
    near
        Last rank that counts as high.
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
        """Take over the rows that changed in the file."""
        changed = self.changed(rows)
        self.rows = dict(rows)
        for query_id in changed:
            self._targets.pop(query_id, None)
            self._states.pop(query_id, None)
            if query_id in rows:
                self._read(query_id, rows[query_id])
        self._label(changed)

    def changed(self, rows: dict[str, Row]) -> list[str]:
        """Return the queries whose rows differ from the last reading, were added or removed."""
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
        """Return a query's state: labelled, should refuse, unlabelled or not in the file."""
        return self._states.get(query_id, "not in the file")

    def query_of(self, query_id: str) -> str:
        """Return the text of a query."""
        values = self.rows[query_id].values if query_id in self.rows else {}
        return as_text(values.get(self.wording.query)) or str(self.asked.get(query_id, query_id))

    def n_positive(self, query_id: str) -> int:
        """Count the relevant targets of a query at all levels."""
        return len(self._relevant(query_id))

    @property
    def progress(self) -> tuple[int, int]:
        """Number of queries of the file that are labelled or to be refused, and of all."""
        return sum(self.state(name) != "unlabelled" for name in self.rows), len(self.rows)

    def questions(self) -> pd.DataFrame:
        """Return one row per query; see `LabelSession.questions` for the columns."""
        names = self.names
        columns = {
            "query_id": names, "query": [self.query_of(name) for name in names],
            "state": [self.state(name) for name in names],
            "n_targets": [self.n_positive(name) for name in names],
        }  # fmt: skip
        frame = pd.DataFrame(columns).astype(
            {"query_id": "str", "query": "str", "state": "str", "n_targets": "int64"}
        )
        flags = self.pool[["query_id"]].assign(
            n_hits=1, n_right=self.pool["grade"].fillna(0) > 0, n_near_misses=self._near(),
        )  # fmt: skip
        counts = flags.groupby("query_id").sum().reindex(names, fill_value=0)
        counts = counts.astype("int64").reset_index(drop=True)
        counts["n_near_misses"] = counts["n_near_misses"].where(frame["state"] == "labelled", 0)
        return pd.concat([frame, counts], axis=1)

    def near_misses(self) -> pd.DataFrame:
        """Return high-ranked hits without a label in labelled queries.

        Best rank first, then those on which more runs agree.
        """
        labelled = [name for name in self.rows if self.state(name) == "labelled"]
        found = self.pool[self._near() & self.pool["query_id"].isin(labelled)]
        return (
            found.sort_values(
                ["best_rank", "n_runs", "query_id", "number"], ascending=[True, False, True, True]
            )
            .drop(columns=LABELS)
            .reset_index(drop=True)
        )

    def passages(self, query_id: str) -> pd.DataFrame:
        """Return the pooled hits of one query."""
        return self.pool[self._of(query_id)].reset_index(drop=True)

    def unmet(self, query_id: str) -> list[str]:
        """Return the expected targets that no hit of the query meets, such as "doc numpy.rint"."""
        found = labels_of(self.passages(query_id), self._targets_of([query_id]))
        seen = set(zip(found["level"], found["target_id"], strict=True))
        return [" ".join(target) for target in self._relevant(query_id) if target not in seen]

    def _relevant(self, query_id: str) -> dict[tuple[str, str], None]:
        """Return level and id of the relevant targets of a query, each once, in order."""
        targets = self._targets.get(query_id, [])
        return dict.fromkeys(
            (target["level"], target["target_id"]) for target in targets if target["grade"] > 0
        )

    def snippets(self, query_id: str) -> list[str]:
        """Return the snippets of a query's anchors."""
        return [
            target["snippet"] for target in self._targets.get(query_id, []) if target.get("snippet")
        ]

    def near_first(self, query_id: str) -> list[int]:
        """Return the numbers of a query's hits, high-ranked ones without a label first."""
        here = self.pool[self._of(query_id)].assign(other=~self._near()[self._of(query_id)])
        return here.sort_values(["other", "number"])["number"].tolist()

    def hit(self, query_id: str, number: int) -> Values:
        """Return one pooled hit, unknown values as None.

        Raises
        ------
        DataError
            The query has no hit with that number.
        """
        here = self.passages(query_id)
        found = here[(here["number"] == number).to_numpy()]
        if not len(found):
            raise DataError(
                f"no hit {number!r}",
                field="number",
                allowed=f"1 to {len(here)}" if len(here) else "this query has no hits",
            )
        return {
            str(name): None if pd.isna(value) else value for name, value in found.iloc[0].items()
        }

    def snippet(self, query_id: str, hit: Values) -> str | None:
        """Return words of a hit that, if possible, no other hit of the same file contains.

        A hit without text has none.
        """
        if not hit.get("text"):
            return None
        here = self.passages(query_id)
        is_other = (here["path"] == hit["path"]) & (here["number"] != hit["number"])
        return snippet_of(str(hit["text"]), here.loc[is_other.to_numpy(), "text"].dropna())

    def met(self, values: Values, hit: Values) -> list[int]:
        """Return the positions of a row's targets, at the session's level, that a hit meets."""
        if self.level != "anchor":
            own = hit.get(f"{self.level}_id")
            return [
                place
                for place, ids in enumerate(listed_ids(values.get(FIELD_OF[self.level])))
                if own in map(as_id, ids)
            ]
        records = []
        for place, support in enumerate(values.get("gold_supports") or []):
            fields = FieldReader({"gold_supports": [support]}, "", 0, self.problems)
            for target in targets_of(fields, hit["query_id"]):
                known = {key: value for key, value in target.items() if not key.startswith("x_")}
                records.append(known | {"target_id": str(place)})
        targets = from_records(records, "targets")
        names = [name for name in ("query_id", "path", "heading", "text") if name in hit]
        passage = pd.DataFrame([hit])[[*names, *({"text_cut"} & hit.keys())]]
        passage = passage.astype(dict.fromkeys(names, "str"))
        _, met = matched_pairs(by_anchor(cut_text="miss"), passage, targets)
        return sorted({int(name) for name in targets["target_id"].iloc[met]})

    def share_hits(self, query_id: str, origin: str) -> None:
        """Give a new query the hits of another one."""
        copied = self.passages(origin).drop(columns=LABELS).assign(query_id=query_id)
        copied = with_labels(copied, self._targets_of([query_id]), self.level)
        others = self.pool[~self._of(query_id)]  # the id may have hits from before an undo
        self.pool = pd.concat([others, copied], ignore_index=True)

    def _read(self, query_id: str, row: Row) -> None:
        values = dict(row.values)
        if self.wording is CHATBOT:
            values |= {
                "query": values.get("question"),
                "answerable": values.get("answerable", True),
            }
        values["query"] = as_text(values.get("query")) or "?"
        row = Row(values, row.line, row.lines)
        parts = read_row(row, query_id, self.problems) or {}
        self._targets[query_id] = parts["targets"]
        if parts["queries"][0]["answerable"] is False:
            self._states[query_id] = "should refuse"
        else:
            self._states[query_id] = "labelled" if self.n_positive(query_id) else "unlabelled"

    def _label(self, names: list[str]) -> None:
        """Update the labels of the hits of some queries."""
        rows = np.flatnonzero(self.pool["query_id"].isin(names))
        if len(rows):
            unlabelled = self.pool.iloc[rows].drop(columns=LABELS).reset_index(drop=True)
            labelled = with_labels(unlabelled, self._targets_of(names), self.level)
            labelled.index = self.pool.index[rows]
            for column in LABELS:
                self.pool.loc[labelled.index, column] = labelled[column]

    def _targets_of(self, names: Iterable[str]) -> pd.DataFrame:
        return from_records(
            [target for name in names for target in self._targets.get(name, [])], "targets"
        )

    def _of(self, query_id: str) -> npt.NDArray[np.bool_]:
        return (self.pool["query_id"] == query_id).to_numpy(dtype=bool)

    def _near(self) -> npt.NDArray[np.bool_]:
        return (self.pool["grade"].isna() & (self.pool["best_rank"] <= self.near)).to_numpy(
            dtype=bool
        )
