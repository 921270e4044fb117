"""Labelling without any widget: the questions, their pooled hits, and clicks that are in the golden file before they return.

In: a golden file and runs. Out: that file, changed row by row. The panel and the terminal only show this and pass on clicks.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.anchors import by_anchor
from ragscore.frames import DataError, Results, check_type, from_records
from ragscore.grades import decided
from ragscore.label.golden_text import Changes, GoldenText, Values, same
from ragscore.label.marks import CHATBOT, FIELD_OF, LEVELS, OURS, Words, listed_ids, marked, not_refused, refused, unmarked, with_snippet
from ragscore.label.on_disk import GoldenFile
from ragscore.label.pool import pooled_hits, with_labels
from ragscore.label.snippets import snippet_of
from ragscore.load import load_results
from ragscore.load.golden_file import Tables, read_row
from ragscore.load.source import Problems, Row, as_id, as_text
from ragscore.load.targets import targets_of
from ragscore.match import apply_rule

NEAR = 3  # ranks that count as high in a review of near misses
COPIED = ("lang", "difficulty", "category", "tags", "vaults", "folders", "filters")  # what a new question takes from the one it is made from
FILTERS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "all": lambda questions: questions["query_id"].notna(),
    "unlabelled": lambda questions: questions["state"] == "unlabelled",
    "labelled": lambda questions: questions["state"] == "labelled",
    "should refuse": lambda questions: questions["state"] == "should refuse",
    "near misses": lambda questions: questions["n_near_misses"] > 0,
    "nothing right found": lambda questions: (questions["state"] == "labelled") & (questions["n_right"] == 0),
    "not in the file": lambda questions: questions["state"] == "not in the file",
}
Action = Callable[[Values], Changes]


class LabelConflict(DataError):
    """Someone else changed the row since it was shown; nothing was written.

    Attributes
    ----------
    query_id
        Whose row.
    changed
        One row per field that changed: `field`, `shown` (as it was seen here), `now` (as it is in the file).
    """

    def __init__(self, path: Path, query_id: str, changed: pd.DataFrame) -> None:
        self.query_id, self.changed = query_id, changed
        fields = ", ".join(changed["field"]) or "the whole row"
        super().__init__(f"{query_id} was changed by someone else ({fields})", file=path, allowed="look at it as it is now, then click again")


@dataclass(frozen=True)
class _Undo:
    """What a click did: rows as they stood before and after, or the text that it put at the end."""

    told: str
    query_id: str
    parts: tuple[tuple[str, str, str], ...] = ()
    added: str = ""


class LabelSession:
    """A sitting of labelling: which question is shown, its hits, and what was clicked. Every click is in the file when it returns.

    Parameters
    ----------
    golden_file
        Our golden file (YAML or JSON lines, also .gz), or a chatbot's `eval_set.jsonl`.
    results
        `Results`, or what `rs.load_results` takes.
    level
        What a click writes: "anchor" (path, heading and a snippet, which survive re-chunking), "chunk" or "doc" (ids).
    runs
        Which of the runs to pool; by default all, in their order.
    depth
        How many hits of each run.
    texts
        Passages (chunk_id, text) for hits that kept no text of their own.
    near
        A review of near misses looks at hits that some run has at this rank or above.

    Attributes
    ----------
    query_id
        The question that is shown.
    message
        What the last click did.

    Raises
    ------
    DataError
        A file that can't be read or whose ids are not unique; another level; hits that don't have what the level needs.
    """

    def __init__(
        self, golden_file: str | os.PathLike[str], results: Results | str | os.PathLike[str] | list[str], *, level: str = "anchor",
        runs: list[str] | None = None, depth: int = 20, texts: pd.DataFrame | None = None, near: int = NEAR,
    ) -> None:  # fmt: skip
        check_type(golden_file, (str, os.PathLike), "golden_file", "the name of a golden file")
        if level not in LEVELS:
            raise DataError(f"found {level!r}", field="level", allowed=f"one of {', '.join(LEVELS)}")
        loaded = results if isinstance(results, Results) else load_results(results)
        self.file, self.level, self.near = GoldenFile(golden_file), level, near
        self.words = _words(self.file.now)
        self.message, self._filter = "", "all"
        self._undo: list[_Undo] = []
        self._order: dict[str, list[int]] = {}
        pool = pooled_hits(loaded, runs, depth=depth, texts=texts, by_id=level == "chunk")
        column = {"anchor": "path"}.get(level, f"{level}_id")
        if len(pool) and (column not in pool or pool[column].isna().all()):
            raise DataError(f"no hit has a {column}", field=f"hits.{column}", allowed=f"another level: {', '.join(LEVELS)}")
        asked = loaded.responses.drop_duplicates("query_id")
        self._asked = dict(zip(asked["query_id"], asked["query"], strict=True))
        self._read: dict[str, tuple[Row, list[dict[str, Any]], str]] = {}
        self._like: dict[str, str] = {}
        self._pool = with_labels(pool, self._look(), level)
        self._seen = dict(self.file.now.rows)
        self.query_id = self._names()[0] if self._names() else ""

    # What is shown.

    @property
    def questions(self) -> pd.DataFrame:
        """One row per question of the file, then those that only the runs have.

        Columns: query_id, query, `state` (labelled, should refuse, unlabelled, not in the file), `n_targets` (labels that say "right",
        of every level), `n_hits` (pooled), `n_right` (hits with such a label), `n_near_misses` (high-ranked hits without any, in labelled questions).
        """
        names = self._names()
        frame = pd.DataFrame({
            "query_id": names, "query": [self.query_of(name) for name in names], "state": [self._state(name) for name in names],
            "n_targets": [self._n_positive(name) for name in names],
        }).astype({"query_id": "str", "query": "str", "state": "str", "n_targets": "int64"})  # fmt: skip
        marks = self._pool.assign(right=self._pool["grade"].fillna(0) > 0, near=self._pool["grade"].isna() & (self._pool["best_rank"] <= self.near))
        counts = marks.groupby("query_id").agg(n_hits=("number", "size"), n_right=("right", "sum"), n_near_misses=("near", "sum"))
        counts = counts.reindex(names, fill_value=0).astype("int64").reset_index(drop=True)
        counts["n_near_misses"] = counts["n_near_misses"].where(frame["state"] == "labelled", 0)
        return pd.concat([frame, counts], axis=1)

    @property
    def progress(self) -> tuple[int, int]:
        """How many questions of the file are labelled or said to have no answer, and how many there are."""
        states = [self._state(name) for name in self.file.now.rows]
        return sum(state != "unlabelled" for state in states), len(states)

    @property
    def hits(self) -> pd.DataFrame:
        """The pooled hits of the question shown, one row per passage, with `grade`, `own_grade` and `labels` as they are now.

        In a review of near misses the high-ranked hits without any label come first; clicks don't move rows.
        """
        here = self._pool[self._rows_of(self.query_id)]
        order = self._order.get(self.query_id)
        return here.set_index("number").loc[order].reset_index() if order else here.reset_index(drop=True)

    @property
    def state(self) -> str:
        """The state of the question shown: labelled, should refuse, unlabelled or not in the file."""
        return self._state(self.query_id)

    @property
    def filter(self) -> str:
        """Which questions `next` and `previous` stop at."""
        return self._filter

    @property
    def can_undo(self) -> bool:
        """Whether there is a click to take back."""
        return bool(self._undo)

    def query_of(self, query_id: str) -> str:
        """The text of a question."""
        values = self.file.now.values(query_id) or {}
        return as_text(values.get(self.words.query)) or str(self._asked.get(query_id, query_id))

    def near_misses(self) -> pd.DataFrame:
        """High-ranked hits of labelled questions that carry no label, the likeliest missing ones first: best rank, then how many runs agree."""
        labelled = [name for name in self.file.now.rows if self._state(name) == "labelled"]
        is_near = self._pool["grade"].isna() & (self._pool["best_rank"] <= self.near) & self._pool["query_id"].isin(labelled)
        found = self._pool[is_near.to_numpy()].sort_values(["best_rank", "n_runs", "query_id", "number"], ascending=[True, False, True, True])
        return found.drop(columns=["grade", "own_grade", "labels"]).reset_index(drop=True)

    # From question to question.

    def go(self, query_id: str) -> None:
        """Show a question, as the file has it now."""
        if query_id not in self._names():
            raise DataError(f"no question {query_id!r}", field="query_id", allowed="a query_id of the golden file or of these runs")
        self.query_id, self.message = query_id, ""
        self.refresh()
        self._order.clear()
        if self._filter == "near misses":
            here = self._pool[self._rows_of(query_id)]
            is_other = ~(here["grade"].isna() & (here["best_rank"] <= self.near))
            self._order[query_id] = here.assign(other=is_other).sort_values(["other", "number"])["number"].tolist()

    def show(self, filter: str) -> None:
        """Stop only at some questions from now on: all, unlabelled, labelled, should refuse, near misses, nothing right found, not in the file."""
        if filter not in FILTERS:
            raise DataError(f"found {filter!r}", field="filter", allowed=f"one of {', '.join(FILTERS)}")
        self._filter = filter
        there = self.stops()
        if there and self.query_id not in there:
            self.next()
        elif self.query_id:
            self.go(self.query_id)
        self.message = "" if there else f"no question is left under “{filter}”"

    def stops(self) -> list[str]:
        """The questions that the filter lets through, in the order of the file."""
        questions = self.questions
        return questions.loc[FILTERS[self._filter](questions).to_numpy(dtype=bool), "query_id"].tolist()

    def next(self) -> None:
        """Show the next question that the filter lets through, from the last one on to the first."""
        self._step(1)

    def previous(self) -> None:
        """Show the question before."""
        self._step(-1)

    def _step(self, way: int) -> None:
        names, there = self._names(), set(self.stops())
        if not names:
            return
        here = names.index(self.query_id)
        found = next((name for n in range(1, len(names) + 1) if (name := names[(here + way * n) % len(names)]) in there), None)
        if found is not None:
            self.go(found)
        else:
            self.message = f"no question is left under “{self._filter}”"

    # Clicks. Each one reads the file, changes the row of the question shown, and writes the file.

    def toggle(self, number: int, grade: int = 1) -> None:
        """Give a hit this grade, or take its label away if it has just that."""
        own = self._hit(number)["own_grade"]
        if own is not None and own == grade:
            self.unmark(number)
        else:
            self.mark(number, grade)

    def mark(self, number: int, grade: int = 1) -> None:
        """Give a hit a grade: 1 supports the answer (2 well, 3 exactly), 0 was judged and doesn't.

        Raises
        ------
        DataError
            The hit lacks what the level needs.
        LabelConflict
            Someone else changed the row.
        """
        if not (isinstance(grade, int) and 0 <= grade <= 3):
            raise DataError(f"found {grade!r}", field="grade", allowed="0, 1, 2 or 3")
        hit = self._hit(number)
        snippet = self._snippet(hit) if self.level == "anchor" else None
        told = f"hit {number} {'does not support the answer' if grade == 0 else f'has grade {grade}' if grade > 1 else 'supports the answer'}"
        self._save(told, lambda values: marked(values, hit, self.level, grade, self._met(values, hit), snippet, self.words))

    def unmark(self, number: int) -> None:
        """Take a hit's label away; the other hits that the same label covers lose it, too."""
        hit = self._hit(number)

        def action(values: Values) -> Changes:
            met = self._met(values, hit)
            if not met:
                return {}
            return unmarked(values, hit, self.level, met, self.words)

        self._save(f"hit {number} has no label of its own any more", action)

    def refuse(self, should_refuse: bool = True) -> None:
        """Say that the question has no answer and should be refused, or take that back.

        Raises
        ------
        DataError
            Something is labelled as its answer.
        """
        if should_refuse:
            n_positive = self._n_positive(self.query_id)
            self._save("should be refused", lambda values: refused(values, n_positive))
        else:
            self._save("unlabelled again", lambda values: not_refused(values, self.words))

    def add_snippet(self, number: int, snippet: str) -> None:
        """Add words by which a hit is found again, as they stand in its text; a hit without a label gets one.

        Raises
        ------
        DataError
            The level isn't anchor, or the hit's text doesn't hold these words.
        """
        hit, words = self._hit(number), snippet.strip()
        if self.level != "anchor":
            raise DataError(f"the level is {self.level}", field="snippet", allowed="anchors only have snippets")
        if not words or words.lower() not in (hit.get("text") or "").lower():
            raise DataError("these words are not in the hit's text" if words else "found nothing", field="snippet", allowed="words as they stand in the text")
        self._save(f"hit {number} is found by these words, too", lambda values: with_snippet(values, hit, self._met(values, hit), words, self.words))

    def add_question(self, query: str, query_id: str | None = None) -> str:
        """Write a new question behind the last one, made from the one shown: it takes over its language, difficulty, category and tags, no labels.

        Its hits are those of the question it is made from, so that it can be labelled at once. Returns its id.
        """
        origin, text = self.query_id, query.strip()
        if not text:
            raise DataError("found nothing", field="query", allowed="the text of a question")
        name = query_id or self._free_id(origin)
        known = self.file.now.values(origin) or {}
        values = self._new_row(name, text) | {field: value for field, value in known.items() if field in COPIED and value}
        self._add(values, f"added {name}")
        if name != origin and name not in self._asked:
            self._like[name] = self._like.get(origin, origin)
            copied = self._pool[self._rows_of(origin)].assign(query_id=name)
            self._pool = pd.concat(
                [self._pool, with_labels(copied.drop(columns=["grade", "own_grade", "labels"]), self._targets([name]), self.level)], ignore_index=True
            )
        self._refresh_labels([name])
        self.query_id = name
        return name

    def undo(self) -> None:
        """Take the last click back: its rows get the bytes that they had.

        Raises
        ------
        DataError
            There is nothing to take back, or someone else changed the row since.
        """
        if not self._undo:
            raise DataError("nothing was clicked", field="undo", allowed="undo takes back the clicks of this sitting")
        last = self._undo[-1]
        with self.file.alone():
            restored = _restored(self.file.read(), last)
            self.file.write(restored)
        self._undo.pop()
        self.refresh()
        if last.query_id in self._names():
            self.query_id = last.query_id
        elif self.query_id not in self._names():
            self.query_id = self._names()[0] if self._names() else ""
        self.message = f"took back: {last.told}"

    def refresh(self) -> None:
        """Look at the file again: what others wrote is shown from now on."""
        self.file.read()
        changed = self._changed()
        self._look()
        self._refresh_labels(changed)
        self._seen = dict(self.file.now.rows)

    # Inside.

    def _save(self, told: str, action: Action) -> None:
        """Do to the rows what a click says; at level doc, to those of all paraphrases of the question, which must expect the same documents."""
        is_new, origin = self.query_id in self._asked and self.query_id not in self._seen, self.file.now.text
        if is_new:
            self._add(self._new_row(self.query_id, self.query_of(self.query_id)), f"added {self.query_id}")
        with self.file.alone():
            now = self.file.read()
            if self.query_id in self._changed() or self.query_id not in now.rows:
                raise self._conflict(self.query_id)
            before, parts = now, []
            for name in self._together(now):
                changes = action(now.rows[name].values)
                changes = {field: value for field, value in changes.items() if not same(value, now.rows[name].values.get(field))}
                after = now.edited(name, changes) if changes else now
                parts.append((name, now.part(*now.segment(name)), after.part(*after.segment(name))))
                now = after
            if now is not before:
                self.file.write(now)
                self._undo.append(_Undo(f"{self.query_id}: {told}", self.query_id, tuple(part for part in parts if part[1] != part[2])))
        if is_new:  # one click, one undo
            del self._undo[-2 if now is not before else -1 :]
            self._undo.append(_Undo(f"{self.query_id}: added, {told}", self.query_id, added=_inserted(origin, now.text)))
        self.refresh()
        self.message = told if now is not before or is_new else "nothing to change"

    def _add(self, values: Values, told: str) -> None:
        with self.file.alone():
            now = self.file.read()
            after = now.added(values)
            self.file.write(after)
        self._undo.append(_Undo(told, self.query_id, added=_inserted(now.text, after.text)))
        self.refresh()
        self.message = told

    def _together(self, now: GoldenText) -> list[str]:
        group = now.rows[self.query_id].values.get("group") if self.level == "doc" else None
        return [self.query_id] if group is None else [name for name, row in now.rows.items() if same(row.values.get("group"), group)]

    def _conflict(self, query_id: str) -> LabelConflict:
        """What someone else changed; from now on their row is the one shown."""
        before, now = self._seen.get(query_id), self.file.now.rows.get(query_id)
        old, new = (row.values if row else {} for row in (before, now))
        fields = [name for name in dict.fromkeys([*old, *new]) if not same(old.get(name), new.get(name))]
        changed = pd.DataFrame({"field": fields, "shown": [old.get(name) for name in fields], "now": [new.get(name) for name in fields]}, dtype="object")
        conflict = LabelConflict(self.file.path, query_id, changed)
        self.refresh()
        return conflict

    def _changed(self) -> list[str]:
        """The rows that are not as they were when they were last shown."""
        now = self.file.now.rows
        names = dict.fromkeys([*self._seen, *now])
        return [name for name in names if name not in now or name not in self._seen or not same(self._seen[name].values, now[name].values)]

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self.file.now.rows, *self._asked]))

    def _look(self) -> pd.DataFrame:
        """Read what changed in the file; the targets of every question."""
        known, self._read = self._read, {}
        problems = Problems(self.file.path, strict=False)
        for query_id, row in self.file.now.rows.items():
            entry = known.get(query_id)
            self._read[query_id] = entry if entry is not None and same(entry[0].values, row.values) else self._entry(query_id, row, problems)
        if problems.records and not known:
            warnings.warn(f"{self.file.path} has {len(problems.records)} problems; rs.validate lists them", UserWarning, stacklevel=3)
        return self._targets(list(self._read))

    def _entry(self, query_id: str, row: Row, problems: Problems) -> tuple[Row, list[dict[str, Any]], str]:
        tables, values = Tables(), dict(row.values)
        if self.words is CHATBOT:
            values |= {"query": values.get("question"), "answerable": values.get("answerable", True)}
        read_row(Row(values | {"query": values.get("query") or "?"}, row.line, row.lines), query_id, tables, problems, "unlabelled")
        answerable = tables.queries[0]["answerable"] if tables.queries else None
        state = "should refuse" if answerable is False else "labelled" if any(target["grade"] > 0 for target in tables.targets) else "unlabelled"
        return row, tables.targets, state

    def _targets(self, names: list[str]) -> pd.DataFrame:
        return from_records([target for name in names if name in self._read for target in self._read[name][1]], "targets")

    def _state(self, query_id: str) -> str:
        return self._read[query_id][2] if query_id in self._read else "not in the file"

    def _n_positive(self, query_id: str) -> int:
        targets = self._read[query_id][1] if query_id in self._read else []
        return len({(target["level"], target["target_id"]) for target in targets if target["grade"] > 0})

    def _rows_of(self, query_id: str) -> Any:
        return (self._pool["query_id"] == query_id).to_numpy()

    def _refresh_labels(self, names: list[str]) -> None:
        for name in names:
            rows = np.flatnonzero(self._rows_of(name))
            if len(rows):
                bare = self._pool.iloc[rows].drop(columns=["grade", "own_grade", "labels"]).reset_index(drop=True)
                fresh = with_labels(bare, self._targets([name]), self.level)
                fresh.index = self._pool.index[rows]
                for column in ("grade", "own_grade", "labels"):
                    self._pool.loc[fresh.index, column] = fresh[column]

    def _hit(self, number: int) -> Values:
        here = self._pool[self._rows_of(self.query_id)]
        found = here[(here["number"] == number).to_numpy()]
        if not len(found):
            raise DataError(f"no hit {number!r}", field="number", allowed=f"1 to {len(here)}" if len(here) else "this question has no hits")
        return {str(name): None if pd.isna(value) else value for name, value in found.iloc[0].items()}

    def _snippet(self, hit: Values) -> str | None:
        """Words of the hit that no other hit of the same file holds, where there are such."""
        if not hit.get("text"):
            return None
        here = self._pool[self._rows_of(self.query_id)]
        others = here[((here["path"] == hit["path"]) & (here["number"] != hit["number"]) & here["text"].notna()).to_numpy()]
        return snippet_of(str(hit["text"]), others["text"])

    def _met(self, values: Values, hit: Values) -> list[int]:
        """Places, among the row's targets of this level, of those that a hit meets."""
        if self.level != "anchor":
            own = hit.get(f"{self.level}_id")
            return [place for place, ids in enumerate(listed_ids(values.get(FIELD_OF[self.level]))) if own in map(as_id, ids)]
        problems = Problems(self.file.path, strict=False)
        records = [
            target | {"target_id": str(place)}
            for place, support in enumerate(values.get("gold_supports") or [])
            for target in targets_of(Row({"gold_supports": [support]}, 0), self.query_id, problems)
        ]
        targets = from_records([{name: value for name, value in record.items() if not name.startswith("x_")} for record in records], "targets")
        passage = {name: value for name, value in hit.items() if name in ("path", "heading", "text", "text_cut")}
        one = pd.DataFrame([passage | {"query_id": self.query_id}]).astype({name: "str" for name in ("path", "heading", "text") if name in passage})
        pairs = decided(apply_rule(by_anchor(), one, targets))
        return sorted({int(targets["target_id"].iloc[row]) for row in pairs["target"]})

    def _new_row(self, query_id: str, query: str) -> Values:
        if self.words is CHATBOT:
            empty: Values = {name: [] for name in ("expected_key_facts", "gold_supports", "tags", "vaults", "folders")}
            return {"id": query_id, "question": query, "answerable": True, **empty}
        return {"id": query_id, "query": query}

    def _free_id(self, origin: str) -> str:
        taken, number = set(self._names()), 2
        while f"{origin}-{number}" in taken:
            number += 1
        return f"{origin}-{number}"


def _words(content: GoldenText) -> Words:
    """What the file calls things: a chatbot's cases have a `question`."""
    is_cases = not content.is_yaml and content.rows and all("question" in row.values and "query" not in row.values for row in content.rows.values())
    return CHATBOT if is_cases else OURS


def _inserted(old: str, new: str) -> str:
    """What was put into a text."""
    start = next((place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    return new[start : len(new) - (len(old) - start)]


def _restored(now: GoldenText, last: _Undo) -> GoldenText:
    """The text with the rows of one click as they were before it.

    Raises
    ------
    DataError
        A row isn't as the click left it.
    """
    if last.added:
        body = now.part(0, len(now.text))
        if body.count(last.added) != 1:
            raise DataError(f"{last.told}: the row was changed since", file=now.path, allowed="take it out by hand")
        start = body.index(last.added)
        return now.replaced(start, start + len(last.added), "")
    for query_id, before, after in reversed(last.parts):
        start, end = now.segment(query_id) if query_id in now.rows else (0, 0)
        if now.part(start, end) != after:
            raise DataError(f"{query_id} was changed by someone else since", file=now.path, allowed="change it by hand")
        now = now.replaced(start, end, before)
    return now
