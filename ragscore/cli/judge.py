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
    command,
    given,
    load,
    option,
    say,
    several,
    switch,
)
from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError, records_of
from ragscore.frames.errors import name_list
from ragscore.io.files import write_json
from ragscore.judging import Endpoint, Judged, get_judge
from ragscore.judging.cases import CUT_TEXT
from ragscore.judging.endpoint import DEFAULT_CACHE, KEY_VARIABLES, STRUCTURED
from ragscore.judging.judges import JUDGES
from ragscore.judging.run import REFUSED, judge
from ragscore.store.store import RunStore

ALL_FAILED = 3
# answer_relevance needs a function that embeds texts
ASKED = [name for name, one in JUDGES.items() if one.each != "questions"]
AS_THE_FIRST = ("cache", "workers", "prices", "k", "refused", "cut_text")


def prices(file: str) -> dict[str, Any]:
    """Return the content of a JSON file."""
    return dict(json.loads(Path(file).read_text(encoding="utf-8")))


@command(
    "judge [GOLDEN] RUN... --model NAME",
    "Let a language model judge the answers of runs; exit status 3 if every judgment fails.",
    "judge golden.yaml runs/dense --model NAME --base-url http://127.0.0.1:8080/v1",
    *GOLDEN_ARGUMENT,
    several(
        "--judge",
        f"what is judged: {', '.join(ASKED)} (several times; default: groundedness)",
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
    (
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
    (
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
            ),
            option("--second-model", "the model that checks (default: the same)", "NAME"),
            option("--second-base-url", "where the second model is (default: --base-url)", "URL"),
            option(
                "--prices",
                'JSON: US dollars per million tokens by model, {"name": [prompt, completion]}'
                " (default: costs are unknown)",
                "FILE",
                type=prices,
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
)
def judge_command(args: argparse.Namespace) -> int:
    """Judge, save what was judged, and print means."""
    golden, results = load(args, args.runs)
    places = [_place(args, name) for name in args.runs]
    run_ids = results.runs["run_id"].astype("str").tolist()
    if len(run_ids) != len(places):
        raise DataError(
            f"{len(run_ids)} runs in {len(places)} arguments", field="run",
            allowed="one run per argument, so that its judgments have a place",
        )  # fmt: skip
    names = args.judge or ["groundedness"]
    criteria = [get_judge(name).criterion for name in names]
    known = set() if results.judgments is None else set(results.judgments["criterion"])
    there = sorted(known & set(criteria))
    if there and not args.overwrite:  # before anything is paid for
        raise DataError(
            f"a run is judged by {name_list(there)} already", field="run",
            allowed="--overwrite, or other judges",
        )  # fmt: skip
    endpoint = Endpoint(**given(args, Endpoint))
    options = given(args, judge) | ({"cache": None} if args.cache == "none" else {})
    first = {"results": results, "golden": golden, "judges": names, "endpoint": endpoint}
    judged = judge(**options | first)
    states, status = judged.ledger["state"].value_counts(), 0
    for state in ("judge_failed", "not_asked"):
        if n := int(states.get(state, 0)):
            reason = judged.ledger.loc[judged.ledger["state"] == state, "reason"].iloc[0]
            told = state.removeprefix("judge_").replace("_", " ")
            say(f"ragscore: {n} judgments {told}, first: {reason}", file=sys.stderr)
            status = int(state == "not_asked")
    if "judge_failed" in states and not {"scored", "not_measurable"} & set(states.index):
        return ALL_FAILED
    for run_id, place in zip(run_ids, places, strict=True):
        own = judged.ledger[judged.ledger["run_id"] == run_id]
        Judged(judged.results.select(run_id), own).save(place, overwrite=True)
    table = evaluate(judged.results, golden, criteria).summary()
    table = table[["run_id", "metric", "mean", "low", "high", "n", "n_expected"]]
    found = {"judgments": records_of(judged.counts()), "means": records_of(table)}
    if args.spot_check:
        second = replace(
            endpoint, model=args.second_model or endpoint.model,
            base_url=args.second_base_url or endpoint.base_url,
        )  # fmt: skip
        shared = {name: one for name, one in options.items() if name in AS_THE_FIRST}
        rows = records_of(judged.spot_check(second, n=args.spot_check, **shared))
        found["agreement"] = rows
        for run_id, place in zip(run_ids, places, strict=True):
            folder = place.path(run_id) if isinstance(place, RunStore) else place
            write_json(folder / "agreement.json", {"table": rows})
    counted = judged.counts().to_string(index=False, na_rep="unknown")
    parts = [counted, table.round(3).to_string(index=False)]
    parts += [
        f"second judge: {one['criterion']} disagrees about {one['disagreement']:.0%} of {one['n']}"
        " answers"
        for one in found.get("agreement", [])
    ]
    say(found if args.json else "\n\n".join(parts))
    return status


def _place(args: argparse.Namespace, name: str) -> RunStore | Path:
    """Return where the judgments of a run go: into the store, or beside its file."""
    if args.store is not None and not Path(name).exists():
        return args.store
    file = Path(name) / "per_query.jsonl" if Path(name).is_dir() else Path(name)
    if not file.name.startswith("per_query.") or not file.exists():
        raise DataError(
            "judgments are read beside a per_query.jsonl", file=name, field="run",
            allowed="such a file (results.save), or a name in --store",
        )  # fmt: skip
    return file.parent
