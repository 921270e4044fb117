"""Answer metrics: text checks, reference answers, citations, judgments, refusals, latency.

In: `Results` and `Golden`. Out: one row per response, one column per metric, aligned with
`results.responses`; `score` joins them to the ranking metrics.
Texts are compared by code of our own: the package rouge-score had its last release in 2022, brings
nltk and absl along, and drops every letter outside a to z. Ours works on any script, needs no
package, and gives rouge-score's values on ASCII texts (a test compares them).
"""

import re
import string

import numpy as np
import pandas as pd

from ragscore.frames.codes import SmallCodes, is_among, lookup
from ragscore.frames.data import Golden, Results, check_inputs
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.attribution import score_attribution, score_scope
from ragscore.scoring.citations import CITATION_METRICS, has_value, score_citations
from ragscore.scoring.judgments import score_judgments
from ragscore.scoring.level import Level, choose_level
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
) -> dict[str, Values]:
    """Return the columns of `score_answers` as arrays.

    Parameters
    ----------
    located
        The result of `locate_hits`, where it is known already.
    """
    responses = results.responses.reset_index(drop=True)
    query = lookup(responses["query_id"], pd.Index(golden.queries["query_id"]))
    labels = golden.queries["answerable"].astype("float64")
    answerable = np.append(labels.to_numpy(dtype="float64", na_value=np.nan), np.nan)[query]
    failed = responses["error"].notna().to_numpy()
    answered = has_value(responses, "answer") & ~failed
    answered_due = answered & (answerable != 0)  # not where a refusal is due
    blank, stated_refusal = is_blank(responses), _numbers(responses, "refused")
    # A system that doesn't say whether it refused, and answers nothing, did.
    refused = np.where(np.isnan(stated_refusal) & answered & blank, 1.0, stated_refusal)
    is_known = ~np.isnan(refused) & ~failed
    should_refuse, should_answer = is_known & (answerable == 0), is_known & (answerable == 1)
    response_of_hit, n_hits = located or locate_hits(results)
    checks = _checks_passed(responses, golden, answered)
    judgments = results.judgments if results.judgments is not None else responses.iloc[:0]
    judged = score_judgments(results, response_of(judgments, responses), len(responses), no_claims)
    latency = _numbers(responses, "elapsed_ms")
    return {
        "answer_checks": np.where(answerable == 0, np.nan, checks),
        "answer_checks_all": checks,
        **_reference_scores(responses, golden, answered_due),
        **_citation_columns(results, golden, responses, answered, response_of_hit, level),
        **{name: np.where(failed, np.nan, values) for name, values in judged.items()},
        "refusal_correct": np.where(should_refuse, refused, np.nan),
        "answered_unanswerable": np.where(should_refuse, 1 - refused, np.nan),
        "false_refusal": np.where(should_answer, refused, np.nan),
        **score_attribution(results, golden, responses, answered),
        **score_scope(results, golden, responses, failed, unknown),
        "key_facts_literal": _literal_key_facts(golden, responses, answered_due),
        "timeout": is_timeout(responses["error"]).astype("float64"),
        "empty_response": np.where(answered, blank & (stated_refusal != 1), np.nan),
        "empty": np.where(failed, np.nan, n_hits == 0),
        "empty_all": (n_hits == 0).astype("float64"),
        "failed": failed.astype("float64"),
        "latency_ms": np.where(failed, np.nan, latency),
        "latency_ms_all": latency,
        "cost_usd": np.where(failed, np.nan, _numbers(responses, "cost_usd")),
    }


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


def _numbers(frame: pd.DataFrame, column: str) -> Values:
    """Return a column as float64, NaN where it or a value of it is absent."""
    if column not in frame:
        return np.full(len(frame), np.nan)
    return frame[column].to_numpy(dtype="float64", na_value=np.nan)


def _checks_passed(responses: pd.DataFrame, golden: Golden, answered: Flags) -> Values:
    """Return 1 / 0 where the query has string checks and the response an answer, else NaN."""
    passed = np.full(len(responses), np.nan)
    checks = golden.checks[is_among(golden.checks["kind"], ["must_contain", "forbidden"])]
    if not len(checks) or not answered.any():
        return passed
    answers = responses.loc[answered, ["query_id", "answer"]].assign(row=np.flatnonzero(answered))
    pairs = answers.merge(checks, on="query_id")
    # Substring search has no column form in pandas where both sides vary by row.
    holds = np.fromiter(
        (text in answer for answer, text in zip(pairs["answer"], pairs["text"], strict=True)),
        dtype=bool,
        count=len(pairs),
    )
    is_good = holds == (pairs["kind"] == "must_contain").to_numpy()
    rows = pairs["row"].to_numpy()
    passed[rows] = 1.0
    passed[rows[~is_good]] = 0.0
    return passed


def _literal_key_facts(golden: Golden, responses: pd.DataFrame, applies: Flags) -> Values:
    """Return the share of key facts whose words stand in the answer, one after the other.

    A judge (`key_facts`) also finds a fact in other words; this is the lower bound that needs none.
    """
    share = np.full(len(responses), np.nan)
    if not applies.any():
        return share
    facts = golden.checks.loc[golden.checks["kind"] == "key_fact", ["query_id", "text"]]
    if not len(facts):
        return share

    def words(text: str) -> str:  # with a space around each
        return f" {_BETWEEN_WORDS.sub(' ', text.casefold()).strip()} "

    answers = responses.loc[applies, ["query_id", "answer"]].assign(row=np.flatnonzero(applies))
    answers["words"] = [words(answer) for answer in answers["answer"]]
    facts = facts.assign(fact=[words(text) for text in facts["text"]])
    pairs = answers.merge(facts, on="query_id")
    # Substring search has no column form in pandas where both sides vary by row.
    holds = pd.Series(
        [fact in answer for fact, answer in zip(pairs["fact"], pairs["words"], strict=True)],
        dtype="float64",
    )
    means = holds.groupby(pairs["row"].to_numpy()).mean()
    share[means.index.to_numpy(dtype=np.int64)] = means.to_numpy()
    return share


def _citation_columns(
    results: Results,
    golden: Golden,
    responses: pd.DataFrame,
    answered: Flags,
    response_of_hit: SmallCodes,
    level: Level,
) -> dict[str, Values]:
    """Return the citation metrics, NaN where the system gave no answer of its own."""
    if not answered.any():
        return {name: np.full(len(responses), np.nan) for name in CITATION_METRICS}
    given = answered & (_numbers(responses, "refused") != 1)
    grounded = _numbers(responses, "grounded")
    # Where a system doesn't say `grounded`, an answer that isn't a refusal counts as one.
    is_grounded = np.where(np.isnan(grounded), given, answered & (grounded == 1))
    found = score_citations(
        results, golden, responses, response_of_hit.astype(np.int64, copy=False), level
    )
    return {
        name: np.where(
            is_grounded if name.startswith("citation_coverage") else given, values, np.nan
        )
        for name, values in found.items()
    }


def _reference_scores(responses: pd.DataFrame, golden: Golden, applies: Flags) -> dict[str, Values]:
    """Compare answers with the reference answer of their query, where there is one."""
    columns = {
        name: np.full(len(responses), np.nan) for name in ("exact_match", "token_f1", "rouge_l")
    }
    if "reference_answer" not in golden.queries or not applies.any():
        return columns
    references = responses["query_id"].map(golden.queries.set_index("query_id")["reference_answer"])
    rows = np.flatnonzero(applies & references.notna().to_numpy())
    if len(rows):
        compared = score_texts(responses["answer"].iloc[rows], references.iloc[rows])
        for name, values in compared.items():
            columns[name][rows] = values
    return columns


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
    f1 = _f1(n_common, n_left, n_right)
    return np.where((n_left == 0) & (n_right == 0), 1.0, f1)


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
