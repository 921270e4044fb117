"""Runs on disk: nothing changes on the way, nothing is lost, texts are cut only after matching."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import (
    EXAMPLES,
    RUN_A,
    RUN_B,
    THREE_QUERIES,
    answer,
    hit,
    pair_in,
    record,
    written_run,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import (
    assert_same,
    describe,
    edit_table,
    put_file,
    put_table,
    run_file,
    stored_file,
    stored_run,
)

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.readings import READINGS
from ragscore.scoring.score import scored
from ragscore.scoring.summary import summarize
from tests.messages import ANY, refused, warned

GOLDEN = rs.load_golden(THREE_QUERIES)


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory):
    """The folder of a store of the pair's runs with their scores."""
    folder = tmp_path_factory.mktemp("scored")
    results, golden = pair_in(tmp_path_factory.mktemp("pair"))
    rs.RunStore(folder).save(results, golden=golden)
    return folder


@pytest.fixture
def saved(scored_once, tmp_path):
    """A copy of that store."""
    shutil.copytree(scored_once, tmp_path, dirs_exist_ok=True)
    return rs.RunStore(tmp_path)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HITS = st.lists(
    st.fixed_dictionaries(
        {"chunk_id": TEXT.filter(bool), "doc_id": TEXT.filter(bool)},
        optional={
            "snippet": TEXT,
            "stale": st.booleans(),
            "note": TEXT | st.integers(-5, 5),
            "weird": st.just({"a.b": 1, "mixed": [1]}),
            "score_kind": st.just("bm25"),
        },
    ),
    max_size=3,
)


@given(
    st.lists(HITS, min_size=1, max_size=3),
    st.lists(st.none() | TEXT, min_size=3, max_size=3),
    TEXT.filter(lambda name: name.strip("\0")),
)
@settings(
    max_examples=-(-EXAMPLES // 2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_run_survives_files_and_store(tmp_path_factory, lists, answers, run_id):
    folder = tmp_path_factory.mktemp("run")
    records = [
        {"query_id": f"q{n}", "query": "?", "hits_top_k": hits, "error": "boom" if n else None,
         "answer": text and answer(text, paths=["docs/d1.md"], usage={"prompt_tokens": 3}),
         "latency_search_ms": 2.5}
        for n, (hits, text) in enumerate(zip(lists, answers, strict=False))
    ]  # fmt: skip
    file = written_run(
        folder, "run", records, run_id=run_id, config={"k": 5}, hardware={"cores": 2},
        created_at="2026-01-31T09:00:00Z", system="s",
    )  # fmt: skip
    results = rs.load_results(file)
    assert_same(rs.load_results(results.save(folder / "again", format="per_query")), results)
    store = rs.RunStore(folder / "store")
    store.save(results)
    assert_same(store.load(), results)


@pytest.mark.parametrize(
    ("text", "length", "is_cut"), [(None, 500, False), (200, 200, True), (0, None, True)]
)
def test_what_is_kept_of_texts(write_run, store, text, length, is_cut):
    long = [hit("c", "d", 1, snippet="x" * 500), hit("c2", "d", 2, snippet="x" * 501)]
    store.save(rs.load_results(write_run("a", [record("q", long)])), text=text)
    hits = store.load().hits
    assert (int(hits["text"].str.len().min()) if "text" in hits else None) == length
    assert ("text_cut" in hits and bool(hits["text_cut"].all())) == is_cut


def test_a_runs_file_holds_its_means_null_for_nan(pair, saved):
    results, golden = pair
    content = json.loads(run_file(saved, "a").read_text(), parse_constant=pytest.fail)
    means, scoring = content["metrics"]["answer_checks"], content["scoring"]
    assert means["mean"] is None and means["n"] == 0
    assert (scoring["level"], scoring["golden_hash"]) == ("chunk", golden.golden_hash)
    done = scored(results, golden, "all")
    expected = summarize(done.scores, golden, rows=done.rows).assign(is_reported=False)
    pd.testing.assert_frame_equal(
        saved.summary().astype({"run_id": "str"}), expected.astype({"run_id": "str"}),
        check_dtype=False,
    )  # fmt: skip


def test_of_a_clone_runs_without_their_rows_have_means_and_trends(pair, tmp_path, store):
    results, golden = pair
    results.runs["created_at"] = ["2026-01-01", "2026-01-02"]
    store.save(results, golden=golden)
    before, trend = store.summary(), store.trend("mrr").table
    for file in store.path("a").glob("*.parquet"):
        file.unlink()
    clone = rs.RunStore(tmp_path)
    assert clone.runs()["run_id"].tolist() == ["a", "b"]
    is_a = before["run_id"].eq("a")
    pd.testing.assert_frame_equal(clone.summary(), before.assign(is_reported=is_a))
    again = clone.trend("mrr").table
    columns = ["run_id", "mean", "low", "high", "n", "segment"]
    pd.testing.assert_frame_equal(again[columns], trend[columns])
    assert again["is_reported"].tolist() == [True, False] and not trend["is_reported"].any()
    with warned("a", "store.summary()"):
        assert clone.evaluate(golden).run_ids == ["b"]


def test_refresh_rewrites_metrics_when_labels_change(saved):
    expected = {"expected_chunk_ids": ["x"], "expected_doc_ids": ["dx"]}
    relabelled = rs.load_golden([one | expected for one in THREE_QUERIES])
    assert saved.refresh(relabelled, runs="a") == ["a"] and saved.refresh(relabelled) == ["a", "b"]
    some = [saved.summary(run).query("metric == 'hit@1'") for run in (None, "a")]
    means = [one.set_index("run_id")["mean"].to_dict() for one in some]
    assert means == [{"a": 2 / 3, "b": 1 / 3}, {"a": 2 / 3}]
    assert saved.runs()["golden_hash"].eq(relabelled.golden_hash).all()


def test_a_frame_is_added_to_a_saved_run(pair, store):
    store.save(pair[0])
    judgments = from_records(
        [{"run_id": "a", "query_id": "q1", "criterion": "groundedness", "item": "", "value": 4.0}],
        "judgments",
    )
    store.add("a", judgments=judgments)
    assert store.load().judgments["value"].tolist() == [4.0]
    for run, frames, about in (
        ("a", {"judgments": judgments}, {"file": "a", "field": "judgments"}),
        ("b", {"judgments": judgments}, {"field": "judgments.run_id"}),
        ("a", {"hits": pair[0].hits}, {"field": "frames"}),
    ):
        with refused(*frames, **about):
            store.add(run, **frames)


def test_runs_are_listed_oldest_first_and_loaded_by_system(write_run, store):
    files = [
        write_run("late", RUN_A, system="dense", created_at="2026-02-01T00:00:00Z"),
        write_run("early", RUN_B, system="bm25", created_at="2026-01-01T00:00:00Z"),
    ]
    store.save(rs.load_results(files))
    assert store.runs()["run_id"].tolist() == ["early", "late"]
    assert store.load(["dense"]).runs["run_id"].tolist() == ["late"] and store.load("bm25").runs[
        "run_id"
    ].tolist() == ["early"]


def test_texts_stay_out_of_version_control_and_metrics_may_go_in(saved, tmp_path):
    rules = (tmp_path / ".gitignore").read_text().splitlines()
    assert [rule for rule in rules if rule[0] != "#"] == ["*.parquet", ".staging-*"]


def test_scores_that_are_not_there_are_said(pair, tmp_path, store):
    results, golden = pair
    with refused(file=tmp_path):
        store.scores()
    store.save(results)
    with refused("a, b"):
        store.scores()
    with refused("golden", file=tmp_path):
        store.summary()
    store.refresh(golden, runs="a")
    with refused("b"):
        store.scores()
    assert store.scores(metrics="mrr", runs="a")["mrr"].tolist() == [1, 1 / 4, 0]
    with refused("a", "mrr@7", file=tmp_path, field="metrics"):
        store.scores(metrics=["mrr@7"], runs="a")


def test_refresh_needs_no_rule_of_ours_and_changes_no_run_if_one_needs_its_own(
    pair, tmp_path, store
):
    results, golden = pair
    store.save(results.select(["a"]), golden=golden, match="doc", rule=rs.match.by_doc)
    assert store.refresh(golden) == ["a"]
    store.save(results.select(["b"]), golden=golden, rule=lambda *rows: rs.match.by_doc(*rows))
    before = sorted(tmp_path.rglob("*")), stored_run(store, "a")
    with refused(file="b", field="rule"):
        store.refresh(golden)
    assert (sorted(tmp_path.rglob("*")), stored_run(store, "a")) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda written: b"",
        lambda written: b'{"run_id": "a"}',
        lambda written: written.replace(b'"n": 3', b'"n": 4'),
    ],
    ids=["empty", "without its checksum", "changed by hand"],
)
def test_a_description_that_was_changed_is_refused_and_the_run_can_be_saved_again(
    pair, saved, change
):
    file = run_file(saved, "a")
    file.write_bytes(change(file.read_bytes()))
    with refused(file="run-0001.json"):
        saved.runs()
    saved.save(pair[0].select("a"), overwrite=True)
    assert saved.runs()["run_id"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "content", "read", "said"),
    [
        ("hits", b"PAR1 no", "load", "7 bytes"), ("hits", b"", "load", "0 bytes"),
        ("scores", b"x", "scores", "1 bytes"), ("responses", None, "load", "not there"),
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_or_gone_is_named(saved, kind, content, read, said):
    file = stored_file(saved, "a", kind)
    file.unlink() if content is None else file.write_bytes(content)
    with refused(said, file=file):
        getattr(saved, read)()


def test_a_column_of_mixed_types_is_refused_before_anything_is_written(pair, tmp_path, store):
    results = pair[0]
    mixed = replace(
        results, hits=results.hits.assign(x_note=pd.Series([1, "two"] * 5, dtype=object))
    )
    with refused(field="hits.x_note"):
        store.save(mixed)
    assert not [*tmp_path.rglob("*.parquet")]


def test_stored_scores_are_read_as_they_are_and_never_mixed(pair, store):
    results, golden = pair
    store.save(results.select("a"), golden=golden, collapse="doc")
    store.save(results.select("b"), golden=golden)
    assert store.scores(metrics=["mrr"], runs="a").loc["q2", "mrr"] == 1 / 2
    with refused("collapse", field="golden"):
        store.scores(metrics=["mrr"], collapse="doc")
    with refused("doc", "none", field="policies"):
        store.scores(metrics=["mrr"])
    with refused(field="golden"):
        store.save(results, collapse="doc")


@pytest.mark.parametrize(
    ("choices", "field", "named"),
    [
        ({"collapse": "docs"}, "collapse", ["'docs'", "none, doc"]),
        ({"colapse": "doc"}, "policies", ["'colapse'", "match, missing"]),
        ({"profile": "kebap"}, "profile", ["'kebap'", "kebab, rig"]),
    ],
)
def test_a_choice_that_is_none_is_refused_before_anything_is_written(
    pair, tmp_path, choices, field, named, store
):
    results, golden = pair
    save = partial(store.save, results, golden=golden)
    for do in (save, partial(store.scores, golden), partial(store.refresh, golden)):
        with refused(*named, field=field):
            do(**choices)
    assert not [*tmp_path.rglob("*.parquet")]


@pytest.fixture
def runs(tmp_path):
    """Make runs of two systems, one a month; the last one is `run 1`."""

    def make(n=4):
        described = [
            {
                "system": ("bm25", "dense")[i % 2],
                "created_at": f"2026-0{i + 1}-15T00:00:00Z",
                "config": {"bm25": {"k1": i % 3}, "chunker_version": "test@1"},
            }
            for i in range(n)
        ]
        files = [
            written_run(tmp_path / "runs", f"run {n - i}", (RUN_A, RUN_B)[i % 2], **one)
            for i, one in enumerate(described)
        ]
        return rs.load_results(files)

    return make


def test_only_tables_of_runs_asked_for_are_opened(runs, store):
    store.save(runs(), golden=GOLDEN)
    for name in ("run 4", "run 2"):
        stored_file(store, name, "scores").write_bytes(b"damaged")
    assert store.scores(metrics="mrr", runs=["run 3", "run 1"])["run_id"].nunique() == 2
    with refused(file=f"run 4/{stored_file(store, 'run 4', 'scores').name}"):
        store.scores(metrics="mrr")


def test_duckdb_and_polars_read_the_folder(runs, store):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    store.save(runs(3), golden=GOLDEN)
    expected = store.scores(metrics="mrr").groupby("run_id", observed=True)["mrr"].mean().to_dict()
    sql = f"SELECT run_id, avg(mrr) FROM read_parquet({store.files('scores')}) GROUP BY run_id"
    assert dict(duckdb.sql(sql).fetchall()) == pytest.approx(expected)
    frame = polars.scan_parquet(store.files("scores")).select(polars.col("mrr").mean()).collect()
    assert frame.item() == pytest.approx(store.scores(metrics="mrr")["mrr"].mean())
    (hits,) = duckdb.sql(
        f"SELECT count(*) FROM read_parquet({store.files('hits', ['run 1', 'run 2'])})"
    ).fetchall()
    assert hits == (len(store.load(["run 1", "run 2"]).hits),)


def test_a_description_rewritten_in_the_same_second_with_the_same_size_is_read_anew(runs, store):
    store.save(runs(2), golden=GOLDEN)
    file = run_file(store, "run 1")
    second = file.stat().st_mtime_ns // 10**9 * 10**9
    os.utime(file, ns=(second, second))
    assert set(store.scores(metrics="mrr")["system"]) == {"bm25", "dense"}
    size = file.stat().st_size
    describe(store, "run 1", lambda one: one | {"run": one["run"] | {"system": "other"}})
    assert file.stat().st_size == size
    os.utime(file, ns=(second, second + 1))
    assert set(store.scores(metrics="mrr")["system"]) == {"bm25", "other"}
    assert store.runs()["system"].tolist() == ["bm25", "other"]


def test_a_run_without_rows_and_files_that_are_no_runs_do_no_harm(runs, tmp_path, store):
    store.save(runs(3), golden=GOLDEN)
    for name in ("run 1", "run 3"):
        edit_table(store, name, "scores", lambda table: table.slice(0, 0))
    (tmp_path / "note.txt").write_text("no run")
    (tmp_path / "empty").mkdir()
    expected = store.scores(metrics=["mrr", "hit@1"])
    assert expected["run_id"].unique().tolist() == ["run 2"] and expected[
        "run_id"
    ].cat.categories.tolist() == ["run 3", "run 2", "run 1"]
    assert store.scores(metrics="mrr", runs=["run 1", "run 3"]).empty
    assert rs.RunStore(tmp_path / "nowhere").runs().empty


@pytest.mark.parametrize("name", ["rig", "mine"])
def test_a_reading_of_ones_own_is_not_stored_as_that_of_its_name(store, name):
    own = replace(READINGS["rig"], name=name, empty={"recall": 0.25})
    ev = rs.evaluate({"q": ["a"], "r": ["b"]}, {"q": {"a": 1}, "r": {"c": 1}}, profile=own)
    with refused(name, field="profile"):
        store.save(ev)


# Metrics and columns of one's own


declared = rs.metric("top@k", "share of hits, of any or none", kind="bounded", better="higher")
GOOD = declared(lambda hits: hits["grade"].gt(0).groupby([hits["run_id"], hits["query_id"]]).mean())
BAD = declared(lambda hits: hits["grade"].eq(0).groupby([hits["run_id"], hits["query_id"]]).mean())


@pytest.mark.slow
def test_columns_of_ones_own_come_back_and_metrics_unless_they_were_scored_differently(pair, store):
    (results, golden), asked = pair, ["mrr", GOOD, "top@7"]
    ages = results.responses[["run_id", "query_id"]].assign(age=[1.0, 2, 3, 4, 5, 9])
    ev = rs.evaluate(results, golden, asked).with_columns(ages, better="lower", range=(0, None))
    store.save(ev)
    same = partial(pd.testing.assert_frame_equal, check_dtype=False, check_categorical=False)
    for names in (["mrr"], asked[:2]):
        again = store.evaluate(golden, names)
        same(again.scores, ev.scores, check_like=True)
        assert again._declared.describe("age") == ev._declared.describe("age")
    relabelled = [
        one | {"expected_chunk_ids": ["x"], "expected_doc_ids": ["dx"]} for one in THREE_QUERIES
    ]
    for labels, names in ((THREE_QUERIES, ["mrr", BAD]), (relabelled, asked)):
        found = store.evaluate(labels, names).scores.drop(columns="age")
        same(found, rs.evaluate(results, labels, names).scores)
    with warned("top@1, top@10, top@3, top@5, top@7"):
        store.refresh(rs.load_golden(relabelled), runs="a")
    assert {"top@1", "top@7", "age"} & {*store.scores(runs="a")} == {"age"}
    store.refresh(golden, runs="b")
    of_b = ev.scores[ev.scores["run_id"].eq("b")]
    same(store.scores(runs="b")[["top@7", "age"]], of_b[["top@7", "age"]])
    one = rs.evaluate(results.select("a"), golden, ["mrr"])
    store.save(one.with_columns(ages[:3], better="higher"), overwrite=True)
    with refused("age", "higher is better", "lower is better", field="better, range"):
        store.evaluate(golden, ["mrr"])


# A run looks the same in every session, whatever is saved later


def looks(folder, runs=None):
    """Return run -> colour and marker in a summary, and in a trend, of the store opened anew."""
    store = rs.RunStore(folder)
    ax = store.evaluate(GOLDEN, runs=runs).plot(["hit@1"])
    marks = {one.get_label(): one.lines[0] for one in ax.containers}
    lines = {one.get_label(): one for one in store.trend("hit@1").plot().get_lines()}
    plt.close("all")
    return [
        {run: (one[run].get_color(), one[run].get_marker()) for run in marks}
        for one in (marks, lines)
    ]


def test_looks_stay_when_a_run_of_an_earlier_date_is_saved_later(write_run, store, tmp_path):
    def save(name, month):
        file = write_run(name, RUN_A, system=name, created_at=f"2026-{month:02}-01T00:00:00Z")
        store.save(rs.load_results(file), golden=GOLDEN)

    save("b", 3)
    save("c", 4)
    before = looks(tmp_path)
    save("a", 1)
    after = looks(tmp_path)
    assert [list(one) for one in after] == [["a", "b", "c"]] * 2, "runs stand by date"
    for first, second in zip(before, after, strict=True):
        assert {run: second[run] for run in first} == first
        assert len(set(second.values())) == 3
    assert looks(tmp_path, ["b"])[0] == {"b": before[0]["b"]}, "a selection, too"


# Runs that are read or saved together are what they are one by one


def with_own_columns(results, n):
    """Columns of one's own, of types that differ from run to run, and missing values among them."""
    hits = results.hits
    values = {
        "x_number": [1, 2.5, "three", None][n], "x_flag": [True, False, None, True][n],
        "x_kind": pd.Categorical([f"kind {n}"] * len(hits)),
        "x_count": pd.array([n, *[None] * (len(hits) - 1)][: len(hits)], dtype="Int64"),
        f"x_only_{n}": 1.0,
    }  # fmt: skip
    return replace(
        results,
        hits=hits.assign(**values),
        responses=(
            results.responses.assign(latency_search_ms=float(n)) if n % 2 else results.responses
        ),
    )


LONG = {"snippet": "long " * 60}
JUDGED = {
    "run_id": "a", "query_id": "q1", "criterion": "faithfulness", "item": "1", "value": 1.0,
}  # fmt: skip
MORE = {
    "a": {"judgments": from_records([JUDGED], "judgments")},
    "d": {
        "chunks": pd.DataFrame({"chunk_id": ["c1", "c2"], "text": ["a", None]}),
        "documents": pd.DataFrame({"doc_id": ["d1"]}),
    },
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder of four runs.

    With chunks, judgments, documents and problems or without, one of them without any hit.
    """
    folder = tmp_path_factory.mktemp("store")
    for n, name in enumerate("abcd"):
        ranks = range(1, 1 if name == "c" else 4)
        hits = [hit(f"c{rank}", f"d{rank}", rank, **(LONG if n else {})) for rank in ranks]
        said = answer("text", paths=["docs/d1.md"]) if name == "b" else None
        records = [record(f"q{q}", hits[q % 2 :], answer=said) for q in range(3)]
        file = written_run(tmp_path_factory.mktemp("runs"), name, records, k=4)
        results = with_own_columns(rs.load_results(file), n)
        rs.RunStore(folder).save(replace(results, **MORE.get(name, {})))
    return folder


@pytest.fixture
def several(template, tmp_path):
    """A copy of its store."""
    return rs.RunStore(shutil.copytree(template, tmp_path / "store"))


def one_by_one(store):
    return rs.Results.concat([store.load(name) for name in "abcd"])


def test_runs_read_together_are_the_runs_read_one_by_one(several):
    expected = one_by_one(several)
    assert_same(several.load(), expected)
    assert set(expected.runs["run_id"]) == set("abcd")
    assert len(expected.problems) == 0 and expected.hits["x_only_3"].notna().sum() == 8
    assert_same(several.load(["d", "b"]), rs.Results.concat([several.load("d"), several.load("b")]))


def test_tables_that_another_program_wrote_are_read_without_what_the_kind_doesnt_know(several):
    expected = one_by_one(several)
    unheard_of = pa.array(np.zeros(len(several.load("a").hits)))
    edit_table(several, "a", "hits", lambda table: table.append_column("unheard_of", unheard_of))
    edit_table(several, "d", "hits", lambda table: table.drop_columns(["run_id"]))
    assert_same(several.load(), expected)


@pytest.mark.parametrize(
    ("break_it", "field", "named"),
    [
        (lambda store: put_table(store, "b", "hits", pd.DataFrame({"rank": ["x"]})), "hits", []),
        (lambda store: put_file(store, "b", "hits", b"PAR1"), None, ["Parquet"]),
        (lambda store: edit_table(store, "b", "hits", lambda one: one.drop_columns(["rank"])),
         "hits", ["rank"]),
    ],
    ids=["other columns", "not Parquet", "no rank"],
)  # fmt: skip
def test_a_table_that_cant_be_read_is_named(several, break_it, field, named):
    break_it(several)
    file = f"b/{stored_file(several, 'b', 'hits').name}"
    with refused(*named, file=file if field is None else ANY, field=field):
        several.load("b")


# What is saved of each of many runs is what is saved of it alone


IDS = [f"q{n}" for n in range(40)]
IN_GROUPS = rs.load_golden(
    [
        {"id": one, "query": "?", "expected_doc_ids": [f"d{n // 3 % 9}1"], "group": f"g{n // 3}"}
        for n, one in enumerate(IDS)
    ]
)


def test_files_are_those_of_a_run_saved_alone(tmp_path):
    rng = np.random.default_rng(0)
    runs = pd.DataFrame({"run_id": ["b", "a", "none"], "system": ["y", "x", "z"]})
    responses = runs[["run_id"]].merge(pd.DataFrame({"query_id": IDS}), how="cross")
    hits = responses[responses["run_id"] != "none"].merge(
        pd.Series([1, 2, 3], name="rank"), how="cross"
    )
    docs = [f"d{rng.integers(9)}{rank}" for rank in hits["rank"]]
    # rows don't lie run by run, and a chunk belongs to no run
    results = rs.Results(
        runs,
        responses.sample(frac=1, random_state=1),
        hits.assign(doc_id=docs).sample(frac=1, random_state=2),
        chunks=pd.DataFrame({"run_id": ["a", None, "b"], "chunk_id": ["1", "2", "3"]}),
    )
    together, alone = rs.RunStore(tmp_path / "all"), rs.RunStore(tmp_path / "alone")
    together.save(results, golden=IN_GROUPS)
    for name in results.runs["run_id"]:
        alone.save(results.select(name), golden=IN_GROUPS)
        files, expected = (
            {one.name.split("-")[0]: one.read_bytes() for one in store.path(name).glob("*.parquet")}
            for store in (together, alone)
        )
        assert files == expected, name
