"""A store scored group by group gives the scores of the whole, to the bit."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record, written_run
from stored import stored_run

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.store import tables
from tests.messages import refused

FEW = 16  # hits of a part


def hits(shift):
    return [hit(f"c{(rank + shift) % 7}", f"d{(rank + shift) % 5}", rank) for rank in range(1, 5)]


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """Three runs that differ in what their hits carry, with answers, citations, judgments,
    failures, and questions one side doesn't know.
    """
    golden = rs.load_golden([
        *({"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}", f"d{n + 1}"],
           "expected_chunk_ids": [f"c{n}"]} for n in range(6)),
        {"id": "refuse", "query": "?", "answerable": False},
        {"id": "nothing", "query": "?", "answerable": True},
        {"id": "doc", "query": "?", "expected_doc_ids": {"d1": 2, "d4": 0, "d9": 1}},
    ])  # fmt: skip
    a = [
        *(record(f"q{n}", hits(n), answer=answer(f"text {n}", paths=[f"docs/d{n}.md"]))
          for n in (3, 0, 1, 2, 5)),
        record("refuse", hits(0), answer=answer("no", grounded=False)),
        record("nothing", []), record("unasked", hits(1)), record("doc", hits(3)),
    ]  # fmt: skip
    b = [record(f"q{n}", hits(n + 1), error="boom" if n == 2 else None) for n in range(6)]
    runs = {"a": (a, 4), "b": ([*b, record("extra", hits(2))], 10),
            "c": ([record("q1", []), record("q2", hits(2)[:2])], 4)}  # fmt: skip
    folder = tmp_path_factory.mktemp("runs")
    files = [written_run(folder, name, rows, k=k) for name, (rows, k) in runs.items()]
    results = rs.load_results(files)
    judged = [
        {"run_id": "a", "query_id": f"q{n}", "criterion": "faithfulness", "item": str(item),
         "value": float(item % 2)}
        for n in range(3) for item in range(n + 1)
    ]  # fmt: skip
    return dataclasses.replace(results, judgments=from_records(judged, "judgments")), golden


@pytest.fixture
def few_hits(monkeypatch):
    """Parts hold a few hits, so that runs have several, and each is a group."""
    monkeypatch.setattr(tables, "PART_HITS", FEW)


@pytest.fixture(scope="module")
def stores(varied, tmp_path_factory):
    """A store whose runs lie in several parts, and one whose runs lie in one."""
    made = {}
    for n_hits in (FEW, 1000):
        made[n_hits] = rs.RunStore(tmp_path_factory.mktemp("store"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tables, "PART_HITS", n_hits)
            made[n_hits].save(varied[0])
    assert [stored_run(made[FEW], name).n_parts for name in "abc"] == [2, 2, 1]
    assert [stored_run(made[1000], name).n_parts for name in "abc"] == [1, 1, 1]
    return made


def said_by(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    return value, sorted(str(one.message) for one in caught)


def by_last_digit(hits, targets):
    """The target's and the document's last letters are equal."""
    pairs = (
        hits.reset_index(drop=True)
        .reset_index(names="hit")
        .merge(targets.reset_index(drop=True).reset_index(names="target"), on="query_id")
    )
    same = pairs["doc_id_x"].str[-1] == pairs["target_id"].str[-1]
    return pairs.loc[same, ["hit", "target"]]


WHOLE_LISTS = [
    "map", "ndcg_linear", "rprec", "bpref", "bpref:doc", "set_precision", "set_recall", "set_f1",
    "err@3", "rbp", "rbp(0.95):doc", "iprec@0.3", "11pt_avg:doc",
]  # fmt: skip
CHOICES = [
    {}, {"metrics": "all"}, {"missing": "zero"}, {"rule": by_last_digit, "match": "doc"},
    {"metrics": WHOLE_LISTS, "match": "doc", "collapse": "doc"}, {"match": "per_query"},
    {"profile": "kebab"}, {"profile": "trec"}, {"metrics": WHOLE_LISTS, "match": "doc"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("choices", "n_hits"),
    [
        (CHOICES[1], FEW),
        *(pytest.param(one, FEW, marks=pytest.mark.slow) for one in CHOICES if one != CHOICES[1]),
        pytest.param(CHOICES[1], 1000, marks=pytest.mark.slow),
    ],
    ids=lambda one: " ".join(one) or "default" if isinstance(one, dict) else str(one),
)
def test_groups_give_the_scores_of_the_whole(varied, few_hits, stores, choices, n_hits):
    golden, store = varied[1], stores[n_hits]
    whole, whole_said = said_by(lambda: rs.evaluate(store.load(), golden, **choices))
    parts, parts_said = said_by(lambda: store.evaluate(golden, **choices))
    pd.testing.assert_frame_equal(parts.scores, whole.scores, check_exact=True)
    states = [one.scores["state"].cat.categories.tolist() for one in (whole, parts)]
    assert states[0] == states[1]
    # what is said of ids is of the first part of a run
    of_queries = [one for one in whole_said if not one.startswith("ids of")]
    assert [one for one in parts_said if not one.startswith("ids of")] == of_queries
    settings = ["level", "left_out", "chunker_version_match", "rule", "policies", "golden_hash"]
    pd.testing.assert_frame_equal(whole.settings[settings], parts.settings[settings])


def without(*columns):
    """Hits that lack these columns."""
    return lambda results: {"hits": results.hits.drop(columns=list(columns))}


def only_first(column):
    """One hit has a value."""
    return lambda results: {
        "hits": results.hits.assign(**{column: results.hits[column].where(results.hits.index == 0)})
    }


def with_metadata(results):
    key = {"run_id": "b", "query_id": "q0", "rank": 1, "key": "k", "value": '"v"'}
    return without("text")(results) | {"hit_meta": from_records([key], "hit_meta")}


EDITS = {
    "whole": lambda results: {},
    "no path": without("path"),
    "one path": only_first("path"),
    "no document": without("doc_id"),
    "metadata": with_metadata,
    "no hits": lambda results: {"hits": results.hits.iloc[:0]},
    "two chunkers": lambda results: {
        "hits": results.hits.assign(chunker_version=["one@1", *["two@2"] * 3])
    },
    "other chunks": lambda results: {
        "hits": results.hits.assign(chunk_id="x" + results.hits["chunk_id"], chunker_version=pd.NA)
    },
    "calls": lambda results: {"hits": results.hits.assign(call=[1, 2, 1, 2])},
    "refusals": lambda results: {
        "responses": results.responses.assign(answer="?", refused=[True, pd.NA])
    },
}
GOLDENS = {
    "doc": [{"id": "q0", "query": "?", "expected_doc_ids": ["d1"]}],
    "anchor": [{"id": "q0", "query": "?", "gold_supports": [
        {"path": "docs/d1.md", "heading": "root", "snippets": ["snip"]}]}],
    "chunk": [
        {"id": "q0", "query": "?", "expected_chunk_ids": ["c1"], "expected_doc_ids": ["d1"]}],
    "predicate": [{"id": "q0", "query": "?", "expected_metadata": {"k": "v"}}],
    "mixed": [
        {"id": "q0", "query": "?", "expected_doc_ids": ["d1"]},
        {"id": "q1", "query": "?", "gold_supports": [{"path": "docs/d1.md"}]},
        {"id": "q2", "query": "?", "answerable": False},
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "edit",
    [
        "metadata",
        *(pytest.param(one, marks=pytest.mark.slow) for one in EDITS if one != "metadata"),
    ],
)
def test_metrics_and_level_follow_from_the_runs_files(write_run, store, edit, monkeypatch):
    found = [hit(f"c{rank}", f"d{rank}", rank) for rank in (1, 2)]
    rows = [record("q0", found), record("q1", found)]
    a, b = (rs.load_results(write_run(name, rows, k=2)) for name in "ab")
    store.save(a)
    store.save(dataclasses.replace(b, **EDITS[edit](b)))
    monkeypatch.setattr(tables, "PART_HITS", 4)  # each run is a group
    results = store.load()
    for name, rows in GOLDENS.items():
        golden = rs.load_golden(rows)
        pd.testing.assert_frame_equal(store.scores(golden), rs.score(results, golden), obj=name)


def test_rows_without_a_response_and_rows_in_any_order_score_the_same(varied, store, few_hits):
    results, golden = varied
    stray = results.hits.iloc[:1].assign(query_id="unheard of")
    mixed = pd.concat([results.hits, stray]).sample(frac=1, random_state=0)
    results = dataclasses.replace(
        results.select("a"), hits=mixed[mixed["run_id"] == "a"].assign(run_id="a")
    )
    store.save(results)
    expected, said = said_by(lambda: rs.score(results, golden))
    scores, said_of_parts = said_by(lambda: store.scores(golden))
    pd.testing.assert_frame_equal(scores, expected, check_exact=True)
    assert said_of_parts == said and any(one.startswith("1 hits belong") for one in said)


def test_a_frame_added_to_a_run_in_parts_counts_in_each_of_them(varied, store, few_hits):
    results, golden = varied
    store.save(dataclasses.replace(results, judgments=None))
    store.add("a", judgments=results.judgments)
    scores = store.scores(golden, "faithfulness", runs="a", missing="zero")
    expected = rs.score(results.select("a"), golden, "faithfulness", missing="zero")
    assert expected["faithfulness"].notna().sum() == 3
    pd.testing.assert_frame_equal(scores, expected)
    pd.testing.assert_frame_equal(store.load("a").judgments, results.select("a").judgments)


def test_parts_whose_citations_carry_other_ids_or_none_score_as_the_whole(
    write_run, store, monkeypatch
):
    golden = rs.load_golden([
        {"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}"],
         "expected_chunk_ids": [f"c{n}"]} for n in range(4)
    ])  # fmt: skip
    rows = [record(f"q{n}", hits(n), answer=answer("text")) for n in range(4)]
    results = rs.load_results(write_run("a", rows))
    cited = [{"query_id": "q0", "chunk_id": "c0"}, {"query_id": "q2", "doc_id": "d2"}]
    rows = [{"run_id": "a", "position": 1, **one} for one in cited]
    results = dataclasses.replace(results, citations=from_records(rows, "citations"))
    monkeypatch.setattr(tables, "PART_HITS", 4)
    names = ["citation_present", "citation_recall"]
    store.save(results)
    assert stored_run(store, "a").n_parts == 4
    whole = rs.score(results, golden, names)
    assert whole[names].to_numpy().tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    pd.testing.assert_frame_equal(store.scores(golden, names), whole, check_exact=True)


def test_what_is_no_client_is_refused_and_what_needs_a_golden_set(varied, store):
    store.save(varied[0])
    for how, named, field in (
        ({"golden": varied[1], "client": "tcp://scheduler:8786"}, "str", "client"),
        ({"rule": by_last_digit}, "rule without", "golden"),
        ({"golden": "mrr"}, "metrics=", "golden"),
    ):
        with refused(named, field=field):
            store.scores(**how)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_small_runs_are_scored_together_as_long_as_there_is_room(varied, store, monkeypatch):
    seen = []
    rule = lambda hits, targets: (  # noqa: E731
        seen.append("".join(sorted(set(hits["run_id"])))) or rs.match.by_doc(hits, targets)
    )
    store.save(varied[0])
    for room in (89, 88, 77):  # each run weighs its hits and the 9 queries: 41, 37 and 11
        monkeypatch.setattr(tables, "PART_HITS", 4 * room)
        store.scores(varied[1], rule=rule, match="doc")
    assert seen == ["abc", "ab", "c", "a", "bc"]


def pieces_of(results, n):
    ids = results.responses["query_id"].unique()
    (run_id,) = results.runs["run_id"]
    return iter([results.select(run_id, some) for some in np.array_split(ids, n)])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("part_hits", "n_parts"), [(FEW, 2), pytest.param(10_000, 1, marks=pytest.mark.slow)]
)
def test_a_run_saved_piece_by_piece_is_the_run_saved_at_once(
    varied, tmp_path, monkeypatch, part_hits, n_parts
):
    results, golden = varied[0].select("a"), varied[1]
    at_once, store = rs.RunStore(tmp_path / "once"), rs.RunStore(tmp_path / "pieces")
    at_once.save(results, golden=golden)
    monkeypatch.setattr(tables, "PART_HITS", part_hits)
    assert store.save(pieces_of(results, 3), golden=golden) == ["a"]
    assert stored_run(store, "a").n_parts == n_parts
    for kind in ("responses", "hits", "citations", "judgments"):
        one, other = (getattr(held.load(), kind) for held in (store, at_once))
        keys = [name for name in ("query_id", "rank", "position", "item") if name in one]
        one, other = (held.sort_values(keys, ignore_index=True) for held in (one, other))
        pd.testing.assert_frame_equal(one, other, check_like=True)
    pd.testing.assert_frame_equal(store.runs(), at_once.runs())
    pd.testing.assert_frame_equal(store.scores(), at_once.scores())
    files = [one for own in stored_run(store, "a").files.values() for one in own if one]
    assert len(list(store.path("a").glob("*.parquet"))) == len(files)
    pd.testing.assert_frame_equal(store.summary(), at_once.summary(), atol=1e-14)
    store.refresh(golden)
    pd.testing.assert_frame_equal(store.summary(), at_once.summary(), atol=1e-14)


def test_pieces_that_belong_not_together_are_refused_and_leave_nothing(varied, store, tmp_path):
    results = varied[0]
    a = results.select("a")
    half = a.select("a", "q1")
    split = dataclasses.replace(half, responses=half.responses.iloc[:0])
    for pieces, named in (
        ([a, half], "'q1' is in two pieces"), ([a, results.select("b")], "a piece of b"),
        ([split, a], "'q1' are in another piece"), ([a, "per_query.jsonl"], "pieces as Results"),
        ([], "at least one piece"), ([results], "3 runs"),
    ):  # fmt: skip
        with refused(named, field="results"):
            store.save(iter(pieces))
    assert len(store.runs()) == 0 and not list(tmp_path.rglob("*.parquet"))
