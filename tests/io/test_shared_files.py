"""Real files beside the checkout: each is opened by one line, or refused by its name.

What is read contradicts none of the facts that are known of them.
"""

import warnings
from pathlib import Path

import pytest

import ragscore as rs

DATA = Path(__file__).parents[3] / "shared" / "data"
NOT_DATA = {".md", ".sql"}
FILES = sorted(
    file for file in DATA.rglob("*") if file.is_file() and file.suffix not in NOT_DATA
)  # none where the folder is missing
pytestmark = pytest.mark.skipif(not FILES, reason="needs real files beside the checkout")


def opened(load, file):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        return load(DATA / file)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("load", [rs.load_results, rs.load_golden])
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DATA)))
def test_a_real_file_is_read_or_refused_by_its_name(load, file):
    try:
        assert str(opened(load, file))
    except rs.DataError as error:
        assert file.name in str(error) and error.found


GOLDEN = {  # file: queries, targets, and the number of targets by grade where it is known
    "browsecomp-plus-bm25-agent/qrel_evidence.txt": (830, 5064, None),
    "browsecomp-plus-bm25-agent/qrel_golds.txt": (830, 2407, None),
    "llmjudge-submissions/willia-umbrela1.txt": (25, 4423, [2335, 1231, 608, 249]),
    "llmjudge-submissions/h2oloo-fewself.txt": (25, 4423, [2470, 732, 557, 664]),
    "llmjudge-submissions/Olz-gpt4o.txt": (25, 4423, [2258, 1274, 504, 387]),
    "llmjudge-submissions/TREMA-questions.txt": (25, 4423, [2450, 253, 767, 953]),
    "llmjudge-submissions/NISTRetrieval-instruct0.txt": (25, 4423, [1115, 2092, 1216]),
    "mtrag-human/qrels/clapnq.tsv": (208, 578, [0, 578]),
    "mtrag-human/qrels/fiqa.tsv": (180, 535, [0, 535]),
    "mtrag-human/qrels/cloud.tsv": (188, 494, [0, 494]),
    "mtrag-human/qrels/govt.tsv": (201, 521, [0, 521]),
    "trec-cast-2021/trec-cast-qrels-docs.2021.qrel.gz": (
        158, 19334, [13829, 2072, 1710, 1007, 716]
    ),
    "trec-rag25-nuggets/rag25-climbmix-umbrela-qwen3.5-9b-v2.qrels.gz": (
        22, 26341, [3434, 7661, 10992, 4184, 70]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("file", "known"), GOLDEN.items(), ids=list(GOLDEN))
def test_labels_are_as_many_as_the_file_holds(file, known):
    golden = opened(rs.load_golden, file)
    n_queries, n_targets, by_grade = known
    assert (len(golden.queries), len(golden.targets)) == (n_queries, n_targets)
    if by_grade:
        counts = golden.targets["grade"].value_counts()
        assert [int(counts.get(grade, 0)) for grade in range(len(by_grade))] == by_grade


RESULTS = {  # file: runs, responses, hits, reported values
    "browsecomp-plus-bm25-agent/single_gpt_4.1.jsonl.gz": (2, 854, 11238, 0),
    "deepeval-promptfoo/promptfoo-results.json": (1, 3, 0, 3),
    "inspect-logs/log_streaming.eval": (2, 4, 0, 4),
    "trec-cast-2021/org_convdr.run.gz": (1, 239, 15898, 0),
    "trec-cast-2021/org_manual_bm25.run.gz": (1, 239, 18570, 0),
}


@pytest.mark.parametrize(("file", "known"), RESULTS.items(), ids=list(RESULTS))
def test_results_are_as_many_as_the_file_holds(file, known):
    results = opened(rs.load_results, file)
    n_reported = 0 if results.reported is None else len(results.reported)
    counts = (len(results.runs), len(results.responses), len(results.hits), n_reported)
    assert counts == known
