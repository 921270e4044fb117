"""TREC files as they are found: any white space, comments, text after the tag, several tags."""

import pytest

import ragscore as rs
from tests.messages import refused, says, warned


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8", newline="")
        return file

    return write


def judged(golden):
    return golden.targets[["query_id", "doc_id", "grade"]].to_numpy().tolist()


def found_at(results):
    return results.hits[["run_id", "query_id", "rank", "doc_id", "score"]].to_numpy().tolist()


def test_a_line_that_mixes_tabs_and_spaces_makes_no_phantom_query(write):
    golden = rs.load_golden(write("qrels.txt", "3 0 d0 1\n3   0\td1\t1\n4\t0 d2  \t 2\n"))
    assert golden.queries["query_id"].tolist() == ["3", "4"]
    assert judged(golden) == [["3", "d0", 1], ["3", "d1", 1], ["4", "d2", 2]]


RUN = "q1 Q0 d2 1 9.5 a\nq1 Q0 d1 2 9.0 a\nq2 Q0 d3 1 -3.25 a\n"
QRELS = "q1 0 d1 2\nq1 0 d2 0\nq2 0 d3 1\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(" ", " \t  "),
        lambda text: "  " + text.replace("\n", " \t\r\n\n \t\n"),
        lambda text: "# by hand\n" + text.replace("\n", "\n  # q9 0 d9 1 9 9\n"),
        lambda text: "\ufeff" + text.rstrip("\n"),
        lambda text: text.replace("\n", "\r"),
    ],
)
def test_white_space_blank_lines_and_comments_make_no_difference(write, change):
    plain = rs.load_results(write("run.txt", RUN)), rs.load_golden(write("qrels.txt", QRELS))
    results = rs.load_results(write("run.txt", change(RUN)))
    golden = rs.load_golden(write("qrels.txt", change(QRELS)))
    assert found_at(results) == found_at(plain[0]) and judged(golden) == judged(plain[1])
    assert results.problems.empty and golden._problems.empty


def test_text_after_the_tag_is_left_out_and_such_lines_are_counted(write):
    text = RUN.replace("9.0 a\n", "9.0 a and more 7\n").replace("9.5 a\n", "9.5 a # best\n")
    with warned(2, "and more 7", "run.txt"):
        results = rs.load_results(write("run.txt", text))
    assert found_at(results) == found_at(rs.load_results(write("run.txt", RUN)))
    (found,) = results.problems["found"]
    says(found, 2)


def test_comments_after_the_tag_are_counted_without_a_warning(write):
    results = rs.load_results(write("run.txt", RUN.replace("9.0 a\n", "9.0 a # best\n")))
    says(results.problems["found"].item(), 1)


@pytest.mark.parametrize("between", ["", " "])
def test_two_hits_in_a_line_are_refused_as_files_joined_without_a_line_end(write, between):
    file = write("run.txt", f"p Q0 d 1 2 a{between}q Q0 d 1 2 a\nr Q0 d 1 2 a\n")
    with refused("p Q0 d", file="run.txt", line=1):
        rs.load_results(file)
    kept = rs.load_results(file, strict=False)
    assert kept.hits["query_id"].tolist() == ["r"] and len(kept.problems) == 1


def test_run_id_names_a_run_over_its_tag(write):
    results = rs.load_results(write("run.txt", RUN), run_id="mine")
    assert results.runs[["run_id", "system"]].values.tolist() == [["mine", "a"]]
    assert set(results.hits["run_id"]) == {"mine"}


def test_ranks_from_0_are_judged_by_query(write):
    with warned("a", 0, "1 of 2"):
        results = rs.load_results(write("run.txt", "p Q0 d 0 2 a\np Q0 e 1 1 a\nq Q0 d 1 2 a\n"))
    assert results.hits["rank"].tolist() == [1, 2, 1]


def test_left_out_ranks_are_warned_of_once_and_kept(write):
    with warned("2 of 2") as caught:
        results = rs.load_results(write("run.txt", "p Q0 d 2 2 a\nq Q0 d 1 2 a\nq Q0 e 9 1 a\n"))
    assert results.hits["rank"].tolist() == [2, 1, 9] and len(caught) == 1


def test_ranks_that_contradict_the_scores_hold_and_are_counted(write):
    file = write("run.txt", "p Q0 d 1 1 a\np Q0 e 2 2 a\nq Q0 d 1 2 a\nq Q0 e 2 2 a\n")
    results = rs.load_results(file)
    assert results.hits["rank"].tolist() == [1, 2, 1, 2]
    says(results.problems["found"].iloc[0], 1)
    by_score = rs.load_results(file, ties="trec")
    assert by_score.hits["rank"].tolist() == [2, 1, 2, 1] and by_score.problems.empty


def test_documents_with_spaces_stay_whole_in_beirs_files(write):
    header = "query-id\tcorpus-id\tscore\n"
    golden = rs.load_golden(write("test.tsv", header + "q1\tNew York\t1\nq1\tParis\t0\t\n"))
    assert judged(golden) == [["q1", "New York", 1], ["q1", "Paris", 0]]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("q1 Q0 d4 0x3 1 a", '"0x3"'), ("q1 Q0 d4 1_0 1 a", '"1_0"'), ("q1 Q0 d4 3 nan a", '"nan"'),
        ("q1 Q0 d4 3 0x1p3 a", '"0x1p3"'), ("q1 Q0 d4 -1 1 a", '"-1"'),
        ("q1 Q0 d4 3 1", 5), ("q1 Q0 d4 NA 1 a", '"NA"'),
        ("q1 Q0 d4 3 high a", '"high"'),
    ],
)  # fmt: skip
def test_lines_that_are_no_hit_are_refused_with_their_number(write, line, named):
    file = write("run.txt", f"# a comment\n\n{RUN}{line}\n")
    with refused(named, file="run.txt", line=6):
        rs.load_results(file)
    assert len(rs.load_results(file, strict=False).hits) == 3
