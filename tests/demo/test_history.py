"""The demo's history: what its committed runs are, and that their scores can be computed again."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from stored import stored_file, stored_run, stored_table

import ragscore as rs
from ragscore.frames.golden_versions import changes_of
from ragscore.scoring.score import scored
from ragscore.scoring.summary import summarize
from tests.compared import compare_runs
from tests.demo.built import build, history
from tests.messages import refused, warned

DEMO = Path(__file__).parents[2] / "data" / "demo"
README = (DEMO.parent / "README.md").read_text(encoding="utf-8")
BEFORE, AFTER = "13-rerank-30", "14-rerank-30-relabelled"
RECHUNKED = "06-bm25-passages-400"
by_id = {one.run_id: one for one in history.VARIATIONS}


@pytest.fixture(scope="module")
def store():
    return rs.RunStore(DEMO / "history")


@pytest.fixture(scope="module")
def results(store):
    return store.load()


@pytest.fixture(scope="module")
def golden():
    return history.goldens(DEMO / "golden.yaml")


@pytest.fixture(scope="module")
def runs(store):
    return store.runs().astype({"run_id": "str"}).set_index("run_id")


def ranked(results, run_id):
    hits = results.hits[results.hits["run_id"] == run_id].sort_values(["query_id", "rank"])
    return hits[["query_id", "rank", "chunk_id", "score"]].reset_index(drop=True)


def golden_changes(store):
    old, new = (
        stored_table(store, name, "golden").set_index("query_id") for name in (BEFORE, AFTER)
    )
    return changes_of(old, new)


def test_the_committed_runs_are_the_variations_in_the_order_they_were_made(runs, golden):
    assert runs.index.tolist() == [*by_id] and (runs["n_queries"] == 182).all()
    assert runs["created_at"].is_monotonic_increasing and runs["created_at"].is_unique
    assert runs["note"].tolist() == [*map(history.described, by_id.values())]
    hashes = [golden[one.relabelled].golden_hash for one in by_id.values()]
    assert runs["golden_hash"].tolist() == hashes and len(set(hashes)) == 2
    for run_id, run in runs.iterrows():
        stored, coded = json.loads(run["config"]), history.config_of(run_id)
        # of the versions of the manuals that were there then
        assert stored.pop("chunker_version") == run["chunker_version"]
        assert coded.pop("chunker_version") and stored == coded


def test_the_relabelled_run_is_the_run_before_it_with_other_labels(runs, results, store):
    assert runs.loc[BEFORE, "config"] == runs.loc[AFTER, "config"]
    pd.testing.assert_frame_equal(ranked(results, BEFORE), ranked(results, AFTER))
    changes = golden_changes(store)
    assert changes["change"].tolist() == ["relabelled"] * 47
    before, after = (
        store.scores(metrics="mrr@10", runs=run_id)["mrr@10"] for run_id in (BEFORE, AFTER)
    )
    moved = before.index[before.fillna(-1).ne(after.fillna(-1))]
    assert len(moved) and set(moved) <= set(changes["query_id"])
    # accepting more never makes a first hit later
    assert (after >= before).sum() == 150 and after.mean() > before.mean() + 0.01
    with refused("01-bm25-plain", BEFORE, AFTER, 47, 182, field="golden"):
        store.scores(metrics="mrr@10")


def test_repeats_are_one_system_whose_results_differ_by_the_seed_alone(runs, results):
    repeats = [one.run_id for one in by_id.values() if one.repeat]
    assert runs.loc[repeats, "repeat"].tolist() == [1, 2, 3] == [*runs["repeat"].dropna()]
    assert runs.loc[repeats, ["config", "golden_hash", "system"]].nunique().eq(1).all()
    assert len({tuple(ranked(results, run_id)["chunk_id"]) for run_id in repeats}) == 3


@pytest.mark.parametrize("relabelled", [False, True])
def test_stored_scores_and_means_are_those_of_the_stored_hits(relabelled, store, results, golden):
    # After a change of formulas: history.refresh_history(DEMO / "history", DEMO / "golden.yaml").
    names = [one.run_id for one in by_id.values() if one.relabelled is relabelled]
    done = scored(results.select(names), golden[relabelled], "all")
    stored, keys = store.scores(runs=names), ["run_id", "metric"]
    alike = {"check_categorical": False, "check_dtype": False}
    pd.testing.assert_frame_equal(stored[done.scores.columns], done.scores, **alike)
    means, today = (
        table.astype({"run_id": "str"}).set_index(keys)
        for table in (
            store.summary(names),
            summarize(stored, golden[relabelled], rows=done.rows),
        )
    )
    pd.testing.assert_frame_equal(means.loc[today.index, today.columns], today, check_dtype=False)


@pytest.mark.slow
def test_a_history_is_scored_anew_by_the_labels_that_each_run_had(store, tmp_path, monkeypatch):
    few = (BEFORE, AFTER)
    for name in few:
        shutil.copytree(store.path(name), tmp_path / name)
        stored_file(rs.RunStore(tmp_path), name, "golden").unlink()
    told = ("run", "scoring", "metrics")
    before = {name: [stored_run(store, name).content[one] for one in told] for name in few}
    monkeypatch.setattr(history, "VARIATIONS", [by_id[name] for name in few])
    again = history.refresh_history(tmp_path, DEMO / "golden.yaml")
    after = {name: [stored_run(again, name).content[one] for one in told] for name in few}
    assert after == before
    assert golden_changes(again)["change"].tolist() == ["relabelled"] * 47


def test_the_history_is_small_and_holds_no_text_of_the_manuals(store, results):
    assert sum(file.stat().st_size for file in store.path().rglob("*") if file.is_file()) < 2.4e6
    assert "text" not in results.hits and results.chunks is None
    answers = results.responses["answer"].str.replace(r"[\w.-]+ \[\d\]", "", regex=True)
    assert set(answers.str.split().explode()) <= {"See", "or", ".", *build.REFUSAL.split()}
    assert "parquet" not in (store.path() / ".gitignore").read_text()


def test_the_table_of_the_data_readme_holds_the_numbers_of_the_history(store, results, golden):
    with warned(47, 182):
        stored = store.summary(allow_different=["golden"])
    table = stored.pivot(index="run_id", columns="metric", values="mean")
    table = table[["hit@5", "recall@5", "mrr@10", "ndcg@10"]]
    scores = rs.score(results, golden[True], metrics=["mrr@10"])
    table["today"] = scores.groupby("run_id", observed=True)["mrr@10"].mean()
    assert len(table) == len(by_id)
    for run_id, row in table.iterrows():
        (line,) = (line for line in README.splitlines() if line.startswith(f"| {run_id} |"))
        numbers = " | ".join(f"{value:.3f}" for value in row)
        assert line.endswith(f"| {(by_id[run_id].since or '')[:2]} | {numbers} |")


@pytest.mark.slow
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
    metric, a, b, results, golden
):
    delta = compare_runs(results, golden[True], a, b, metrics=[metric]).deltas.iloc[0]
    changes = f"({delta['n_better']} won, {delta['n_worse']} lost)"
    assert f"{metric} {delta['delta']:+.3f} {changes}" in README


@pytest.mark.filterwarnings("ignore:ids of .* do not join .level chunk.:UserWarning")
def test_after_the_recutting_passage_ids_say_nothing_and_spans_and_documents_do(results, golden):
    pair = results.select(["05-bm25-k1.5", RECHUNKED])
    resolved = golden[True].resolve_spans(results)
    for level in ("chunk", "span", "doc"):
        scores = rs.score(pair, resolved, match=level, metrics=["hit@5"])
        before, after = scores.groupby("run_id", observed=True)["hit@5"].mean()
        assert (after == 0) == (level == "chunk") and before > 0
        assert f"{after:.3f} against {before:.3f}" in README
