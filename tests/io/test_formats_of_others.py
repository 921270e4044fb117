"""Formats that aren't ragscore's: registered in a session."""

import json

import pytest

import ragscore as rs
from ragscore.io import registry
from tests.messages import refused, warned

LINE = {"ask": "q1", "text": "Why?", "found": ["d2", "d1"], "said": "So."}


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def put(folder, *rows, name="run.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def read_acme(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        row = json.loads(line)
        yield rs.io.Record(number, row["ask"], hits=[{"doc_id": one} for one in row["found"]])


ACME = rs.io.Format("acme", rs.io.Mark("ask found"), read_acme)


def test_a_registered_format_is_recognised_by_its_mark(tmp_path):
    file = put(tmp_path, LINE, LINE | {"ask": "q2", "found": []})
    rs.io.register(ACME)
    found = rs.load_results(file)
    assert found.responses["query_id"].tolist() == ["q1", "q2"]
    assert found.hits[["query_id", "rank", "doc_id"]].to_numpy().tolist() == [
        ["q1", 1, "d2"],
        ["q1", 2, "d1"],
    ]
    assert found.runs["run_id"].tolist() == ["run"]
    assert rs.load_results(file, run_id="mine").runs["run_id"].tolist() == ["mine"]


def test_registering_a_name_again_replaces_it(tmp_path):
    rs.io.register(ACME)
    rs.io.register(rs.io.Format("acme", lambda seen: 0, read_acme))
    assert [one.name for one in registry.formats_of("results")].count("acme") == 1
    with refused(field="format"):
        rs.load_results(put(tmp_path, {"ask": "q", "found": []}))


def test_a_format_with_a_writer_can_be_saved(tmp_path):
    def write(results, path, head="ids"):
        text = "\n".join([head, *results.responses["query_id"]])
        (tmp_path / path).write_text(text)
        return tmp_path / path

    rs.io.register(rs.io.Format("acme", ACME.fits, read_acme, write=write))
    found = rs.load_results(put(tmp_path, LINE))
    assert found.save(tmp_path / "out", format="acme", head="q").read_text() == "q\nq1"
    with refused("tail", "head", field="tail"):
        found.save(tmp_path / "out", format="acme", tail=1)
    with refused("acne", "acme", field="format"):
        found.save(tmp_path / "out", format="acne")


def test_a_name_of_ours_cannot_be_registered():
    for name in ("trec", "beir", "table"):
        with refused(name, field="name"):
            rs.io.register(rs.io.Format(name, ACME.fits, ACME.read))


def test_the_highest_mark_wins_and_a_tie_names_both(tmp_path):
    file = put(tmp_path, LINE)
    rs.io.register(ACME)
    rs.io.register(rs.io.Format("other", rs.io.Mark("ask said"), read_acme))
    with refused("acme", "other", file="run.jsonl", field="format"):
        rs.load_results(file)
    assert len(rs.load_results(file, format="other").hits) == 2
    rs.io.register(rs.io.Format("acme", rs.io.Mark("ask found said"), read_acme))
    assert len(rs.load_results(file).hits) == 2


def test_a_reader_that_fails_is_one_error_with_its_format_and_file(tmp_path):
    rs.io.register(ACME)
    with refused("acme", "line 1", "'ask'", file="run.jsonl"):
        rs.load_results(put(tmp_path, LINE, {"found": []}), format="acme")
    rs.io.register(rs.io.Format("acme", ACME.fits, lambda path: [{"ask": 1}]))
    with refused("dict", field="read"):
        rs.load_results(put(tmp_path, LINE))


def test_a_column_that_no_frame_has_is_refused(tmp_path):
    def read(path):
        yield rs.io.Record(1, "q", response={"anser": "x"}, hits=[])

    rs.io.register(rs.io.Format("acme", ACME.fits, read))
    with refused("anser"):
        rs.load_results(put(tmp_path, LINE))


def test_a_mark_that_fails_leaves_the_file_to_the_others(tmp_path):
    rs.io.register(rs.io.Format("acme", lambda seen: 1 / 0, read_acme))
    with warned("acme", "ZeroDivisionError"):
        assert rs.load_results(put(tmp_path, {"query_id": "q", "hits_top_k": []})).hits.empty
