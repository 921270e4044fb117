"""Answer-level scores: string checks, reference answers, citations, judgments, refusals, latency.

One row per response, one column per metric.

In: `Results` and `Golden`. Out: a frame aligned with `results.responses`, which `score` joins to
the ranking metrics.

What a chatbot's answers are judged by beside retrieval.

Attribution, recency, folders searched, key facts, time-outs.

In: responses in their order. Out: one array per metric, which `score_answers` joins to its columns.

Key facts that an answer should state, literally.

A judge (`judgments`) sees a fact in other words, the literal share doesn't: it is the lower bound
that needs no model.

An answer's text against the reference answer: exact match, token F1, ROUGE-L.

In: texts side by side. Out: one value per pair. ROUGE-L is own code: the package rouge-score had
its last release in 2022, brings nltk and absl along, and drops every letter outside a to z. Ours
works on any script, needs no package, and gives rouge-score's values on ASCII texts (a test
compares them).
"""

import re
import string

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Golden, Results, check_inputs, check_type
from ragscore.scoring.attribution import score_attribution, score_scope
from ragscore.scoring.citations import (
    SETS,
    catalogue_of,
    cited_passages,
    has,
    hits_of,
    is_resolved,
    score_citations,
)
from ragscore.scoring.judgments import score_judgments
from ragscore.scoring.level import Level, choose_level
from ragscore.scoring.matching import HitResponses, locate_hits
from ragscore.scoring.matching import response_of as response_of

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_BETWEEN_WORDS = re.compile(r"[\W_]+")


def score_facts(golden: Golden, responses: pd.DataFrame, applies: Flags) -> dict[str, Values]:
    """`key_facts_literal` of each response, as `rs.metrics()` defines it.

    NaN where it doesn't apply.
    """
    return {"key_facts_literal": _literal(golden, responses, applies)}


def _literal(golden: Golden, responses: pd.DataFrame, applies: Flags) -> Values:
    """Share of the facts whose words stand in the answer, one after the other."""
    share = np.full(len(responses), np.nan)
    if not len(golden.checks) or not applies.any():
        return share
    facts = golden.checks.loc[golden.checks["kind"] == "key_fact", ["query_id", "text"]]
    if not len(facts):
        return share
    answers = responses.loc[applies, ["query_id", "answer"]].assign(row=np.flatnonzero(applies))
    answers["words"] = [_words(answer) for answer in answers["answer"]]
    pairs = answers.merge(
        facts.assign(fact=[_words(text) for text in facts["text"]]), on="query_id"
    )
    # Substring search has no column form in pandas where both sides vary by row.
    holds = pd.Series(
        [fact in words for fact, words in zip(pairs["fact"], pairs["words"], strict=True)],
        dtype="float64",
    )
    means = holds.groupby(pairs["row"].to_numpy()).mean()
    share[means.index.to_numpy(dtype=np.int64)] = means.to_numpy()
    return share


def _words(text: str) -> str:
    """The words of a text in lower case, with a space around each.

    No case, no punctuation, single spaces.
    """
    return f" {_BETWEEN_WORDS.sub(' ', text.casefold()).strip()} "


# "Request timed out", "timeout", "ReadTimeoutError", "deadline exceeded"
TIMED_OUT = re.compile(r"time[ds]?[\s_-]*out|deadline exceeded", re.IGNORECASE)


def score_dialogue(
    results: Results, golden: Golden, responses: pd.DataFrame, answerable: Values, unknown: str
) -> dict[str, Values]:
    """The columns of this module for each response.

    `answerable` is 1, 0 or NaN (unlabelled), `unknown` as in `rs.score`.
    """
    failed = responses["error"].notna().to_numpy()
    none = np.zeros(len(responses), dtype=bool)
    answered = responses["answer"].notna().to_numpy() & ~failed if "answer" in responses else none
    refused = (
        responses["refused"].fillna(False).astype(bool).to_numpy()
        if "refused" in responses
        else none
    )
    is_blank = (
        (responses["answer"].str.strip() == "").to_numpy(dtype=bool, na_value=False)
        if "answer" in responses
        else none
    )
    return {
        **score_attribution(results, golden, responses, answered),
        **score_scope(results, golden, responses, failed, unknown),
        **score_facts(golden, responses, answered & (answerable != 0)),
        "timeout": is_timeout(responses["error"]).astype("float64"),
        "empty_response": np.where(answered, is_blank & ~refused, np.nan),
    }


def is_timeout(errors: pd.Series) -> npt.NDArray[np.bool_]:
    """Which errors say that time ran out."""
    found = np.zeros(len(errors), dtype=bool)
    given = errors.notna().to_numpy()
    if given.any():
        found[given] = errors[given].astype(object).str.contains(TIMED_OUT).to_numpy(dtype=bool)
    return found


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORD = re.compile(r"[^\W_]+")


def normalised(text: str) -> str:
    """A text as SQuAD compares it.

    Lower case, no ASCII punctuation, no English articles, single spaces.

    Words of scripts without spaces stay one token.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def score_texts(answers: pd.Series, references: pd.Series) -> dict[str, Values]:
    """Compare each answer with the reference in the same row.

    Returns
    -------
    `exact_match` (1 if the normalised texts are equal), `token_f1` (F1 of their tokens, counted
    with repetition; where a side has no token, 1 if both have none, else 0: Rajpurkar et al. 2016,
    doi:10.18653/v1/D16-1264), `rouge_l` (F1 of the longest common subsequence of words, without
    stemming: Lin 2004, ACL W04-1013). 0 to 1, higher is better.
    """
    # By a Python function per text: Arrow's regular expressions know word boundaries of ASCII only.
    left, right = (
        pd.Series([normalised(text) for text in texts], dtype="str")
        for texts in (answers, references)
    )
    return {
        "exact_match": np.asarray(left == right, dtype="float64"),
        "token_f1": _token_f1(left, right),
        "rouge_l": _rouge_l(answers, references),
    }


def _token_f1(left: pd.Series, right: pd.Series) -> Values:
    n_left, n_right = (texts.str.split().map(len).to_numpy("float64") for texts in (left, right))
    counted = [
        texts.str.split()
        .explode()
        .dropna()
        .rename("token")
        .rename_axis("row")
        .reset_index()
        .groupby(["row", "token"])
        .size()
        for texts in (left, right)
    ]
    both = pd.concat(counted, axis=1, keys=["left", "right"], join="inner").min(axis=1)
    n_same = np.bincount(
        both.index.get_level_values("row").to_numpy("int64"), both.to_numpy("float64"), len(left)
    )
    f1 = np.divide(
        2 * n_same, n_left + n_right, out=np.zeros(len(left)), where=n_left + n_right > 0
    )
    return np.where((n_left == 0) & (n_right == 0), 1.0, f1)


def _rouge_l(answers: pd.Series, references: pd.Series) -> Values:
    words = [[_WORD.findall(text.lower()) for text in texts] for texts in (answers, references)]
    n_left, n_right = (np.array([len(one) for one in side], dtype="float64") for side in words)
    common = np.array(
        [common_length(left, right) for left, right in zip(*words, strict=True)], dtype="float64"
    )
    return np.divide(
        2 * common, n_left + n_right, out=np.zeros(len(common)), where=n_left + n_right > 0
    )


def common_length(left: list[str], right: list[str]) -> int:
    """Length of the longest common subsequence of two lists of words (Hyyrö 2004).

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


def score_answers(
    results: Results,
    golden: Golden,
    level: Level | None = None,
    unknown: str = "exclude",
    no_claims: float = np.nan,
) -> pd.DataFrame:
    """Score every response: what it answered, cited, refused, and how long it took.

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
    columns = answer_columns(
        results, golden, level or choose_level(results, golden), unknown, no_claims
    )
    names = {
        name: results.responses[name].reset_index(drop=True) for name in ("run_id", "query_id")
    }
    return pd.DataFrame({**names, **columns}, copy=False)


def answer_columns(
    results: Results,
    golden: Golden,
    level: Level,
    unknown: str,
    no_claims: float = np.nan,
    placed: HitResponses | None = None,
) -> dict[str, Values]:
    """The columns of `score_answers` as arrays.

    `placed`: what `locate_hits` gives, where that is known already.
    """
    responses = results.responses.reset_index(drop=True)
    queries = pd.Index(golden.queries["query_id"])
    query = lookup(responses["query_id"], queries)
    answerable = np.append(
        golden.queries["answerable"].astype("float64").to_numpy(dtype="float64", na_value=np.nan),
        np.nan,
    )[query]
    failed = responses["error"].notna().to_numpy()
    answered = has(responses, "answer") & ~failed
    refused = _flag(responses, "refused")
    # A system that doesn't say whether it refused, and answers nothing, did.
    refused = np.where(np.isnan(refused) & answered & _blank(responses), 1.0, refused)
    decided = ~np.isnan(refused) & ~failed
    refuses, answers = decided & (answerable == 0), decided & (answerable == 1)
    place, n_hits = placed or locate_hits(results)
    checks = _checks_passed(responses, golden, answered)
    return {
        "answer_checks": np.where(answerable == 0, np.nan, checks),
        "answer_checks_all": checks,
        **_reference_scores(responses, golden, answered & (answerable != 0)),
        **_citation_scores(results, golden, responses, answered, place, level),
        **_judged_scores(results, responses, failed, no_claims),
        "refusal_correct": np.where(refuses, refused, np.nan),
        "answered_unanswerable": np.where(refuses, 1 - refused, np.nan),
        "false_refusal": np.where(answers, refused, np.nan),
        **score_dialogue(results, golden, responses, answerable, unknown),
        "empty": np.where(failed, np.nan, n_hits == 0),
        "empty_all": (n_hits == 0).astype("float64"),
        "failed": failed.astype("float64"),
        "latency_ms": np.where(failed, np.nan, _number(responses, "elapsed_ms")),
        "latency_ms_all": _number(responses, "elapsed_ms"),
        "cost_usd": np.where(failed, np.nan, _number(responses, "cost_usd")),
    }


def refusal_reasons(results: Results, golden: Golden | None = None) -> pd.DataFrame:
    """How often each run refused, by reason.

    Returns
    -------
    One row per run and reason (`(none)` where a refusal gave none): `n` refusals, `rate` of all
    answered or refused responses (0 to 1), and with a golden set `n_due`, how many of them were
    due.
    """
    check_type(results, Results, "results")
    responses = results.responses
    known = (
        responses["refused"].notna()
        if "refused" in responses
        else pd.Series(False, index=responses.index)
    )
    decided = responses[known & responses["error"].isna()]
    n_decided = decided.groupby("run_id", observed=False).size()
    refused = decided[decided["refused"].astype(bool)] if len(decided) else decided
    reason = (
        refused["refusal_reason"]
        if "refusal_reason" in refused
        else pd.Series(index=refused.index, dtype="str")
    )
    refused = refused.assign(reason=reason.fillna("(none)"))
    table = refused.groupby(["run_id", "reason"], observed=True).size().rename("n").reset_index()
    table["rate"] = table["n"] / table["run_id"].map(n_decided).astype("float64")
    if golden is not None:
        counts = (
            refused[is_among(refused["query_id"], golden.refusals)]
            .groupby(["run_id", "reason"], observed=True)
            .size()
            .rename("n_due")
            .reset_index()
        )
        table = table.merge(counts, on=["run_id", "reason"], how="left").assign(
            n_due=lambda t: t["n_due"].fillna(0).astype("int64")
        )
    return table.sort_values(
        ["run_id", "n", "reason"], ascending=[True, False, True], ignore_index=True
    )


def _blank(responses: pd.DataFrame) -> Flags:
    return (
        (responses["answer"].str.strip() == "").to_numpy(dtype=bool, na_value=False)
        if "answer" in responses
        else np.zeros(len(responses), dtype=bool)
    )


def _flag(frame: pd.DataFrame, column: str) -> Values:
    return (
        frame[column].to_numpy(dtype="float64", na_value=np.nan)
        if column in frame
        else np.full(len(frame), np.nan)
    )


def _number(frame: pd.DataFrame, column: str) -> Values:
    return frame[column].to_numpy("float64") if column in frame else np.full(len(frame), np.nan)


def _checks_passed(responses: pd.DataFrame, golden: Golden, answered: Flags) -> Values:
    """1 / 0 where the query has string checks and the response an answer, else NaN."""
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
    good = holds == (pairs["kind"] == "must_contain").to_numpy()
    rows = pairs["row"].to_numpy()
    passed[rows] = 1.0
    passed[rows[~good]] = 0.0
    return passed


def _reference_scores(responses: pd.DataFrame, golden: Golden, applies: Flags) -> dict[str, Values]:
    """Answers against the reference answer of their query, where there is one."""
    columns = {
        name: np.full(len(responses), np.nan) for name in ("exact_match", "token_f1", "rouge_l")
    }
    if "reference_answer" not in golden.queries or not applies.any():
        return columns
    references = responses["query_id"].map(golden.queries.set_index("query_id")["reference_answer"])
    rows = np.flatnonzero(applies & references.notna().to_numpy())
    compared = (
        score_texts(responses["answer"].iloc[rows], references.iloc[rows]) if len(rows) else {}
    )
    for name, values in compared.items():
        columns[name][rows] = values
    return columns


def _judged_scores(
    results: Results, responses: pd.DataFrame, failed: Flags, no_claims: float
) -> dict[str, Values]:
    """What judges said, of responses that didn't fail."""
    rows = results.judgments if results.judgments is not None else responses.iloc[:0]
    judged = score_judgments(results, response_of(rows, responses), len(responses), no_claims)
    return {name: np.where(failed, np.nan, values) for name, values in judged.items()}


def _citation_scores(
    results: Results,
    golden: Golden,
    responses: pd.DataFrame,
    answered: Flags,
    place_of_hits: npt.NDArray[np.int64],
    level: Level,
) -> dict[str, Values]:
    if not answered.any():
        return {
            name: np.full(len(responses), np.nan)
            for name in ("citation_present", "citation_coverage", "citation_coverage_weak", *SETS)
        }
    citations = results.citations.reset_index(drop=True)
    place = response_of(citations, responses)
    citations, place = citations[place >= 0].reset_index(drop=True), place[place >= 0]
    n_cited = np.bincount(place, minlength=len(responses))
    place_of_hits = place_of_hits.astype(np.int64, copy=False)
    sources = [hits_of(results, place_of_hits, place), *catalogue_of(results, citations)]
    unresolved = np.bincount(place, ~is_resolved(citations, sources), len(responses))
    has_path = (
        has(citations, "path") & (citations["path"].to_numpy() != "")
        if "path" in citations
        else np.zeros(len(citations), dtype=bool)
    )
    pathless = np.bincount(place, ~has_path, len(responses))
    refused, grounded = _flag(responses, "refused"), _flag(responses, "grounded")
    given = answered & (refused != 1)
    # Where a system doesn't say `grounded`, an answer that isn't a refusal counts as one.
    is_grounded = np.where(np.isnan(grounded), given, answered & (grounded == 1))
    sets = score_citations(
        results,
        golden,
        responses,
        cited_passages(results, citations, place, place_of_hits),
        place_of_hits,
        level,
    )
    return {
        "citation_present": np.where(given, n_cited > 0, np.nan),
        "citation_coverage": np.where(is_grounded, (n_cited > 0) & (unresolved == 0), np.nan),
        "citation_coverage_weak": np.where(is_grounded, (n_cited > 0) & (pathless == 0), np.nan),
        **{name: np.where(given, values, np.nan) for name, values in sets.items()},
    }
