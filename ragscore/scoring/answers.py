"""Answer metrics: text checks, reference answers, citations, judgments, refusals, latency.

In: `Results` and `Golden`. Out: one row per response, one column per metric, aligned with
`results.responses`; `score` joins them to the ranking metrics.
Texts are compared by code of our own: the package rouge-score had its last release in 2022, brings
nltk and absl along, and drops every letter outside a to z. Ours works on any script, needs no
package, and gives rouge-score's values on ASCII texts (a test compares them).
"""

import re
import string
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, lookup
from ragscore.frames.data import Golden, Results, check_inputs
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.attribution import missed_scope, missed_scope_proxy, score_attribution
from ragscore.scoring.citations import Cited, cited_of, has_value
from ragscore.scoring.judgments import score_judgments
from ragscore.scoring.level import Level, choose_level
from ragscore.scoring.metrics import TABLE, Metric
from ragscore.scoring.metrics.lists import Lists, ResponseLists
from ragscore.scoring.nuggets import has_verdicts, judged_nuggets, nugget_values
from ragscore.scoring.rules import HitResponses, locate_hits, response_of

# "Request timed out", "timeout", "ReadTimeoutError", "deadline exceeded"
TIMED_OUT = re.compile(r"time[ds]?[\s_-]*out|deadline exceeded", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORD = re.compile(r"[^\W_]+")


def score_answers(
    results: Results,
    golden: Golden,
    level: Level | None = None,
    unknown: str = "exclude",
    no_claims: float = np.nan,
) -> pd.DataFrame:
    """Score every response: what it answered, cited and refused, and how long it took.

    Parameters
    ----------
    level
        At which citations are compared with targets (see `score_citations`); by default the one
        that `rs.score` chooses.
    unknown
        As in `rs.score`.
    no_claims
        What a judged share of claims is where the text claims nothing, as a `Profile` has it.

    Returns
    -------
    One row per response (run_id, query_id), in the order of `results.responses`; one float64 column
    per answer metric of `rs.metrics()`, NaN where it does not apply.
    """
    check_inputs(results, golden)
    level = level or choose_level(results, golden)
    columns = answer_columns(results, golden, level, unknown, no_claims)
    keys = {name: results.responses[name].reset_index(drop=True) for name in ("run_id", "query_id")}
    return pd.DataFrame({**keys, **columns}, copy=False)


def answer_columns(
    results: Results,
    golden: Golden,
    level: Level,
    unknown: str,
    no_claims: float = np.nan,
    located: HitResponses | None = None,
    own: Iterable[Metric] = (),
    is_part: bool = False,
) -> dict[str, Values]:
    """Return the columns of `score_answers` as arrays.

    Parameters
    ----------
    located
        The result of `locate_hits`, where it is known already.
    own
        Metrics of your own.
    is_part
        These are not all responses of their run.
    """
    facts = ResponseFacts(results, golden, level, unknown, no_claims, located, is_part)
    return {
        metric.name: facts.measure(metric)
        for metric in (*TABLE, *own)
        if metric.compute is not None and metric.family != "ranking"
    }


@dataclass(frozen=True)
class ResponseFacts:
    """What metrics of responses are computed from, each fact once for all that ask.

    Arrays of one value per response.
    """

    results: Results
    golden: Golden
    level: Level
    unknown: str = "exclude"
    no_claims: float = np.nan
    located: HitResponses | None = None
    is_part: bool = False

    def measure(self, metric: Metric) -> Values:
        """Return the values of a metric; NaN outside of the responses that it is measured over."""
        assert metric.compute is not None
        if not (where := getattr(self, metric.where)).any():
            return np.full(len(where), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.asarray(metric.compute(self), dtype="float64")
        return values if where.all() else np.where(where, values, np.nan)

    def lists(self, of: str) -> Lists:
        """Return what metrics of your own are computed from: a list for each response."""
        frame, n = getattr(self.results, of), len(self.responses)
        place = np.arange(n)
        if of != "responses":
            rows = self.responses.iloc[:0] if frame is None else frame
            place = response_of(rows, self.responses)
        at = np.argsort(place, kind="stable")
        at = at[place[at] >= 0]
        places = {of: at} | {"responses": np.arange(n)}
        run = codes_of(self.responses["run_id"]).astype(np.int64)
        frames = {"responses": self.responses, of: frame}
        return ResponseLists(of, place[at], n, frames, places, run, self.is_part, facts=self)

    @cached_property
    def responses(self) -> pd.DataFrame:
        """All responses, numbered from 0."""
        return self.results.responses.reset_index(drop=True)

    @cached_property
    def answerable(self) -> Values:
        """1 if the query is answerable, 0 if it should be refused, NaN if nobody says."""
        query = lookup(self.responses["query_id"], pd.Index(self.golden.queries["query_id"]))
        labels = self.golden.queries["answerable"].astype("float64")
        return np.append(labels.to_numpy(dtype="float64", na_value=np.nan), np.nan)[query]

    @cached_property
    def asked(self) -> Flags:
        """Every response."""
        return np.ones(len(self.responses), dtype=bool)

    @cached_property
    def failed(self) -> Flags:
        """Responses that ended in an error."""
        return self.responses["error"].notna().to_numpy()

    @cached_property
    def finished(self) -> Flags:
        """Responses that did not."""
        return ~self.failed

    @cached_property
    def answered(self) -> Flags:
        """Finished responses with an answer."""
        return has_value(self.responses, "answer") & ~self.failed

    @cached_property
    def due(self) -> Flags:
        """Answered, and not where a refusal is due."""
        return self.answered & (self.answerable != 0)

    @cached_property
    def blank(self) -> Flags:
        """Blank answers."""
        return is_blank(self.responses)

    @cached_property
    def stated_refusal(self) -> Values:
        """1 where the system says that it refused, 0 where it says that it did not, NaN else."""
        return self.numbers("refused")

    @cached_property
    def refused(self) -> Values:
        """A system that doesn't say whether it refused, and answers nothing, did."""
        stated = self.stated_refusal
        return np.where(np.isnan(stated) & self.answered & self.blank, 1.0, stated)

    @cached_property
    def decided(self) -> Flags:
        """Known to have refused, or not to have."""
        return ~np.isnan(self.refused) & ~self.failed

    @cached_property
    def given(self) -> Flags:
        """Answers of the system's own."""
        return self.answered & (self.stated_refusal != 1)

    @cached_property
    def grounded(self) -> Flags:
        """Where a system doesn't say `grounded`, an answer that isn't a refusal counts as one."""
        stated = self.numbers("grounded")
        return np.where(np.isnan(stated), self.given, self.answered & (stated == 1))

    def if_refusal_is_due(self, values: Values) -> Values:
        """Return values of queries to refuse, NaN for all others."""
        return np.where(self.answerable == 0, values, np.nan)

    def if_answer_is_due(self, values: Values) -> Values:
        """Return values of answerable queries, NaN for all others."""
        return np.where(self.answerable == 1, values, np.nan)

    def numbers(self, column: str) -> Values:
        """Return a column of the responses as numbers; NaN without it."""
        if column not in self.responses:
            return np.full(len(self.responses), np.nan)
        return self.responses[column].to_numpy(dtype="float64", na_value=np.nan)

    @cached_property
    def hits(self) -> HitResponses:
        """The response of each hit."""
        return self.located or locate_hits(self.results)

    @property
    def n_hits(self) -> npt.NDArray[np.int64]:
        """The number of hits."""
        return self.hits.n_hits

    @cached_property
    def timed_out(self) -> Flags:
        """Errors that say that time ran out."""
        return is_timeout(self.responses["error"])

    @cached_property
    def checks_passed(self) -> Values:
        """1 / 0 where the query has string checks and the response an answer, else NaN."""
        pairs = self._checked(["must_contain", "forbidden"], self.answered)
        texts = zip(pairs["answer"], pairs["text"], strict=True)
        holds = np.array([text in answer for answer, text in texts], dtype=bool)
        is_good = holds == (pairs["kind"] == "must_contain").to_numpy()
        passed, rows = np.full(len(self.responses), np.nan), pairs["row"].to_numpy()
        passed[rows] = 1.0
        passed[rows[~is_good]] = 0.0
        return passed

    @cached_property
    def nuggets(self) -> dict[str, Values]:
        """What the verdicts on nuggets are worth, by metric."""
        n = len(self.responses)
        if not has_verdicts(self.results):
            return defaultdict(lambda: np.full(n, np.nan))
        return nugget_values(judged_nuggets(self.results, self.golden), n)

    @cached_property
    def literal_key_facts(self) -> Values:
        """Share of key facts whose words stand in the answer, one after the other.

        A judge (`key_facts`) also finds a fact in other words; this is the lower bound that needs
        none.
        """

        @cache
        def words(text: str) -> str:  # with a space around each
            return f" {_BETWEEN_WORDS.sub(' ', text.casefold()).strip()} "

        pairs = self._checked(["key_fact"], self.due)
        texts = zip(pairs["answer"], pairs["text"], strict=True)
        holds = pd.Series([words(fact) in words(answer) for answer, fact in texts], dtype="float64")
        means = holds.groupby(pairs["row"].to_numpy()).mean()
        share = np.full(len(self.responses), np.nan)
        share[means.index.to_numpy(dtype=np.int64)] = means.to_numpy()
        return share

    def _checked(self, kinds: list[str], applies: Flags) -> pd.DataFrame:
        """Pair answers with checks of their queries: row of the response, answer, kind, text.

        Whoever looks for the texts does so one by one: substring search has no column form in
        pandas where both sides vary by row.
        """
        checks = self.golden.checks[is_among(self.golden.checks["kind"], kinds)]
        rows = np.flatnonzero(applies & (len(checks) > 0))
        answers = self.responses.reindex(columns=["query_id", "answer"]).iloc[rows]
        return answers.assign(row=rows).merge(checks, on="query_id")

    @cached_property
    def compared(self) -> dict[str, Values]:
        """Answers compared with the reference answer of their query, where there is one."""
        queries, n = self.golden.queries, len(self.responses)
        columns = {name: np.full(n, np.nan) for name in ("exact_match", "token_f1", "rouge_l")}
        if "reference_answer" not in queries or not self.due.any():
            return columns
        of_query = queries.set_index("query_id")["reference_answer"]
        references = self.responses["query_id"].map(of_query)
        rows = np.flatnonzero(self.due & references.notna().to_numpy())
        if len(rows):
            compared = score_texts(self.responses["answer"].iloc[rows], references.iloc[rows])
            for name, values in compared.items():
                columns[name][rows] = values
        return columns

    @cached_property
    def cited(self) -> Cited:
        """What each response cites, counted once for all metrics of citations."""
        place = self.hits.response.astype(np.int64, copy=False)
        return cited_of(self.results, self.golden, self.responses, place, self.level)

    @cached_property
    def judged(self) -> dict[str, Values]:
        """Values of what judges measured, by metric."""
        judgments = self.results.judgments
        rows = judgments if judgments is not None else self.responses.iloc[:0]
        place = response_of(rows, self.responses)
        return score_judgments(self.results, place, len(self.responses), self.no_claims)

    @cached_property
    def attribution(self) -> dict[str, Values]:
        """Values of what answers name, by metric."""
        return score_attribution(self.results, self.golden, self.responses, self.answered)

    @cached_property
    def scope_miss(self) -> Values:
        """1 if no folder of the query was searched."""
        return missed_scope(self.golden, self.responses)

    @cached_property
    def scope_miss_proxy(self) -> Values:
        """1 if no hit meets an anchor."""
        return missed_scope_proxy(self.results, self.golden, self.responses, self.unknown)


def is_blank(responses: pd.DataFrame) -> Flags:
    """Flag responses whose answer is empty or white space."""
    if "answer" not in responses:
        return np.zeros(len(responses), dtype=bool)
    return (responses["answer"].str.strip() == "").to_numpy(dtype=bool, na_value=False)


def is_timeout(errors: pd.Series) -> Flags:
    """Flag the errors that say that time ran out."""
    found, given = np.zeros(len(errors), dtype=bool), errors.notna().to_numpy()
    if given.any():
        found[given] = errors[given].astype(object).str.contains(TIMED_OUT).to_numpy(dtype=bool)
    return found


def score_texts(answers: pd.Series, references: pd.Series) -> dict[str, Values]:
    """Compare each answer with the reference in the same row.

    Returns
    -------
    `exact_match` (1 if the normalised texts are equal), `token_f1` (F1 of their tokens, counted
    with repetition; where a side has no token, 1 if both have none, else 0: Rajpurkar et al. 2016,
    doi:10.18653/v1/D16-1264), `rouge_l` (F1 of the longest common subsequence of words, without
    stemming: Lin 2004, ACL W04-1013). 0 to 1, higher is better.
    """
    # A Python function per text: Arrow's regular expressions know word boundaries of ASCII only.
    left, right = (
        pd.Series([normalised(text) for text in texts], dtype="str")
        for texts in (answers, references)
    )
    words = [[_WORD.findall(text.lower()) for text in texts] for texts in (answers, references)]
    n_left, n_right = (np.array([len(one) for one in side], dtype="float64") for side in words)
    common = [common_length(a, b) for a, b in zip(*words, strict=True)]
    return {
        "exact_match": np.asarray(left == right, dtype="float64"),
        "token_f1": _token_f1(left, right),
        "rouge_l": _f1(np.array(common, dtype="float64"), n_left, n_right),
    }


def normalised(text: str) -> str:
    """Return a text as SQuAD compares it.

    Lower case, no ASCII punctuation, no English articles, single spaces. Words of scripts without
    spaces stay one token.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _token_f1(left: pd.Series, right: pd.Series) -> Values:
    tokens = [texts.str.split() for texts in (left, right)]
    n_left, n_right = (side.map(len).to_numpy("float64") for side in tokens)
    counted = [
        side.explode().dropna().rename("token").rename_axis("row").reset_index()
        .groupby(["row", "token"]).size()
        for side in tokens
    ]  # fmt: skip
    both = pd.concat(counted, axis=1, keys=["left", "right"], join="inner").min(axis=1)
    row = both.index.get_level_values("row").to_numpy("int64")
    n_common = np.bincount(row, both.to_numpy("float64"), len(left)).astype("float64")
    return np.where((n_left == 0) & (n_right == 0), 1.0, _f1(n_common, n_left, n_right))


def _f1(common: Values, n_left: Values, n_right: Values) -> Values:
    """Return 2 · common / (both lengths); 0 where both sides are empty."""
    n = n_left + n_right
    return np.divide(2 * common, n, out=np.zeros(len(common)), where=n > 0)


def common_length(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common subsequence of two lists of words (Hyyrö 2004).

    Each row of the usual table is one whole number, a bit per word of `left`, so a step takes a
    word and not a cell.
    """
    places: dict[str, int] = {}
    for position, word in enumerate(left):
        places[word] = places.get(word, 0) | 1 << position
    full = (1 << len(left)) - 1
    row = full
    for word in right:
        met = row & places.get(word, 0)
        row = ((row + met) | (row - met)) & full
    return len(left) - row.bit_count()
