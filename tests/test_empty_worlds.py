"""Whatever is asked of next to nothing is answered, or refused by a `DataError` that says why."""

import warnings

import pytest
from empty_worlds import METRICS, WORLDS, evaluated, questions

import ragscore as rs
from tests.messages import refused, says


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_every_question_and_picture_returns_or_raises_a_data_error(world):
    ev, faults = evaluated(world), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, ask in questions(ev).items():
            try:
                ask()
            except rs.DataError:
                pass
            except Exception as error:  # any other error is the fault that is sought
                faults.append(f"{name}: {error!r}")
    assert faults == []


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("world", "why"),
    [
        ("other queries", ["no query", "both runs"]),
        ("no common query", ["no query", "both runs"]),
        ("no response", ["no query", "both runs"]),
        ("all unlabelled", ["no metric", "golden set"]),
    ],
)
def test_a_comparison_without_values_says_that_nothing_can_be_compared(world, why):
    cmp = evaluated(world).compare("a", "b", METRICS)
    for text in (repr(cmp), cmp.to_markdown()):
        says(text, *why)
    assert cmp.overall == "can't tell"


@pytest.mark.parametrize(
    ("draw", "given", "field", "named"),
    [
        ("metric_at_k", [], "metric", ["no value", "recall"]),
        ("heatmap", ["mrr", "difficulty"], "metrics", ["no column", "mrr"]),
        ("slices", ["mrr", "difficulty"], "metrics", ["no column", "mrr"]),
    ],
)
def test_a_picture_of_an_unlabelled_golden_set_says_what_is_missing(draw, given, field, named):
    plot = evaluated("all unlabelled").plot
    with refused(*named, field=field):
        getattr(plot, draw)(*given)
