"""The command line. Results go to standard output, errors as one line to standard error; exit 0 done, 1 a finding, 2 could not be done."""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import ragscore
from ragscore.aggregates import aggregate
from ragscore.compare import compare_runs
from ragscore.frames import DataError, Golden, Results, concat_results, records_of
from ragscore.gate import RULES, gate
from ragscore.load import load_golden, load_results
from ragscore.metrics import DEFAULT_METRICS, HEADLINE, parse_label
from ragscore.policies import POLICIES
from ragscore.ranks import TIES
from ragscore.reports import report
from ragscore.run_files import read_parquet
from ragscore.score import score
from ragscore.store import RunStore
from ragscore.summary import summarize
from ragscore.tables import shown_quantile
from ragscore.trend import trend, trend_text
from ragscore.validate import validate

SCORED_BY = ("collapse", "empty_gold", "unknown", "errors", "missing")  # policies that `score` takes besides the match level
COMPARED_BY = SCORED_BY[:3]
LISTED = 20  # changed queries that a comparison lists unless asked for all


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *rest, **more: print(f"ragscore: warning: {message}", file=sys.stderr)
            return args.run(args) or 0  # a command that finds something says 1
    except (DataError, FileNotFoundError, PermissionError) as error:
        print(f"ragscore: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ragscore", description="Score and compare retrieval and RAG runs.")
    parser.add_argument("--version", action="version", version=f"ragscore {ragscore.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    scored = commands.add_parser("score", help="score runs against a golden file")
    scored.add_argument("golden", help="golden file (YAML or JSON lines)")
    scored.add_argument("runs", nargs="+", metavar="run", help="per_query.jsonl files, or names in --store")
    scored.add_argument("--metric", action="append", metavar="LABEL", help="a metric such as mrr@10 (may be given several times)")
    scored.add_argument("--by", metavar="COLUMN", help="slice by a column or tag of the golden file")
    scored.set_defaults(run=_score)

    compared = commands.add_parser("compare", help="compare two runs query by query")
    compared.add_argument("baseline", help="run a: a per_query.jsonl file, or a name in --store")
    compared.add_argument("candidate", help="run b")
    compared.add_argument("--golden", help="golden file; without it, the one that RAGSCORE_GOLDEN names")
    compared.add_argument("--strict-chunker-version", action="store_true", help="refuse runs of different chunkers")
    compared.add_argument("--write-report", action="store_true", help="write report.md, with every changed query, beside run b")
    compared.add_argument("--all", action="store_true", help=f"list every changed query, not only the first {LISTED}")
    compared.set_defaults(run=_compare)

    gated = commands.add_parser("gate", help="may run b replace run a? exit status 1 if a metric loses more than allowed")
    gated.add_argument("baseline", help="run a: a per_query.jsonl file, or a name in --store")
    gated.add_argument("candidate", help="run b")
    gated.add_argument("--golden", help="golden file; without it, the one that RAGSCORE_GOLDEN names")
    gated.add_argument("--max-drop", action="append", required=True, metavar="LABEL=LOSS", help="largest loss allowed, such as mrr@10=0.02 (several times)")
    gated.add_argument("--rule", default="threshold", metavar="|".join(RULES), help="by the loss seen (the default), or by what its interval rules out")
    gated.add_argument("--require", action="store_true", help="exit status 2 if a metric can't be evaluated")
    gated.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
    gated.set_defaults(run=_gate)

    reported = commands.add_parser("report", help="write one page about some runs: what changed from run to run, how good each is, what it was")
    reported.add_argument("runs", nargs="+", metavar="run", help="per_query.jsonl files, or names in --store; each is compared with the one before it")
    reported.add_argument("--golden", help="golden file; without it, the one that RAGSCORE_GOLDEN names")
    reported.add_argument(
        "-o", "--out", metavar="FILE", help=".html (all in one file), .md or .json (reloads with rs.Report.from_json); else Markdown is printed"
    )
    reported.add_argument("--markdown", action="store_true", help="write the Markdown beside that file, too")
    reported.add_argument("--baseline", metavar="RUN", help="compare every run with this one")
    reported.add_argument("--by", action="append", metavar="COLUMN", help="slice by a column or tag of the golden file (may be given several times)")
    reported.add_argument("--title", help="the heading of the page")
    reported.add_argument("--store", metavar="DIR", help="folder of stored runs that run arguments may name")
    reported.add_argument("--match", metavar="LEVEL", help="auto (the default), chunk, span, doc or per_query")
    reported.add_argument("--ties", metavar="|".join(TIES), help="rank each list as its file says (the default), or anew as trec_eval does")
    reported.set_defaults(run=_report)

    for command in (scored, compared, gated):
        command.add_argument("--store", metavar="DIR", help="folder of stored runs that run arguments may name")
        command.add_argument("--match", metavar="LEVEL", help="auto (the default), chunk, span, doc or per_query")
        command.add_argument("--ties", metavar="|".join(TIES), help="rank each list as its file says (the default), or anew as trec_eval does")
        for name in SCORED_BY if command is scored else COMPARED_BY:
            allowed = POLICIES[name]
            command.add_argument(_flag(name), metavar="|".join(allowed), help=f"how to score: {allowed[0]} is the default (see rs.score)")
        if command is not gated:
            command.add_argument("--profile", help="another harness's conventions, such as kebab")
        command.add_argument("--json", action="store_true", help="print JSON")

    validated = commands.add_parser("validate", help="look for what is wrong with a golden file; exit status 1 if there is anything")
    validated.add_argument("golden", metavar="FILE", help="golden file")
    validated.add_argument(
        "--catalogue", metavar="PARQUET", help="table of chunk_id and / or doc_id, such as chunks.parquet of a stored run: expected ids must be in it"
    )
    validated.add_argument("--format", help="the file's format, where its content doesn't tell it")
    validated.add_argument("--json", action="store_true", help="print JSON")
    validated.set_defaults(run=_validate)

    listed = commands.add_parser("runs", help="list the runs of a store")
    listed.add_argument("store", metavar="DIR")
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run=_runs)

    drawn = commands.add_parser("trend", help="one metric over the runs of a store, broken where what measures changed")
    drawn.add_argument("store", metavar="DIR")
    drawn.add_argument("--metric", required=True, metavar="LABEL", help="a metric such as mrr@10")
    drawn.add_argument("--golden", action="append", default=[], help="golden file, to bridge a relabelling and to slice (several times)")
    drawn.add_argument("--by", metavar="COLUMN", help="slice by a column or tag of the golden file")
    drawn.add_argument("--order", default="created_at", metavar="COLUMN", help="column of the runs to order by (default: created_at)")
    drawn.add_argument("--baseline", metavar="RUN", help="the run around which the noise band lies (default: the last group of repeats)")
    drawn.add_argument("--json", action="store_true", help="print JSON")
    drawn.set_defaults(run=_trend)

    demo = commands.add_parser("demo", help="build a real corpus, run four real systems over it, score and compare them")
    demo.add_argument("--out", default="ragscore-demo", metavar="DIR", help="where runs and report go (default: ragscore-demo)")
    demo.add_argument("--golden", help="golden file (default: data/demo/golden.yaml of this checkout)")
    demo.add_argument("--history", action="store_true", help="instead: make a history of runs, the systems varied one step at a time, in DIR/history")
    demo.set_defaults(run=_demo)
    return parser


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _policies(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The policies that were asked for."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _load_runs(names: list[str], store: str | None, ties: str | None) -> tuple[Results, list[str]]:
    """Runs from files or from the store, and their run ids in the order named."""
    parts, run_ids = [], []
    for name in names:
        from_file = Path(name).exists() or store is None
        if ties is not None and not from_file:
            raise DataError(f"{name} is a stored run, which has its ranks", field="--ties", allowed="leave it out, or name the run's file")
        part = load_results(name, ties=ties or "file") if from_file else RunStore(store or "").load([name])
        parts.append(part)
        run_ids += part.runs["run_id"].astype("str").tolist()
    twice = sorted({run_id for run_id in run_ids if run_ids.count(run_id) > 1})
    if twice:
        raise DataError(f"{', '.join(twice)} named by more than one argument", field="run", allowed="runs of different names; name them in run.json")
    return concat_results(parts), run_ids


def _load(args: argparse.Namespace, runs: list[str]) -> tuple[Golden, Results, list[str]]:
    """Golden set, runs and their ids; every run must answer some of the golden questions."""
    usages = {_score: "score GOLDEN RUN...", _report: "report RUN... --golden GOLDEN"}
    usage = f"ragscore {usages.get(args.run, 'compare RUN_A RUN_B --golden GOLDEN')}"
    try:
        golden = load_golden(args.golden)
    except DataError as error:
        raise _swapped(args.golden, load_results, "a run, not a golden file", usage) or error from None
    try:
        results, run_ids = _load_runs(runs, args.store, args.ties)
    except DataError as error:
        raise next(filter(None, (_swapped(name, load_golden, "a golden file, not a run", usage) for name in runs)), error) from None
    asked = results.responses[results.responses["query_id"].isin(golden.queries["query_id"])]["run_id"]
    strangers = [run_id for run_id in run_ids if run_id not in set(asked.astype("str"))]
    if strangers:
        raise DataError(f"no query in common with the golden file: {', '.join(strangers)}", field="run", allowed="runs that answer its questions, by their ids")
    return golden, results, run_ids


def _swapped(path: str | None, load: Callable[..., Any], what: str, usage: str) -> DataError | None:
    """The error to raise instead, if the file that could not be loaded is one of the other kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if path is None or not Path(path).is_file():
                return None
            load(path)
        except DataError:
            return None
    return DataError(f"this is {what}", file=path, allowed=f"usage: {usage}")


def _refuse_without_effect(args: argparse.Namespace, names: list[str]) -> None:
    """Stop if options were given that a profile decides itself."""
    given = [_flag(name) for name in names if getattr(args, name) is not None]
    if args.profile and given:
        raise DataError(f"{', '.join(given)} has no effect with it", field="--profile", allowed="leave one of them out")


def _score(args: argparse.Namespace) -> None:
    _refuse_without_effect(args, ["metric", "by", "match", *SCORED_BY])
    golden, results, _ = _load(args, args.runs)
    if args.profile:
        print(_json(aggregate(results, golden, args.profile)))
        return
    scores = score(results, golden, args.metric, match=args.match or "auto", **_policies(args, SCORED_BY))
    table = summarize(scores, golden, by=args.by, metrics=None if args.metric or args.json else HEADLINE)
    print(_json(records_of(table)) if args.json else _readable(table, args.by))


def _compare(args: argparse.Namespace) -> None:
    _refuse_without_effect(args, ["match", *COMPARED_BY])
    golden, results, (baseline, candidate, *more) = _load(args, [args.baseline, args.candidate])
    if more:
        raise DataError(f"{2 + len(more)} runs in two arguments", field="run", allowed="one run per file, or names in --store")
    options: dict[str, Any] = {"strict_chunker_version": args.strict_chunker_version, **_policies(args, COMPARED_BY)}
    cmp = compare_runs(results, golden, baseline, candidate, match=args.match or "auto", profile=args.profile, **options)
    left_out = 0 if args.all or args.json else max(len(cmp.changed()) - LISTED, 0)
    print(cmp.to_json() if args.json else cmp.to_markdown(LISTED if left_out else None), end="\n" if args.json else "")
    if left_out:
        print(f"ragscore: {left_out} changed queries are not listed; --all lists them", file=sys.stderr)
    if args.write_report:
        report = _folder(args, candidate) / "report.md"
        report.write_text(cmp.to_markdown(), encoding="utf-8")
        print(f"ragscore: wrote {report}", file=sys.stderr)


def _gate(args: argparse.Namespace) -> int:
    allowed = dict(_allowed_loss(text) for text in args.max_drop)
    golden, results, (baseline, candidate, *more) = _load(args, [args.baseline, args.candidate])
    if more:
        raise DataError(f"{2 + len(more)} runs in two arguments", field="run", allowed="one run per file, or names in --store")
    metrics = list(dict.fromkeys([*DEFAULT_METRICS, *allowed]))
    cmp = compare_runs(results, golden, baseline, candidate, metrics=metrics, match=args.match or "auto", **_policies(args, COMPARED_BY))
    found = gate(cmp, allowed, rule=args.rule, require=args.require)
    print(found.to_json() if args.json else found.to_markdown() if args.markdown else repr(found), end="" if args.markdown else "\n")
    return found.exit_status


def _allowed_loss(text: str) -> tuple[str, float]:
    label, _, loss = text.partition("=")
    try:
        allowed = float(loss)
    except ValueError as error:
        raise DataError(f"found {text!r}", field="--max-drop", allowed="a metric and the loss allowed, such as mrr@10=0.02") from error
    return parse_label(label).text, allowed


def _report(args: argparse.Namespace) -> None:
    out = Path(args.out) if args.out else None
    if args.markdown and (out is None or out.suffix.lower() == ".md"):
        raise DataError("nothing to stand beside", field="--markdown", allowed="with -o report.html; without -o Markdown is printed")
    golden, results, _ = _load(args, args.runs)
    made = report(results, golden, out, baseline=args.baseline, by=args.by, match=args.match or "auto", title=args.title)
    written = [] if out is None else [out, *([made.write(out.with_suffix(".md"))] if args.markdown else [])]
    if out is None:
        print(made.to_markdown(), end="")
    for file in written:
        print(f"ragscore: wrote {file}", file=sys.stderr)


def _folder(args: argparse.Namespace, candidate: str) -> Path:
    """Where run b is, as a file, a folder, or in the store."""
    given = Path(args.candidate)
    if given.is_file():
        return given.parent
    return given if given.exists() else RunStore(args.store).path(candidate)


def _validate(args: argparse.Namespace) -> int:
    catalogue = read_parquet(Path(args.catalogue)) if args.catalogue else None
    found = validate(args.golden, catalogue=catalogue, format=args.format)
    if args.json:
        print(_json(records_of(found)))
    else:
        places = [":".join(str(part) for part in place if not pd.isna(part)) for place in zip(found["file"], found["line"], strict=True)]
        for place, problem in zip(places, records_of(found), strict=True):
            parts = [place, problem["query_id"], problem["field"], problem["found"]]
            print(f"{': '.join(part for part in parts if part)}" + (f"; {problem['allowed']}" if problem["allowed"] else ""))
    return int(len(found) > 0)


def _runs(args: argparse.Namespace) -> None:
    if not Path(args.store).is_dir():
        raise DataError("no such folder", file=args.store)
    runs = RunStore(args.store).runs()
    if not len(runs):
        raise DataError("not a store: no folder in it holds a run.json", file=args.store, allowed="the folder of a rs.RunStore")
    print(_json(records_of(runs)) if args.json else runs.drop(columns="config", errors="ignore").to_string(index=False))


def _trend(args: argparse.Namespace) -> None:
    if not Path(args.store).is_dir():
        raise DataError("no such folder", file=args.store)
    goldens = [load_golden(file) for file in args.golden]
    table = trend(RunStore(args.store), args.metric, golden=goldens, by=args.by, order=args.order, baseline=args.baseline)
    print(_json(records_of(table)) if args.json else trend_text(table))


def _demo(args: argparse.Namespace) -> None:
    try:
        from ragscore.demo.history import run_history
        from ragscore.demo.run import default_golden, run_demo

        make = run_history if args.history else run_demo
        make(Path(args.out), Path(args.golden) if args.golden else default_golden())
    except ModuleNotFoundError as error:
        raise DataError(f"the package {error.name} is missing", field="demo", allowed="pip install 'ragscore[demo]'") from error


def _readable(table: pd.DataFrame, by: str | None) -> str:
    """The summary as text; metrics that no query was measured in are named below it."""
    decimals = {name: 0 if parse_label(name).metric.kind == "time" else 3 for name in table["metric"].unique()}
    shown = table[table["n"] > 0]
    texts = {name: [f"{value:.{decimals[metric]}f}" for value, metric in zip(shown[name], shown["metric"], strict=True)] for name in ("mean", "low", "high")}
    columns = shown[["run_id", *([by] if by else []), "metric"]].assign(**texts, n=shown["n"], n_expected=shown["n_expected"])
    without = _not_measured(table, by)
    parts = [columns.to_string(index=False)] if len(shown) else []
    return "\n\n".join([*parts, *_percentiles(shown, by), *([f"not measured: {without}"] if without else [])])


def _percentiles(shown: pd.DataFrame, by: str | None) -> list[str]:
    """Medians and 95th percentiles of times, with their intervals, as a table of its own."""
    rows = shown[shown["metric"].map(lambda name: parse_label(name).metric.kind == "time").astype(bool)]
    texts: dict[str, list[str]] = {}
    for name in ("p50", "p95"):
        texts[name] = [f"{value:.0f}" for value in rows[name]]
        texts[f"{name}: 95 % interval"] = [shown_quantile(low, high) for low, high in zip(rows[f"{name}_low"], rows[f"{name}_high"], strict=True)]
    return [rows[["run_id", *([by] if by else []), "metric"]].assign(**texts).to_string(index=False)] if len(rows) else []


def _not_measured(table: pd.DataFrame, by: str | None) -> str:
    """Metrics with n = 0: by their name if that is so in every row, else with the runs and slices."""
    parts = []
    for metric, rows in table.groupby("metric", sort=False):
        without = rows.loc[rows["n"] == 0, ["run_id", *([by] if by else [])]].astype("str")
        places = [" / ".join(names) for names in without.itertuples(index=False)]
        few = ", ".join(places) if len(places) <= 3 else f"{len(places)} of {len(rows)} rows"
        parts += [str(metric) if len(places) == len(rows) else f"{metric} ({few})"] if places else []
    return ", ".join(parts)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)


if __name__ == "__main__":
    sys.exit(main())
