"""Metrics of one's own are scored as ours are: from hits, responses, citations and judgments."""

import dataclasses
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from tests.messages import refused, says, warned

GOLDEN = [
    {"id": "q1", "query": "a", "expected_doc_ids": ["d1"]},
    {"id": "q2", "query": "b", "expected_doc_ids": ["d2", "d3"]},
    {"id": "q3", "query": "c", "expected_doc_ids": ["d4"]},
    {"id": "q4", "query": "d", "answerable": False},
]
HITS = [  # query, document, rank, tokens
    ("q1", "d1", 1, 150), ("q1", "d9", 2, 100), ("q2", "d8", 1, 150), ("q2", "d2", 2, 40),
    ("q2", "d3", 3, 40), ("q3", "d7", 1, 10), ("q3", "d7", 2, 10), ("q4", "d7", 1, 10),
]  # fmt: skip


@rs.metric(
    "in_budget@k", "1 if a relevant hit lies within the first 200 tokens", reads="hits.x_tokens",
    kind="binary", better="higher",
)  # fmt: skip
def in_budget(lists):
    tokens = lists.so_far(lists.column("x_tokens"))
    return lists.any(lists.is_relevant & (tokens <= 200))


@rs.metric(
    "variety@k", "distinct documents / hits", reads="hits.doc_id", needs=(), range=(0, 1),
    better="higher",
)  # fmt: skip
def variety(lists):
    return lists.distinct(lists.column("doc_id")) / lists.total()


@rs.metric("my_ndcg@k", "as ndcg@k", kind="bounded", better="higher")
def my_ndcg(lists):
    return lists.total(gain(lists.gain) / np.log2(lists.rank + 1.0)) / lists.ideal(gain)


def gain(grade):
    return np.exp2(grade.astype("float64")) - 1.0


@rs.metric("my_recall@k", "as recall@k", kind="bounded", better="higher")
def my_recall(lists):
    return lists.total(lists.n_found) / lists.n_targets


def hits(run="a", rows=HITS):
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "tokens"])
    return frame.assign(run_id=run)


@pytest.fixture(scope="module")
def golden():
    return rs.load_golden(GOLDEN)


@pytest.fixture(scope="module")
def results():
    """Run b has q1's hits the other way round, and nothing of q2."""
    other = hits("b")[lambda rows: rows["query_id"] != "q2"]
    other.loc[other["query_id"] == "q1", "rank"] = [2, 1]
    loaded = rs.load_results(pd.concat([hits(), other]))
    more = loaded.responses[lambda rows: rows["query_id"].eq("q2")].assign(run_id="b")
    responses = pd.concat([loaded.responses, more], ignore_index=True)
    responses["run_id"] = responses["run_id"].astype(loaded.responses["run_id"].dtype)
    return dataclasses.replace(loaded, responses=responses)


@pytest.fixture(scope="module")
def ev(results, golden):
    return rs.evaluate(results, golden, [in_budget, variety, "ndcg@10"])


def values(ev, label, run="a"):
    scores, _ = ev._scored(label)
    own = scores[scores["run_id"].eq(run)][label]
    return [None if np.isnan(value) else round(float(value), 6) for value in own]


def test_of_hits_it_is_computed_list_by_list_at_any_cutoff_and_level(ev):
    assert values(ev, "in_budget@1") == [1, 0, 0, None]
    assert values(ev, "in_budget@2") == [1, 1, 0, None]  # 150 + 40 tokens
    assert values(ev, "in_budget@5:doc") == [1, 1, 0, None]
    assert values(ev, "in_budget@10", "b") == [0, 0, 0, None]  # 250 tokens; no hit
    assert values(ev, "variety@10") == [1, 1, 0.5, 1]  # of every query, one to refuse as well
    assert values(ev, "variety@10", "b") == [1, None, 0.5, 1]


def test_one_that_takes_a_cutoff_is_scored_at_the_usual_ones_or_as_asked(results, golden):
    usual = rs.score(results, golden, [in_budget])
    assert usual.columns[3:].tolist() == [f"in_budget@{k}" for k in (1, 3, 5, 10)]
    asked = rs.score(results, golden, [in_budget.label(2, "doc"), in_budget.label(2)])
    assert asked.columns[3:].tolist() == ["in_budget@2:doc", "in_budget@2"]
    assert asked["in_budget@2"].equals(asked["in_budget@2:doc"].rename("in_budget@2"))


def test_default_stands_for_the_default_metrics(results, golden):
    ours = rs.score(results, golden)
    both = rs.score(results, golden, ["default", variety.label(3)])
    pd.testing.assert_frame_equal(both.drop(columns="variety@3"), ours, check_exact=True)


def test_its_aspect_makes_it_decide_and_so_does_its_name(results, golden):
    by_name = rs.evaluate(results, golden, [in_budget, "mrr"], primary="in_budget@3")
    assert by_name.primary == ("in_budget@3",)
    assert rs.evaluate(results, golden, [in_budget, "mrr"]).primary == ("mrr",)
    decides = rs.metric("fit@k", "…", needs=(), aspect="retrieval", range=(0, 1))(variety_of)
    assert rs.evaluate(results, golden, [decides, "mrr"]).primary == ("fit@10",)
    more = rs.metric("fit@k", "…", needs=(), aspect="size", range=(0, None))(variety_of)
    assert rs.evaluate(results, golden, [more, "mrr"]).primary == ("mrr", "fit@10")


def variety_of(lists):
    return np.minimum(lists.total(), 1.0)


def test_a_column_that_a_run_lacks_is_a_reason_and_no_zero(golden):
    lacks = hits("b").drop(columns="tokens")
    ev = rs.evaluate(rs.load_results(pd.concat([hits(), lacks])), golden, [in_budget])
    assert values(ev, "in_budget@3", "b") == [None] * 4
    told = ev.explain("in_budget@3").set_index(["run_id", "query_id"])["reason"]
    says(told["b", "q1"], "x_tokens")
    some = hits().assign(tokens=[None if one == "q2" else 10.0 for one in hits()["query_id"]])
    partly = rs.evaluate(rs.load_results(some), golden, [in_budget])
    assert values(partly, "in_budget@3") == [1, None, 0, None]
    assert partly.explain("in_budget@3")["state"].iloc[1] == "missing"


def test_a_column_named_without_its_prefix_is_a_reason_that_names_it(results, golden):
    short = rs.metric("short", "all tokens", reads="hits.tokens")(lambda lists: lists.total())
    ev = rs.evaluate(results, golden, [short])
    says(ev.explain("short")["reason"].iloc[0], "hits.x_tokens")


def answered():
    """Three answers: costs, citations and verdicts; the third query failed."""
    records = [
        {"id": "q1", "answer": "x", "cost": 2.0, "cites": ["d1", "d9"], "verdicts": [1.0, 0.0]},
        {"id": "q2", "answer": "y", "cost": 4.0, "cites": [], "verdicts": [1.0]},
        {"id": "q3", "answer": None, "cost": 8.0, "cites": [], "verdicts": []},
    ]
    responses = pd.DataFrame({
        "run_id": "a", "query_id": [one["id"] for one in records],
        "answer": [one["answer"] for one in records],
        "error": pd.Series([None, None, "boom"], dtype="str"),
        "cost_usd": [one["cost"] for one in records],
        "x_effort": [1.0, None, 3.0],
    })  # fmt: skip
    citations = [
        {"run_id": "a", "query_id": one["id"], "position": at, "doc_id": doc}
        for one in records
        for at, doc in enumerate(one["cites"], 1)
    ]
    judgments = [
        {"run_id": "a", "query_id": one["id"], "criterion": "tone", "item": str(at), "value": value}
        for one in records
        for at, value in enumerate(one["verdicts"])
    ]
    loaded = rs.load_results(hits(rows=HITS[:-1]))
    return rs.Results(
        runs=loaded.runs, responses=responses, hits=loaded.hits,
        citations=pd.DataFrame(citations), judgments=pd.DataFrame(judgments),
    )  # fmt: skip


def test_of_responses_citations_and_judgments_it_has_a_value_per_response(golden):
    effort = rs.metric(
        "effort", "cost of an effort", of="responses", reads=("cost_usd", "x_effort"),
        better="lower",
    )(lambda lists: lists.column("cost_usd") / lists.column("x_effort"))  # fmt: skip
    cited = rs.metric("n_cited", "documents cited", of="citations", reads="doc_id")(
        lambda lists: np.where(lists.answered, lists.distinct(lists.column("doc_id")), np.nan)
    )
    tone = rs.metric("tone", "mean verdict", of="judgments", reads=("value", "criterion"))(
        lambda lists: (
            lists.total(np.where(lists.column("criterion") == "tone", lists.column("value"), 0))
            / lists.total()
        )
    )
    spent = rs.metric("cost_of_success", "cost where found", reads="responses.cost_usd")(
        lambda lists: np.where(
            lists.any(lists.is_relevant), lists.response("cost_usd"), np.nan
        )
    )  # fmt: skip
    with warned("a", 1):
        ev = rs.evaluate(answered(), golden, [effort, cited, tone, spent])
    assert values(ev, "effort") == [2, None, None, None]  # not recorded, failed, never asked
    assert values(ev, "n_cited") == [2, 0, None, None]
    assert values(ev, "tone") == [0.5, 1, None, None]
    assert values(ev, "cost_of_success") == [2, 4, None, None]
    told = ev.explain(["effort", "cost_of_success"]).set_index(["metric", "query_id"])
    assert told.loc[("effort", "q2"), "state"] == "missing"
    assert told.loc[("effort", "q3"), "state"] == "system_error"


@given(st.integers(0, 2**32 - 1))
def test_ndcg_and_recall_by_the_public_means_equal_ours_to_the_bit(seed):
    rng = np.random.default_rng(seed)
    fields = {
        "collapse": ["none", "doc"][rng.integers(2)],
        "missing": ["exclude", "zero"][rng.integers(2)],
    }  # fmt: skip
    k = int(rng.integers(1, 8))
    run = {f"q{n}": [f"d{one}" for one in rng.permutation(12)[: rng.integers(9)]] for n in range(8)}
    labels = {
        query: {f"d{n}": int(grade) for n, grade in enumerate(rng.integers(0, 4, 5), 3)} | {"d0": 2}
        for query in run
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = rs.score(
            rs.load_results(run), rs.load_golden(labels),
            [my_ndcg.label(k), my_recall.label(k), f"ndcg@{k}", f"recall@{k}"], **fields,
        )  # fmt: skip
    for ours in (f"ndcg@{k}", f"recall@{k}"):
        assert scores[f"my_{ours}"].to_numpy().tobytes() == scores[ours].to_numpy().tobytes()


def made_here():
    limit = 200

    @rs.metric("here@k", "1 if within the limit", reads="hits.x_tokens", kind="binary")
    def here(lists):
        return lists.any(lists.is_relevant & (lists.so_far(lists.column("x_tokens")) <= limit))

    return here


@pytest.mark.parametrize("own", [in_budget, made_here()], ids=["of a module", "of a notebook"])
def test_an_evaluation_with_it_can_be_pickled(own, results, golden):
    ev = rs.evaluate(results, golden, [own.label(5)])
    again = pickle.loads(pickle.dumps(ev))
    assert again.declared == ev.declared
    label = own.label(2).text
    pd.testing.assert_frame_equal(again.summary(label), ev.summary(label), check_exact=True)


def test_what_no_module_holds_and_nothing_can_pickle_is_said(results, golden, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    ev = rs.evaluate(results, golden, [made_here().label(5)])
    with refused("cloudpickle", field="here@k"):
        pickle.dumps(ev)
    assert pickle.loads(pickle.dumps(rs.evaluate(results, golden, [in_budget.label(5)])))


def redefined(limit):
    @rs.metric("mine@k", "hits", needs=(), range=(0, None), better="higher")
    def mine(lists):
        return np.minimum(lists.total(), limit)

    return mine


def test_a_new_function_counts_from_the_next_evaluation_on(results, golden):
    one, two = redefined(1), redefined(2)
    first = rs.evaluate(results, golden, [one])
    second = rs.evaluate(results, golden, [two])
    assert values(first, "mine@7") == [1, 1, 1, 1] and values(second, "mine@7") == [2, 2, 2, 1]
    with refused("mine@k"):  # hashes differ between versions of Python
        rs.evaluate(results, golden, [one, two])


def test_a_store_keeps_its_declaration_and_shows_stored_values_without_it(ev, golden, tmp_path):
    store = rs.RunStore(tmp_path / "runs")
    store.save(ev)
    again = store.evaluate(golden)
    assert again.declared == ev.declared
    columns = ["run_id", "mean", "low", "high", "n"]
    for label in ("in_budget@3", "variety@10"):
        pd.testing.assert_frame_equal(again.summary(label)[columns], ev.summary(label)[columns])
    assert again.compare("a", "b", "in_budget@3").deltas["n_worse"].tolist() == [2]
    with refused("in_budget@7", "in_budget@k", field="metrics"):
        again.summary("in_budget@7")
    given = store.evaluate(golden, [in_budget, "mrr"])
    assert values(given, "in_budget@7") == values(ev, "in_budget@7")


def test_stored_values_go_by_their_labels_and_policies(ev, golden, tmp_path):
    store = rs.RunStore(tmp_path / "runs")
    store.save(ev)
    other = rs.load_golden([GOLDEN[0] | {"expected_doc_ids": ["d9"]}, *GOLDEN[1:]])
    for labels, policies in ((other, {}), (golden, {"missing": "zero"})):
        with warned("in_budget@3"):
            assert "in_budget@3" not in store.evaluate(labels, **policies).scores
    with warned("in_budget@3"):
        store.refresh(other, runs=["a"])
    with refused("in_budget@3"):
        store.scores(["in_budget@3"])


def test_stored_values_of_another_function_are_not_compared(results, golden, tmp_path):
    store = rs.RunStore(tmp_path / "runs")
    for run, limit in (("a", 1), ("b", 2)):
        ev = rs.evaluate(results.select([run]), golden, [redefined(limit), "mrr"])
        store.save(ev)
    with refused("mine@k", "a", "b"):
        store.evaluate(golden)
    with refused("mine@k", field="metric_versions"):
        store.scores(["mine@3"])
    both = store.evaluate(golden, [redefined(2)])
    assert values(both, "mine@3") == [2, 2, 2, 1]
    assert "mrr" not in both.scores


@pytest.mark.parametrize("name", ["ndcg@k", "mrr", "P_10", "freshness.stale_free_rate@k"])
def test_a_name_of_ours_or_of_another_tool_is_refused(name):
    with refused(field="name"):
        rs.metric(name, "…")


@pytest.mark.parametrize(
    ("name", "field", "told"),
    [
        ("run_id", "name", {}),
        ("my metric", "name", {}),
        ("mine@5", "name", {}),
        ("mine", "of", {"of": "chunks"}),
        ("mine@k", "of", {"of": "responses"}),
        ("mine", "reads", {"reads": "golden.x"}),
        ("mine", "needs", {"needs": "luck"}),
        ("mine", "kind", {"kind": "time"}),
        ("mine", "better", {"better": "more"}),
        ("mine", "range", {"range": (1, 0)}),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(name, field, told):
    with refused(field=field):
        rs.metric(name, "…", **told)


def raises(lists):
    raise KeyError("x")


@pytest.mark.parametrize(
    ("function", "field"),
    [
        (raises, "bad"),
        (lambda lists: 1.0, "bad"),
        (lambda lists: np.zeros(lists.n + 1), "bad"),
        (lambda lists: np.array(["a"] * lists.n), "bad"),
        (lambda lists: lists.column("x_tokens"), "reads"),
        (lambda lists: np.full(lists.n, 2.0), "range"),
        (lambda lists: np.full(lists.n, np.inf), "range"),
    ],
)
def test_a_function_that_fails_is_one_error_that_names_the_metric(function, field, results, golden):
    bad = rs.metric("bad", "…", range=(0, 1))(function)
    with refused("bad", field=field):
        rs.evaluate(results, golden, [bad])


def test_a_binary_one_is_0_or_1(results, golden):
    half = rs.metric("half", "…", kind="binary")(lambda lists: np.full(lists.n, 0.5))
    with refused("half", field="range"):
        rs.evaluate(results, golden, [half])


def test_a_bare_function_is_told_what_makes_a_metric_of_it(results, golden):
    for asked in (gain, [gain], ["default", gain]):
        with refused("gain", "@rs.metric", field="metrics"):
            rs.evaluate(results, golden, asked)


def test_labels_that_it_cant_have_are_refused(ev, results, golden):
    for label in ("in_budget", "in_budget@0", "in_budget@5:lines"):
        with refused(label, "in_budget@5", field="metrics"):
            ev.summary(label)
    with refused("variety@7", field="columns"):
        frame = pd.DataFrame({"query_id": ["q1"], "variety@7": [1.0]})
        ev.with_columns(frame, better="higher", partial=True)


def test_supported_metrics_tells_what_files_lack_for_it(results, golden):
    lacks = rs.metric("paid", "…", of="responses", reads="cost_usd")(lambda lists: lists.total())
    table = rs.supported_metrics(golden, results, in_budget, lacks).set_index("metric")
    assert table.loc["in_budget@k", ["supported", "n"]].tolist() == [True, 3]
    assert table.loc["paid", "missing"] == "cost_usd of responses"
