"""Which queries of a comparison are to be read first."""

import pandas as pd

from ragscore.analysis.comparison.text import reading_priority

ROWS = [
    # outcome, rank before and after, targets lost and gained
    ("win", 3, 1, 0, 1),
    ("draw", 1, 1, 0, 0),
    ("draw", 1, 1, 1, 1),
    ("draw", 1, 1, 1, 0),
    ("loss", 1, 3, 0, 0),
    ("only_baseline", 1, None, 1, 0),
    ("regression", 2, None, 1, 0),
    ("regression", 1, None, 1, 0),
]
COLUMNS = ["outcome", "rank_baseline", "rank_candidate", "n_lost", "n_gained"]


def test_lost_first_hits_come_first_then_lost_targets_then_other_changes_then_gains():
    table = pd.DataFrame(ROWS, columns=COLUMNS).astype(
        {"rank_baseline": "Int64", "rank_candidate": "Int64"}
    )
    table["query_id"] = [f"q{n}" for n in range(len(table))]
    order = table["query_id"].iloc[reading_priority(table).argsort(kind="stable")]
    assert order.tolist() == ["q7", "q6", "q5", "q4", "q3", "q1", "q2", "q0"]
    answered = table["query_id"].iloc[reading_priority(table, ["q1"]).argsort(kind="stable")]
    assert answered.tolist().index("q1") == 4  # after losses, before lost targets
