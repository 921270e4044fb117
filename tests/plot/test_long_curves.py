"""Long curves are thinned without a visible change."""

import numpy as np
import pandas as pd

from ragscore.plot.curves import BINS, _thinned


def curve(n):
    draw = np.random.default_rng(0)
    return pd.DataFrame({"coverage": np.sort(draw.random(n)), "risk": draw.random(n)})


def test_each_bin_keeps_its_ends_and_its_extremes():
    rows = curve(50_000)
    kept = _thinned(rows)
    assert len(kept) <= 4 * BINS
    place = np.floor(rows["coverage"] * BINS)
    by_bin, of_kept = (
        frame.groupby(place.loc[frame.index])["risk"].agg(["first", "last", "min", "max"])
        for frame in (rows, kept)
    )
    pd.testing.assert_frame_equal(of_kept, by_bin)
    assert kept.index[[0, -1]].tolist() == [0, len(rows) - 1]
    assert _thinned(rows[:50]).equals(rows[:50])
