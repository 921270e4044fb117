"""The demo: its corpus, its golden queries, its four systems, and the runs that are committed."""

import json
import re
import sys
from contextlib import chdir, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
import yaml

import ragscore as rs
from ragscore.analysis.comparison.invariants import config_diff
from ragscore.cli import main
from ragscore.demo import show
from ragscore.demo.sea import GOLDEN as SEA
from ragscore.demo.sea import PASSAGES, chatty, plain, search, word_judge
from ragscore.golden.coverage import coverage as coverage_of
from tests.compared import compare_runs
from tests.demo.built import build
from tests.messages import refused, says, warned

ROOT = Path(__file__).parents[2]
GOLDEN, RUNS = ROOT / "data" / "demo" / "golden.yaml", ROOT / "data" / "demo" / "runs"


@pytest.fixture(scope="module")
def corpus():
    from scipy import signal  # noqa: F401  # it writes into the docstring of numpy.sinc

    return build.build_corpus()


@pytest.fixture(scope="module")
def golden():
    return rs.load_golden(GOLDEN)


def test_passages_are_short_named_after_their_document_and_cover_their_lines(corpus):
    documents, chunks = corpus
    assert chunks["chunk_id"].is_unique
    assert documents["doc_id"].is_unique and documents["text"].is_unique
    assert set(chunks["doc_id"]) <= set(documents["doc_id"])
    assert len(documents) > 1000 and len(chunks) > 3000
    # a single line may be longer than a passage should be
    assert (chunks["text"].str.len() <= build.MAX_CHARS).mean() > 0.99
    texts = documents.set_index("doc_id")["text"]
    for row in chunks.sample(200, random_state=0).to_dict("records"):
        lines = texts[row["doc_id"]].split("\n")[row["start"] - 1 : row["end"] - 1]
        assert row["text"] == f"{row['doc_id']}: " + "\n".join(lines).strip()

    placed = chunks.sort_values(["doc_id", "start"])
    before = placed.groupby("doc_id")["end"].shift()
    assert (placed["start"] >= before.fillna(0)).all(), "passages do not overlap"


def test_wrappers_and_repeated_docstrings_are_left_out_whatever_else_is_loaded(corpus):
    ids, chunks = set(corpus[0]["doc_id"]), corpus[1]
    kept = {"pandas.merge", "numpy.sort", "matplotlib.axes.Axes.scatter", "python.assert"}
    repeated = {"matplotlib.pyplot.scatter", "pandas.Series.sort_values", "numpy.ndarray.sort"}
    assert kept | {"numpy.sinc"} <= ids and not repeated & ids
    assert not chunks["text"].str.contains("Array API Standard Support", regex=False).any()


def test_every_expected_document_and_passage_is_in_the_manuals_of_this_machine(corpus, golden):
    docs = golden.targets.loc[golden.targets["level"] == "doc", "doc_id"]
    assert not {*docs} - set(corpus[0]["doc_id"])
    (recorded,) = golden.targets["chunker_version"].dropna().unique()
    here = build.chunker_version()
    assert f"python{sys.version_info.major}.{sys.version_info.minor}" in here.split("+")
    if recorded != here:
        pytest.skip(f"passages are recorded for {recorded}, this machine has {here}")
    chunks = golden.targets.loc[golden.targets["level"] == "chunk", "chunk_id"]
    assert not {*chunks} - set(corpus[1]["chunk_id"])


@pytest.fixture(scope="module")
def runs():
    return rs.load_results(RUNS / "*" / "per_query.jsonl")


def test_committed_runs_answer_every_query_and_hold_no_text_of_the_manuals(runs, golden):
    assert sorted(runs.runs["run_id"]) == sorted(build.SYSTEMS)
    faults = ["missing", "extra", "failed", "empty", "rank_order", "unlabelled"]
    coverage = coverage_of(runs, golden).runs
    assert (coverage[[f"n_{fault}" for fault in faults]] == 0).all().all()
    assert "text" not in runs.hits
    assert (runs.runs["golden_hash"] == golden.golden_hash).all()
    answers = runs.responses["answer"].str.replace(r"[\w.-]+ \[\d\]", "", regex=True)
    assert set(answers.str.split().explode()) <= {"See", "or", ".", *build.REFUSAL.split()}


def test_the_numbers_of_the_data_readme_are_those_of_the_runs(golden, runs):
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    names = ["hit@1", "hit@5", "recall@5", "mrr@10", "ndcg@10", "refusal_correct", "false_refusal"]
    scores = rs.score(runs, golden)
    for run_id, means in scores.groupby("run_id", observed=True)[names].mean().iterrows():
        assert f"| {run_id} | {' | '.join(f'{value:.3f}' for value in means)} |" in text
    for a, b in pairwise(build.SYSTEMS):
        deltas = compare_runs(runs, golden, a, b, metrics=["hit@5"]).deltas.iloc[0]
        assert f"{a} → {b}: {deltas['n_better']} won, {deltas['n_worse']} lost" in text
    assert golden.golden_hash in text


def test_reciprocal_rank_fusion_by_hand():
    first = np.array([3.0, 1.0, np.nan], np.float32)
    second = np.array([np.nan, 0.9, 0.1], np.float32)
    # ranks 1 2 - and - 1 2: 1/61, 1/62 + 1/61, 1/62
    fused = build.reciprocal_rank_fusion([first, second])
    assert fused.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 61, 1 / 62])
    assert np.isnan(build.reciprocal_rank_fusion([np.array([np.nan, 1.0], np.float32)])[0])


@pytest.fixture(scope="module")
def small(corpus, tmp_path_factory):
    """About 130 passages that hold a few answers, as documents, chunks and a cache."""
    documents, chunks = corpus
    wanted = ["pandas.merge", "numpy.sort", "pandas.DataFrame.groupby", "numpy.fft.rfftfreq",
              "matplotlib.axes.Axes.scatter"]  # fmt: skip
    is_wanted = chunks["doc_id"].isin(wanted)
    few = pd.concat([chunks[is_wanted], chunks[~is_wanted][::50]], ignore_index=True)
    return documents[documents["doc_id"].isin(few["doc_id"])], few, tmp_path_factory.mktemp("cache")


@pytest.mark.slow
def test_vectors_are_cached(small):
    first = build.Index(small[1], small[2]).vectors
    again = build.Index(
        small[1], small[2], progress=lambda items, total: pytest.fail("embedded again")
    )
    assert np.array_equal(again.vectors, first)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ids of")
def test_a_build_goes_from_corpus_to_page(small, tmp_path, monkeypatch, capsys):
    rows = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))[::9]
    (tmp_path / "data" / "demo").mkdir(parents=True)
    (tmp_path / "data" / "demo" / "golden.yaml").write_text(json.dumps(rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "build_corpus", lambda: small[:2])
    monkeypatch.setattr(build, "progress", lambda items, total: items)
    out = Path("made")
    out.mkdir()
    (out / "cache").symlink_to(small[2])
    build.run_demo(out)
    says(capsys.readouterr().out, "hybrid_rerank", "dense", "?")
    assert (out / "report.html").exists()
    store = rs.RunStore(out / "runs")
    assert sorted(store.runs()["system"]) == sorted(build.SYSTEMS)
    with warned("do not join"):  # a small corpus
        published = rs.evaluate(out / "per_query" / "bm25", "data/demo/golden.yaml")
    stored = store.scores(metrics=["mrr@10"], runs=published.run_ids)["mrr@10"]
    pd.testing.assert_series_equal(published.scores["mrr@10"], stored)
    assert "text" not in published.results.hits and len(published.results.hits)


def test_a_build_says_which_package_is_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "bm25s", None)  # as if it were not installed
    assert main(["demo", "--build", "--out", str(tmp_path)]) == 2
    says(capsys.readouterr().err, "bm25s", "pip install", "'.[demo]'")


# The small system of the collecting notebook


def test_the_search_finds_the_passage_of_every_answerable_query():
    answerable = [row for row in SEA if "expected_doc_ids" in row]
    assert len(answerable) == 10
    for row in answerable:
        assert search(row["query"], k=1)[0]["doc_id"] == row["expected_doc_ids"][0]
    assert all(hit["text"] == PASSAGES[hit["doc_id"]] for hit in search("waves"))


def test_plain_refuses_where_chatty_tells_of_its_own():
    found = {row["id"]: (row["query"], search(row["query"])) for row in SEA}
    answers = {key: plain(*asked) for key, asked in found.items()}
    told = {"sea-04": "Sea ice floats because ice is lighter than water."}
    told |= dict.fromkeys(["sea-05", "sea-11", "sea-12"], "I don't know.")
    assert answers | told == answers and [*answers.values()].count("I don't know.") == 4
    assert chatty(*found["sea-04"]) == (  # of the best passage, the next one, and none
        f"{told['sea-04']} Sea water holds about 35 grams of salt in a litre."
        " Sailors have always known such things by heart."
    )


def test_the_judge_by_words_takes_three_quarters_of_them_for_support():
    facts = {"Sea ice is cold": "support", "Salt ice floats cold": "partial_support",
             "Gulf Stream": "not_support"}  # fmt: skip
    answers = pd.DataFrame({"query_id": ["q"], "response": ["Sea ice floats because it is light."]})
    golden = rs.load_golden([{"id": "q", "query": "Why?", "expected_key_facts": [*facts]}])
    judge = rs.judging.Endpoint("words", call=word_judge)
    judged = rs.judge(rs.load_results(answers), golden, "nuggets", judge, cache=None)
    assert dict(judged.judgments[["item_text", "verdict"]].to_numpy()) == facts


# The systems asked by the collector find what the committed runs found


DATA = Path(__file__).parents[2] / "data" / "demo"
SAME = {
    "hits": [
        "query_id", "rank", "chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit",
        "score", "score_kind",
    ],
    "responses": [
        "query_id", "mode", "answer", "grounded", "refused", "refusal_reason", "x_familiarity",
    ],
    "citations": ["query_id", "position", "marker", "chunk_id", "path", "start", "end"],
}  # fmt: skip

TEXTS = {
    "pandas.merge": "join two tables on a shared key",
    "pandas.concat": "put tables under each other",
    "pandas.DataFrame.sort_values": "sort rows of a table",
    "numpy.sort": "sort an array",
    "numpy.mean": "average of an array along an axis",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """One of the demo's systems over passages of our own, without the manuals."""
    chunks = [
        {
            "chunk_id": f"{name}#lead", "doc_id": name, "path": name, "heading": "lead", "start": 1,
            "end": 3, "span_unit": "line", "text": f"{name}: {text}",
            "doc_type": name.split(".")[0],
        }
        for name, text in TEXTS.items()
    ]  # fmt: skip
    index = build.Index(pd.DataFrame(chunks), tmp_path_factory.mktemp("cache"))
    return build.systems_over(index, "v7", ["bm25"])["bm25"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"filters": {"doc_type": "numpy"}}, {"numpy.sort", "numpy.mean"}),
        (
            {"filters": {"doc_id": ["numpy.sort", "pandas.concat"], "doc_type": "numpy"}},
            {"numpy.sort"},
        ),
        # and not the pandas.D of another name
        ({"folders": ["pandas.DataFrame"]}, {"pandas.DataFrame.sort_values"}),
        ({"folders": ["nothing"]}, set()),
        ({"folders": [], "filters": None}, {*TEXTS}),
        ({}, {*TEXTS}),
    ],
)
def test_filters_and_folders_leave_only_what_they_name(system, asked, expected):
    reply = system.ask({"query": "sort an array or a table", "k": 8, **asked}, None)
    assert {hit["doc_id"] for hit in reply["hits"]} == expected


def test_a_filter_of_an_unknown_field_is_refused(system):
    with refused("year", "doc_type", field="filters"):
        system.ask({"query": "sort", "k": 8, "filters": {"year": 2024}}, None)


def test_an_answer_comes_on_request_and_may_be_a_refusal(system):
    asked = {"query": "sourdough bakery"}
    assert system.ask(asked, None)["refused"]
    assert "answer" not in system.ask(asked | {"with_answer": False}, None)


@pytest.mark.slow
def test_bm25_finds_and_answers_as_in_the_committed_run(tmp_path):
    committed = rs.load_results(DATA / "runs" / "bm25")
    recorded, here = committed.runs["chunker_version"].iloc[0], build.chunker_version()
    if recorded != here:
        pytest.skip(f"the committed run is of {recorded}, here is {here}")
    system, golden = build.demo_system("bm25", tmp_path), rs.load_golden(DATA / "golden.yaml")
    some = golden.select(golden.queries["query_id"].sample(25, random_state=0))
    results = rs.collect(system, some, tmp_path / "run", workers=2, progress=False)
    before = committed.select("bm25", results.responses["query_id"].tolist())
    for kind, columns in SAME.items():
        expected = getattr(before, kind)[columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(getattr(results, kind)[columns], expected)
    assert len(results.responses) == 25 and results.hits["text"].notna().all()
    both = rs.Results.concat([results, before])
    changed = config_diff(both, *both.runs["run_id"])["key"]
    assert set(changed) == {"system.kind", "system.retriever", "with_answer", "retriever"}
    config = json.loads(before.runs["config"].iloc[0])
    assert config["answerer"]["refuse_below"] == build.REFUSE_BELOW


def test_another_name_is_refused(tmp_path):
    with refused("bm26", "bm25", "dense", "hybrid", "hybrid_rerank", field="system"):
        build.demo_system("bm26", tmp_path)


# The first command: what it prints is what the library gives, and its page is there.

SYSTEMS = ["hybrid_rerank", "dense", "hybrid", "bm25"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(out):
    with chdir(ROOT), redirect_stdout(StringIO()) as text:
        assert main(["demo", "--out", str(out)]) == 0
    return text.getvalue()


@pytest.fixture(scope="module")
def same(printed):
    """What the printed lines of Python define."""
    lines, names = printed[printed.index("  import ragscore") :].partition("\n\n")[0], {}
    with chdir(ROOT):
        exec(dedent(lines), names)
    return names


def line_of(printed, start):
    """Return the line of a table that begins so, and its numbers."""
    (line,) = re.findall(rf"^{re.escape(start)} .*\d.*$", printed, re.M)
    return line, [float(one) for one in re.findall(r"[-+]?\d+\.\d+", line)]


def test_the_standings_are_the_summary_of_all_four_runs_best_first(printed, same):
    means = same["ev"].summary(["hit@5", "ndcg@10", "passed"]).set_index(["run_id", "metric"])
    for run_id in SYSTEMS:
        own = means.loc[run_id]
        expected = [*own.loc["hit@5", ["mean", "low", "high"]], *own["mean"].iloc[1:]]
        assert line_of(printed, run_id)[1] == pytest.approx(expected, abs=0.0051)
    assert means.loc["dense"].index.tolist() == ["hit@5", "ndcg@10", "passed"]
    places = [printed.index(f"\n{run_id} ") for run_id in SYSTEMS]
    assert places == sorted(places)


def test_the_differences_are_those_of_the_two_runs_alone(printed, same):
    runs = ROOT / "data" / "demo" / "runs"
    cmp = rs.compare(runs / "dense", runs / "hybrid_rerank", ROOT / "data" / "demo" / "golden.yaml")
    for row in cmp.deltas[cmp.deltas["is_primary"]].to_dict("records"):
        line, numbers = line_of(printed, row["metric"])
        expected = [row[name] for name in ("delta", "low", "high")]
        assert numbers == pytest.approx(expected, abs=0.0051)
        assert row["verdict"] in line
    says(printed, "these two", cmp.overall, "4 runs", same["cmp"]._among)


def test_the_page_is_there_and_the_text_is_the_one_that_is_kept(printed, out):
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("dense", "hybrid_rerank", "pd-040"))
    shown = printed.replace(str(out), "ragscore-demo")
    assert shown == (Path(__file__).parent / "printed.txt").read_text(encoding="utf-8")
    assert max(map(len, shown.splitlines())) <= 80


def test_without_a_clone_one_line_says_where_the_data_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "__file__", str(tmp_path / "lib" / "ragscore" / "demo" / "show.py"))
    assert main(["demo"]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.count("\n") == 1 and not list(tmp_path.iterdir())
    says(found.err, "data/demo", "clone")


def test_the_data_is_found_from_below_the_clone_and_beside_the_package(tmp_path, monkeypatch):
    for folder in (ROOT / "notebooks" / "howto", tmp_path):
        monkeypatch.chdir(folder)
        assert show.demo_data().resolve() == ROOT / "data" / "demo"
