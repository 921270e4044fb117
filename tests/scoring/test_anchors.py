"""The anchor rule.

Headings by their parts, snippets in the text, and what a cut text leaves undecided.
"""

import pandas as pd
import pytest

import ragscore as rs
from ragscore.frames.data import conform
from ragscore.scoring.rules import heading_parts


def hits_of(*hits, run_id="run"):
    """Hits of query q from (path, heading) or (path, heading, text, text_cut)."""
    columns = ["path", "heading", "text", "text_cut"]
    frame = pd.DataFrame([dict(zip(columns, hit, strict=False)) for hit in hits]).assign(
        run_id=run_id, query_id="q", rank=range(1, len(hits) + 1)
    )
    return conform(frame, "hits")


def target(heading, *snippets, path="a.md"):
    rows = [
        {"path": path, "heading": heading, "snippet": one, "alternative": n}
        for n, one in enumerate(snippets or [None])
    ]
    return conform(
        pd.DataFrame(rows).assign(query_id="q", level="anchor", target_id="t", grade=1), "targets"
    )


def meets(hit, wanted):
    """Whether a hit meets a target."""
    return len(rs.match.by_anchor()(hits_of(hit), wanted)[0]) > 0


def test_snippets_can_be_left_out():
    hits = hits_of(("a.md", "# O", "nothing"))
    assert len(rs.match.by_anchor(snippets=False)(hits, target("# O", "foo"))[0]) == 1


@pytest.mark.parametrize(
    ("heading", "parts"),
    [
        ("# Overview > ## Details", ("Overview", "Details")),
        ("##Title  >Sub", ("Title", "Sub")),
        (" # A\tB >  > ### C ", ("A B", "C")),
        ("", ()),
        ("#", ()),
        ("C# Guide > # F# notes", ("C# Guide", "F# notes")),
    ],
)
def test_a_heading_path_is_the_names_of_its_parts(heading, parts):
    assert heading_parts(heading) == parts


@pytest.mark.parametrize(
    ("hit", "wanted", "met"),
    [
        (("a.md", "# Overview > ## D"), target("# Overview"), True),
        (("a.md", "Overview"), target("### Overview"), True),  # levels don't count
        (("a.md", "# Over"), target("# Overview"), False),
        (("a.md", "# Overview2"), target("# Overview"), False),
        (("A.md", "# Overview"), target("# Overview"), False),
        (("a.md", "# Overview", "has FOO here"), target("# Overview", "foo", "bar"), True),
        (("a.md", "# Overview", "nothing"), target("# Overview", "foo"), False),
        # nothing says that the text was cut
        (("a.md", "# Overview", "nothing", None), target("# Overview", "foo"), False),
        # the snippet was cut with an ellipsis, which stands nowhere in the text
        (("a.md", "# Overview", "The sentence goes on."), target("", "The sentence..."), True),
        (("a.md", "# Overview", ""), target("# Overview", "foo"), True),
        (("a.md", "# Overview", None), target("# Overview", "foo"), True),
        (("a.md", "# Anything"), target(""), True),
        (("a.md", None), target(None), True),
        (("a.md", None), target("# Overview"), False),
    ],
)
def test_a_hit_meets_an_anchor_by_path_heading_and_snippet(hit, wanted, met):
    assert meets(hit, wanted) == met
