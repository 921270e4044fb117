"""Statistics by group: what pandas' groupby finds, from one pass over each column."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from ragscore.stats.grouped import Grouping, statistics

NUMBERS = st.floats(-1e6, 1e6, width=32)
KINDS = (
    NUMBERS,
    st.sampled_from([0.0, 1.0]),
    st.integers(-5, 5).map(float),
    st.just(np.nan),
    st.just(0.7),
    NUMBERS | st.sampled_from([np.inf, -np.inf]),
)


@st.composite
def grouped_columns(draw):
    """Codes of rows in no order, -1 in no group; and columns with gaps, some of nothing at all."""
    n = draw(st.integers(1, 40))
    most = draw(st.sampled_from([0, 3, 60]))
    codes = draw(some.arrays(np.int64, n, elements=st.integers(-1, most)))
    cells = [kind | st.just(np.nan) if draw(st.booleans()) else kind for kind in KINDS]
    columns = [draw(some.arrays(np.float64, n, elements=one)) for one in cells]
    return pd.factorize(np.where(codes < 0, np.nan, codes), sort=draw(st.booleans()))[0], columns


def by_pandas(codes, columns):
    values = pd.DataFrame(dict(enumerate(columns))).groupby(np.where(codes < 0, np.nan, codes))
    return {
        "n": values.count(), "sum": values.sum(min_count=1), "mean": values.mean(),
        "std": values.std(), "min": values.min(), "max": values.max(),
        "p50": values.quantile(0.5), "p95": values.quantile(0.95),
    }  # fmt: skip


@given(grouped_columns())
def test_every_statistic_is_the_one_that_pandas_finds(case):
    codes, columns = case
    found, wanted = statistics(columns, Grouping.by_codes(codes)), by_pandas(codes, columns)
    assert found["n"].dtype == np.int64
    for name in ("n", "min", "max", "p50", "p95"):
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    # Sums that cancel out keep what rounding did to their largest term.
    finite = [np.abs(column[np.isfinite(column)]).max(initial=0) for column in columns]
    for name in ("sum", "mean", "std"):
        np.testing.assert_allclose(
            found[name], wanted[name], rtol=1e-12, atol=1e-14 * max(finite), err_msg=name
        )


def test_columns_are_left_as_they_were():
    column = np.array([3.0, 1.0, 2.0])
    column.flags.writeable = False
    found = statistics([column], Grouping.by_codes(np.zeros(3, dtype=np.int64)))
    assert (found["min"][0, 0], found["p50"][0, 0], found["max"][0, 0]) == (1, 2, 3)


def test_equal_values_are_their_own_mean_and_do_not_spread():
    found = statistics([np.full(50, 0.7)], Grouping.by_codes(np.zeros(50, dtype=np.int64)))
    assert (found["mean"][0, 0], found["std"][0, 0]) == (0.7, 0)


def test_a_row_may_be_in_several_groups():
    grouping = Grouping.by_codes(np.array([1, 0, 1, -1, 1]), rows=np.array([0, 0, 1, 1, 2]))
    assert statistics([np.array([1.0, 10.0, 100.0])], grouping)["sum"].tolist() == [[1], [111]]
    assert grouping.count(np.array([True, False, True])).tolist() == [1, 2]
