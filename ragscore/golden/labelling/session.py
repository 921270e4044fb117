"""Labelling session without any user interface.

In: a golden file and runs. Out: that file, changed row by row: each click is written before its
method returns. The panel and the terminal only display the session and pass clicks on.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ragscore.frames.data import DataError, Results, check_type
from ragscore.frames.errors import check_choice, warn
from ragscore.golden.labelling.golden_text import (
    Changes,
    Click,
    GoldenFile,
    GoldenText,
    Values,
    inserted,
    same,
    without,
)
from ragscore.golden.labelling.marks import (
    CHATBOT,
    LEVELS,
    OURS,
    marked,
    not_refused,
    refused,
    unmarked,
    with_snippet,
)
from ragscore.golden.labelling.pool import pooled_hits
from ragscore.golden.labelling.sheet import Sheet
from ragscore.io.load import load_results
from ragscore.io.source import as_text

NEAR = 3  # ranks that count as high in a review of near misses
# Fields that a new query copies from the one it is made from.
COPIED_FIELDS = ("lang", "difficulty", "category", "tags", "vaults", "folders", "filters")
FILTERS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "all": lambda queries: queries["query_id"].notna(),
    "unlabelled": lambda queries: queries["state"] == "unlabelled",
    "labelled": lambda queries: queries["state"] == "labelled",
    "should refuse": lambda queries: queries["state"] == "should refuse",
    "near misses": lambda queries: queries["n_near_misses"] > 0,
    "nothing right found": lambda queries: (
        (queries["state"] == "labelled") & (queries["n_right"] == 0)
    ),
    "not in the file": lambda queries: queries["state"] == "not in the file",
}
Action = Callable[[Values], Changes]


class LabelConflict(DataError):
    """Someone else changed the row since it was shown; nothing was written.

    Attributes
    ----------
    query_id
        Id of the changed row.
    changed
        One row per changed field: `field`, `shown` (value in this session), `now` (value in the
        file).
    """

    def __init__(self, path: Path, query_id: str, changed: pd.DataFrame) -> None:
        self.query_id, self.changed = query_id, changed
        fields = ", ".join(changed["field"]) or "the whole row"
        super().__init__(
            f"{query_id} was changed by someone else ({fields})",
            file=path,
            allowed="look at it as it is now, then click again",
        )


class LabelSession:
    """Labelling session: the query shown, its hits, and clicks that are saved at once.

    Parameters
    ----------
    golden_file
        Our golden file (YAML or JSON lines, also .gz), or a chatbot's `eval_set.jsonl`.
    results
        `Results`, or what `rs.load_results` takes.
    level
        What a click writes: "anchor" (path, heading and a snippet, which survive re-chunking),
        "chunk" or "doc" (ids). By default "anchor".
    runs
        Runs to pool; by default all, in their order.
    depth
        Number of hits of each run.
    texts
        Passages (chunk_id, text) for hits that kept no text of their own.
    near
        Last rank that counts as high in a review of near misses.

    Attributes
    ----------
    query_id
        Id of the query shown.
    message
        Result of the last click.
    filter
        Filter of the queries that `next` and `previous` stop at; `show` sets it.

    Raises
    ------
    DataError
        The file can't be read, its ids are not unique, the level is unknown, or the hits lack
        what the level needs.
    """

    def __init__(
        self, golden_file: str | os.PathLike[str],
        results: Results | str | os.PathLike[str] | list[str], *, level: str = "anchor",
        runs: list[str] | None = None, depth: int = 20, texts: pd.DataFrame | None = None,
        near: int = NEAR,
    ) -> None:  # fmt: skip
        check_type(golden_file, (str, os.PathLike), "golden_file", "the name of a golden file")
        check_choice(level, LEVELS, "level")
        loaded = results if isinstance(results, Results) else load_results(results)
        self.file, self.level = GoldenFile(golden_file), level
        content = self.file.now
        # a chatbot's cases have a `question`
        is_cases = (
            not content.is_yaml
            and content.rows
            and all(
                "question" in row.values and "query" not in row.values
                for row in content.rows.values()
            )
        )
        self.wording = CHATBOT if is_cases else OURS
        self.message, self.filter = "", "all"
        self._clicks: list[Click] = []
        self._order: dict[str, list[int]] = {}
        pool = pooled_hits(loaded, runs, depth=depth, texts=texts, by_id=level == "chunk")
        column = "path" if level == "anchor" else f"{level}_id"
        if len(pool) and (column not in pool or pool[column].isna().all()):
            raise DataError(
                f"no hit has a {column}",
                field=f"hits.{column}",
                allowed=f"another level: {', '.join(LEVELS)}",
            )
        asked = loaded.responses.drop_duplicates("query_id")
        self._sheet = Sheet(
            self.file.path,
            self.wording,
            level,
            near,
            pool,
            dict(zip(asked["query_id"], asked["query"], strict=True)),
        )
        self._sheet.update(self.file.now.rows)
        if n_problems := len(self._sheet.problems.records):
            warn(f"{golden_file} has {n_problems} problems; rs.validate lists them")
        self.query_id = self._sheet.names[0] if self._sheet.names else ""

    @property
    def questions(self) -> pd.DataFrame:
        """One row per query of the file, then those that only the runs have.

        Columns: query_id, query, `state` (labelled, should refuse, unlabelled, not in the file),
        `n_targets` (relevant targets of every level), `n_hits` (pooled), `n_right` (hits with a
        relevant label), `n_near_misses` (high-ranked hits without any label, in labelled queries).
        """
        return self._sheet.questions()

    @property
    def progress(self) -> tuple[int, int]:
        """Number of queries of the file that are labelled or to be refused, and of all."""
        return self._sheet.progress

    @property
    def hits(self) -> pd.DataFrame:
        """Pooled hits of the query shown, one row per passage, with their current labels.

        The labels are `grade`, `own_grade` and `labels`. In a review of near misses high-ranked
        hits without any label come first; clicks don't move rows.
        """
        here = self._sheet.passages(self.query_id)
        order = self._order.get(self.query_id)
        return here.set_index("number").loc[order].reset_index()[here.columns] if order else here

    @property
    def state(self) -> str:
        """State of the query shown: labelled, should refuse, unlabelled or not in the file."""
        return self._sheet.state(self.query_id)

    @property
    def query(self) -> str:
        """Text of the query shown."""
        return self._sheet.query_of(self.query_id)

    @property
    def unmet(self) -> list[str]:
        """Targets of the query shown that none of its hits meets, such as "doc numpy.rint"."""
        return self._sheet.unmet(self.query_id)

    @property
    def snippets(self) -> list[str]:
        """Snippets of the anchors of the query shown."""
        return self._sheet.snippets(self.query_id)

    @property
    def note(self) -> str:
        """Reference answer of the query shown; empty if it has none."""
        values = self.file.now.values(self.query_id) or {}
        return as_text(values.get("reference_answer")) or ""

    @property
    def can_undo(self) -> bool:
        """True if there is a click to take back."""
        return bool(self._clicks)

    def near_misses(self) -> pd.DataFrame:
        """Return high-ranked hits of labelled queries that have no label.

        The likeliest missing labels come first: best rank, then the number of runs that agree.
        """
        return self._sheet.near_misses()

    def go(self, query_id: str) -> None:
        """Show a query as the file has it now."""
        if query_id not in self._sheet.names:
            raise DataError(
                f"no query {query_id!r}",
                field="query_id",
                allowed="a query_id of the golden file or of these runs",
            )
        self.query_id, self.message = query_id, ""
        self.refresh()
        self._order.clear()
        if self.filter == "near misses":
            self._order[query_id] = self._sheet.near_first(query_id)

    def show(self, filter: str) -> None:
        """Stop only at some queries from now on.

        Filters: all, unlabelled, labelled, should refuse, near misses, nothing right found, not in
        the file.
        """
        check_choice(filter, FILTERS, "filter")
        self.filter = filter
        stops = self.stops()
        if stops and self.query_id not in stops:
            self.next()
        elif self.query_id:
            self.go(self.query_id)
        self.message = "" if stops else f"no query is left under “{filter}”"

    def stops(self) -> list[str]:
        """Return the queries that pass the filter, in the order of the file."""
        queries = self.questions
        passes = FILTERS[self.filter](queries).to_numpy(dtype=bool)
        names = set(queries.loc[passes, "query_id"])
        return [name for name in self._sheet.names if name in names]

    def next(self) -> None:
        """Show the next query that passes the filter; after the last comes the first."""
        self._step(1)

    def previous(self) -> None:
        """Show the previous query that passes the filter."""
        self._step(-1)

    def _step(self, way: int) -> None:
        names, stops = self._sheet.names, set(self.stops())
        if not names:
            return
        here = names.index(self.query_id)
        found = next(
            (
                name
                for n in range(1, len(names) + 1)
                if (name := names[(here + way * n) % len(names)]) in stops
            ),
            None,
        )
        if found is not None:
            self.go(found)
        else:
            self.message = f"no query is left under “{self.filter}”"

    # Clicks. Each reads the file, changes the row of the query shown, and writes the file.

    def toggle(self, number: int, grade: int = 1) -> None:
        """Give a hit this grade, or remove its label if it has that grade already."""
        own = self._sheet.hit(self.query_id, number)["own_grade"]
        if own is not None and own == grade:
            self.unmark(number)
        else:
            self.mark(number, grade)

    def mark(self, number: int, grade: int = 1) -> None:
        """Give a hit a grade.

        0: judged, no help; 1: supports the answer; 2: supports it well; 3: answers it exactly.

        Raises
        ------
        DataError
            The hit lacks what the level needs.
        LabelConflict
            Someone else changed the row.
        """
        if not (isinstance(grade, int) and 0 <= grade <= 3):
            raise DataError(f"found {grade!r}", field="grade", allowed="0, 1, 2 or 3")
        hit = self._sheet.hit(self.query_id, number)
        snippet = self._sheet.snippet(self.query_id, hit) if self.level == "anchor" else None
        effect = "supports the answer" if grade == 1 else f"has grade {grade}"
        if grade == 0:
            effect = "does not support the answer"
        self._save(
            f"hit {number} {effect}",
            lambda values: marked(
                values, hit, self.level, grade, self._sheet.met(values, hit), snippet, self.wording
            ),
        )

    def unmark(self, number: int) -> None:
        """Remove a hit's label; other hits that the same label covers lose it, too."""
        hit = self._sheet.hit(self.query_id, number)

        def action(values: Values) -> Changes:
            met = self._sheet.met(values, hit)
            return unmarked(values, hit, self.level, met, self.wording) if met else {}

        self._save(f"hit {number} has no label of its own any more", action)

    def refuse(self, should_refuse: bool = True) -> None:
        """Mark the query as having no answer, to be refused, or take that back.

        Raises
        ------
        DataError
            The query has targets.
        """
        if should_refuse:
            n_positive = self._sheet.n_positive(self.query_id)
            self._save("should be refused", lambda _: refused(n_positive))
        else:
            self._save("unlabelled again", lambda values: not_refused(values, self.wording))

    def add_snippet(self, number: int, snippet: str) -> None:
        """Add words of a hit's text by which its label finds it again.

        A hit without a label gets one.

        Raises
        ------
        DataError
            The level isn't anchor, or the hit's text doesn't hold these words.
        """
        hit, words = self._sheet.hit(self.query_id, number), snippet.strip()
        if self.level != "anchor":
            raise DataError(
                f"the level is {self.level}", field="snippet", allowed="anchors only have snippets"
            )
        if not words or words.lower() not in (hit.get("text") or "").lower():
            raise DataError(
                "these words are not in the hit's text" if words else "found nothing",
                field="snippet",
                allowed="words as they stand in the text",
            )
        self._save(
            f"hit {number} is found by these words, too",
            lambda values: with_snippet(
                values, hit, self._sheet.met(values, hit), words, self.wording
            ),
        )

    def add_question(self, query: str, query_id: str | None = None) -> str:
        """Write a new query after the last one, made from the one shown, and return its id.

        It takes over language, difficulty, category and tags, but no labels. It has the hits of the
        query that it is made from, so that it can be labelled at once.
        """
        origin, text = self.query_id, query.strip()
        if not text:
            raise DataError("found nothing", field="query", allowed="the text of a query")
        name = query_id or self._free_id(origin)
        known = self.file.now.values(origin) or {}
        values = self._new_row(name, text) | {
            field: value for field, value in known.items() if field in COPIED_FIELDS and value
        }
        self._add(values, f"added {name}")
        if name not in self._sheet.asked:
            self._sheet.share_hits(name, origin)
        self.query_id = name
        return name

    def undo(self) -> None:
        """Take the last click back: its rows get their former bytes.

        Raises
        ------
        DataError
            There is nothing to take back, or someone else has changed the row since.
        """
        if not self._clicks:
            raise DataError(
                "nothing was clicked",
                field="undo",
                allowed="undo takes back the clicks of this sitting",
            )
        last = self._clicks[-1]
        with self.file.alone():
            self.file.write(without(self.file.read(), last))
        self._clicks.pop()
        self.refresh()
        if last.query_id in self._sheet.names:
            self.query_id = last.query_id
        elif self.query_id not in self._sheet.names:
            self.query_id = self._sheet.names[0] if self._sheet.names else ""
        self.message = f"took back: {last.message}"

    def refresh(self) -> None:
        """Read the file again, so that changes by others are shown."""
        self._sheet.update(self.file.read().rows)

    def _save(self, message: str, action: Action) -> None:
        """Apply a click to the row and write the file.

        A query that only the runs have is added to the file first; one undo takes both back.
        """
        origin, is_new = (
            self.file.now,
            self.state == "not in the file" and self.query_id in self._sheet.asked,
        )
        if is_new:
            self._add(self._new_row(self.query_id, self.query), message)
        with self.file.alone():
            before = self.file.read()
            if self.query_id not in before.rows or self.query_id in self._sheet.changed(
                before.rows
            ):
                # fields that someone else changed; their row is shown from now on
                old, new = (
                    rows[self.query_id].values if self.query_id in rows else {}
                    for rows in (self._sheet.rows, before.rows)
                )
                fields = [
                    name
                    for name in dict.fromkeys([*old, *new])
                    if not same(old.get(name), new.get(name))
                ]
                changed = pd.DataFrame(
                    [(name, old.get(name), new.get(name)) for name in fields],
                    columns=["field", "shown", "now"],
                    dtype="object",
                )
                self.refresh()
                raise LabelConflict(self.file.path, self.query_id, changed)
            after, rows = self._applied(before, action)
            if rows:
                self.file.write(after)
        if is_new:
            self._clicks[-1] = Click(
                f"{self.query_id}: added, {message}", self.query_id, added=inserted(origin, after)
            )
        elif rows:
            self._clicks.append(
                Click(f"{self.query_id}: {message}", self.query_id, rows=tuple(rows))
            )
        self.refresh()
        self.message = message if rows or is_new else "nothing to change"

    def _applied(
        self, content: GoldenText, action: Action
    ) -> tuple[GoldenText, list[tuple[str, str, str]]]:
        """Return the text after a click, and each changed row's id, old and new text."""
        rows = []
        # at level doc a group must expect the same documents: all its paraphrases change
        group = content.rows[self.query_id].values.get("group") if self.level == "doc" else None
        names = [
            name
            for name, row in content.rows.items()
            if group is not None and same(row.values.get("group"), group)
        ]
        for name in names or [self.query_id]:
            old = content.rows[name].values
            changes = {
                field: value
                for field, value in action(old).items()
                if not same(value, old.get(field))
            }
            if changes:
                after = content.edited(name, changes)
                rows.append(
                    (name, content.part(*content.segment(name)), after.part(*after.segment(name)))
                )
                content = after
        return content, rows

    def _add(self, values: Values, message: str) -> None:
        with self.file.alone():
            before = self.file.read()
            after = before.added(values)
            self.file.write(after)
        self._clicks.append(Click(message, self.query_id, added=inserted(before, after)))
        self.refresh()
        self.message = message

    def _new_row(self, query_id: str, query: str) -> Values:
        if self.wording is CHATBOT:
            empty: Values = {
                name: []
                for name in ("expected_key_facts", "gold_supports", "tags", "vaults", "folders")
            }
            return {"id": query_id, "question": query, "answerable": True, **empty}
        return {"id": query_id, "query": query}

    def _free_id(self, origin: str) -> str:
        taken, number = set(self._sheet.names), 2
        while f"{origin}-{number}" in taken:
            number += 1
        return f"{origin}-{number}"
