"""`rs.judge`.

Judges asked about the responses of some runs, several at a time; verdicts, and a ledger of what was
asked.

In: results and golden set. Out: the results with their judgments, and one row for every judgment
that was due.
"""

import math
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs, from_records
from ragscore.judging.ask import Asker, Pass, run_pass, why_skipped
from ragscore.judging.cache import DEFAULT_CACHE, Cache
from ragscore.judging.cases import cases_of, write_judge_inputs
from ragscore.judging.endpoint import Client, Endpoint, OutOfMoney, Prices, Purse, Unusable
from ragscore.judging.files import save_judged
from ragscore.judging.judges import Judge, Verdict, find_judges
from ragscore.store.store import RunStore

STATES = ("scored", "not_measurable", "judge_failed", "skipped", "not_asked")
REFUSED = ("skip", "judge")
_TAKEN = ("n_calls", "n_cached", "n_retries", "n_repairs", "tokens", "cost_usd")


@dataclass(frozen=True)
class Judged:
    """What judges said, and what became of every judgment that was due.

    Attributes
    ----------
    results
        With the judgments among their frames: `rs.score(judged.results, golden, ["faithfulness"])`.
    ledger
        One row per response, judge and repeat: run_id, query_id, judge, criterion, repeat; `state`
        (scored, not_measurable, judge_failed, skipped, not_asked) with its `reason`; and what it
        took this time: n_calls, n_cached, n_retries, n_repairs, tokens, cost_usd (NaN: unknown).
    """

    results: Results
    ledger: pd.DataFrame

    @property
    def judgments(self) -> pd.DataFrame:
        """The verdicts."""
        assert self.results.judgments is not None
        return self.results.judgments

    def counts(self) -> pd.DataFrame:
        """The ledger by run and judge: how many judgments are in each state, and what they took."""
        by = [self.ledger["run_id"], self.ledger["judge"]]
        states = pd.crosstab(by, self.ledger["state"]).reindex(columns=list(STATES), fill_value=0)
        taken = self.ledger.groupby(["run_id", "judge"])[list(_TAKEN)].sum(skipna=False)
        return states.join(taken).rename_axis(columns=None).reset_index()

    def save(self, where: str | Path | RunStore, *, overwrite: bool = False) -> list[Path]:
        """Write judgments and ledger to where their runs are.

        `judgments.jsonl`, or in a store `judgments.parquet`, and `judge_ledger.jsonl`.

        Parameters
        ----------
        where
            The folder of the one run, or the store that holds the runs; scores that it has keep
            their values until `store.refresh`.
        overwrite
            Replace judgments that are there.

        Returns
        -------
        The folder of each run.
        """
        return save_judged(self.results, self.ledger, where, overwrite)

    def __repr__(self) -> str:
        n = self.ledger["state"].value_counts()
        states = ", ".join(f"{n[state]} {state}" for state in STATES if state in n)
        cost = self.ledger["cost_usd"].sum(skipna=False)
        return (
            f"Judged: {len(self.ledger)} judgments ({states}); cost"
            f" {'unknown' if math.isnan(cost) else f'${cost:.4f}'}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + self.counts()._repr_html_()  # type: ignore[operator]


def judge(
    results: Results,
    golden: Golden,
    judges: str | Judge | Iterable[str | Judge],
    endpoint: Endpoint | str,
    *,
    repeats: int = 1,
    workers: int = 8,
    cache: str | Path | None = DEFAULT_CACHE,
    prices: Prices | None = None,
    max_cost: float | None = None,
    k: int | None = None,
    refused: str = "skip",
    cut_text: str = "refuse",
    order: str = "rank",
    keep_inputs: str | Path | None = None,
    progress: bool | None = None,
) -> Judged:
    """Let models judge the answers of some runs.

    What is judged goes to the model as one JSON object and the rubric apart from it, so that no
    text can get out of its place. A reply that doesn't fit its schema is asked for once more; what
    still doesn't fit is NaN with state "judge_failed" and a reason, never 0.

    Parameters
    ----------
    judges
        Names of `rs.judge_table()`, or judges of your own
        (`rs.find_judge("groundedness").with_prompt(text)`).
    endpoint
        A model's name at api.openai.com, or an `rs.Endpoint`.
    repeats
        How often each judgment is made; repeat r is asked with the endpoint's seed + r - 1. Scores
        are means over them.
    workers
        How many requests are under way at a time, at most.
    cache
        The SQLite file that keeps usable replies; a judgment of the same model, prompt,
        temperature, seed, repeat, question, answer, context and reference is not asked again. None
        keeps nothing.
    prices, max_cost
        US dollars per million tokens by model, (prompt, completion) or one number; once `max_cost`
        is spent, nothing more is asked, and what is done is returned. Without a price, cost is NaN.
    k
        How many hits of a response are its context; by default the run's own k, and all hits where
        it states none.
    refused
        "skip": answers of a system that says it refused are judged by abstention only; "judge": by
        all judges.
    cut_text
        Hits of which only a cut text is there: "refuse", or "mark" judgments by them
        (`x_context_cut`).
    order
        Of the hits in the context: by "rank", or "reversed", to see what their places do to a judge
        (`rs.judge_audit`).
    keep_inputs
        A file (JSON lines) to which everything goes that the judges were given;
        `rs.load_judge_inputs` reads it, to judge the same again without the run.
    progress
        A bar on standard error; by default only on a terminal.

    Returns
    -------
    Judged. Its judgments replace those of the same runs and criteria in `results`. Tokens and cost
    of a judgment are those of the replies it was made from, and stand on its first row; what was
    spent this time is in the ledger.

    Raises
    ------
    DataError
        An unknown judge, a judge that lacks its embedding model, no response of a golden query, cut
        text, `max_cost` without a price, or an endpoint that refuses the key, the model or the
        address.
    """
    check_inputs(results, golden)
    wanted, asked = (
        find_judges(judges),
        endpoint if isinstance(endpoint, Endpoint) else Endpoint(endpoint),
    )
    _check(wanted, asked, repeats, workers, refused)
    cases = cases_of(results, golden, k, cut_text, order)
    if not cases:
        raise DataError(
            "no response to a golden query",
            field="results",
            allowed="runs that answer questions of the golden set",
        )
    if keep_inputs is not None:
        write_judge_inputs(cases, keep_inputs)
    passes = [
        Pass(case, one, repeat)
        for case in cases
        for one in wanted
        for repeat in range(1, repeats + 1)
    ]
    models = [
        asked.model,
        *([asked.embedding] if isinstance(asked.embedding, str) and _embeds(wanted) else []),
    ]
    with Cache(cache) as kept, Client(asked) as client:
        _run(
            passes, Asker(client, kept, Purse(prices, max_cost, models)), workers, refused, progress
        )
    return Judged(_with_judgments(results, passes, asked, order), _ledger(passes))


def _check(
    judges: list[Judge], endpoint: Endpoint, repeats: int, workers: int, refused: str
) -> None:
    for name, value in (("repeats", repeats), ("workers", workers)):
        if value < 1:
            raise DataError(f"found {value}", field=name, allowed="at least 1")
    if refused not in REFUSED:
        raise DataError(
            f"found {refused!r}", field="refused", allowed=f"one of {', '.join(REFUSED)}"
        )
    if _embeds(judges) and endpoint.embedding is None:
        raise DataError(
            "answer relevance compares embeddings",
            field="embedding",
            allowed="Endpoint(..., embedding=) with a model's name or a callable",
        )


def _embeds(judges: list[Judge]) -> bool:
    return any(judge.each == "questions" for judge in judges)


def _run(
    passes: list[Pass], asker: Asker, workers: int, refused: str, progress: bool | None
) -> None:
    """Run every pass that is due; fills in their states."""
    stop = threading.Event()

    def run(one: Pass) -> None:
        if stop.is_set():
            return
        try:
            run_pass(one, asker)
        except OutOfMoney as error:
            one.state, one.reason, one.verdicts = "not_asked", str(error), []
        except Unusable:
            stop.set()
            raise

    due = []
    for one in passes:
        one.reason = why_skipped(one.case, one.judge, refused)
        one.state = "" if one.reason is None else "skipped"
        due += [one] if one.reason is None else []
    with ThreadPoolExecutor(workers, thread_name_prefix="judge") as pool:
        futures = [pool.submit(run, one) for one in due]
        try:
            _wait(futures, asker, due, progress)
        except BaseException:
            stop.set()
            raise


def _wait(
    futures: "list[Future[None]]", asker: Asker, due: list[Pass], progress: bool | None
) -> None:
    with _bar(len(futures), progress) as bar:
        for future in as_completed(futures):
            try:
                future.result()
            except Unusable as error:
                raise DataError(
                    str(error),
                    field="endpoint",
                    allowed=(
                        "a model, key and base_url that work; what was judged before is in the"
                        " cache"
                    ),
                ) from None
            bar.update()
            bar.set_postfix_str(
                f"${asker.purse.spent:.4f}" if not math.isnan(asker.purse.spent) else ""
            )


def _bar(total: int, progress: bool | None) -> Any:
    if progress is False:
        return _NoBar()
    try:
        from tqdm import tqdm
    except ImportError:
        return _NoBar()
    return tqdm(
        total=total, desc="judging", unit="judgment", disable=None if progress is None else False
    )


class _NoBar:
    """A bar that shows nothing."""

    def __enter__(self) -> "_NoBar":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self) -> None:
        """One more is done."""

    def set_postfix_str(self, text: str) -> None:
        """What stands beside it."""


def _with_judgments(
    results: Results, passes: list[Pass], endpoint: Endpoint, order: str
) -> Results:
    """The results with these judgments in place of those of the same runs and criteria."""
    new = from_records(
        [record for one in passes for record in _records(one, endpoint, order)], "judgments"
    )
    old = results.judgments
    if old is None or not len(old):
        return replace(results, judgments=new)
    replaced = {(one.case.run_id, one.judge.criterion) for one in passes if one.verdicts}
    stays = [
        cell not in replaced
        for cell in zip(old["run_id"].astype("str"), old["criterion"], strict=True)
    ]
    parts = [
        frame.assign(run_id=frame["run_id"].astype("str"))
        for frame in (old[stays], new)
        if len(frame)
    ]
    return replace(results, judgments=pd.concat(parts, ignore_index=True) if parts else new)


def _records(one: Pass, endpoint: Endpoint, order: str) -> list[Verdict]:
    """The rows of a pass; what it took stands on the first of them."""
    about = {
        "run_id": one.case.run_id, "query_id": one.case.query_id, "criterion": one.judge.criterion,
        "judge": endpoint.model,
        "prompt_hash": one.judge.prompt_hash, "temperature": endpoint.temperature,
        "repeat": one.repeat, "input_hash": one.case.input_hash,
        "x_prompt_version": one.judge.prompt_version,
        "x_seed": None if endpoint.seed is None else endpoint.seed + one.repeat - 1,
        "x_embedding_model": endpoint.embedding_name if one.judge.each == "questions" else None,
        "x_context_order": order if order != "rank" and "context" in one.judge.needs else None,
        "x_context_cut": True if one.case.is_cut and "context" in one.judge.needs else None,
    }  # fmt: skip
    rows = [about | verdict for verdict in one.verdicts]
    for row in rows[:1]:
        tokens, cost = one.made.tokens, one.made.cost_usd
        row |= {
            "tokens": None if math.isnan(tokens) else int(tokens),
            "cost_usd": None if math.isnan(cost) else cost,
        }
    return rows


def _ledger(passes: list[Pass]) -> pd.DataFrame:
    rows = [
        (
            one.case.run_id,
            one.case.query_id,
            one.judge.name,
            one.judge.criterion,
            one.repeat,
            one.state,
            one.reason,
            *(getattr(one.now, name) for name in _TAKEN),
        )
        for one in passes
    ]
    frame = pd.DataFrame(
        rows,
        columns=["run_id", "query_id", "judge", "criterion", "repeat", "state", "reason", *_TAKEN],
    )
    texts = dict.fromkeys(("run_id", "query_id", "judge", "criterion", "state", "reason"), "str")
    return frame.astype(texts | {"tokens": "float64", "cost_usd": "float64"})
