"""The rows of a scoring: one per run and golden query, then one per response of no golden query.

Every fact about a row is an array here, made once, on first use: formulas of metrics, reasons for
a missing value and `found` all read the same ones.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import blocks, codes_of, is_among, lookup, small_lookup
from ragscore.frames.data import DataError, Golden, Results, categorical, empty
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.metrics.citations import Cited
from ragscore.scoring.metrics.declaration import Label, Metric
from ragscore.scoring.metrics.judged import judged_nuggets, verdicts
from ragscore.scoring.metrics.matched import MatchedHits, matched_hits
from ragscore.scoring.metrics.needs import IRRELEVANT, RELEVANT, TARGETS, Need, among, with_target
from ragscore.scoring.readings import OURS, Reading, k_of_runs
from ragscore.scoring.rules import Rule, matched_pairs, rule_of
from ragscore.scoring.targets import LEVELS, numbered, targets_at

STATES = ("scored", "failed", "missing", "extra")
OUTCOME = ("n_hits", "passed", "rank_first_match")  # what records without hits state of them
LONGEST_ERROR = 60  # characters of an error in a reason


class Rows:
    """Rows, and what is known of each.

    Attributes
    ----------
    golden, of_hits
        The golden set as the reading takes it, and the one that hits are judged by: some harnesses
        judge the hits of queries that should be refused, too.
    query, response, run
        Places in the golden queries (-1: none), in the responses (-1: none), and in the runs.
    seen
        The hits that answers may cite: all of them, where ranking metrics see some.
    rows, asked, failed, finished
        Flags of all rows, of those with a response, those whose response ended in an error, and
        those with one that did not.
    state
        Places in STATES.
    """

    def __init__(
        self, results: Results, golden: Golden, level: Level, of_hits: Golden | None = None,
        rule: Rule | None = None, reading: Reading = OURS,
    ) -> None:  # fmt: skip
        self.results, self.golden, self.level, self.rule = results, golden, level, rule
        self.of_hits, self.reading = golden if of_hits is None else of_hits, reading
        self.seen = results.hits
        responses, own = results.responses, golden.queries["query_id"]
        self.runs: pd.Index = results.runs["run_id"].cat.categories
        extra = np.flatnonzero(~is_among(responses["query_id"], own))
        more = responses["query_id"].iloc[extra]
        self.queries = pd.Index(own).append(pd.Index(more.unique()))
        n, width = len(own), len(self.queries)
        cell = self._cells(responses)
        run = np.repeat(np.arange(len(self.runs)), n)
        self.run = np.append(run, codes_of(responses["run_id"])[extra])
        self.query_ids = pd.concat([*[own] * len(self.runs), more], ignore_index=True)
        self.query = np.append(np.tile(np.arange(n), len(self.runs)), np.full(len(extra), -1))
        self.n = len(self.query)
        response_of, row_of = (np.full(len(self.runs) * width + 1, -1) for _ in range(2))
        response_of[cell] = np.arange(len(responses))
        first = (np.arange(len(self.runs))[:, None] * width + np.arange(n)).ravel()
        cells = np.append(first, cell[extra])
        self.response = response_of[cells]
        row_of[cells] = np.arange(self.n)
        self._row_at, self._row_of = row_of, np.where(response_of < 0, -1, row_of)
        # as a rule each run answers just the golden queries, and cells number the rows
        self._are_rows = bool((self._row_of[:-1] == np.arange(len(row_of) - 1)).all())
        self.rows, self.asked = np.ones(self.n, dtype=bool), self.response >= 0
        self.failed = self.has("error")
        self.finished = self.asked & ~self.failed
        self.state = np.select([~self.asked, self.query < 0, self.failed], [2, 3, 1], 0)
        self._matched: dict[str, MatchedHits] = {}
        self._known: dict[str, Values] = {}  # values of metrics of responses

    @classmethod
    def of_responses(cls, results: Results) -> "Rows":
        """Return the rows of the responses alone, in their order."""
        return cls(results, Golden(empty("queries")), Level("doc", "", ("doc",)))

    def _cells(self, frame: pd.DataFrame) -> Codes:
        """Return a number for the run and query of each row of a frame; -1 for unknown ones.

        It may be of fewer bits than 64.
        """
        query = small_lookup(frame["query_id"], self.queries)
        if len(self.runs) == 1:
            return query
        run = lookup(frame["run_id"], self.runs)
        return np.where((run < 0) | (query < 0), -1, run * len(self.queries) + query)

    def of(self, frame: pd.DataFrame | None) -> Codes:
        """Return the row that each row of a frame of results belongs to, -1 for none."""
        cells = np.zeros(0, np.int64) if frame is None else self._cells(frame)
        return cells if self._are_rows else self._row_of[cells]

    def places(self, scores: pd.DataFrame) -> Codes:
        """Return the row of each row of a frame of scores, missing ones too."""
        return self._row_at[self._cells(scores)]

    @cached_property
    def hits(self) -> pd.DataFrame:
        """All hits, their queries as codes, which rules read many times faster than texts."""
        codes = small_lookup(self.results.hits["query_id"], self.queries)
        query = categorical(codes, pd.CategoricalDtype(self.queries))
        return self.results.hits.assign(query_id=query)

    @cached_property
    def row_of_hit(self) -> Codes:
        """The row of each hit; two hits of one row and rank are refused."""
        row, rank = self.of(self.hits), self.hits["rank"].to_numpy()
        if rank.min(initial=1) < 1:
            raise DataError(f"rank {rank.min()}", field="hits.rank", allowed="ranks count from 1")
        width = int(rank.max(initial=0)) + 1
        for at in blocks(0, len(rank)):  # which stay in the processor's cache
            here = slice(at.start, at.stop + 1)  # with the first of the next block
            place = pd.Index(row[here].astype(np.int64) * width + rank[here])
            if not (place.is_monotonic_increasing and place.is_unique):
                break
        else:  # by row, then rank
            return row
        twice = pd.Index(row.astype(np.int64) * width + rank).duplicated() & (row >= 0)
        if twice.any():
            one = self.results.hits[twice].iloc[0]
            raise DataError(
                f"rank {one['rank']} appears twice for query {one['query_id']!r} of run"
                f" {one['run_id']!r}", field="hits.rank", allowed="ranks must be 1, 2, 3, ...",
            )  # fmt: skip
        return row

    def count(self, row: Codes) -> Codes:
        """Count the elements of each row."""
        parts = blocks(0, len(row), max(2**15, 4 * self.n))  # widened all at once is slower
        counts = (np.bincount(row[at].astype(np.int64) + 1, minlength=self.n + 1) for at in parts)
        return sum(counts, np.zeros(self.n + 1, np.int64))[1:]

    @cached_property
    def n_calls(self) -> Codes:
        """The number of searches: as recorded (not of other tools), else those hits came from."""
        calls = self.results.calls
        if calls is not None and "n_hits" in calls:
            calls = calls[calls["n_hits"].notna().to_numpy()]
        hits, found = self.results.hits, np.zeros(self.n + 1, dtype=np.int64)
        if "call" in hits:
            np.maximum.at(found, self.row_of_hit, hits["call"].fillna(0).to_numpy(np.int64))
        return np.maximum(self.count(self.of(calls)), found[:-1])

    @cached_property
    def n_hits(self) -> Codes:
        """The number of hits."""
        return self.count(self.row_of_hit)

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """What is stated of hits that were counted and not recorded: OUTCOME, by row.

        NaN for other rows. Who states a rank alone has passed.
        """
        reported, rows = self.results.reported, pd.RangeIndex(self.n)
        if reported is None or "n_hits" not in set(reported["metric"]):
            return pd.DataFrame(np.nan, rows, OUTCOME)
        outcomes = reported[reported["metric"].isin(OUTCOME)]
        table = outcomes.assign(row=self.of(outcomes)).pivot_table("value", "row", "metric")
        table = table.reindex(index=rows, columns=OUTCOME)
        table["passed"] = table["passed"].fillna(table["rank_first_match"].clip(1, 1))
        return table.where((table["n_hits"] > 0) & (self.n_hits == 0))

    @cached_property
    def has_outcome(self) -> Flags:
        """Flag rows of which the outcome is recorded and no hit."""
        return self.outcomes["n_hits"].notna().to_numpy()

    def column(self, name: str) -> pd.Series:
        """Return a column of the responses, by row; NA where there is no response or column."""
        responses = self.results.responses
        held = responses.get(name, pd.Series(pd.NA, responses.index, dtype="str"))
        return pd.Series(pd.api.extensions.take(held.values, self.response, allow_fill=True))

    def numbers(self, name: str) -> Values:
        """Return a column of the responses as numbers."""
        if name not in self.results.responses:
            return np.full(self.n, np.nan)
        return self.column(name).to_numpy("float64", na_value=np.nan)

    def has(self, name: str) -> Flags:
        """Flag rows whose response has a value in this column."""
        return self.column(name).notna().to_numpy()

    def of_query(self, flags: Flags) -> Flags:
        """Return flags of golden queries by row."""
        return np.append(flags, False)[self.query]

    @cached_property
    def error_words(self) -> Any:
        """The first line of each error."""
        texts = self.column("error").fillna("").str.slice(0, LONGEST_ERROR)
        return np.where(texts == "", "the query failed", "the query failed: " + texts)

    @cached_property
    def answers(self) -> pd.Series:
        """The text of each answer."""
        return self.column("answer")

    @cached_property
    def answered(self) -> Flags:
        """Finished responses with an answer."""
        return self.answers.notna().to_numpy() & ~self.failed

    @cached_property
    def blank(self) -> Flags:
        """Answers of white space alone."""
        return (self.answers.str.strip() == "").fillna(False).to_numpy(dtype=bool)

    @cached_property
    def should_refuse(self) -> Flags:
        """Rows of queries that should be refused."""
        return self.of_query(among(self.golden, self.golden._refusals))

    @cached_property
    def due(self) -> Flags:
        """Answered, and not where a refusal is due."""
        return self.answered & ~self.should_refuse

    @cached_property
    def refused(self) -> Values:
        """1 or 0, NaN if unknown. Who doesn't say, and answers nothing, refused."""
        stated = self.numbers("refused")
        return np.where(np.isnan(stated) & self.answered & self.blank, 1.0, stated)

    @cached_property
    def decided(self) -> Flags:
        """Finished rows of which it is known whether they refused."""
        return ~np.isnan(self.refused) & ~self.failed

    @cached_property
    def given(self) -> Flags:
        """Answers of the system's own."""
        return self.answered & (self.numbers("refused") != 1)

    @cached_property
    def grounded(self) -> Flags:
        """Answers that a run states to be grounded, or the system's own where it states nothing."""
        stated = self.numbers("grounded")
        return np.where(np.isnan(stated), self.given, self.answered & (stated == 1))

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The judgments of these rows."""
        return verdicts(self)

    @cached_property
    def nuggets(self) -> pd.DataFrame:
        """What judges say of each key fact: see `judged_nuggets`."""
        return judged_nuggets(self)

    @cached_property
    def cited(self) -> Cited:
        """What answers cite."""
        return Cited(self)

    @cached_property
    def records_citations(self) -> Flags:
        """Flag rows of runs that record what answers cite, if only that they cite nothing."""
        held = self.count(self.of(self.results.citations)) > 0
        return self.of_runs_with(held | self.has("n_citations"))

    def of_runs_with(self, held: Flags) -> Flags:
        """Flag the rows of runs of which any row is flagged."""
        n_held = np.bincount(self.run[held], minlength=len(self.runs))
        return (n_held > 0)[self.run]

    @cached_property
    def run_k(self) -> Values:
        """The k of each run, infinite where it states none."""
        k = k_of_runs(self.results.runs, None)
        return np.array([k[str(run_id)] or np.inf for run_id in self.runs], np.float64)

    @cached_property
    def used(self) -> Codes:
        """The place in LEVELS of the level that each row is matched at; -1 for none."""
        if self.level.name != "per_query":
            return np.full(self.n, LEVELS.index(self.level.name))
        used = np.full(self.n, -1)
        for level in reversed(self.level.joinable):  # the finest is written last
            used[self.of_query(with_target(self.of_hits, level))] = LEVELS.index(level)
        return used

    def matched_at(self, level: str) -> MatchedHits:
        """Return the matched hits of all rows at a level, found once."""
        return self._matched.get(level) or self._matched.setdefault(level, self._match(level))

    def _match(self, level: str) -> MatchedHits:
        golden = targets_at(self.of_hits, level)
        if self.rule is not None and level in self.level.used:
            targets = golden.targets.astype({"query_id": "str"})
            pairs = matched_pairs(self.rule, self.results.hits, targets)
        else:
            own = rule_of(level, self.results, golden, self.reading.cut_text)
            pairs = own(self.hits, golden.targets)
        return matched_hits(self, golden, *pairs)

    def by_level(self, of_matched: Callable[[MatchedHits], Any]) -> Values:
        """Return what a function makes of matched hits, each row's at its own level."""
        found = np.full(self.n, np.nan)
        for level in self.level.used:
            here = self.used == LEVELS.index(level)
            if here.any():
                found[here] = of_matched(self.matched_at(level))[here]
        return found

    @cached_property
    def vacuous(self) -> Flags:
        """Flag rows of golden queries without any relevant target, at whatever level."""
        golden = self.of_hits
        return self.of_query(~RELEVANT.of_queries(golden, "") & ~among(golden, golden._refusals))

    def score(self, label: Label) -> Values:
        """Return the values of a metric; NaN where it doesn't apply."""
        if label.metric.family != "ranking":
            return self.values(label.metric.name, label.metric)

        if label.level is None:
            found = self.by_level(lambda hits: hits.score(label))
        else:
            found = self.matched_at(label.level).score(label)
        if IRRELEVANT not in label.metric.needs or self.reading.bpref_without_irrelevant:
            return found
        return np.where(self.of_query(self.meets(IRRELEVANT, label.level or "")), found, np.nan)

    def values(self, name: str, metric: Metric | None = None) -> Values:
        """Return the values of a metric of responses; NaN where it doesn't apply."""
        if name not in self._known:
            metric = metric or TABLE[name]
            where = getattr(self, metric.where)
            if metric.reads == "citations":
                where = where & self.records_citations
            if metric.reads == "judgments.value" and self.results.judgments is None:
                where = np.zeros(self.n, dtype=bool)
            for need in metric.needs if where.any() else ():
                where = where & self.of_query(self.meets(need))
            found = np.full(self.n, np.nan)
            if where.any():
                with np.errstate(invalid="ignore", divide="ignore"):
                    found = np.where(where, np.asarray(metric.compute(self), np.float64), np.nan)
            self._known[name] = found
        return self._known[name]

    def meets(self, need: Need, level: str = "") -> Flags:
        """Flag golden queries that have what a metric needs."""
        levels = (level,) if level else self.level.used
        if need == IRRELEVANT:  # at the level that each query is matched at
            n = len(self.golden.queries)
            at = np.full(n, LEVELS.index(level)) if level else self.used[:n]
            return np.isin(at, [LEVELS.index(one) for one in self.level.irrelevant])
        golden = self.of_hits if need == TARGETS else self.golden
        return np.any([need.of_queries(golden, one) for one in levels], axis=0)

    def relevant_targets(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the relevant targets at the level of their query, and those that runs found.

        Columns query_id, target_id, grade, level; of those found also run_id and the first `rank`.
        """
        expected, found = [], []
        for level in self.level.used:
            golden, (row, rank, target) = (
                targets_at(self.of_hits, level),
                self.matched_at(level).met,
            )
            ids = (
                golden.targets[["query_id", "target_id", "grade"]]
                .assign(level=level)
                .astype({"query_id": "str", "target_id": "str"})
            )
            is_used = self.used[numbered(golden)[0]] == LEVELS.index(level)
            counts = is_used & (ids["grade"] > 0).to_numpy()
            expected.append(ids[counts])
            at = counts[target]
            run_id = self.runs.astype("str")[self.run[row[at]]]
            found.append(ids.iloc[target[at]].assign(run_id=run_id, rank=rank[at]))
        every = pd.concat(expected, ignore_index=True).drop_duplicates(["query_id", "target_id"])
        return every, pd.concat(found, ignore_index=True)
