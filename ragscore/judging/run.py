"""`rs.judge`: let models judge the responses of some runs, several at a time.

In: results and golden set. Out: `Judged`, the results with their judgments and a judge log with
one row per judgment. `Judged.save` writes both beside the runs.
"""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs, from_records, records_of
from ragscore.frames.errors import check_choice, check_whole, plural
from ragscore.frames.tables import SHOWN_ROWS, Display, Table
from ragscore.frames.verbs import JudgedVerbs
from ragscore.io.files import write_lines
from ragscore.io.run_file import JUDGMENTS_FILE, LEDGER_FILE
from ragscore.io.run_write import write_judgments
from ragscore.io.servers import progress_bar
from ragscore.io.source import Problems, json_rows
from ragscore.judging.cases import cases_of
from ragscore.judging.client import (
    JudgeClient,
    Judgment,
    judge_client,
    run_judgment,
    skip_reason,
)
from ragscore.judging.endpoint import (
    DEFAULT_CACHE,
    Cache,
    CostTracker,
    Endpoint,
    Prices,
    name_of,
)
from ragscore.judging.judges import Judge, find_judges
from ragscore.judging.relevance import relevance_grades, with_grades
from ragscore.judging.replies import Verdict
from ragscore.store.store import RunStore

STATES = ("scored", "not_measurable", "judge_failed", "skipped", "not_asked")
REFUSED = ("skip", "judge")
_USAGE = ["n_calls", "n_cached", "n_retries", "n_repairs", "tokens", "cost_usd"]
_LOG_COLUMNS = [
    "run_id", "query_id", "judge", "criterion", "repeat", "state", "reason", *_USAGE,
]  # fmt: skip
_LOG_TYPES = dict.fromkeys(("run_id", "query_id", "judge", "criterion", "state", "reason"), "str")
_LOG_TYPES |= {"tokens": "float64", "cost_usd": "float64"}


@dataclass(frozen=True, repr=False, eq=False)
class Judged(JudgedVerbs, Display):
    """Results with their judgments, and the judge log.

    `rs.judge` makes it; `rs.judging.Judged(results)` holds judgments that were loaded.

    Attributes
    ----------
    results
        The results with judgments: `rs.evaluate(judged.results, golden, ["faithfulness"])`.
    ledger
        The judge log, one row per response, judge and repeat: run_id, query_id, judge, criterion,
        repeat; `state` (scored, not_measurable, judge_failed, skipped, not_asked) and `reason`;
        and the usage of this call: n_calls, n_cached, n_retries, n_repairs, tokens, cost_usd (US
        dollars). Tokens and cost are NaN if unknown. Empty for judgments that were loaded.
    golden, judges
        What they were judged with, for `spot_check`.
    """

    results: Results
    ledger: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=_LOG_COLUMNS).astype(_LOG_TYPES)
    )
    golden: Golden | None = None
    judges: tuple[Judge, ...] = ()

    @property
    def judgments(self) -> pd.DataFrame:
        """The judgments frame of the results, one row per verdict."""
        assert self.results.judgments is not None
        return self.results.judgments

    def grades(self) -> pd.DataFrame:
        """Return the grades that the judge "relevance" gave; see `graded` for their golden set.

        One row per query and hit: query_id, chunk_id or doc_id, `grade` (0 to 3), `n` verdicts and
        `judged_by`.
        """
        return relevance_grades(self.results)

    def graded(self, relevant_from: int = 2) -> Golden:
        """Return the golden set with the judge's grades beside people's labels, marked.

        Where people labelled a hit, their label stays. `targets.judged_by` names the judges.

        Parameters
        ----------
        relevant_from
            Where people's labels are 0 and 1, the judge's are, too: 1 from this grade on. A grade
            of 1 is a passage about the subject that doesn't answer. Else grades stay as they are.

        Raises
        ------
        DataError
            Nothing was graded, or the golden set isn't known.

        Examples
        --------
        >>> rs.evaluate(judged.results, judged.graded(), "ndcg@10")
        """
        if self.golden is None:
            raise DataError(
                "the golden set isn't known", field="golden",
                allowed="rs.judging.Judged(results, golden=golden)",
            )  # fmt: skip
        if relevant_from not in (1, 2, 3):
            raise DataError(f"found {relevant_from}", field="relevant_from", allowed="1, 2 or 3")
        return with_grades(self.golden, self.results, relevant_from)

    def counts(self) -> pd.DataFrame:
        """Return one row per run and judge: number of judgments by state, and summed usage."""
        by = [self.ledger["run_id"], self.ledger["judge"]]
        states = pd.crosstab(by, self.ledger["state"]).reindex(columns=list(STATES), fill_value=0)
        usage = self.ledger.groupby(["run_id", "judge"])[_USAGE].sum(skipna=False)
        return states.join(usage).rename_axis(columns=None).reset_index()

    def save(self, where: str | Path | RunStore, *, overwrite: bool = False) -> list[Path]:
        """Save judgments and judge log with their runs.

        Writes `judgments.jsonl` (in a store `judgments.parquet`) and `judge_ledger.jsonl`. Rows of
        other judges in an existing log stay.

        Parameters
        ----------
        where
            The folder of the only run, or the store that holds the runs. Scores in a store keep
            their values until `store.refresh`.
        overwrite
            Replace existing judgments.

        Returns
        -------
        The folder of each run.

        Raises
        ------
        DataError
            Several runs for one folder, or existing judgments without `overwrite`.
        """
        run_ids = self.results.runs["run_id"].astype("str").tolist()
        if not isinstance(where, RunStore) and len(run_ids) != 1:
            raise DataError(
                f"{len(run_ids)} runs in one folder",
                field="where",
                allowed="one run (see Results.select), or the RunStore that holds them",
            )
        folders = []
        for run_id in run_ids:
            part = self.results.select(run_id)
            assert part.judgments is not None
            if isinstance(where, RunStore):
                folder = where.path(run_id)
                where.add(run_id, judgments=part.judgments, overwrite=overwrite)
            else:
                folder = Path(where)
                if (folder / JUDGMENTS_FILE).exists() and not overwrite:
                    raise DataError(
                        "the run has judgments already",
                        file=folder / JUDGMENTS_FILE,
                        field="judgments",
                        allowed="overwrite=True",
                    )
                write_judgments(part, folder)
            log = self.ledger[self.ledger["run_id"] == run_id]
            saved = ledger_of(folder)
            others = saved[~saved["judge"].isin(log["judge"].unique())]
            write_lines(folder / LEDGER_FILE, [*records_of(others), *records_of(log)])
            folders.append(folder)
        return folders

    def _parts(self) -> list[str | Table]:
        n = self.ledger["state"].value_counts()
        states = ", ".join(f"{n[state]} {state}" for state in STATES if state in n)
        cost = self.ledger["cost_usd"].sum(skipna=False)
        title = (
            f"Judged: {plural(len(self.ledger), 'judgment')} ({states}); cost"
            f" {'unknown' if math.isnan(cost) else f'${cost:.4f}'}"
        )
        return [
            title,
            *("First failure: " + self.ledger.query("state == 'judge_failed'")["reason"][:1]),
            Table(self.counts(), limit=SHOWN_ROWS, way=".counts()"),
        ]


def ledger_of(folder: Path) -> pd.DataFrame:
    """Return the judge log of a run's folder: the frame of `Judged.ledger`."""
    file = folder / LEDGER_FILE
    rows = json_rows(file, Problems(file, strict=True)) if file.exists() else []
    return pd.DataFrame([row.values for row in rows], columns=_LOG_COLUMNS).astype(_LOG_TYPES)


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
    progress: bool | None = None,
) -> Judged:
    """Let models judge the responses of some runs.

    The rubric is the system message and the judged texts are one JSON object in the user message,
    so no judged text can pose as an instruction. A reply that does not match its schema is
    requested once more. If that fails too, the value is NaN with state "judge_failed" and a reason,
    never 0; the other judgments go on. What ends the whole run, such as Ctrl-C, raises with the
    judgments made so far in the error's attribute `judged`.

    Parameters
    ----------
    judges
        Names from `rs.judging.available_judges()`, or your own judges
        (`rs.judging.get_judge("groundedness").with_prompt(text)`).
    endpoint
        A model's name at api.openai.com, or an `rs.judging.Endpoint`.
    repeats
        Number of judgments per response and judge; scores are their mean. Repeat r is sent with
        the endpoint's seed + r - 1.
    workers
        Maximal number of concurrent requests.
    cache
        SQLite file for usable replies, which processes can share. A judgment with the same model,
        prompt, temperature, seed, repeat, question, answer, context and reference is not requested
        again. Damaged rows are, with a warning. None stores nothing. Nor does the default if the
        endpoint is a function: a key holds its name, not what it does. Where you name a file, give
        a changed function another `model`.
    prices, max_cost
        US dollars per million tokens by model, as (prompt, completion) or one number. No request
        starts once `max_cost` is spent, and the finished judgments are returned; the up to
        `workers` requests under way may pass it. Without a price the cost is NaN.
    k
        Number of hits in the context of a response; by default the run's own k, or all hits if it
        states none.
    refused
        "skip": if the system says that it refused, only the judge abstention judges the response;
        "judge": all judges do.
    cut_text
        For hits of which only a cut text is known: "refuse" raises; "mark" judges them and sets
        `x_context_cut`.
    progress
        Show a progress bar on standard error; by default only on a terminal.

    Returns
    -------
    Judged. Its judgments replace `results`' own of the same runs and criteria. The first row of
    a judgment holds tokens and cost of its replies, cached or not. The judge log holds the usage of
    this call only.

    Raises
    ------
    DataError
        An unknown judge, a judge without its embedding, no response to a golden query, cut
        text, `max_cost` without a price, or an endpoint that refuses the key, the model or the
        address.
    """
    check_inputs(results, golden)
    judges = find_judges(judges)
    if not isinstance(endpoint, Endpoint):
        endpoint = Endpoint(endpoint)
    check_whole(repeats, "repeats")
    check_whole(workers, "workers")
    check_choice(refused, REFUSED, "refused")
    if endpoint.embedding is None and any(judge.each == "questions" for judge in judges):
        raise DataError(
            "answer relevance compares embeddings",
            field="embedding",
            allowed="Endpoint(..., embedding=), a function from texts to vectors",
        )
    cases = cases_of(results, golden, k, cut_text)
    if not cases:
        raise DataError(
            "no response to a golden query",
            field="results",
            allowed="runs that answer queries of the golden set",
        )
    judgments = [
        Judgment(case, judge, repeat, "" if reason is None else "skipped", reason)
        for case in cases
        for judge in judges
        for reason in [skip_reason(case, judge, refused)]
        for repeat in range(1, repeats + 1)
    ]
    costs = CostTracker(prices, max_cost, endpoint.model)

    def judged() -> Judged:
        stopped: dict[str, Any] = {
            "state": "not_asked", "reason": "the run was stopped", "verdicts": [],
        }  # fmt: skip
        done = [one if one.state else replace(one, **stopped) for one in judgments]
        return Judged(
            _with_judgments(results, done, endpoint),
            pd.DataFrame(map(_log_row, done), columns=_LOG_COLUMNS).astype(_LOG_TYPES),
            golden,
            tuple(judges),
        )

    with (
        closing(Cache(None if endpoint.call and cache == DEFAULT_CACHE else cache)) as replies,
        judge_client(endpoint, replies, costs) as client,
    ):
        due = [one for one in judgments if one.state != "skipped"]
        try:
            _run_all(due, client, workers, progress)
            replies.warn()
        except BaseException as error:
            # Whatever ended the run, Ctrl-C or a warning too: what was judged is paid for.
            error.judged = judged()  # type: ignore[attr-defined]
            n = sum(bool(judgment.verdicts) for judgment in due)
            error.add_note(f"{plural(n, 'judgment')} made before: the error's attribute `judged`")
            raise
    return judged()


def _run_all(
    judgments: list[Judgment], client: JudgeClient, workers: int, progress: bool | None
) -> None:
    """Run judgments in threads; an interrupt or an unusable endpoint stops the remaining ones."""
    costs = client.costs
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="judge") as pool,
        progress_bar(len(judgments), "judging", "judgment", progress) as bar,
    ):
        futures = [pool.submit(run_judgment, judgment, client) for judgment in judgments]
        try:
            for future in as_completed(futures):
                future.result()
                bar.update()
                bar.set_postfix_str("" if math.isnan(costs.spent) else f"${costs.spent:.4f}")
        finally:
            costs.stop("the run was stopped")


def _with_judgments(results: Results, judgments: list[Judgment], endpoint: Endpoint) -> Results:
    """Replace the judgments of the same runs and criteria by the new ones."""
    new = from_records([row for one in judgments for row in _rows(one, endpoint)], "judgments")
    old = results.judgments if results.judgments is not None else new  # all of them replaced
    replaced = {(one.case.run_id, one.judge.criterion) for one in judgments if one.verdicts}
    groups = zip(old["run_id"].astype("str"), old["criterion"], strict=True)
    parts = [part for part in (old[[one not in replaced for one in groups]], new) if len(part)]
    both = [part.astype({"run_id": "str"}) for part in parts]
    return replace(results, judgments=pd.concat(both, ignore_index=True) if both else new)


def _rows(judgment: Judgment, endpoint: Endpoint) -> list[Verdict]:
    """Return one row per verdict; the first one holds tokens and cost of the whole judgment."""
    case, judge = judgment.case, judgment.judge
    common = {
        "run_id": case.run_id,
        "query_id": case.query_id,
        "criterion": judge.criterion,
        "judge": endpoint.model,
        "prompt_hash": judge.prompt_hash,
        "temperature": endpoint.temperature,
        "repeat": judgment.repeat,
        "input_hash": case.input_hash,
        "x_prompt_version": judge.prompt_version,
        "x_seed": None if endpoint.seed is None else endpoint.seed + judgment.repeat - 1,
        "x_embedding_model": name_of(endpoint.embedding) if judge.each == "questions" else None,
        "x_context_cut": True if case.is_cut and "context" in judge.needs else None,
    }
    rows = [common | verdict for verdict in judgment.verdicts]
    if rows:
        tokens, cost = (judgment.reply_usage[name] for name in ("tokens", "cost_usd"))
        rows[0] |= {
            "tokens": None if math.isnan(tokens) else int(tokens),
            "cost_usd": None if math.isnan(cost) else cost,
        }
    return rows


def _log_row(judgment: Judgment) -> dict[str, Any]:
    return {
        "run_id": judgment.case.run_id,
        "query_id": judgment.case.query_id,
        "judge": judgment.judge.name,
        "criterion": judgment.judge.criterion,
        "repeat": judgment.repeat,
        "state": judgment.state,
        "reason": judgment.reason,
        **{name: judgment.usage[name] for name in _USAGE},
    }
