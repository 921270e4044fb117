"""What the runs of an evaluation decide: a sentence, the runs best first, a verdict on each pair.

In: scores, and the `Question` that is asked of them. Out: a `Decision`. All its words come from the
tests of the question; each is the word that `compare` has of the pair.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align
from ragscore.analysis.comparison.deltas import aspect_verdicts, paired_deltas
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.question import MOST_ALONE, Question
from ragscore.analysis.leaderboard import asked_text, quality_of, set_letters
from ragscore.frames.data import Golden
from ragscore.frames.errors import unsaid
from ragscore.frames.render import shown_number
from ragscore.frames.short_names import fitting_names, renamed
from ragscore.scoring.intervals import BY_QUANTILES, query_clusters
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, table_kind
from ragscore.stats import ALPHA, MIXED, UNSURE, Together, overall_word
from ragscore.stats.verdicts import OPPOSITE

BESIDE = {"latency_ms": ("faster", "slower", " ms"), "cost_usd": ("cheaper", "dearer", " USD")}
"""What is said of a run beside the metrics that decide: words for less and for more, and unit."""
PHRASES = {
    "better": "better than",
    "no worse": "no worse than",
    "higher": "higher than",
    "mixed": "mixed against",
    "lower": "lower than",
    "worse": "worse than",
    UNSURE: "not told from",
}
MOST_RUNS = 100  # of more, thousands of pairs would be tested for a sentence
NAME = 28  # characters of a name where there is little room
PAIRS = 12  # runs whose pairs are looked at
NAMED = 3  # runs of one verdict in the sentence
_Rows = list[dict[Hashable, Any]]
_Words = dict[tuple[str, str], tuple[str, str, str]]  # verdict, details, the trade if mixed


@dataclass(frozen=True)
class Decision:
    """What an evaluation decides.

    Attributes
    ----------
    sentence
        Of two runs the verdict on the second; against a baseline that on each run; else what the
        best run is told from.
    run_ids
        The runs, best first by the first primary metric.
    against
        The run that the others are read against at first: the baseline, else the best.
    baseline
        The declared baseline: only its pairs are tested.
    primary
        The metrics that decide.
    asked
        What is asked, and by how many tests, in words.
    letters
        One row per primary metric and run: `sets`, the letters of `ev.leaderboard()`.
    pairs
        One row per ordered pair that was looked at (`run_baseline`, `run_candidate`): the
        `verdict` over all that decides, and `told`, metric by metric.
    """

    sentence: str
    run_ids: tuple[str, ...]
    against: str
    baseline: str | None
    primary: tuple[str, ...]
    asked: str
    letters: pd.DataFrame = field(repr=False)
    pairs: pd.DataFrame = field(repr=False)

    @property
    def short(self) -> str:
        """The sentence with shorter names."""
        return renamed(self.sentence, fitting_names(self.run_ids, NAME))

    def of_pair(self, baseline: str, candidate: str) -> tuple[str, str]:
        """Return verdict and details of a pair; empty where it isn't tested."""
        return self._told.get((baseline, candidate), ("", ""))

    @cached_property
    def _told(self) -> dict[tuple[str, str], tuple[str, str]]:
        runs, words = (
            zip(*(self.pairs[name] for name in names), strict=True)
            for names in (("run_baseline", "run_candidate"), ("verdict", "told"))
        )
        return dict(zip(runs, words, strict=True))


def decide(
    scores: pd.DataFrame,
    asked: list[Question],
    golden: Golden,
    compare: Callable[[str, str], Comparison],
    *,
    pair: tuple[str, str] | None = None,
    margins: dict[str, float] | None = None,
    declared: Declarations = NOTHING_DECLARED,
    of_all: bool = False,
) -> Decision | None:
    """Return what the runs decide; None where nothing is asked, as of one run.

    Parameters
    ----------
    asked
        From `questions_of`.
    compare
        Gives the comparison of two runs, for metrics that not all runs have.
    pair
        Of two runs: baseline and candidate; by default their order.
    margins
        As for `compare`.
    of_all
        Look at every pair of the twelve best runs that is tested, not at those of `against` alone.
    """
    question = asked[0]
    runs, primary = list(question.run_ids), question.primary
    if len(runs) < 2 or not primary or not len(question.table):
        return None
    aligned = align(scores, list(primary), None, declared)
    quality = {name: quality_of(aligned, name) for name in primary}
    order = np.argsort(-quality[primary[0]], kind="stable")  # NaN: in their own order
    best = [runs[place] for place in order]
    letters = [
        set_letters(quality[name], question.matrix(name, runs))[0]
        if question.baseline is None and not np.isnan(quality[name]).any()
        else [""] * len(runs)
        for name in primary
    ]
    known = _Pairs(scores, asked, golden, compare, margins or {}, declared, aligned)
    one, other = pair or (question.baseline or runs[0], "")
    other = other or next(run for run in runs if run != one)
    against = question.baseline or (one if len(runs) == 2 else best[0])
    words: _Words = {}
    for place, run in enumerate(best):
        for second in best[place + 1 :]:
            is_near = of_all and question.baseline is None and place < PAIRS
            if is_near or against in (run, second):
                words |= known.words(run, second)
    if len(runs) == 2:
        told = _phrases({one: words[one, other]})
        sentence = f"{other}: {told}{known.beside(one, other, '')}"
    elif question.baseline is not None:
        sentence = _against_baseline(words, [run for run in best if run != against], against)
    else:
        sentence = _of_leader(words, best, question, known)
    return Decision(
        sentence, tuple(best), against, question.baseline, primary,
        asked_text(asked, question.baseline),
        pd.DataFrame(
            [(name, runs[at], letters[n][at]) for n, name in enumerate(primary) for at in order],
            columns=["metric", "run_id", "sets"], dtype="str",
        ),
        pd.DataFrame(
            [(*key, *found[:2]) for key, found in words.items()],
            columns=["run_baseline", "run_candidate", "verdict", "told"], dtype="str",
        ),
    )  # fmt: skip


def words_against(
    baseline: str,
    candidates: list[str],
    scores: pd.DataFrame,
    asked: list[Question],
    golden: Golden,
    compare: Callable[[str, str], Comparison],
    declared: Declarations = NOTHING_DECLARED,
) -> list[str]:
    """Return the verdict on each candidate, as `decide` has it; arguments as there."""
    aligned = align(scores, list(asked[0].primary), None, declared)
    known = _Pairs(scores, asked, golden, compare, {}, declared, aligned)
    return [known.words(baseline, one)[baseline, one][0] for one in candidates]


def _of_leader(words: _Words, best: list[str], question: Question, known: "_Pairs") -> str:
    """Say what the best run is told from, and what it costs beside its rival."""
    lead, *others = best
    first = question.primary[0]
    if not (question.table["p"] < ALPHA).any() and {words[run, lead][0] for run in others} == {
        UNSURE
    }:
        top = "highest" if question.declared.describe(first).better == "not declared" else "best"
        return f"None of the {len(best)} runs is told from another; {lead} has the {top} {first}"
    found = {run: words[run, lead] for run in others}
    tied = [run for run in others if found[run][0] == UNSURE]
    rival = (tied or others)[0]
    return f"{lead}: {_phrases(found)}{known.beside(rival, lead, rival)}"


def _against_baseline(words: _Words, others: list[str], baseline: str) -> str:
    """Say of each run what it is against the baseline."""
    found = {run: words[baseline, run] for run in others}
    parts = [
        f"{_some(runs)}: {phrase} {baseline}{trade}" for phrase, runs, trade in _by_phrase(found)
    ]
    return "; ".join(parts)


def _phrases(found: dict[str, tuple[str, str, str]]) -> str:
    """Return "better than a and b, not told from c"; `found` has the words against each run.

    Of many runs only those are named that can't be told from it.
    """
    parts = []
    for phrase, runs, trade in _by_phrase(found):
        if len(runs) == len(found) > 1:
            return f"{phrase} each of the {len(found)} others{trade}"
        is_named = phrase == PHRASES[UNSURE] or len(found) <= NAMED or len(runs) == 1
        parts.append(f"{phrase} {_some(runs) if is_named else f'{len(runs)} runs'}{trade}")
    return ", ".join(parts)


def _by_phrase(found: dict[str, tuple[str, str, str]]) -> list[tuple[str, list[str], str]]:
    """Return each phrase that is said, its runs, and the trade if it is the same of all."""
    parts = []
    for word, phrase in PHRASES.items():
        runs = [run for run, own in found.items() if own[0] == word]
        trades = {found[run][2] for run in runs}
        parts += [(phrase, runs, trades.pop() if len(trades) == 1 else "")] if runs else []
    return parts


def _some(runs: list[str]) -> str:
    """Return the first few names, and how many more."""
    if len(runs) > NAMED + 1:
        runs = [*runs[:NAMED], f"{len(runs) - NAMED} more"]
    return " and ".join(filter(None, [", ".join(runs[:-1]), runs[-1]]))


def _turned(row: dict[Hashable, Any]) -> dict[Hashable, Any]:
    """Return a row of a pair as it is read from the other side."""
    return row | {
        "delta": -row["delta"],
        "verdict": OPPOSITE.get(row["verdict"], row["verdict"]),
    }


def _rounded(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


@dataclass(frozen=True)
class _Pairs:
    """The verdicts on pairs of runs, by what is asked of all."""

    scores: pd.DataFrame
    asked: list[Question]
    golden: Golden
    compare: Callable[[str, str], Comparison]
    margins: dict[str, float]
    declared: Declarations
    aligned: AlignedScores

    def words(self, baseline: str, candidate: str) -> _Words:
        """Return verdict and details of a pair, read from either side."""
        there = self._deltas(baseline, candidate, self.asked[0].primary)
        # a margin allows losses, and a loss of one is the gain of the other
        back = (
            self._deltas(candidate, baseline, self.asked[0].primary)
            if self.margins
            else [_turned(row) for row in there]
        )
        return {
            (baseline, candidate): self._judged(there),
            (candidate, baseline): self._judged(back),
        }

    def beside(self, baseline: str, candidate: str, named: str) -> str:
        """Return what the candidate gains or costs in time and money, in words."""
        texts = []
        has_values = [name for name in BESIDE if name in self.scores]
        names = [name for name in has_values if name not in self.asked[0].primary]
        told = self._paired(baseline, candidate, tuple(names)) if names else pd.DataFrame()
        for row in told.to_dict("records"):
            less, more, unit = BESIDE[row["metric"]]
            a, b = (_rounded(row[f"p50_{side}"]) for side in ("baseline", "candidate"))
            if row["n"] and row["verdict"] in OPPOSITE and not np.isnan(row["asked"]):
                word = less if row["verdict"] == "better" else more
                size = f"{_rounded(abs(row['p50_delta']))}{unit}"
                texts.append(f"{word} {f'than {named} ' if named else ''}by {size}")
            elif row["n"] and a != b:
                of = f" of {named}" if named else ""
                texts.append(f"median {b}{unit} against {a}{unit}{of}")
        return "".join(f"; {text}" for text in texts)

    def _judged(self, deltas: _Rows) -> tuple[str, str, str]:
        aspects = aspect_verdicts(deltas, self.asked[0].primary, self.margins)
        told = [
            f"{row['metric']} {shown_number(row['delta'], 3, True)} {row['verdict']}"
            for row in deltas
        ]
        word = overall_word([verdict for _, _, verdict, _ in aspects])
        names = {
            own: [aspect for aspect, _, verdict, _ in aspects if verdict == own]
            for own in ("better", "worse")
        }
        sides = [f"{own} in {_some(found)}" for own, found in names.items() if found]
        return word, "; ".join(told), f" ({', '.join(sides)})" if word == MIXED and sides else ""

    def _deltas(self, baseline: str, candidate: str, names: tuple[str, ...]) -> _Rows:
        """One row per metric: delta (of times: of medians), verdict, sentence and n."""
        own = self._asked_of.get((baseline, candidate)) or [
            _turned(row) for row in self._asked_of[candidate, baseline]
        ]
        if not self.margins and all(row["p"] >= ALPHA for row in own):
            return own  # no other test can make it less
        if self._is_tested(baseline, candidate, own):
            return own
        table = self._paired(baseline, candidate, names)
        if (table["asked"].isna() & (table["n"] > 0)).any():
            # no query that all runs have: the pair's own tests, corrected for all pairs
            with unsaid():
                table = self.compare(baseline, candidate).deltas.set_index("metric")
            table = table.loc[list(names)].reset_index()
        is_timed = np.array([table_kind(name) in BY_QUANTILES for name in table["metric"]])
        delta = np.where(is_timed, table["p50_delta"], table["delta"])
        return table.assign(delta=delta).to_dict("records")

    @cached_property
    def _asked_of(self) -> dict[tuple[str, str], _Rows]:
        """Pair, as it is asked -> a row per metric that decides, with its verdict."""
        found: dict[tuple[str, str], _Rows] = {}
        for row in self.asked[0].judged().assign(sentence=UNSURE).to_dict("records"):
            found.setdefault((row["run_baseline"], row["run_candidate"]), []).append(row)
        return found

    @cached_property
    def _shared(self) -> dict[str, npt.NDArray[np.int64]]:
        """Metric -> how many queries two runs share, runs × runs."""
        known = (~np.isnan(self.aligned.values)).astype("float64")
        shared = np.einsum("qam,qbm->mab", known, known, optimize=True).astype("int64")
        return dict(zip(self.aligned.metrics, shared, strict=True))

    @cached_property
    def _filled(self) -> set[str]:
        """Runs with values for queries that they were not asked, which no comparison counts."""
        rows = self.scores[self.scores["state"].eq("missing").to_numpy()]
        has_value = rows[list(self.asked[0].primary)].notna().any(axis=1).to_numpy()
        return set(rows.loc[has_value, "run_id"].astype("str"))

    def _is_tested(self, baseline: str, candidate: str, own: _Rows) -> bool:
        """Return whether the question's tests are those of the pair: on the same queries."""
        if self.margins or self.asked[0].n_pairs > MOST_ALONE:
            return False
        if self._filled & {baseline, candidate}:
            return False
        a, b = map(self.aligned.run_ids.index, (baseline, candidate))
        return all(
            row["n"] == self._shared[row["metric"]][a, b] > 0
            and table_kind(row["metric"]) not in BY_QUANTILES
            for row in own
        )

    def _paired(self, baseline: str, candidate: str, names: tuple[str, ...]) -> pd.DataFrame:
        run = self.scores["run_id"].astype("str")
        rows = self.scores if "query_id" not in self.scores else self.scores.set_index("query_id")
        first, second = (
            rows[(run.eq(name) & self.scores["state"].ne("extra")).to_numpy()]
            for name in (baseline, candidate)
        )
        first = first.sort_index()
        second = second.reindex(first.index)
        state = second["state"].astype("str")
        in_both = first["state"].ne("missing").to_numpy() & second["run_id"].notna().to_numpy()
        in_both &= state.ne("missing").to_numpy()
        groups = query_clusters(self.golden, first.index, "group")
        tests = {
            name: (p, one.level)
            for one in self.asked
            for name, p in one.p_of(baseline, candidate).items()
        }
        p, level = np.array([tests.get(name, (np.nan, np.nan)) for name in names]).T
        a, b = (side.loc[in_both, list(names)].astype("float64") for side in (first, second))
        return paired_deltas(
            a, b, a * np.nan, declared=self.declared,
            groups=None if groups is None else groups[in_both],
            margins={name: own for name, own in self.margins.items() if name in names},
            together=Together(p, level),
        ).assign(asked=p)  # fmt: skip
