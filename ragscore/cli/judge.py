"""`ragscore judge`: let a model judge the answers of runs, and store the judgments there."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragscore.cli.options import (
    GOLDEN_ARGUMENT,
    JSON,
    RUN_LIST,
    STORED_RUNS,
    Group,
    as_json,
    command,
    load,
    option,
    say,
    several,
    switch,
)
from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError, Results, records_of
from ragscore.io.output import write_json
from ragscore.judging import Endpoint, Judged, get_judge
from ragscore.judging.cache import DEFAULT_CACHE
from ragscore.judging.cases import CUT_TEXT
from ragscore.judging.endpoint import KEY_VARIABLES, STRUCTURED
from ragscore.judging.judges import JUDGES
from ragscore.judging.run import REFUSED, judge
from ragscore.store.store import RunStore

ALL_FAILED = 3


@command(
    "judge [GOLDEN] RUN... --model NAME",
    "Let a language model judge the answers of runs; exit status 3 if every judgment fails.",
    "judge golden.yaml runs/dense --model NAME --base-url http://127.0.0.1:8080/v1",
    *GOLDEN_ARGUMENT,
    several(
        "--judge",
        f"what is judged: {', '.join(JUDGES)} (several times; default: groundedness)",
        "NAME",
    ),
    option("--k", "hits that are an answer's context (default: the run's own k)", "N"),
    option(
        "--refused",
        "answers that the system says are refusals: skip them (the default), or judge them",
        "|".join(REFUSED),
    ),
    option(
        "--cut-text",
        "hits of which only a cut text is there: refuse to judge (the default), or mark them",
        "|".join(CUT_TEXT),
    ),
    switch("--overwrite", "replace judgments of the same criteria (default: refuse)"),
    JSON,
    Group(
        "the model",
        [
            option(
                "--model",
                f"the model to ask; its key is taken from {' or '.join(KEY_VARIABLES)}",
                "NAME",
                required=True,
            ),
            option(
                "--base-url",
                "an OpenAI-compatible server, such as http://127.0.0.1:8080/v1 (default:"
                " api.openai.com)",
                "URL",
            ),
            option("--temperature", "sent with every call (default: 0)", "T"),
            option(
                "--seed",
                "sent with every call; repeat r is asked with N + r - 1 (default: 0)",
                "N",
            ),
            option(
                "--embedding-model",
                "the model of the same server that embeds texts, which only answer_relevance needs"
                " (default: none)",
                "NAME",
            ),
            option(
                "--structured",
                f"how the shape of replies is enforced: {', '.join(STRUCTURED)} (default:"
                f" {STRUCTURED[0]})",
                "|".join(STRUCTURED),
            ),
            option("--timeout", "seconds for a call (default: 120)", "S"),
            option(
                "--retries",
                "further attempts after 429, 5xx or a lost connection (default: 5)",
                "N",
            ),
        ],
    ),
    Group(
        "how often, and at what cost",
        [
            option(
                "--repeats",
                "how often each judgment is made (default: 1)",
                "N",
            ),
            option(
                "--workers",
                "requests under way at a time, at most (default: 8)",
                "N",
            ),
            option(
                "--cache",
                f"keeps replies, so that nothing is paid for twice (default: {DEFAULT_CACHE}; none:"
                " keep nothing)",
                "FILE",
            ),
            option(
                "--spot-check",
                "judge N answers again by --second-model, and keep how far both agree (default: 0)",
                "N",
                type=int,
            ),
            option("--second-model", "the model that checks (default: the same)", "NAME"),
            option("--second-base-url", "where the second model is (default: --base-url)", "URL"),
            option(
                "--prices",
                'JSON: US dollars per million tokens by model, {"name": [prompt, completion]}'
                " (default: costs are unknown)",
                "FILE",
            ),
            option(
                "--max-cost",
                "ask nothing more once this much is spent (default: no limit)",
                "USD",
            ),
        ],
    ),
    RUN_LIST,
    STORED_RUNS,
    details="Judgments are written as judgments.jsonl beside each per_query.jsonl, or into the"
    " store.",
    of=(judge, Endpoint),
)
def judge_command(args: argparse.Namespace) -> int:
    """Judge, save what was judged, and print means."""
    golden, results = load(args, args.runs)
    where = _places(args, results.runs["run_id"].astype("str").tolist())
    names = args.judge or ["groundedness"]
    # Before anything is paid for.
    if not args.overwrite and (there := _judged_before(results, names)):
        runs, criteria = (", ".join(dict.fromkeys(part)) for part in zip(*there, strict=True))
        raise DataError(
            f"{runs} judged by {criteria} already",
            field="run",
            allowed="--overwrite, or other judges",
        )
    endpoint = Endpoint(
        args.model, args.base_url, temperature=args.temperature, seed=args.seed,
        embedding=args.embedding_model, structured=args.structured,
        timeout=args.timeout, retries=args.retries,
    )  # fmt: skip
    options: dict[str, Any] = {
        "cache": None if args.cache == "none" else args.cache,
        "workers": args.workers,
        "prices": _prices(args.prices),
        "k": args.k,
    }
    options |= {"refused": args.refused, "cut_text": args.cut_text}
    try:
        judged = judge(
            results,
            golden,
            names,
            endpoint,
            repeats=args.repeats,
            max_cost=args.max_cost,
            **options,
        )
    except (DataError, KeyboardInterrupt) as error:
        # A part of the judgments takes the place of none, not of all that there were.
        if not _judged_before(results, names):
            _save(getattr(error, "judged", None), where)
        raise
    if (status := _failure(judged)) == ALL_FAILED:
        return status
    _save(judged, where)
    metrics = [get_judge(name).criterion for name in names]
    table = evaluate(judged.results, golden, metrics).summary()[
        ["run_id", "metric", "mean", "low", "high", "n", "n_expected"]
    ]
    found: dict[str, Any] = {"judgments": records_of(judged.counts()), "means": records_of(table)}
    if args.spot_check:
        found["agreement"] = _checked(args, judged, endpoint, where, options)
    say(
        as_json(found)
        if args.json
        else _text(judged, table.round(3).to_string(index=False), found.get("agreement"))
    )
    return status


def _save(judged: Judged | None, where: dict[str, RunStore | Path]) -> None:
    if judged is None or judged.results.judgments is None or not len(judged.judgments):
        return
    for run_id, place in where.items():
        Judged(
            judged.results.select(run_id), judged.ledger[judged.ledger["run_id"] == run_id]
        ).save(place, overwrite=True)


def _places(args: argparse.Namespace, run_ids: list[str]) -> dict[str, RunStore | Path]:
    """Where the judgments of each run go: into the store, or beside its file."""
    if len(run_ids) != len(args.runs):
        raise DataError(
            f"{len(run_ids)} runs in {len(args.runs)} arguments",
            field="run",
            allowed="one run per argument, so that its judgments have a place",
        )
    places: dict[str, RunStore | Path] = {}
    for name, run_id in zip(args.runs, run_ids, strict=True):
        if Path(name).exists() or args.store is None:
            file = Path(name) / "per_query.jsonl" if Path(name).is_dir() else Path(name)
            if not file.name.startswith("per_query.") or not file.exists():
                raise DataError(
                    "judgments are read beside a per_query.jsonl",
                    file=name,
                    field="run",
                    allowed="such a file (results.save), or a name in --store",
                )
            places[run_id] = file.parent
        else:
            places[run_id] = RunStore(args.store)
    return places


def _judged_before(results: Results, names: list[str]) -> list[tuple[str, str]]:
    """Run and criterion of every judgment that is there already."""
    if results.judgments is None:
        return []
    criteria = [get_judge(name).criterion for name in names]
    there = results.judgments[results.judgments["criterion"].isin(criteria)]
    return list(zip(there["run_id"].astype("str"), there["criterion"], strict=True))


def _prices(file: str | None) -> dict[str, Any] | None:
    if file is None:
        return None
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"not valid JSON ({error})", file=file, field="--prices") from error
    if not isinstance(content, dict):
        raise DataError(
            "not a JSON object",
            file=file,
            field="--prices",
            allowed='{"model": [prompt, completion]}',
        )
    return content


def _failure(judged: Judged) -> int:
    """The exit status.

    3 if every judgment failed, 1 if some were not asked, else 0; what went wrong goes to standard
    error.
    """
    states = judged.ledger["state"].value_counts()
    failed = judged.ledger[judged.ledger["state"] == "judge_failed"]
    if len(failed):
        say(
            f"ragscore: {len(failed)} judgments failed, first: {failed['reason'].iloc[0]}",
            file=sys.stderr,
        )
    if len(failed) and not {"scored", "not_measurable"} & set(states.index):
        return ALL_FAILED
    if n := int(states.get("not_asked", 0)):
        reason = judged.ledger.loc[judged.ledger["state"] == "not_asked", "reason"].iloc[0]
        say(f"ragscore: {n} judgments were not asked for: {reason}", file=sys.stderr)
        return 1
    return 0


def _checked(
    args: argparse.Namespace,
    judged: Judged,
    endpoint: Endpoint,
    where: dict[str, RunStore | Path],
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    second = replace(
        endpoint,
        model=args.second_model or endpoint.model,
        base_url=args.second_base_url or endpoint.base_url,
    )
    found = judged.spot_check(second, n=args.spot_check, **options)
    rows = records_of(found)
    for run_id, place in where.items():
        write_json(
            (place.path(run_id) if isinstance(place, RunStore) else place) / "agreement.json",
            {"table": rows},
        )
    return rows


def _text(judged: Judged, means: str, agreement: list[dict[str, Any]] | None) -> str:
    shown = judged.counts()
    columns = [
        "run_id",
        "judge",
        "scored",
        "not_measurable",
        "judge_failed",
        "skipped",
        "not_asked",
        "n_calls",
        "n_cached",
        "tokens",
        "cost_usd",
    ]
    parts = [shown[columns].to_string(index=False, na_rep="unknown"), means]
    if agreement is not None:
        parts.append(
            "\n".join(
                f"second judge: {one['criterion']} disagrees about {one['disagreement']:.0%} of"
                f" {one['n']} answers"
                for one in agreement
            )
        )
    return "\n\n".join(parts)
