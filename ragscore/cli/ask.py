"""`ragscore run`, `judge` and `demo`: ask systems every golden query, and models to judge."""

import argparse
import json
import pkgutil
import runpy
import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from ragscore.cli.files import readable
from ragscore.cli.options import (
    GOLDEN,
    GOLDEN_ARGUMENT,
    JSON,
    METRIC,
    RUN_LIST,
    STORED_RUNS,
    command,
    given,
    load,
    option,
    reading,
    say,
    setting,
    several,
    switch,
)
from ragscore.collecting.journal import refuse_finished
from ragscore.collecting.run import ALLOWED, Given, collect
from ragscore.collecting.systems import CARRIED
from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError, records_of
from ragscore.frames.errors import name_list, packages_of
from ragscore.io.files import write_json
from ragscore.io.load import load_golden
from ragscore.judging import Endpoint, Judged, get_judge
from ragscore.judging.cases import CUT_TEXT
from ragscore.judging.endpoint import DEFAULT_CACHE, KEY_VARIABLES, STRUCTURED
from ragscore.judging.judges import JUDGES
from ragscore.judging.run import REFUSED, judge
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.summary import metric_columns
from ragscore.store.store import RunStore

ALL_FAILED = 3
# answer_relevance needs a function that embeds texts
ASKED = [name for name, one in JUDGES.items() if one.each != "questions"]
AS_THE_FIRST = ("cache", "workers", "prices", "k", "refused", "cut_text")


@command(
    "run SYSTEM --golden GOLDEN",
    "Ask a system every golden query and score it; exit status 3 if every query fails.",
    "run my_rag:answer --golden golden.yaml -k 10 --metric mrr@10",
    option(
        "system",
        "a chatbot's address; a YAML mapping of an endpoint; or module:function",
        nargs="?",
    ),
    option(
        "--command",
        "instead of a system: a command that gets the request as JSON on standard input and"
        " prints its reply as JSON (default: none)",
        "TEXT",
    ),
    option("-o --out", "the run's folder (default: runs/NAME)", "DIR"),
    METRIC,
    JSON,
    GOLDEN,
    (
        "what is sent",
        [
            option(
                "--mode", "the system's mode of search, where it has several (default: not sent)"
            ),
            option("-k --k", "hits to ask for (default: the system's own)", "N"),
            option("--temperature", "of the answer (default: the system's own)", "T"),
            option("--seed", "of the answer (default: the system's own)", "N"),
            switch("--retrieval-only", "ask for no answer (default: answers, too)"),
            several(
                "--set",
                "a setting of the system's own, sent with every query (several times; default:"
                " none)",
                "NAME=VALUE",
                type=setting,
                default=[],
            ),
            several(
                "--leave-out",
                f"a field of golden queries that is not sent: {', '.join(CARRIED)} (several times;"
                " default: none)",
                "FIELD",
                default=[],
            ),
            option("--limit", "only the first N queries (default: all)", "N"),
        ],
    ),
    (
        "how it is asked",
        [
            option("--workers", "queries in flight at a time (default: 1)", "N"),
            option("--timeout", "for one attempt (default: 120)", "SECONDS"),
            option(
                "--retries",
                "further attempts after time-outs, lost connections, 429 and 5xx (default: 2)",
                "N",
            ),
            switch("--fresh", "start over, replacing a run that is there (default: resume it)"),
            switch("--quiet", "no progress bar (default: one on a terminal)"),
        ],
    ),
    (
        "how the run is called",
        [
            option("--name", "of the system (default: as it is given)"),
            option("--run-id", "of the run (default: a new one, which sorts by time)"),
            option("--suite", "of queries that the run belongs to (default: none)"),
            option(
                "--repeat",
                "number of the trial, where one system is run several times (default: none)",
                "N",
            ),
            option(
                "--description",
                "of the run: what is tested by it; reports show it (default: none)",
                "TEXT",
                dest="note",
            ),
        ],
    ),
    details="Writes per_query.jsonl with run.json. A run that was interrupted goes on.",
)
def run_command(args: argparse.Namespace) -> int:
    """Collect a run, and print its scores."""
    if (args.system is None) == (args.command is None):
        raise DataError(
            "both a system and --command" if args.system else "none given",
            field="system",
            allowed="one of them",
        )
    golden = load_golden(args.golden, **reading(args, "golden_"))
    out = Path(args.out) if args.out else Path("runs", _out_folder(args))
    if not args.fresh:
        refuse_finished(out)  # before the system is built, which may take minutes
    options = given(args, collect) | {"system": _system(args), "golden": golden, "out": out}
    options |= {"settings": dict(args.set), "progress": not args.quiet}
    results = collect(**options)
    say(f"ragscore: wrote {out / 'per_query.jsonl'}", file=sys.stderr)
    if results.responses["error"].notna().all():
        return ALL_FAILED
    asked = golden.select(golden.queries["query_id"].isin(results.responses["query_id"]))
    ev = evaluate(results, asked, args.metric)
    metrics = args.metric if args.metric or args.json else TABLE.headline(metric_columns(ev.scores))
    table = ev.summary(metrics)
    say(records_of(table) if args.json else readable(table, []))
    return 0


def _out_folder(args: argparse.Namespace) -> str:
    """Return the default name of the run's folder."""
    given = args.system if args.command is None else shlex.split(args.command)[0]
    host = urlsplit(given).netloc.rpartition("@")[2].replace(":", "-")
    return host or str(args.name or Path(given.rpartition(":")[2]).stem)


def _system(args: argparse.Namespace) -> Given:
    """Return the system to ask, in a form that `collect` takes."""
    if args.command is not None:
        return shlex.split(args.command)
    if args.system.startswith(("http://", "https://")) or args.system.endswith(
        (".yaml", ".yml", ".json")
    ):
        return args.system
    sys.path.insert(0, str(Path.cwd()))  # a module of the current folder is found, too
    try:
        return pkgutil.resolve_name(args.system if ":" in args.system else "")
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(
            f"found {args.system!r} ({error})", field="system",
            allowed=f"module:function, found from here, or {ALLOWED}",
        ) from error  # fmt: skip
    finally:
        sys.path.pop(0)


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
    # before anything is paid for
    if (there := sorted(known & set(criteria))) and not args.overwrite:
        raise DataError(
            f"a run is judged by {name_list(there)} already", field="run",
            allowed="--overwrite, or other judges",
        )  # fmt: skip
    endpoint = Endpoint(**given(args, Endpoint))
    options = given(args, judge) | ({"cache": None} if args.cache == "none" else {})
    if args.prices:
        options["prices"] = json.loads(Path(args.prices).read_text(encoding="utf-8"))
    first = {"results": results, "golden": golden, "judges": names, "endpoint": endpoint}
    judged = judge(**options | first)
    states, status = judged.ledger["state"].value_counts(), 0
    for state in ("judge_failed", "not_asked"):
        if n := int(states.get(state, 0)):
            reason = judged.ledger.loc[judged.ledger["state"] == state, "reason"].iloc[0]
            words = state.removeprefix("judge_").replace("_", " ")
            say(f"ragscore: {n} judgments {words}, first: {reason}", file=sys.stderr)
            status = int(state == "not_asked")
    if "judge_failed" in states and not {"scored", "not_measurable"} & set(states.index):
        return ALL_FAILED
    for run_id, place in zip(run_ids, places, strict=True):
        own = judged.ledger[judged.ledger["run_id"] == run_id]
        Judged(judged.results.select(run_id), own).save(place, overwrite=True)
    columns = ["run_id", "metric", "mean", "low", "high", "n", "n_expected"]
    table = evaluate(judged.results, golden, criteria).summary()[columns]
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
    parts = [
        judged.counts().to_string(index=False, na_rep="unknown"),
        table.round(3).to_string(index=False),
    ]
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


@command(
    "demo",
    "Show the main job on four recorded runs: how good each is, and what one lost.",
    "demo --out ragscore-demo",
    option("--out", "where the page goes (default: ragscore-demo)", "DIR", default="ragscore-demo"),
    switch(
        "--build",
        "first build corpus and systems on this machine, and record the runs again in DIR, which"
        " takes minutes (default: the runs of data/demo)",
    ),
    details="Runs in a clone of the repository. --build needs pip install '.[demo]'.",
)
def demo_command(args: argparse.Namespace) -> None:
    """Show the demo, or build it."""
    from ragscore.demo.show import demo_data, show_demo

    out, report = Path(args.out), partial(say, flush=True)
    if not args.build:
        show_demo(demo_data() / "runs" / "*", out, report)
        return
    with packages_of("demo", field="demo"):
        runpy.run_path(str(demo_data() / "build.py"))["run_demo"](out, report)
