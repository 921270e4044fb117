"""What titles of pictures say: what was tested, in a few words; without a test, what is drawn.

In: the frame that a picture draws, and the `Question` that an evaluation asks. Out: a sentence.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.text import few_names
from ragscore.analysis.slices import slice_means
from ragscore.frames.data import Golden
from ragscore.frames.errors import plural
from ragscore.scoring.metrics import Declarations
from ragscore.scoring.metrics.table import by_aspect
from ragscore.scoring.modes import is_by_mode
from ragscore.scoring.primary import REFUSALS
from ragscore.scoring.summary import Slicing, slice_names, slice_texts
from ragscore.stats.verdicts import MIXED, UNSURE, WORDS

Question = Any
SURE = [word for word in WORDS if word not in (MIXED, UNSURE)]
NONE = "no run can be told from another"
TOLD = 0.000625  # q of a slice that a title names: four pictures by slices share .25 %
FEW = 10  # queries below which a slice says little
MIN_ANSWERS = 10  # below, one answer moves the risk by a tenth and more
ERRORS = ("over-refusal", "unsupported answer")


def n_text(n: pd.Series) -> str:
    """Return how many queries: a number or a range."""
    low, high = n.min(), n.max()
    return "not told" if pd.isna(low) else f"{low}" if low == high else f"{low}–{high}"


def _by_word(verdicts: pd.Series, said: Callable[[list[str], str], str]) -> str:
    """Return what is said of the names (of the index) with each verdict; "" where none has one."""
    sure = verdicts[verdicts.isin(SURE).to_numpy()]
    groups = sure.groupby(sure.to_numpy(), sort=False)
    return "; ".join(said([*map(str, own.index)], str(word)) for word, own in groups)


def _best_first(verdicts: pd.Series) -> pd.Series:
    return verdicts.sort_values(key=lambda words: words.map(WORDS.index, "ignore"), kind="stable")


def of_deltas(rows: pd.DataFrame) -> str:
    """Return the verdicts of the primary metrics, or of all where none is."""
    deciding = rows[rows["is_primary"].to_numpy("bool")] if rows["is_primary"].any() else rows
    verdicts = deciding.set_index("metric")["verdict"]
    told = _by_word(verdicts, lambda names, word: f"{', '.join(names)} {word}")
    return told + "; else can't tell" * (not verdicts.isin(SURE).all()) if told else UNSURE


def of_slice_deltas(rows: pd.DataFrame) -> str:
    """Return the slices with a verdict, or the widest apart where none has one."""
    if told := _by_word(rows["verdict"], lambda names, word: f"{word} on {', '.join(names)}"):
        return told
    if len(rows) < 2:
        return UNSURE
    low, high = rows["delta"].idxmin(), rows["delta"].idxmax()
    ends = f"{rows['delta'].min():+.2f} on {low} to {rows['delta'].max():+.2f} on {high}"
    return f"{ends}, no slice can be told"


def of_means(rows: pd.DataFrame, metrics: list[str], question: Question | None) -> str:
    """Return what was tested of these metrics; where nothing was, what is drawn."""
    runs = rows["run_id"].astype("str")
    what = metrics[0] if len(metrics) == 1 else f"{len(metrics)} metrics"
    if runs.nunique() == 1:
        return f"{runs.iloc[0]}: {what}" + f" {rows['mean'].iloc[0]:.2f}" * (len(metrics) == 1)
    if "sets" in rows and rows["sets"].ne("").any():
        found = {name: _by_letters(rows[rows["metric"].eq(name).to_numpy()]) for name in metrics}
    elif question is not None:
        found = {name: told_apart(question, name) for name in metrics if name in question.primary}
    else:
        found = {}
    if not found:
        return f"{what} of {plural(runs.nunique(), 'run')}"
    if len(found) == 1:
        return "".join(f"{metric}: {told or NONE}" for metric, told in found.items())
    differing = [name for name, told in found.items() if told]
    if not differing:
        return f"{NONE.capitalize()} by {few_names(list(found))}"
    alike = few_names([name for name, told in found.items() if not told])
    return f"Runs can be told apart by {few_names(differing)}" + (
        f", not by {alike}" if alike else ""
    )


def told_apart(question: Question, metric: str) -> str:
    """Return which runs differ by the question's tests; "" where none does."""
    if question.baseline is None:
        return _sides(*question.leading(metric))
    verdicts = pd.Series(question.words(metric, question.baseline), dtype="str")
    return _by_word(
        _best_first(verdicts),
        lambda names, word: f"{few_names(names)} {word} than {question.baseline}",
    )


def _by_letters(rows: pd.DataFrame) -> str:
    """Return which runs differ by the letters of a leaderboard; "" where none does."""
    ranked = rows[rows["sets"].ne("").to_numpy()].sort_values("rank", kind="stable")
    return _sides(ranked["run_id"].astype("str").to_numpy(), ranked["is_tied_with_best"])


def _sides(runs: Any, is_tied: Any) -> str:
    """Return who leads of ranked runs, and who is told from it; "" where nobody is."""
    is_tied = np.asarray(is_tied, dtype=bool)
    tied, behind = runs[1:][is_tied[1:]], runs[1:][~is_tied[1:]]
    beside = f", not from {few_names(tied)}" if len(tied) else ""
    return f"{runs[0]} leads, told from {few_names(behind)}{beside}" if len(behind) else ""


def worse_slices(
    table: pd.DataFrame, golden: Golden | None, by: Slicing | None, metric: str,
    declared: Declarations,
) -> pd.Series | None:  # fmt: skip
    """Return slice -> number of runs that are worse on it than on the rest, most first.

    Of a frame of scores; None: nothing was tested.
    """
    if "metric" in table or golden is None or by is None or is_by_mode(by, golden):
        return None
    better = declared.describe(metric).better
    rows = slice_means(table, golden, by, [metric], declared=declared)
    fall = rows["delta_rest"] * {"higher": -1, "lower": 1}.get(better, 0)
    rows = rows.assign(slice=slice_texts(rows, slice_names(by)).to_numpy(), fall=fall)
    told = rows[(rows["q"].lt(TOLD) & fall.gt(0)).to_numpy()]
    return told.sort_values("fall", ascending=False)["slice"].value_counts()


def of_slices(worse: pd.Series | None, metric: str, by: str, n_runs: int) -> str:
    """Return which slice is worse than the rest, for how many runs; else what is drawn."""
    if worse is None:
        return f"{metric} by {by}"
    if not len(worse):
        return f"{metric} by {by}: no slice can be told from the rest"
    name, n = worse.index[0], int(worse.iloc[0])
    runs = "every run" if n == n_runs else f"{n} of {n_runs} runs"
    return f"{metric} is worse on {name} than on the rest" + f" for {runs}" * (n_runs > 1)


def of_cutoffs(rows: pd.DataFrame, metric: str, question: Question | None) -> str:
    """Return how one run's mean rises; of several, what was tested at a k that decides.

    `rows` are of a summary, with the `k` of each metric.
    """
    ends = rows.sort_values("k", kind="stable")[["mean", "k"]].iloc[[0, -1]]
    if (n_runs := rows["run_id"].nunique()) == 1:
        told = " to ".join(f"{mean:.2f} at {k:.0f}" for mean, k in ends.to_numpy("float64"))
        return f"{metric} rises from {told}"
    for name in () if question is None else question.primary:
        if question is not None and name in set(rows["metric"]):
            return f"{name}: {told_apart(question, name) or NONE}"
    first, last = ends["k"]
    return f"{metric}@{first} to @{last} of {n_runs} runs"


def of_refusals(rows: pd.DataFrame, question: Question | None) -> str:
    """Return how often one run errs; of several, which can be told apart by what errors."""
    wrong = rows[rows["decision"].isin(ERRORS).to_numpy()]
    found = wrong.groupby("run_id", observed=True)[["n", "n_total"]].sum()
    found = found[found["n_total"] > 0]
    if not len(found):
        return "No query to answer or to refuse was decided"
    if len(found) == 1:
        n, total = found.iloc[0].tolist()
        return f"{found.index[0]} errs in {n} of {total} decisions"
    drawn = f"Answers and refusals of {rows['run_id'].nunique()} runs"
    if question is None:
        return drawn
    judged = (*REFUSALS, *by_aspect()["answers"])  # both errors, and what is said at all
    told = {name: told_apart(question, name) for name in judged if name in question.primary}
    rest = few_names([name for name in told if not told[name]])
    parts = [f"{name}: {text}" for name, text in told.items() if text]
    if not parts:
        return drawn + (f": none can be told from another by {rest}" if rest else "")
    return "; ".join(parts) + (f"; none by {rest}" if rest else "")


def of_risk(rows: pd.DataFrame, first: str) -> str:
    """Return the risks with every query answered and with half of them, of one run."""
    known = rows.assign(run=rows["run_id"].astype("str")).sort_values("coverage", kind="stable")
    whole, half = (
        known[known["coverage"].le(most).to_numpy()].drop_duplicates("run", keep="last")
        for most in (1, 0.5 + 1e-9)
    )
    half = half[(half["coverage"] * half["n"]).ge(MIN_ANSWERS - 1e-9).to_numpy()]
    risks = [one.set_index("run")["risk"] for one in (whole, half)]
    runs = [run for run in (first, *rows["run_id"].astype("str").unique()) if run in risks[1]]
    if not runs:
        return "Risk of wrong answers over coverage"
    ends = " to ".join(f"{100 * risk[runs[0]]:.0f}\u00a0%" for risk in risks)
    return f"Refusing half of the queries takes {runs[0]}'s risk from {ends}"


def of_front(front: list[str], n_runs: int, metric: str, against: str) -> str:
    """Return which runs no other run beats in two metrics."""
    what = f"{metric} and {against}"
    told = f"{what} of {n_runs} runs; front of the means: {few_names(front)}"
    return f"{front[0]}: {what}" if n_runs == 1 else told


def of_scores_by_rank(rows: pd.DataFrame, kind: str) -> str:
    """Return at which rank scores have fallen to half of the first."""
    rows = rows.assign(run=rows["run_id"].astype("str")).sort_values("rank", kind="stable")
    start = rows.groupby("run")["p50"].transform("first")
    low = rows[(start.gt(0) & rows["p50"].le(start / 2)).to_numpy()]
    halves = low.groupby("run", sort=False)["rank"].first()
    if not len(halves):
        return f"{kind} scores stay above half of the first"
    first, last = halves.min(), halves.max()
    told = f"{kind} scores have halved by rank {first}"
    return told if first == last else f"{told} ({halves.idxmin()}) to {last} ({halves.idxmax()})"


def of_trend(table: pd.DataFrame) -> str:
    """Return how the newest system moved while its scores were computed the same way."""
    known = table[table["mean"].notna()]
    last, metric = known.iloc[-1], str(table["metric"].iloc[0])
    n = (
        f"n = {n_text(known['n'])} queries a run"
        if known["n"].notna().any()
        else "runs that only report aggregates: n isn't told"
    )
    noise = {True: ", within the noise", False: ", outside the noise"}
    end = f"{noise.get(last['in_band'], '')} ({n})"
    own = known[(known["system"] == last["system"]) & (known["segment"] == last["segment"])]
    if len(own) < 2:
        return f"{metric} of {last['system']}: {last['mean']:.3g} at the last run{end}"
    first, moved = own.iloc[0], float(last["mean"] - own["mean"].iloc[0])
    digits = 3 if abs(last["mean"]) < 10 else 0
    size = f"{'rose' if moved > 0 else 'fell'} by {abs(moved):.{digits}f}"
    change = size if round(moved, digits) else "did not move"
    since = first["created_at"]
    is_dated = pd.notna(since) and since.date() != last["created_at"].date()
    begin = f"{since:%Y-%m-%d}" if is_dated else first["run_id"]
    return f"{metric}: {last['system']} {change} since {begin}, scored alike{end}"
