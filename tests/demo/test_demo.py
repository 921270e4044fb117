"""The demo: its corpus, its golden questions, its four systems, and the runs that are committed."""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.demo import run as demo_run
from ragscore.demo.answerer import REFUSAL, Familiarity
from ragscore.demo.corpus import MAX_CHARS, NAMESPACES, build_corpus, chunker_version
from ragscore.demo.retrievers import SYSTEMS, Index, MiniLM, pooled, reciprocal_rank_fusion
from ragscore.golden.coverage import coverage as coverage_of
from ragscore.scoring.summary import summarize
from tests.demo.variations import tune_threshold
from tests.messages import says

ROOT = Path(__file__).parents[2]
GOLDEN, RUNS = ROOT / "data" / "demo" / "golden.yaml", ROOT / "data" / "demo" / "runs"
# Words that carry no content; what is left of a question must not repeat three words running of its
# target's summary.
STOP = set(
    "a an and are as at be been but by can could do does did for from get had has have how i if in"
    " into is it its me my of on or our out so some that the their them then there these they this"
    " to up us was we were what when where which while who why will with without would you your not"
    " no any each every than just don't want need make".split()
)


@pytest.fixture(scope="module")
def corpus():
    return build_corpus()


@pytest.fixture(scope="module")
def golden():
    return rs.load_golden(GOLDEN)


@pytest.mark.large
def test_passages_are_short_named_after_their_document_and_cover_their_lines(corpus):
    documents, chunks = corpus
    assert (
        chunks["chunk_id"].is_unique
        and documents["doc_id"].is_unique
        and documents["text"].is_unique
    )
    assert set(chunks["doc_id"]) <= set(documents["doc_id"])
    assert len(documents) > 1000 and len(chunks) > 3000
    # a single line may be longer than a passage should be
    assert (chunks["text"].str.len() <= MAX_CHARS).mean() > 0.99
    texts = documents.set_index("doc_id")["text"]
    for row in chunks.sample(200, random_state=0).to_dict("records"):
        lines = texts[row["doc_id"]].split("\n")[row["start"] - 1 : row["end"] - 1]
        assert row["text"] == f"{row['doc_id']}: " + "\n".join(lines).strip()


def test_passages_of_a_document_do_not_overlap(corpus):
    chunks = corpus[1].sort_values(["doc_id", "start"])
    before = chunks.groupby("doc_id")["end"].shift()
    assert (chunks["start"] >= before.fillna(0)).all()


def test_wrappers_and_repeated_docstrings_are_left_out(corpus):
    ids = set(corpus[0]["doc_id"])
    assert {
        "pandas.merge",
        "pandas.DataFrame.merge",
        "numpy.sort",
        "matplotlib.axes.Axes.scatter",
        "python.assert",
        "matplotlib.colors.Normalize",
    } <= ids
    assert (
        not {
            "matplotlib.pyplot.scatter",
            "matplotlib.pyplot.xlabel",
            "pandas.Series.sort_values",
            "numpy.ndarray.sort",
            "python.compound",
        }
        & ids
    )
    assert not [one for one in ids if ".style." in one.lower() and one.startswith("pandas")]


def test_every_expected_document_is_in_the_manuals_of_this_machine(corpus, golden):
    expected = set(golden.targets.loc[golden.targets["level"] == "doc", "doc_id"])
    assert not expected - set(corpus[0]["doc_id"])


def test_every_expected_passage_exists_on_the_recorded_versions(corpus, golden):
    recorded = golden.targets["chunker_version"].dropna().unique().tolist()
    assert len(recorded) == 1
    assert f"python{sys.version_info.major}.{sys.version_info.minor}" in chunker_version().split(
        "+"
    )
    if recorded[0] != chunker_version():
        pytest.skip(
            f"passages are recorded for {recorded[0]}, this machine has {chunker_version()}"
        )
    expected = set(golden.targets.loc[golden.targets["level"] == "chunk", "chunk_id"])
    assert not expected - set(corpus[1]["chunk_id"])


def content_words(text):
    return [word for word in re.findall(r"[a-z0-9_']+", text.lower()) if word not in STOP]


def test_no_question_repeats_three_words_running_of_its_targets_summary(corpus, golden):
    def runs(text):
        words = content_words(text)
        return {tuple(words[n : n + 3]) for n in range(len(words) - 2)}

    summaries = corpus[0].set_index("doc_id")["summary"]
    questions = golden.queries.set_index("query_id")["query"]
    targets = golden.targets[golden.targets["level"] == "doc"]
    shared = {
        (q, d)
        for q, d in zip(targets["query_id"], targets["doc_id"], strict=True)
        if runs(questions[q]) & runs(summaries[d])
    }
    assert not shared


def test_the_golden_set_is_as_rich_as_its_readme_says(golden):
    queries = golden.queries
    assert len(queries) >= 120 and len(golden.refusals) >= 25
    groups = queries.groupby("group")["variant"].agg(["size", "nunique"])
    assert len(groups) >= 15 and (groups == 3).all().all()  # three kinds of paraphrase each
    assert golden.support_groups["query_id"].nunique() >= 10
    assert (
        (queries.loc[queries["category"] == "multi_hop", "query_id"])
        .isin(golden.support_groups["query_id"])
        .all()
    )
    assert not golden.support_groups["target_id"].str.startswith("unknown:").any()
    near = golden.tags.loc[golden.tags["value"] == "near", "query_id"]
    assert near.isin(golden.refusals).all() and len(near) >= 10
    assert golden.targets.groupby("level")["query_id"].nunique().to_dict()["chunk"] >= 40
    assert golden.targets["grade"].nunique() == 3 and golden.targets["alternative"].max() >= 1
    assert {"must_contain", "forbidden"} & set(golden.checks["kind"])
    assert queries[["difficulty", "category"]].notna().all().all()


@pytest.fixture(scope="module")
def runs():
    return rs.load_results(RUNS / "*" / "per_query.jsonl")


@pytest.fixture(scope="module")
def scores(runs, golden):
    return rs.score(runs, golden)


@pytest.mark.large
def test_committed_runs_answer_every_question_and_hold_no_text_of_the_manuals(runs, golden):
    assert sorted(runs.runs["run_id"]) == sorted(SYSTEMS)
    coverage = coverage_of(runs, golden).runs
    assert (
        (
            coverage[
                [
                    "n_missing",
                    "n_extra",
                    "n_duplicate",
                    "n_failed",
                    "n_empty",
                    "n_rank_order",
                    "n_unlabelled",
                ]
            ]
            == 0
        )
        .all()
        .all()
    )
    assert "text" not in runs.hits
    assert (runs.runs["golden_hash"] == golden.golden_hash).all(), (
        "the golden set has changed since the runs were made"
    )
    words = (
        runs.responses["answer"]
        .str.replace(r"[\w.-]+ \[\d\]", "", regex=True)
        .str.split()
        .explode()
    )
    assert set(words) <= {"See", "or", ".", *REFUSAL.split()}


@pytest.mark.large
def test_the_golden_set_tells_the_systems_apart(scores, golden, runs):
    by_run = summarize(scores, metrics=["hit@5"]).set_index("run_id")["mean"]
    assert by_run.between(0.3, 0.95).all()
    sliced = summarize(scores, golden, by="category", metrics=["hit@5"]).query("n > 0")
    orders = {
        tuple(one.sort_values(["mean", "run_id"], ascending=[False, True])["run_id"].astype("str"))
        for _, one in sliced.groupby("category")
    }
    assert len(orders) > 1
    best, worst = by_run.idxmax(), by_run.idxmin()
    assert compare_runs(runs, golden, str(worst), str(best)).counts.get("regression", 0) > 0


@pytest.mark.large
def test_the_numbers_of_the_data_readme_are_those_of_the_runs(scores, golden, runs):
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    table = summarize(
        scores,
        metrics=[
            "hit@1",
            "hit@5",
            "recall@5",
            "mrr@10",
            "ndcg@10",
            "refusal_correct",
            "false_refusal",
        ],
    ).pivot(index="run_id", columns="metric", values="mean")
    for run_id, row in table.iterrows():
        cells = " | ".join(
            f"{row[name]:.3f}"
            for name in (
                "hit@1",
                "hit@5",
                "recall@5",
                "mrr@10",
                "ndcg@10",
                "refusal_correct",
                "false_refusal",
            )
        )
        assert f"| {run_id} | {cells} |" in text
    for a, b in pairwise(SYSTEMS):
        deltas = compare_runs(runs, golden, a, b, metrics=["hit@5"]).deltas.iloc[0]
        assert f"{a} → {b}: {deltas['n_better']} won, {deltas['n_worse']} lost" in text
    for fact in (len(golden.queries), len(golden.refusals), golden.queries["group"].nunique()):
        assert str(fact) in text
    assert golden.golden_hash in text


def test_reciprocal_rank_fusion_by_hand():
    first, second = (
        np.array([3.0, 1.0, np.nan], np.float32),
        np.array([np.nan, 0.9, 0.1], np.float32),
    )
    # ranks 1 2 - and - 1 2: 1/61, 1/62 + 1/61, 1/62
    assert reciprocal_rank_fusion([first, second]).tolist() == pytest.approx(
        [1 / 61, 1 / 62 + 1 / 61, 1 / 62]
    )
    assert np.isnan(reciprocal_rank_fusion([np.array([np.nan, 1.0], np.float32)])[0])


def test_the_refusal_threshold_is_the_best_balanced_one():
    coverage, answerable = (
        np.array([0.1, 0.2, 0.5, 0.6, 0.9]),
        np.array([False, False, True, False, True]),
    )
    # refusing below 0.5: two of three right refusals, both answers kept -> (2/3 + 1) / 2; no
    # threshold does better
    assert tune_threshold(coverage, answerable) == 0.5


@pytest.fixture(scope="module")
def small(corpus, tmp_path_factory):
    """Forty passages that hold a few answers, as an index."""
    documents, chunks = corpus
    wanted = [
        "pandas.merge",
        "numpy.sort",
        "python.assert",
        "matplotlib.axes.Axes.scatter",
        "pandas.DataFrame.groupby",
        "numpy.fft.rfftfreq",
    ]
    few = chunks[chunks["doc_id"].isin(wanted)].reset_index(drop=True)
    few = pd.concat(
        [few, chunks[~chunks["doc_id"].isin(wanted)].iloc[:: len(chunks) // 90]], ignore_index=True
    )
    return documents[documents["doc_id"].isin(few["doc_id"])], few, tmp_path_factory.mktemp("cache")


@pytest.mark.slow
def test_every_system_finds_an_obvious_answer(small):
    index = Index(small[1], small[2])
    for system in SYSTEMS:
        ranking = index.search(
            system, "which frequencies do the outputs of a real FFT stand for", 5
        )
        assert "numpy.fft.rfftfreq" in set(small[1]["doc_id"].iloc[ranking.chunk]), system
        assert (np.diff(ranking.score) <= 0).all() and len(ranking.chunk) == 5


@pytest.mark.slow
def test_vectors_are_cached_and_do_not_depend_on_neighbours(small):
    first = Index(small[1], small[2]).vectors
    again = Index(small[1], small[2], progress=lambda items, total: pytest.fail("embedded again"))
    assert np.array_equal(again.vectors, first)
    alone = pooled(MiniLM().token_vectors(small[1]["text"].iloc[3]))
    assert np.allclose(alone, first[3], atol=1e-6) and np.linalg.norm(alone) == pytest.approx(
        1, abs=1e-5
    )


def test_familiarity_runs_from_minus_one_to_a_fifth(small):
    index = Index(small[1], small[2])
    familiarity = Familiarity(index)
    found = index.search("bm25", "scatter plot marker size", 10)
    # every word is in the passages found
    assert familiarity.of("scatter plot marker size", found) == pytest.approx(0.2)
    assert familiarity.of("sourdough bakery", found) == -1 == familiarity.of("", found)
    assert -1 < familiarity.of("scatter sourdough", found) < 0.2


@pytest.mark.slow
def test_the_demo_command_from_corpus_to_report(small, golden, tmp_path, monkeypatch, capsys):
    documents, chunks, cache = small
    monkeypatch.setattr(demo_run, "build_corpus", lambda: (documents, chunks))
    monkeypatch.setattr(demo_run, "progress", lambda items, total: items)
    out = tmp_path / "demo"
    (out / "cache").parent.mkdir()
    (out / "cache").symlink_to(cache)
    from ragscore.cli import main

    assert main(["demo", "--out", str(out), "--golden", str(GOLDEN)]) == 0
    printed = capsys.readouterr().out
    says(printed, "hit@5", "category")
    first = rs.RunStore(out / "runs").runs()
    assert (
        sorted(first["system"]) == sorted(SYSTEMS)
        and len(list((out / "runs").glob("hybrid_rerank-*/report.md"))) == 1
    )
    assert main(["demo", "--out", str(out), "--golden", str(GOLDEN)]) == 0
    again = rs.RunStore(out / "runs").runs()
    assert len(again) == 8 and again["run_id"].is_unique  # run again, it mints new run ids
    stored = rs.RunStore(out / "runs").load(first["run_id"].astype("str").tolist()[:1])
    pd.testing.assert_series_equal(
        rs.score(stored, golden)["mrr@10"].rename("x"),
        rs.RunStore(out / "runs")
        .scores(["mrr@10"], runs=stored.runs["run_id"].astype("str").tolist())["mrr@10"]
        .rename("x"),
    )
    published = json.loads(
        (out / "per_query" / "bm25" / "per_query.jsonl").read_text().splitlines()[0]
    )
    assert published["hits_top_k"] and "snippet" not in published["hits_top_k"][0]


def test_the_demo_says_which_package_is_missing(monkeypatch, capsys):
    import builtins

    from ragscore.cli import main

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("ragscore.demo"):
            raise ModuleNotFoundError("No module named 'bm25s'", name="bm25s")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["demo"]) == 2
    says(capsys.readouterr().err, "bm25s", "pip install", "'.[demo]'")


def test_every_namespace_of_the_corpus_is_a_real_one():
    assert list(NAMESPACES) == ["numpy", "pandas", "matplotlib"]


def test_the_corpus_does_not_depend_on_what_else_is_loaded():
    from scipy import signal  # noqa: F401  # it writes into the docstring of numpy.sinc

    _, chunks = build_corpus()
    sinc = chunks[chunks["doc_id"] == "numpy.sinc"]
    assert len(sinc) and not sinc["text"].str.contains("Array API|experimental support").any()
    assert not chunks["text"].str.contains("Array API Standard Support", regex=False).any()
