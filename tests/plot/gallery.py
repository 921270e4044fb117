"""Write every picture and every notebook display as PNG, to be looked at.

    python -m tests.plot.gallery FOLDER [NAME ...]

Pictures are of the demo and of made sets of 2, 8 and 18 runs; displays, and the report page, are
drawn by Chromium at 1,200 and 400 pixels. What can't be drawn is told at the end.
"""

import base64
import sys
import tempfile
import traceback
from functools import partial
from pathlib import Path

import matplotlib as mpl
import pandas as pd

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import structure  # noqa: E402
from browser import CHROMIUM, Browser  # noqa: E402

import ragscore as rs  # noqa: E402

mpl.use("Agg")


def talks():
    """Two agents in three short conversations."""
    asked = {"c1_1": ["a"], "c1_2": ["b"], "c2_1": ["c"], "c2_2": ["d"], "c3_1": ["e"]}
    golden = rs.load_golden(asked, turns="(?P<conversation>c[0-9])_(?P<turn>[0-9])")
    first = {query: [["x", *right]] for query, right in asked.items()}
    second = {query: [["x"], right if query != "c2_2" else ["y"]] for query, right in asked.items()}
    return rs.evaluate({"one call": first, "two calls": second}, golden)


DEMO = HERE.parents[1] / "data" / "demo"
WIDTHS = (1200, 400)
TALLEST = 3000  # pixels of a page that are looked at
# A notebook's cell, as JupyterLab styles it: the font, its size, tables of pandas.
CELL = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>body{font:13px/1.3 system-ui,Helvetica,Arial,sans-serif;margin:16px;color:#000e}
table.dataframe{border-collapse:collapse;border:0;font-size:12px}
table.dataframe td,table.dataframe th{padding:.5em;text-align:right;border:0}
table.dataframe thead{border-bottom:1px solid #bdbdbd}
table.dataframe tbody tr:nth-child(odd){background:#f5f5f5}</style>"""


def pictures():
    """Yield name and function of every figure."""
    ev = rs.evaluate(str(DEMO / "runs" / "*"), str(DEMO / "golden.yaml"))
    cmp = ev.compare("dense", "hybrid")
    store, golden = rs.RunStore(DEMO / "history"), ev.golden
    metrics = ["hit@1", "hit@5", "mrr@10", "ndcg@10", "passed"]
    found = {
        "summary": lambda: ev.plot.summary(metrics),
        "slices": lambda: ev.plot.slices("mrr@10", "difficulty"),
        "slices_category": lambda: ev.plot.slices("hit@5", "category"),
        "heatmap": lambda: ev.plot.heatmap("mrr@10", "difficulty"),
        "heatmap_two": lambda: ev.plot.heatmap("mrr@10", ["difficulty", "category"]),
        "metric_at_k": lambda: ev.plot.metric_at_k("hit"),
        "tradeoff": lambda: ev.plot.tradeoff("mrr@10"),
        "scatter": lambda: cmp.plot.scatter("mrr@10"),
        "scores_by_rank": lambda: ev.select(["dense"]).plot.scores_by_rank(),
        "refusal_matrix": lambda: ev.refusals().plot(),
        "risk_coverage": lambda: ev.risk_coverage().plot(),
        "calls": lambda: talks().calls().plot(),
        "turns": lambda: talks().conversations("recall@5").plot(),
        "forest": lambda: cmp.plot(),
        "ranks": lambda: cmp.plot.ranks(),
        "outcomes": lambda: cmp.plot.outcomes(),
        "failure_transitions": lambda: ev.failures().plot("dense", "hybrid"),
        "leaderboard": lambda: ev.leaderboard().plot(),
        "trend": lambda: store.trend("mrr@10", golden=golden).plot(),
        "trend_latency": lambda: store.trend("latency_ms", golden=golden).plot(),
        "trend_slices": lambda: store.trend("mrr@10", "difficulty", golden=golden).plot(),
        "trend_category": lambda: store.trend("hit@5", "category", golden=golden).plot(),
    }
    for name, draw in found.items():
        yield f"figure_{name}", lambda draw=draw: draw().figure
    yield "beside_forest_outcomes", partial(_beside, cmp)
    for name in structure.PICTURES:
        for n_runs in (2,) if name in structure.OF_TWO_RUNS else (2, 8, 18):
            for place in ("alone",) if name in structure.PANELS else ("alone", "beside"):
                yield (
                    f"made_{name.replace(' ', '_')}_{n_runs}_{place}",
                    partial(structure.draw, name, n_runs, place),
                )


def _beside(cmp):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2)
    cmp.plot.forest(ax=axes[0])
    cmp.plot.outcomes(ax=axes[1])
    return figure


def displays():
    """Yield name and HTML of every object that a notebook shows."""
    ev = rs.evaluate(str(DEMO / "runs" / "*"), str(DEMO / "golden.yaml"))
    store, golden = rs.RunStore(DEMO / "history"), ev.golden
    cmp = ev.compare("dense", "hybrid")
    before = rs.load_golden(DEMO / "golden_before.yaml")
    objects = {
        "evaluation": lambda: ev,
        "golden": lambda: ev.golden,
        "results": lambda: ev.results,
        "coverage": lambda: ev.coverage(),
        "summary": lambda: ev.summary(["hit@5", "mrr@10"], by="difficulty"),
        "slices": lambda: ev.slices("difficulty"),
        "comparison": lambda: cmp,
        "comparison_deltas": lambda: cmp.deltas,
        "comparison_slices": lambda: cmp.slices("difficulty"),
        "gate": lambda: cmp.gate({"mrr@10": 0.02, "hit@5": 0.01}),
        "score_diff": lambda: ev.score_diff("dense", "hybrid"),
        "leaderboard": lambda: ev.leaderboard(baseline="dense"),
        "query": lambda: ev.query("pd-014"),
        "refusals": lambda: ev.refusals(),
        "failures": lambda: ev.failures(),
        "risk_coverage": lambda: ev.risk_coverage(),
        "calls": lambda: talks().calls(),
        "conversations": lambda: talks().conversations("recall@5"),
        "golden_health": lambda: ev.golden_health(),
        "config_effects": lambda: ev.config_effects(),
        "relabelled": lambda: ev.relabelled(before, "dense", "hybrid"),
        "trend": lambda: store.trend("mrr@10", golden=golden),
        "store": lambda: store,
        "report": lambda: ev.report(baseline="dense"),
        "explorer": lambda: cmp.explore(),
        "explorer_of_runs": lambda: ev.explore(),
    }
    for name, make in objects.items():
        yield f"display_{name}", partial(_html, make)
    yield "page_report", partial(_page, ev)
    yield "page_comparison", partial(_page, ev.select(["dense", "hybrid"]))


def _html(make):
    shown = make()
    if not hasattr(shown, "_repr_html_"):
        text = repr(shown).replace("&", "&amp;").replace("<", "&lt;")
        return f"{CELL}<p>(no notebook display: its text)</p><pre>{text}</pre>"
    with pd.option_context("display.max_columns", 20, "display.max_rows", 60):
        return CELL + shown._repr_html_()


def _page(ev):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        ev.report(file, baseline="dense")
        return file.read_text(encoding="utf-8")


def photograph(browser, html, width, height=900):
    """Return a PNG of a whole page in a window of this width, to a tallest."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(html, encoding="utf-8")
        browser.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        browser.open(file)
        browser.run("new Promise(done => setTimeout(done, 300))")  # a script's first rows
        tall = browser.run("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(tall, TALLEST), "scale": 1}
        data = browser.send(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )["data"]
        return base64.b64decode(data)


def write(folder, only=()):
    """Write all pictures and displays whose name begins with one of `only`."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, draw in pictures():
        if only and not name.startswith(tuple(only)):
            continue
        try:
            draw().savefig(folder / f"{name}.png", dpi=100)
        except Exception:
            failed.append(f"{name}: {traceback.format_exc(limit=-1).splitlines()[-1]}")
        plt.close("all")
    if CHROMIUM is None:
        return [*failed, "displays: no Chromium here"]
    with Browser() as browser:
        for name, make in displays():
            if only and not name.startswith(tuple(only)):
                continue
            try:
                html = make()
                for width in WIDTHS:
                    (folder / f"{name}_{width}.png").write_bytes(photograph(browser, html, width))
            except Exception:
                failed.append(f"{name}: {traceback.format_exc(limit=-1).splitlines()[-1]}")
    return failed


if __name__ == "__main__":
    problems = write(Path(sys.argv[1]), sys.argv[2:])
    print("\n".join(problems) or "everything is drawn")
