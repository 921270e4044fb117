"""The demo's history.

What its committed runs are, that their scores and hits can be computed again, and how it is made.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from committed_history import make_committable, refresh_history
from stored import stored_file, stored_run

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.operations import latency
from ragscore.demo.answerer import REFUSAL, Familiarity
from ragscore.demo.corpus import MAX_CHARS, build_corpus, chunker_version
from ragscore.scoring.summary import summarize
from tests.demo import variations
from tests.demo.variations import (
    VARIATIONS,
    Index,
    Settings,
    config_of,
    described,
    earlier_golden,
    make_run,
    run_history,
    settings_of,
)
from tests.messages import refused, says, warned

DEMO = Path(__file__).parents[2] / "data" / "demo"
RELABELLED = ("13-rerank-30", "14-rerank-30-relabelled")
REPEATS = [one.run_id for one in VARIATIONS if one.repeat]
RECHUNKED = "06-bm25-passages-400"
by_id = {one.run_id: one for one in VARIATIONS}


@pytest.fixture(scope="module")
def store():
    return rs.RunStore(DEMO / "history")


@pytest.fixture(scope="module")
def results(store):
    return store.load()


@pytest.fixture(scope="module")
def golden():
    today = rs.load_golden(DEMO / "golden.yaml")
    return {True: today, False: earlier_golden(today, DEMO / "golden_before.yaml")}


@pytest.fixture(scope="module")
def runs(store):
    return store.runs().astype({"run_id": "str"}).set_index("run_id")


def ranked(results, run_id):
    hits = results.hits[results.hits["run_id"] == run_id].sort_values(
        ["query_id", "rank"], ignore_index=True
    )
    return hits[["query_id", "rank", "chunk_id"]], hits["score"]


def test_the_committed_runs_are_the_variations_in_the_order_they_were_made(runs):
    assert runs.index.tolist() == [one.run_id for one in VARIATIONS] and len(runs) >= 12
    assert runs["x_position"].tolist() == list(range(1, len(runs) + 1))
    assert runs["created_at"].is_monotonic_increasing and runs["created_at"].is_unique
    assert runs["note"].tolist() == [described(one) for one in VARIATIONS]
    assert (
        (runs["suite"] == "demo").all()
        and (runs["n_failed"] == 0).all()
        and (runs["n_queries"] == 182).all()
    )


def test_each_config_is_what_the_code_says_but_for_the_versions_of_the_manuals(runs):
    for run_id, run in runs.iterrows():
        stored, coded = json.loads(run["config"]), config_of(run_id)
        assert stored.pop("chunker_version") == run["chunker_version"]
        del coded["chunker_version"]
        assert stored == coded


def test_the_history_varies_what_it_promises(runs):
    configs = pd.json_normalize([json.loads(config) for config in runs["config"]]).set_index(
        runs.index
    )
    for name in ("bm25.k1", "bm25.b", "fusion.rrf_k", "fusion.pool", "passages.max_chars"):
        assert configs[name].nunique() >= 2, name
    assert configs["rerank.depth"].nunique() == 3 and configs["retriever"].nunique() == 4
    assert configs["bm25.stemmer"].isna().any() and (configs["bm25.stemmer"] == "english").any()


@pytest.mark.large
def test_one_run_is_cut_anew_its_passages_have_other_ids(runs, results):
    assert runs.index[runs["chunker_version"] != runs["chunker_version"].iloc[0]].tolist() == [
        RECHUNKED
    ]
    is_recut = results.hits["run_id"] == RECHUNKED
    assert not set(results.hits.loc[is_recut, "chunk_id"]) & set(
        results.hits.loc[~is_recut, "chunk_id"]
    )
    before, after = (
        results.hits.loc[mask, "end"] - results.hits.loc[mask, "start"]
        for mask in (results.hits["run_id"] == "05-bm25-k1.5", is_recut)
    )
    assert after.mean() < before.mean()


@pytest.mark.large
def test_the_relabelled_run_is_the_run_before_it_with_other_labels(runs, results, golden, store):
    before, after = RELABELLED
    assert runs.index.get_loc(after) == runs.index.get_loc(before) + 1
    assert runs.loc[before, "config"] == runs.loc[after, "config"]
    pd.testing.assert_frame_equal(ranked(results, before)[0], ranked(results, after)[0])
    assert (
        runs.loc[before, "golden_hash"]
        == golden[False].golden_hash
        != golden[True].golden_hash
        == runs.loc[after, "golden_hash"]
    )
    scores = {run_id: store.scores(["mrr@10", "hit@10"], runs=run_id) for run_id in RELABELLED}
    changed = scores[before].index.isin(
        rs.load_golden(DEMO / "golden_before.yaml").queries["query_id"]
    )
    pd.testing.assert_series_equal(
        scores[before]["mrr@10"][~changed], scores[after]["mrr@10"][~changed]
    )
    # accepting more never makes a first hit later
    assert (scores[after]["mrr@10"] >= scores[before]["mrr@10"]).sum() == 150
    assert scores[after]["mrr@10"].mean() > scores[before]["mrr@10"].mean() + 0.01


def test_repeats_are_one_system_whose_results_differ_by_the_seed_alone(runs, results):
    assert (
        runs.loc[REPEATS, "repeat"].tolist() == [1, 2, 3]
        and runs.drop(index=REPEATS)["repeat"].isna().all()
    )
    assert (
        runs.loc[REPEATS, ["config", "golden_hash", "chunker_version", "system"]]
        .nunique()
        .eq(1)
        .all()
    )
    orders = [ranked(results, run_id)[0]["chunk_id"].tolist() for run_id in REPEATS]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert [settings_of(run_id)[1].seed for run_id in REPEATS] == [1, 2, 3]


@pytest.mark.large
@pytest.mark.parametrize("relabelled", [False, True])
def test_stored_scores_are_those_of_the_stored_hits(relabelled, store, results, golden, runs):
    names = [one.run_id for one in VARIATIONS if one.relabelled is relabelled]
    assert (runs.loc[names, "golden_hash"] == golden[relabelled].golden_hash).all()
    stored, again = store.scores(runs=names), rs.score(results.select(names), golden[relabelled])
    pd.testing.assert_frame_equal(
        stored[again.columns], again, check_categorical=False, check_dtype=False
    )


def test_scores_before_and_after_the_relabelling_are_refused_side_by_side(store):
    with refused(
        "01-bm25-plain", "13-rerank-30", "14-rerank-30-relabelled", 47, 182, field="golden"
    ):
        store.scores("mrr@10")
    assert set(store.golden_changes(*RELABELLED)["change"]) == {"relabelled"}


@pytest.mark.large
@pytest.mark.parametrize("relabelled", [False, True])
def test_the_committed_metrics_are_what_the_scores_say_by_todays_formulas(
    relabelled, store, golden
):
    # After a change of formulas or intervals:
    # committed_history.refresh_history(DEMO / "history", DEMO / "golden.yaml").
    names = [one.run_id for one in VARIATIONS if one.relabelled is relabelled]
    with warned("golden"):
        stored = (
            store.metrics(allow_different=True)
            .astype({"run_id": "str"})
            .set_index(["run_id", "metric"])
        )
    today = (
        summarize(store.scores(runs=names), golden[relabelled])
        .astype({"run_id": "str"})
        .set_index(["run_id", "metric"])
    )
    pd.testing.assert_frame_equal(stored.loc[today.index, today.columns], today, check_dtype=False)


@pytest.mark.slow
def test_a_history_is_scored_anew_by_the_labels_that_each_run_had(store, tmp_path):
    few = RELABELLED
    for name in few:
        shutil.copytree(store.path(name), tmp_path / name)
        stored_file(rs.RunStore(tmp_path), name, "golden").unlink()
    before = {name: stored_run(store, name).described | {"ragscore": 0} for name in few}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variations, "VARIATIONS", [by_id[name] for name in few])
        refresh_history(tmp_path, DEMO / "golden.yaml")
    again = rs.RunStore(tmp_path)
    assert {name: stored_run(again, name).described | {"ragscore": 0} for name in few} == before
    assert again.golden_changes(*few)["change"].tolist() == ["relabelled"] * 47


def test_the_history_is_small_and_holds_no_text_of_the_manuals(store, results):
    assert sum(file.stat().st_size for file in store.root.rglob("*") if file.is_file()) < 2e6
    assert "text" not in results.hits and results.chunks is None
    words = (
        results.responses["answer"]
        .str.replace(r"[\w.-]+ \[\d\]", "", regex=True)
        .str.split()
        .explode()
    )
    assert set(words) <= {"See", "or", ".", *REFUSAL.split()}
    assert not [
        line for line in (store.root / ".gitignore").read_text().splitlines() if "parquet" in line
    ]


@pytest.mark.large
def test_the_earlier_labels_are_narrower_and_say_why(golden):
    older = rs.load_golden(DEMO / "golden_before.yaml")
    assert older.queries["x_why"].str.len().gt(10).all() and len(older.queries) == 47
    texts = golden[True].queries.set_index("query_id")["query"]
    assert (older.queries.set_index("query_id")["query"] == texts[older.queries["query_id"]]).all()
    columns = ["query_id", "level", "target_id", "doc_id", "chunk_id", "grade", "chunker_version"]
    before, after = (
        {tuple(row) for row in one.targets[columns].fillna("").itertuples(index=False)}
        for one in (golden[False], golden[True])
    )
    assert before < after
    assert {row[0] for row in after - before} == set(older.queries["query_id"])


def test_settings_follow_the_line_of_changes():
    assert settings_of("03-bm25-b0.3") == ("bm25", Settings(k1=1.2, b=0.3, stemmer="english"))
    assert settings_of("12-rerank-100") == ("hybrid_rerank", Settings(depth=100))
    assert settings_of("16-cells-repeat2") == ("hybrid_rerank", Settings(cells=64, seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("run_id", ["01-bm25-plain", RECHUNKED])
def test_a_bm25_run_recomputes_to_the_committed_hits(run_id, runs, results, golden, tmp_path):
    _, settings = settings_of(run_id)
    recorded, here = runs.loc[run_id, "chunker_version"], chunker_version(settings.max_chars)
    if recorded != here:
        pytest.skip(f"the run is recorded for {recorded}, this machine has {here}")
    chunks = build_corpus(settings.max_chars)[1]
    made = make_run(
        by_id[run_id],
        Index(chunks, tmp_path, settings),
        golden[False],
        Familiarity(Index(chunks, tmp_path)),
    )
    (order, scores), (committed, committed_scores) = ranked(made, run_id), ranked(results, run_id)
    pd.testing.assert_frame_equal(order, committed)
    assert np.allclose(scores, committed_scores, atol=1e-4)
    answers = [
        one.select([run_id]).responses.set_index("query_id")["answer"].sort_index()
        for one in (made, results)
    ]
    assert (answers[0] == answers[1]).all()


@pytest.fixture
def vectors():
    """Two hundred unit vectors as an index that needs no model."""
    drawn = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def index_of(vectors, tmp_path, **settings):
    index = Index(
        pd.DataFrame({"text": [""] * len(vectors)}), tmp_path, Settings(pool=20, **settings)
    )
    index.__dict__["vectors"] = vectors
    return index


def test_search_in_cells_is_exact_where_all_of_them_are_searched(vectors, tmp_path):
    exact = index_of(vectors, tmp_path)._by_vector(vectors[0])
    assert np.flatnonzero(~np.isnan(exact)).tolist() == sorted(
        np.argsort(-(vectors @ vectors[0]))[:20]
    )
    np.testing.assert_array_equal(
        index_of(vectors, tmp_path, cells=10, probes=10)._by_vector(vectors[0]), exact
    )


def test_search_in_some_cells_misses_some_and_which_is_the_seeds_choice(vectors, tmp_path):
    exact = set(np.flatnonzero(~np.isnan(index_of(vectors, tmp_path)._by_vector(vectors[0]))))
    found = [
        set(
            np.flatnonzero(
                ~np.isnan(
                    index_of(vectors, tmp_path, cells=20, probes=2, seed=seed)._by_vector(
                        vectors[0]
                    )
                )
            )
        )
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]
    assert 0 in found[0] and exact - found[0]  # a passage is always in the cell nearest to itself


def test_another_passage_size_is_said_by_ids_and_version():
    assert (
        chunker_version(400).startswith("docstring-sections@1@400+python")
        and chunker_version(MAX_CHARS) == chunker_version()
    )
    assert "@400" not in chunker_version()


@pytest.mark.slow
def test_making_the_history_reports_one_line_for_each_variation(tmp_path, monkeypatch, capsys):
    lines = [
        f"{word} number {n} of the guide"
        for n, word in enumerate(["merging", "sorting", "plotting", "reading"] * 10)
    ]
    chunks = pd.DataFrame({
        "chunk_id": [f"d{n}#lead" for n in range(40)], "doc_id": [f"d{n}" for n in range(40)],
        "path": "d", "heading": "lead", "start": 1, "end": 2,
        "span_unit": "line", "text": lines, "doc_type": "python",
    })  # fmt: skip
    few = [
        replace(by_id["01-bm25-plain"], changes=by_id["01-bm25-plain"].changes | {"pool": 20}),
        by_id["02-bm25-stemmed"],
    ]
    monkeypatch.setattr(
        variations,
        "VARIATIONS",
        [*few, replace(by_id["14-rerank-30-relabelled"], since="02-bm25-stemmed")],
    )
    monkeypatch.setattr(variations, "build_corpus", lambda size: (None, chunks))
    (tmp_path / "golden.yaml").write_text(
        "- {id: a, query: how to merge, expected_doc_ids: [d0, [d4, d1]]}\n- {id: b, query: sort"
        " it, expected_doc_ids: [d1]}\n"
    )
    (tmp_path / "golden_before.yaml").write_text(
        "- {id: a, query: how to merge, why: d1 too, expected_doc_ids: [d0, d4]}\n"
    )
    for _ in range(2):  # made again, the runs are replaced
        run_history(tmp_path / "out", tmp_path / "golden.yaml")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[:3]] == [
        "1/3",
        "2/3",
        "3/3",
    ]
    says(printed[1], "bm25.stemmer", None, "english")
    made = rs.RunStore(tmp_path / "out" / "history")
    hits = made.load().hits.groupby("run_id", observed=False).size()
    # only a stemmer finds "merging" by "merge"
    assert len(made.runs()) == 3 and hits["01-bm25-plain"] == 0 < hits["02-bm25-stemmed"]
    assert made.runs()["golden_hash"].nunique() == 2


@pytest.mark.slow
def test_a_committable_history_is_smaller_and_holds_the_same(store, tmp_path):
    shutil.copytree(store.path(RELABELLED[1]), tmp_path / RELABELLED[1])
    large = rs.RunStore(tmp_path)
    large.refresh(rs.load_golden(DEMO / "golden.yaml"))
    before, scores = size_of(tmp_path), large.scores()
    small = make_committable(tmp_path)
    pd.testing.assert_frame_equal(small.scores(), scores)
    assert size_of(tmp_path) < before


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


@pytest.fixture(scope="module")
def readme():
    return (DEMO.parent / "README.md").read_text(encoding="utf-8")


def test_the_table_of_the_data_readme_holds_the_numbers_of_the_history(
    store, results, golden, readme
):
    metrics = ["hit@5", "recall@5", "mrr@10", "ndcg@10"]
    with warned(47, 182):
        stored = store.metrics(allow_different=["golden"])
    table = stored.pivot(index="run_id", columns="metric", values="mean")[metrics]
    table["today"] = (
        rs.score(results, golden[True], metrics=["mrr@10"])
        .groupby("run_id", observed=True)["mrr@10"]
        .mean()
    )
    assert len(table) == len(VARIATIONS)
    for run_id, row in table.iterrows():
        (line,) = (line for line in readme.splitlines() if line.startswith(f"| {run_id} |"))
        assert line.endswith(
            f"| {(by_id[run_id].since or '')[:2]} | {' | '.join(f'{value:.3f}' for value in row)} |"
        )


@pytest.mark.large
@pytest.mark.parametrize(
    ("metric", "a", "b"),
    [
        ("hit@5", "05-bm25-k1.5", "07-dense"), ("mrr@10", "01-bm25-plain", "02-bm25-stemmed"),
        ("mrr@10", "03-bm25-b0.3", "04-bm25-b1"),
        ("hit@5", "07-dense", "08-hybrid"), ("hit@5", "08-hybrid", "09-hybrid-rrf10"),
        ("hit@5", "08-hybrid", "11-rerank-10"),
        ("hit@5", "11-rerank-10", "13-rerank-30"), ("hit@5", "13-rerank-30", "12-rerank-100"),
        ("hit@5", "14-rerank-30-relabelled", "18-rerank-unstemmed"),
    ],
)  # fmt: skip
def test_the_story_of_the_data_readme_holds_the_differences_of_the_history(
    metric, a, b, results, golden, readme
):
    delta = compare_runs(results, golden[True], a, b, metrics=[metric]).deltas.iloc[0]
    assert (
        f"{metric} {delta['delta']:+.3f} ({delta['n_better']} won, {delta['n_worse']} lost)"
        in readme
    )


def test_a_deeper_reranking_takes_more_processor_time(results, readme):
    median = latency(results).query("phase == 'cpu'").set_index("run_id")["p50"]
    assert (
        f"100 took {median['12-rerank-100']:.0f} ms of processor time a query where 30 took"
        f" {median['13-rerank-30']:.0f}" in readme
    )
    assert median["11-rerank-10"] < median["13-rerank-30"] < median["12-rerank-100"]
    assert results.responses.columns.intersection(["elapsed_ms"]).empty


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ids of .* do not join .level chunk.:UserWarning")
def test_after_the_recutting_passage_ids_say_nothing_and_spans_and_documents_do(
    results, golden, readme
):
    pair, resolved = (
        results.select(["05-bm25-k1.5", RECHUNKED]),
        golden[True].with_spans_from(results),
    )
    means = {
        level: (
            rs.score(pair, resolved, match=level, metrics=["hit@5"])
            .groupby("run_id", observed=True)["hit@5"]
            .mean()
        )
        for level in ("chunk", "span", "doc")
    }
    assert means["chunk"].iloc[1] == 0 < means["span"].iloc[1]
    for mean in means.values():
        assert f"{mean.iloc[1]:.3f} against {mean.iloc[0]:.3f}" in readme


def test_repeats_of_the_approximate_system_are_more_than_two_points_apart(store, readme):
    means = store.metrics(REPEATS).set_index(["metric", "run_id"])["mean"]
    for metric in ("mrr@10", "hit@5"):
        found = [means[metric, run_id] for run_id in REPEATS]
        assert f"`{metric}` {', '.join(f'{value:.3f}' for value in found)}" in readme
        assert max(found) - min(found) > 0.02
