"""The notebooks' prose is as true as their tables: the numbers of their answers, computed again."""

import json
import math
import re
import statistics
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import yaml
from scipy.stats import binom

import ragscore as rs
from tests.messages import refused, warned

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAIR = ("answered_unanswerable", "false_refusal")
# What notebook 04 reads in two ways: the headline metrics that are no times and that differ.
QUALITY = (
    "hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "mrr@10", "ndcg@10",
    "passed", "answer_checks", "refusal_correct", *PAIR,
)  # fmt: skip


def cells(name: str) -> list[dict]:
    return json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))["cells"]


def prose(name: str) -> str:
    return "\n".join(
        "".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "markdown"
    )


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate(
        ROOT / "data" / "demo" / "runs" / "*", ROOT / "data" / "demo" / "golden.yaml"
    )


def test_the_first_look_answers_with_true_numbers(ev):
    golden, text = ev.golden, prose("01_first_look.ipynb")
    means = ev.summary().set_index(["metric", "run_id"])["mean"]
    by_difficulty = ev.summary("hit@5", by="difficulty").set_index(["difficulty", "run_id"])["mean"]
    hit = {
        run: f"{means['hit@5', run]:.1%}" for run in ("bm25", "dense", "hybrid", "hybrid_rerank")
    }
    assert (
        f"for {hit['hybrid_rerank']} of the answerable queries, `dense` for {hit['dense']},"
        f" `hybrid` for {hit['hybrid']}, `bm25` for {hit['bm25']}." in text
    )
    assert (
        f"`dense` leads with {by_difficulty['easy', 'dense']:.1%} against"
        f" {by_difficulty['easy', 'hybrid_rerank']:.1%}" in text
    )
    assert (
        f"`hybrid_rerank` with {by_difficulty['hard', 'hybrid_rerank']:.1%} against"
        f" {by_difficulty['hard', 'dense']:.1%}" in text
    )
    assert (
        f"refuses {means['refusal_correct', 'hybrid_rerank']:.1%}, and it also refuses"
        f" {means['false_refusal', 'hybrid_rerank']:.1%}" in text
    )
    assert (
        f"the same {len(golden.queries)} queries" in text
        and f"{len(golden.refusals)} queries have no answer" in text
    )
    assert f"{golden.queries['group'].nunique()} queries are asked in three ways" in text
    # "The intervals of dense, hybrid and hybrid_rerank overlap"
    bounds = ev.summary("hit@5").set_index("run_id").drop("bm25")
    assert bounds["low"].max() < bounds["high"].min()


def test_the_first_frame_is_scored_as_worked_by_hand():
    # q1: its only document first. q2: one of two documents, second; log2(3) discounts its gain.
    found = output("01_first_look.ipynb", 'ev.scores[["hit@1"', "text/plain").splitlines()
    rows = {line.split()[0]: [float(text) for text in line.split()[1:]] for line in found[1:]}
    ndcg = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert rows == {"q1": [1, 1, 1, 1], "q2": [0, 0.5, 0.5, round(ndcg, 3)]}


def test_the_comparison_answers_with_true_numbers(ev):
    text = prose("02_compare_runs.ipynb")
    cmp = ev.select(["dense", "hybrid"]).compare("dense", "hybrid")
    row = cmp.deltas.set_index("metric").loc["hit@5"]
    assert (
        f"hit@5 is {row['candidate']:.1%} against {row['baseline']:.1%}, a change of"
        f" {row['delta']:+.3f} with a 95 % interval from {row['low']:+.3f} to {row['high']:+.3f}"
        f" (p = {row['p']:.2f})" in text
    )
    assert (
        row["verdict"] == "can't tell"
        and f"With {row['n']} queries only a difference from {row['mde']:.2f} up" in text
    )
    refusals = cmp.aspects.set_index("aspect").loc["refusals", "sentence"]
    assert cmp.overall == "can't tell" and "answered_unanswerable is perhaps worse" in refusals
    assert (
        f"It won {cmp.counts['win']} queries, had {cmp.counts['loss']} at a worse rank, and lost"
        f" {cmp.counts['regression']} altogether" in text
    )
    lost = cmp.per_query.query("outcome == 'regression'")["query_id"]
    later = ev.compare("hybrid", "hybrid_rerank").per_query.set_index("query_id").loc[lost]
    assert f"gets {later['rank_candidate'].notna().sum()} of the {len(lost)} back" in text
    assert {"mpl-030", "np-001", "pd-027"} <= set(lost)


def test_the_causes_are_what_the_rankings_show(ev):
    hits = ev.results.hits
    ranks = ev.compare("dense", "hybrid").per_query.set_index("query_id")["rank_baseline"]
    assert ranks[["mpl-030", "np-001", "pd-027"]].tolist() == [1, 2, 3]
    fused = hits.query("query_id == 'mpl-030' and run_id == 'hybrid'")
    assert fused[["score_lexical", "score_vector"]].notna().all().all()
    assert 1 / 61 < fused["score"].min() < 1 / 61 + 1 / 160
    rounding = hits.query(
        "query_id == 'np-001' and run_id == 'hybrid' and doc_id in ['numpy.rint', 'numpy.fix']"
    )
    assert len(rounding) >= 2 and rounding[["score_lexical", "score_vector"]].notna().all().all()
    assert {"numpy.dstack", "numpy.lexsort"} <= set(
        hits.query("query_id == 'pd-027' and run_id == 'bm25'")["doc_id"]
    )


def output(name: str, of: str, mime: str = "text/html") -> str:
    """What the one cell whose code holds this text put out."""
    return "".join(cell_with(name, of)["outputs"][-1]["data"][mime])


def stream(name: str, of: str) -> str:
    """What the one cell whose code holds this text printed."""
    return "".join(cell_with(name, of)["outputs"][0]["text"])


def cell_with(name: str, of: str) -> dict:
    (cell,) = [
        cell
        for cell in cells(name)
        if cell["cell_type"] == "code" and of in "".join(cell["source"])
    ]
    return cell


def shown_interval(row: pd.Series) -> str:
    return f"[{row['low']:+.3f}, {row['high']:+.3f}]"


@pytest.fixture(scope="module")
def first_ranks():
    """Level -> query -> rank of its first right hit or None; and which of those to refuse were.

    Both are read from the files, without the library.
    """
    queries = yaml.safe_load((ROOT / "data" / "demo" / "dialects.yaml").read_text(encoding="utf-8"))
    lines = (
        (ROOT / "data" / "demo" / "runs" / "hybrid_rerank" / "per_query.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    run = {record["query_id"]: record for record in map(json.loads, lines)}
    ranks: dict[str, dict[str, int | None]] = {
        "chunk": {},
        "anchor": {},
        "doc": {},
        "predicate": {},
    }
    for query in (one for one in queries if one.get("answerable", True)):
        docs = {doc for target in query["expected_doc_ids"] for doc in target["any"]}
        chunks = {chunk for target in query["expected_chunk_ids"] for chunk in target}
        sections = {(support["path"], support["heading"]) for support in query["gold_supports"]}
        wanted = (
            query["expected_metadata"]["library"],
            query["expected_metadata"]["section"],
        )
        is_right = {
            "chunk": lambda hit, chunks=chunks: hit["chunk_id"] in chunks,
            "anchor": lambda hit, sections=sections: (
                (hit["doc_path"], hit["heading_path"][0]) in sections
            ),
            "doc": lambda hit, docs=docs: hit["doc_id"] in docs,
            "predicate": lambda hit, wanted=wanted: (
                (hit["doc_id"].split(".")[0], " > ".join(hit["heading_path"])) == wanted
            ),
        }
        for level, meets in is_right.items():
            ranks[level][query["id"]] = min(
                (hit["rank"] for hit in run[query["id"]]["hits_top_k"] if meets(hit)),
                default=None,
            )
    return ranks, [
        not run[one["id"]]["answer"]["grounded"]
        for one in queries
        if one.get("answerable") is False
    ]


def test_the_dialects_are_explained_with_true_numbers(first_ranks):
    ranks, refused = first_ranks
    found = {level: sum(rank is not None for rank in of.values()) for level, of in ranks.items()}
    asked, rows = len(ranks["doc"]), len(ranks["doc"]) + len(refused)
    fractions = {
        "kebab": (found["chunk"], asked), "chatbot": (found["anchor"], rows),
        "trec": (found["doc"], asked), "rig": (found["doc"], rows),
        "seed-mcp": (found["predicate"] + sum(refused), rows),
    }  # fmt: skip
    answer = output("03_dialects.ipynb", "IPython.display", "text/markdown")
    for name, (right, of) in fractions.items():
        assert f"`{name}` {right / of:.4f} ({right} of {of})" in answer
    assert (
        f"from {found['chunk']} to {found['predicate']} of {asked} answerable" in answer
        and f"Of {rows} queries, {len(refused)} should be refused" in answer
    )
    by_level = {"chatbot": found["anchor"], "rig": found["doc"], "seed-mcp": found["predicate"]}
    moved = [fractions[name][0] / rows - right / asked for name, right in by_level.items()]
    assert f"by up to {min(moved):+.3f}" in answer
    reciprocal = {
        level: sum(1 / rank for rank in of.values() if rank) for level, of in ranks.items()
    }
    mrr = {
        "kebab": reciprocal["chunk"] / asked, "chatbot": reciprocal["anchor"] / rows,
        "trec": reciprocal["doc"] / asked,
        "rig": reciprocal["doc"] / rows,
        "seed-mcp": reciprocal["predicate"] / rows,
    }  # fmt: skip
    assert all(
        f"<td>{value:.4f}</td>" in output("03_dialects.ipynb", "verdicts = ")
        for value in mrr.values()
    )
    assert f"at most {abs(round(mrr['kebab'], 4) - mrr['kebab']):.6f}" in answer


def test_the_distances_of_the_dialects_are_explained_step_by_step(first_ranks):
    ranks, refused = first_ranks
    found = {level: sum(rank is not None for rank in of.values()) for level, of in ranks.items()}
    asked, rows = len(ranks["doc"]), len(ranks["doc"]) + len(refused)
    table = output("03_dialects.ipynb", "because = ")
    gained = {level: (n - found["chunk"]) / asked for level, n in found.items()}
    assert (
        f"{gained['anchor']:+.3f} any passage of an expected section counts;"
        f" {found['anchor'] * (1 / rows - 1 / asked):+.3f} queries to refuse" in table
    )
    assert f"{gained['doc']:+.3f} any passage of an expected document" in table
    assert (
        f"{gained['doc']:+.3f} as trec;"
        f" {found['doc'] / rows - found['doc'] / asked:+.3f} where nothing" in table
    )
    steps = (
        f"{gained['predicate']:+.3f} right library and section in any document;"
        f" {found['predicate'] * (1 / rows - 1 / asked):+.3f} all rows"
    )
    assert f"{steps}; {sum(refused) / rows:+.3f} a right refusal passes" in table
    # "it can also lose what a document has"
    assert any(ranks["doc"][one] and not ranks["predicate"][one] for one in ranks["doc"])


def test_what_the_dialects_say_made_a_difference_did():
    golden = rs.load_golden(ROOT / "data" / "demo" / "dialects.yaml")
    results = rs.load_results(
        ROOT / "data" / "demo" / "runs" / "hybrid_rerank" / "per_query.jsonl"
    ).select("hybrid_rerank", golden.queries["query_id"])
    ev = rs.evaluate(results, golden)
    rig, trec = (ev.to_profile(name)["hybrid_rerank"] for name in ("rig", "trec"))
    assert (
        rig["hit_rate"]["10"] < trec["success"]["10"]
        and rig["mrr"] < trec["recip_rank"]
        and rig["recall"]["10"] > trec["recall"]["10"]
        and rig["precision"]["10"] < trec["P"]["10"]
    )
    counts = ev.coverage().runs.iloc[0]
    assert counts["n_missing"] == counts["n_failed"] == 0
    plain, collapsed = (
        rs.score(
            results,
            golden,
            ["precision@10", "ndcg@10", "ndcg_linear@10"],
            match="doc",
            collapse=how,
        )
        for how in ("none", "doc")
    )
    assert collapsed["precision@10"].mean() < plain["precision@10"].mean() - 0.05
    n_grades = (
        golden.targets[golden.targets["level"] == "doc"].groupby("query_id")["grade"].nunique()
    )
    differs = (plain["ndcg@10"] - plain["ndcg_linear@10"]).abs() > 1e-9
    assert differs.any() and not differs.loc[n_grades.index[n_grades == 1]].any()
    # Tables that carry no difference: every policy but collapsing.
    changes = output("03_dialects.ipynb", "changes = {", "text/plain").splitlines()[1:]
    assert {
        line.split("=")[0]
        for line in changes
        if {float(number) for number in line.split()[1:]} != {0.0}
    } == {"collapse"}


@pytest.mark.parametrize("name", [file.name for file in NOTEBOOKS])
def test_outputs_are_committed_without_errors_paths_or_private_names(name):
    text = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
    assert not re.search(r'"output_type": "error"|/tmp/|/home/|/root/', text)
    for cell in cells(name):
        assert "execution" not in cell["metadata"], "timings stay out"
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            assert cell["outputs"] or source.rstrip().endswith((")", "'")), source
            assert not re.search(r"\brs\._|import _|def ", source), source
            assert set(re.findall(r"\brs\.(\w+)", source)) <= set(rs.__all__), source
            is_drawn = any(
                {"image/png", "application/vnd.jupyter.widget-view+json"}
                & set(output.get("data", {}))
                for output in cell["outputs"]
            )
            assert is_drawn == ("NBVAL_IGNORE_OUTPUT" in source), (
                "only cells with a figure or a panel are exempt from comparison"
            )


def test_the_trends_are_answered_with_true_numbers():
    text = prose("05_trends_and_slices.ipynb")
    store, golden = (
        rs.RunStore(ROOT / "data" / "demo" / "history"),
        rs.load_golden(ROOT / "data" / "demo" / "golden.yaml"),
    )
    stored = {
        run: scores.groupby("run_id", observed=True)["mrr@10"].mean().iloc[0]
        for run in store.runs()["run_id"]
        if (scores := store.scores("mrr@10", runs=[run])) is not None
    }
    words, vectors = stored["05-bm25-k1.5"], stored["07-dense"]
    assert f"goes from {stored['01-bm25-plain']:.3f} to {stored['18-rerank-unstemmed']:.3f}" in text
    line = store.trend("mrr@10", golden=golden, baseline="05-bm25-k1.5").table.set_index("run_id")
    band = line.loc["07-dense", ["band_low", "band_high"]]
    assert line.index[line["first_out_of_control"]].tolist() == ["07-dense"]
    assert (
        f"Run 07 has {vectors:.3f} where run 05 had {words:.3f}, and no run after it came back into"
        f" the band around run 05 ({band.iloc[0]:.3f} to {band.iloc[1]:.3f})" in text
    )
    assert (
        f"{stored['14-rerank-30-relabelled'] - stored['13-rerank-30']:+.3f} of what the line gained"
        in text
    )
    assert (
        f"its step of {stored['06-bm25-passages-400'] - words:+.3f} lies well inside the band"
        in text
        and line.loc["06-bm25-passages-400", "in_band"]
    )
    late = store.trend("mrr@10", golden=golden, baseline="13-rerank-30").table.set_index("run_id")
    edges = late.loc["13-rerank-30", ["band_low", "band_high"]]
    shown = f"({edges.iloc[0]:.3f} to {edges.iloc[1]:.3f} by the older labels)"
    assert late.loc["07-dense":, "in_band"].all()
    assert f"inside the band around run 13 {shown}" in text
    repeats = [stored[run] for run in stored if "repeat" in run]
    floor = store.noise("mrr@10").iloc[0]
    # "disagree on about 25 % of queries"
    assert (
        f"know their spread (sd {statistics.stdev(repeats):.3f}) badly" in text
        and 0.2 < floor["flip_rate"] < 0.3
    )


def test_the_steps_by_slice_are_answered_with_true_numbers():
    text = prose("05_trends_and_slices.ipynb")
    store, golden = (
        rs.RunStore(ROOT / "data" / "demo" / "history"),
        rs.load_golden(ROOT / "data" / "demo" / "golden.yaml"),
    )
    for a, b, said in (
        ("05-bm25-k1.5", "07-dense", "it is {delta:+.3f} ({low:.3f} to {high:.3f}): {verdict}."),
        (
            "07-dense",
            "13-rerank-30",
            "{delta:+.3f} over run 07 ({low:.3f} to {high:.3f}): {verdict}.",
        ),
    ):
        row = store.evaluate(golden, "mrr@10", [a, b]).compare(a, b).deltas.iloc[0]
        assert said.format(**row) in text
    category = golden.queries.set_index("query_id")["category"]
    means = {
        run: store.scores("mrr@10", runs=[run])["mrr@10"].groupby(category).agg(["mean", "count"])
        for run in ("05-bm25-k1.5", "07-dense", "13-rerank-30")
    }
    first, second = (
        means["07-dense"]["mean"] - means["05-bm25-k1.5"]["mean"],
        means["13-rerank-30"]["mean"] - means["07-dense"]["mean"],
    )
    n = means["07-dense"]["count"]
    assert (
        f"all {len(first)} categories, from {first.min():+.3f} ({first.idxmin()}) to"
        f" {first.max():+.3f} ({first.idxmax()})"
        in text
        and first.min() > 0
    )
    assert f"went to {second.idxmax()} ({second.max():+.3f}, {n[second.idxmax()]} queries)" in text
    assert (
        f"The others moved by {second.min():+.3f} ({second.idxmin()}, {n[second.idxmin()]}"
        f" queries) to {second.drop(second.idxmax()).max():+.3f}" in text
    )


def last(name: str) -> str:
    """The cell with the answer."""
    return "".join(cells(name)[-1]["source"])


def demo_records(run: str) -> dict[str, dict]:
    """The records of a demo run by query, as they stand in its file."""
    lines = (
        (ROOT / "data" / "demo" / "runs" / run / "per_query.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return {record["query_id"]: record for record in map(json.loads, lines)}


@pytest.fixture(scope="module")
def expected_docs():
    """Answerable query -> the documents that meet one of its targets.

    They are read from the file, without the library.
    """
    expected = {}
    for query in yaml.safe_load(
        (ROOT / "data" / "demo" / "golden.yaml").read_text(encoding="utf-8")
    ):
        if query.get("answerable", True):
            targets = [
                one["any"] if isinstance(one, dict) else one for one in query["expected_doc_ids"]
            ]
            expected[query["id"]] = {
                doc for one in targets for doc in ([one] if isinstance(one, str) else one)
            }
    return expected


def found_within(run: str, expected: dict[str, set[str]], k: int) -> dict[str, bool]:
    records = demo_records(run)
    return {
        query: any(
            hit["doc_id"] in docs for hit in records[query]["hits_top_k"] if hit["rank"] <= k
        )
        for query, docs in expected.items()
    }


def test_what_150_queries_show_is_answered_with_true_numbers(ev, expected_docs):
    text = last("04_trust_a_difference.ipynb")
    before, after = (found_within(run, expected_docs, 5) for run in ("dense", "hybrid_rerank"))
    won, lost = (
        sum(a[query] > b[query] for query in expected_docs)
        for a, b in ((after, before), (before, after))
    )
    fair_coin = (
        2 * sum(math.comb(won + lost, heads) for heads in range(lost + 1)) / 2 ** (won + lost)
    )
    assert (
        f"{won} queries won and {lost} lost are not enough, a fair coin falls as unevenly in"
        f" {fair_coin:.1%} of cases" in text
    )
    cmp = ev.select(["dense", "hybrid_rerank"]).compare("dense", "hybrid_rerank")
    hit, ndcg, latency = (
        cmp.deltas.set_index("metric").loc[name] for name in ("hit@5", "ndcg@10", "latency_ms")
    )
    assert (
        hit["delta"] == pytest.approx((won - lost) / len(expected_docs))
        and hit["verdict"] == "can't tell"
    )
    primary = cmp.deltas[cmp.deltas["is_primary"]]
    assert (
        cmp.overall == "better"
        and len(primary) == 5
        and primary.loc[primary["verdict"] == "better", "metric"].tolist() == ["passed"]
        and "By one of five primary metrics" in text
    )
    passed = cmp.deltas.set_index("metric").loc["passed"]
    assert (
        f"`passed` is {passed['delta']:+.3f} {shown_interval(passed)}, p = {passed['p']:.3f} alone"
        f" and {passed['p_adjusted']:.3f} corrected." in text
    )
    assert f"At hit@5 it is {hit['delta']:+.3f} {shown_interval(hit)}, p = {hit['p']:.2f}." in text
    differences = [after[query] - before[query] for query in expected_docs]
    # two quantiles of the normal distribution, 1.96 + 0.84; that 0/1 values move by whole steps
    # makes a little of a difference
    roughly = 2.8016 * statistics.stdev(differences) / math.sqrt(len(differences))
    pair = ev.select(["dense", "hybrid_rerank"])
    needed = pair.golden_health("hit@5", differences=(0.06,)).needed.iloc[0]
    assert needed["mde"] == pytest.approx(roughly, rel=0.05)
    assert f"{len(differences)} queries find {needed['mde']:.3f} four times in five" in text
    assert f"A gain of 0.06 would need {needed['n_needed']}." in text
    assert needed["n_needed"] == pytest.approx((roughly / 0.06) ** 2 * len(differences), rel=0.05)
    board = ev.leaderboard(["hit@5", "mrr@10", "ndcg@10"])
    said = (
        f"At ndcg@10 it is {ndcg['delta']:+.3f} {shown_interval(ndcg)}, p = {ndcg['p']:.3f} alone"
        f" and {ndcg['p_adjusted']:.3f} corrected."
    )
    assert said in text and ndcg["verdict"] == "can't tell"
    planned = pair.compare("dense", "hybrid_rerank", primary="ndcg@10")
    alone = planned.deltas.set_index("metric").loc["ndcg@10"]
    assert planned.overall == "better" and f"better (p = {alone['p_adjusted']:.3f})" in text
    larger = f"`mde` above: {ndcg['mde']:.3f} instead of {alone['mde']:.3f}"
    assert larger in prose("04_trust_a_difference.ipynb")
    pairs = board.pairs.query("metric == 'hit@5'").set_index(["run_baseline", "run_candidate"])
    apart = pairs[~pairs["is_tied"]]
    assert set(apart.index) == {
        ("bm25", "dense"),
        ("bm25", "hybrid"),
        ("bm25", "hybrid_rerank"),
        ("hybrid", "hybrid_rerank"),
    }
    assert (
        f"`hybrid` from `hybrid_rerank` ({apart.loc[('hybrid', 'hybrid_rerank'), 'delta']:+.3f})"
        in text
    )
    assert (
        f"of 0.05 at ndcg@10 is ruled out, for {latency['p50_delta']:.1f} ms more" in text
        and hit["low"] > -0.1
        and ndcg["low"] > -0.05
    )
    fused = ev.compare("dense", "hybrid", "hit@5").deltas.iloc[0]
    assert f"a loss of {-fused['low']:.3f} at hit@5 may be there" in text
    sliced = cmp.slices("difficulty", ["hit@5", "ndcg@10"]).table
    assert (
        len(sliced) == 6
        and (sliced["q"] > 0.05).all()
        and ((sliced["low"] > 0) | (sliced["high"] < 0)).sum() == 3
    )


def test_what_margins_leave_open_is_told_as_the_gates_find_it(ev):
    text = prose("04_trust_a_difference.ipynb")
    margins = dict.fromkeys(ev.primary, 0.05)
    passed = {}
    for candidate in ("hybrid", "hybrid_rerank"):
        assert set(ev.compare("dense", candidate).gate().table["verdict"]) == {"pass"}
        table = ev.compare("dense", candidate, margins=margins).gate().table.set_index("metric")
        assert set(table["verdict"]) == {"pass", "not evaluated"}
        passed[candidate] = table.index[table["verdict"] == "pass"].tolist()
    assert passed == {
        "hybrid": ["answer_checks", "false_refusal", "passed"],
        "hybrid_rerank": [name for name in ev.primary if name != "answered_unanswerable"],
    }
    assert (
        "For `hybrid_rerank` only `answered_unanswerable` stays open, because"
        f" {len(ev.golden.refusals)} queries to refuse are few."
        in text
        and "For `hybrid` a loss is ruled out at `answer_checks`, `false_refusal` and `passed`"
        " alone."
        in text
    )


def test_what_the_labels_did_is_answered_with_true_numbers():
    text = last("04_trust_a_difference.ipynb")
    store, golden = (
        rs.RunStore(ROOT / "data" / "demo" / "history"),
        rs.load_golden(ROOT / "data" / "demo" / "golden.yaml"),
    )
    both = ["07-dense", "14-rerank-30-relabelled"]
    stored = [store.scores("mrr@10", runs=run)["mrr@10"] for run in both]
    differences = (stored[1] - stored[0]).dropna()
    with refused(*both, field="golden"):
        store.scores("mrr@10", runs=both)
    with warned("golden", *both):
        mixed = store.scores("mrr@10", runs=both, allow_different=["golden"])
    history = store.evaluate(golden, "mrr@10", both)
    named = mixed.rename(columns={"mrr@10": "as stored"})
    unlike = history.with_columns(named, "as stored", better="higher", range=(0, 1), partial=True)
    mixed = unlike.compare(*both, "as stored").deltas.iloc[0]
    today = history.compare(*both).deltas.iloc[0]
    changed = yaml.safe_load(
        (ROOT / "data" / "demo" / "golden_before.yaml").read_text(encoding="utf-8")
    )
    assert (
        f"{len(changed)} of {len(golden.queries)} queries were relabelled" in text
        and today["verdict"] == "can't tell"
    )
    of_labels = differences.mean() - today["delta"]
    assert (
        f"{of_labels:+.3f} of it is the labels', {today['delta']:+.3f}"
        f" {shown_interval(today)} the systems'" in text
    )


def test_why_the_old_reading_was_wrong_is_told_with_true_numbers(ev, expected_docs):
    text = prose("04_trust_a_difference.ipynb")
    runs = ["dense", "hybrid"]
    records = {run: demo_records(run) for run in runs}
    refused = {
        run: {query for query, one in of.items() if not one["answer"]["grounded"]}
        for run, of in records.items()
    }
    due = records["dense"].keys() - expected_docs.keys()
    answered = [len(due - refused[run]) / len(due) for run in runs]
    assert (
        f"`hybrid` answers {answered[1]:.2f} of the queries that should be refused, `dense`"
        f" {answered[0]:.2f}." in text
    )
    # Every answerable query that only one of the two refused was refused by dense: of so many
    # tosses of a coin all are heads, and of so uneven an outcome mid-p counts half, on both sides.
    moved = (refused["dense"] ^ refused["hybrid"]) & expected_docs.keys()
    cmp = ev.compare(*runs)
    deltas = cmp.deltas.set_index("metric")
    refusing = deltas.loc["false_refusal"]
    assert moved <= refused["dense"] and refusing["n_better"] == len(moved)
    ranking = [name for name in QUALITY if re.match("hit|recall|mrr|ndcg", name)]
    assert len(ranking) == 7 and "All seven retrieval means fell" in text
    assert (deltas.loc[ranking, "delta"] < 0).all()
    assert f"`passed` rose by {deltas.loc['passed', 'delta']:.3f} only" in text
    is_sure = (deltas["p"] < 0.05) & ((deltas["low"] > 0) | (deltas["high"] < 0))
    assert deltas.index[is_sure & deltas.index.isin(QUALITY)].tolist() == ["false_refusal"]
    assert len(QUALITY) == 12 and "one row in twelve" in text
    corrected = (
        ev.select(list(runs)).compare(*runs, list(QUALITY)).deltas.set_index("metric")["p_adjusted"]
    )
    assert f"corrected, its p is still {corrected['false_refusal']:.3f}" in text
    assert cmp.overall == "can't tell" and "old reading: better |" in stream(
        "04_trust_a_difference.ipynb", "quality = ["
    )


def test_words_where_nothing_differs_are_counted_as_the_cell_counts_them():
    found = stream("04_trust_a_difference.ipynb", "null = replace")
    old, present = map(int, re.findall(r"reading': (\d+)", found))
    n = int(re.search(r"of (\d+):", found)[1])
    said = f"It gave a word in {old} of {n} cases, the present one in {present}."
    assert said in prose("04_trust_a_difference.ipynb")
    low, high = binom.ppf([0.025, 0.975], n, 0.05).astype(int)
    usual = f"at a rate of 5 %, anything from {low} to {high} of them is usual"
    assert usual in prose("04_trust_a_difference.ipynb")
    # the manual shows what the benchmark found
    page = (ROOT / "notebooks/concepts/uncertainty.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"nothing differs .*overall word other than.*", page)
    of_old, of_present = re.search(
        r"the old reading gives a word in (\S+ %) of them, the present one in (\S+ %)",
        prose("04_trust_a_difference.ipynb"),
    ).groups()
    assert f"| {of_present} ({of_old}) | ≤ 5 % |" in row
    assert present <= high < old


def faults_of(run: str, expected: dict[str, set[str]]) -> dict[str, str]:
    """Query -> what became of it, read from the run's file.

    Whether it was refused, what was found in five hits, which entries the answer cites.
    """
    found, classes = found_within(run, expected, 5), {}
    for query, one in demo_records(run).items():
        refused, cited = (
            not one["answer"]["grounded"],
            {citation["citation"]["path"] for citation in one["answer"].get("citations", [])},
        )
        if query not in expected:
            classes[query] = "right refusal" if refused else "unsupported answer"
        elif refused:
            classes[query] = "refused after hit" if found[query] else "refused after miss"
        elif cited & expected[query]:
            classes[query] = "right" if found[query] else "memory"
        else:
            classes[query] = "generation fault" if found[query] else "retrieval fault"
    return classes


def wilson(n: int, of: int) -> tuple[float, float]:
    z = 1.959964
    middle, half = (
        (n + z * z / 2) / (of + z * z),
        z / (of + z * z) * math.sqrt(n * (of - n) / of + z * z / 4),
    )
    return middle - half, middle + half


def test_whose_fault_it_is_is_answered_with_true_numbers(expected_docs):
    text = last("06_refusals_and_faults.ipynb")
    before, after = (faults_of(run, expected_docs) for run in ("dense", "hybrid_rerank"))
    was, now = Counter(before.values()), Counter(after.values())
    due, asked = now["right refusal"] + now["unsupported answer"], len(expected_docs)
    over = {
        run: counts["refused after hit"] + counts["refused after miss"]
        for run, counts in (("was", was), ("now", now))
    }
    wrong = [
        over[run]
        + counts["unsupported answer"]
        + counts["retrieval fault"]
        + counts["generation fault"]
        for run, counts in (("was", was), ("now", now))
    ]
    assert (
        f"Of {len(after)} queries `hybrid_rerank` gets {wrong[1]} wrong" in text
        and f"{wrong[0]} wrong before" in text
    )
    assert (
        f"**The decision to refuse comes first, with {over['now'] + now['unsupported answer']}.**"
        in text
    )
    low, high = wilson(over["now"], asked)
    assert (
        f"{over['now']} refused that could be answered ({over['now'] / asked:.0%}, {low:.0%} to"
        f" {high:.0%})" in text
    )
    low, high = wilson(now["unsupported answer"], due)
    of_due = f"{now['unsupported answer'] / due:.0%}, {low:.0%} to {high:.0%}"
    assert (
        f"{now['unsupported answer']} of {due} answered that should be refused ({of_due})."
        f" Retrieval has {now['retrieval fault']}" in text
    )
    assert (
        f"the generator {now['generation fault']}. Not all of the 43 are lost answers."
        f" {now['refused after miss']} of those refused had no right hit" in text
    )
    assert not was["memory"] and not now["memory"]
    named = {
        query: list(dict.fromkeys(hit["doc_id"] for hit in one["hits_top_k"]))[:2]
        for query, one in demo_records("hybrid_rerank").items()
    }
    thrown_away = [
        after[query]
        for query in expected_docs
        if after[query].startswith("refused after") and expected_docs[query] & set(named[query])
    ]
    assert (
        f"{now['refused after hit']} had one, and {len(thrown_away)} would have been answered"
        " right."
        in text
        and set(thrown_away) == {"refused after hit"}
    )
    parts = (
        f"refusing {over['was'] + was['unsupported answer']} to"
        f" {over['now'] + now['unsupported answer']}, retrieval {was['retrieval fault']} to"
    )
    assert (
        f"{parts} {now['retrieval fault']}, generator {was['generation fault']} to"
        f" {now['generation fault']}." in text
    )
    moves = Counter((before[query], after[query]) for query in after)
    assert (
        f"{moves['right', 'generation fault']} right answers became generation faults and"
        f" {moves['generation fault', 'right']} generation faults" in text
    )
    newly = [
        query
        for query in after
        if after[query].startswith("refused after")
        and not before[query].startswith("refused after")
    ]
    assert not newly and over["was"] - over["now"] == 6  # "Six over-refusals fewer and none more"


# Kind of outcome -> how the outcomes of `faults_of` begin that are of this kind.
BEGINS = {
    "right": "right",
    "generation fault": "generation",
    "retrieval fault": "retrieval",
    "over-refusal": "refused after",
}


def test_how_sure_the_faults_are_is_answered_with_true_numbers(ev, expected_docs):
    text, runs = last("06_refusals_and_faults.ipynb"), ["dense", "hybrid_rerank"]
    classes = {run: faults_of(run, expected_docs) for run in runs}
    refusing = ev.compare(*runs, "false_refusal").deltas.iloc[0]
    kinds = list(BEGINS)
    rows = [
        {
            "run_id": run,
            "query_id": query,
            **{kind: classes[run][query].startswith(begins) for kind, begins in BEGINS.items()},
        }
        for run in runs
        for query in expected_docs
    ]
    better = dict.fromkeys(kinds, "lower") | {"right": "higher"}
    own = ev.select(runs).with_columns(pd.DataFrame(rows), kinds, better=better, partial=True)
    tested = own.compare(*runs, kinds).deltas.set_index("metric")
    said = {kind: f"{row['delta']:+.3f} {shown_interval(row)}" for kind, row in tested.iterrows()}
    assert (
        f"rose by {said['generation fault']} and retrieval faults fell by"
        f" {said['retrieval fault']}: can't tell"
        in text
        and set(tested["verdict"]) == {"can't tell"}
    )
    over = tested.loc["over-refusal"]
    assert (
        f"({said['over-refusal']}) would be a difference if it were the only one looked at"
        f" (p = {over['p']:.3f})"
        in text
        and f"(p = {over['p_adjusted']:.3f} corrected)" in text
        and over["p"] == refusing["p"] < 0.05 < over["p_adjusted"]
    )
    quality = ev.select(runs).refusals("citation_precision").quality.set_index("run_id")
    overall, answered = (
        " against ".join(f"{quality.loc[run, name]:.3f}" for run in runs[::-1])
        for name in ("overall", "answered")
    )
    assert f"is {overall}, on the answers given {answered}." in text


def test_the_top_score_refuses_worse_than_the_rule_does(expected_docs):
    text, records = last("06_refusals_and_faults.ipynb"), demo_records("hybrid_rerank")
    found = found_within("hybrid_rerank", expected_docs, 5)
    by_rule = [query for query, one in records.items() if one["answer"]["grounded"]]
    by_score = sorted(
        records, key=lambda query: -records[query]["hits_top_k"][0]["retrieval"]["fusion_score"]
    )[: len(by_rule)]
    let_through = [
        sum(query not in expected_docs for query in answered) for answered in (by_score, by_rule)
    ]
    risks = [
        sum(not found.get(query, False) for query in answered) / len(answered)
        for answered in (by_score, by_rule)
    ]
    assert (
        f"it would let {let_through[0]} through that should be refused, where the present rule lets"
        f" {let_through[1]}" in text
    )
    assert f"Its risk is {risks[0]:.3f} instead of {risks[1]:.3f}" in text


@pytest.mark.slow
def test_the_labels_are_answered_with_true_numbers(tmp_path):
    text, found = prose("08_label.ipynb"), output("08_label.ipynb", "first = near.head(20)")
    file, before = tmp_path / "golden.yaml", rs.load_golden(ROOT / "data" / "demo" / "golden.yaml")
    file.write_bytes((ROOT / "data" / "demo" / "golden.yaml").read_bytes())
    results = rs.load_results(ROOT / "data" / "demo" / "runs" / "*")
    session = rs.golden.LabelSession(file, results, level="doc")
    first = session.near_misses().head(20)
    assert (
        set(first["n_runs"]) == {4}
        and "which all four systems found" in text
        and all(f">{doc}</td>" in found.replace("<wbr>", "") for doc in first["doc_id"])
    )
    right = {
        "mpl-007": ["numpy.histogram"],
        "np-011": ["matplotlib.axes.Axes.hist", "numpy.histogram2d"],
    }
    for query_id, number, doc in zip(
        first["query_id"], first["number"], first["doc_id"], strict=True
    ):
        session.go(query_id)
        session.mark(number, int(doc in right.get(query_id, [])))
    # By the run files alone: hit@1 is whether the first hit's document is expected.
    for run, moved in {"bm25": 1, "dense": 1, "hybrid": 1, "hybrid_rerank": 2}.items():
        tops = results.hits[
            (results.hits["run_id"] == run) & (results.hits["rank"] == 1)
        ].set_index("query_id")["doc_id"]
        assert sum(tops[query_id] in docs for query_id, docs in right.items()) == moved
    assert (
        f"{1 / 150:.3f} for `bm25`, `dense` and `hybrid` and by {2 / 150:.3f} for `hybrid_rerank`"
        in text
    )
    assert (
        f"{len(session.near_misses())} near misses are left" in text
        and "three answer their query and seventeen don't" in text
    )
    scores = {
        name: rs.score(results, golden, ["hit@5", "mrr@10"])
        for name, golden in (("before", before), ("after", rs.load_golden(file)))
    }
    means = {
        name: frame.groupby("run_id", observed=True)[["hit@5", "mrr@10"]].mean()
        for name, frame in scores.items()
    }
    assert means["before"]["hit@5"].equals(means["after"]["hit@5"]) and means["before"][
        "mrr@10"
    ].rank().equals(means["after"]["mrr@10"].rank())
    changed = (
        (scores["before"]["mrr@10"].fillna(0) != scores["after"]["mrr@10"].fillna(0))
        .groupby(level="query_id")
        .any()
    )
    assert (
        set(changed.index[changed]) == set(right) and "move 2 of the 150 answerable queries" in text
    )
