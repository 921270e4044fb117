"""`ragscore demo`: score four runs, compare two of them, and write a page about these two.

In: runs and golden queries, from `data/demo` or made by `ragscore demo --build`.
Out: text of at most 80 columns, the numbers first, then `report.html`.
"""

from collections.abc import Callable
from pathlib import Path

from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError
from ragscore.frames.tables import Table

STANDINGS = ["hit@5", "ndcg@10", "passed"]
PAIR = ["dense", "hybrid_rerank"]
WIDTH = 80
NEXT = """\
Open {page} in a browser: what changed, query by query.

The same in Python:

  import ragscore as rs
  ev = rs.evaluate("{runs}", "{golden}")
  ev.summary()              # every mean with its interval
  pair = ["dense", "hybrid_rerank"]
  cmp = ev.compare(*pair)
  cmp.changed()             # the queries that changed, as a frame
  ev.query("{query}")        # one query, as each run answered it

Your own data: README.md, "Your data in five lines".
Step by step: notebooks/quickstart.md"""


def demo_data() -> Path:
    """Return `data/demo` of the clone that this is run in, or that it is installed from."""
    for folder in (Path(), *Path.cwd().parents, Path(__file__).parents[2]):
        if (folder / "data" / "demo" / "golden.yaml").exists():
            return folder / "data" / "demo"
    raise DataError(
        "no data/demo here or above; a clone of the repository has it, an installed wheel hasn't",
        field="demo",
        allowed="clone the repository, and run it there after `pip install -e .`",
    )


def show_demo(runs: Path, out: Path, report: Callable[[str], object] = print) -> None:
    """Print how good each run is and what one lost against another; write `out/report.html`.

    `runs` is a pattern of run folders, one of each system of the demo.
    """
    golden = demo_data() / "golden.yaml"
    ev = evaluate(str(runs), golden)
    board = ev.leaderboard(STANDINGS)
    n, n_refusals = len(ev.golden.queries), len(ev.golden._refusals)
    report(f"""\
{len(ev.run_ids)} retrieval systems answered {n} queries about the manuals of Python, numpy,
pandas and matplotlib. {n_refusals} of these have no answer there: refusing is right.

How good is each? Means, best first.

{board._ranked().to_text(WIDTH)}

{board.notes()[0]}
hit@5: the share of queries with an expected document in the first 5.
ndcg@10: 1 if all expected documents come first.
passed: what a query expects is found and answered, or it is rightly refused.
""")
    cmp = ev.compare(*PAIR)
    deltas = cmp._shown[0].query("metric in @cmp._primary")
    deltas = deltas.filter(regex="^metric$|^delta|^candidate is$")
    changed, counts = cmp.changed(), cmp.counts
    slices = cmp.slices("difficulty", "hit@5").table[["difficulty", "n", "delta", "low", "high"]]
    gone = changed[changed["outcome"] == "regression"]
    report(f"""\
Is {PAIR[1]} better than {PAIR[0]}?
Asked about these two: {cmp.overall}{cmp._among}.

{Table(deltas).to_text(WIDTH)}

answer_checks: the answer names what it must.
answered_unanswerable, false_refusal: it answers what it should refuse, or the
reverse; lower is better.
These intervals hold together in 95 % of cases: better or worse leaves out 0.
Where a pair is picked by looking, those of all pairs of runs must.

What did it lose? {counts.get("win", 0)} queries have their first expected document earlier,
{counts.get("loss", 0)} later, and {len(gone)} no longer in the first {cmp._k}:

{Table(gone[["query_id", "note", "query"]]).to_text(WIDTH)}

Where? hit@5 by difficulty, worst first:

{Table(slices.sort_values("delta")).to_text(WIDTH)}

Writing a page about these two runs ...""")
    ev.select(PAIR).report(out / "report.html")
    report(
        NEXT.format(
            page=out / "report.html",
            runs=runs.as_posix(),
            golden=golden.as_posix(),
            query=changed["query_id"].iloc[0],
        )
    )
