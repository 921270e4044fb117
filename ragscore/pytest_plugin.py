"""A gate in a test: the fixture `ragscore_gate` fails a test whose system got worse.

In: a candidate and a baseline, each whatever `rs.load_results` takes, or where a run lies. Out: the
`Gate`; of one that doesn't pass, a failure with the comparison, and a report where one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragscore.analysis.comparison.gate import Gate


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --ragscore-report."""
    parser.getgroup("ragscore").addoption(
        "--ragscore-report",
        metavar="DIR",
        help="keep a report of each gate that doesn't pass in this folder",
    )


@pytest.fixture
def ragscore_gate(request: pytest.FixtureRequest) -> Callable[..., Gate]:
    """Return a function that compares two runs and fails the test unless the gate passes.

    Its parameters are `candidate`, `baseline` and `golden` (None: stored scores); `queries`, as for
    `ev.select`, such as "difficulty == 'hard'"; `max_drop`, `rule`, `require` and `undecided`, as
    for `cmp.gate`; `margins`, as for `ev.compare`; and single policies. Where nothing can be told,
    the test is skipped, unless `undecided` says what that counts as.
    """
    return lambda *given, **more: _gated(request, *given, **more)


def _gated(
    request: pytest.FixtureRequest, candidate: Any, baseline: Any, golden: Any = None, *,
    queries: Any = None, max_drop: dict[str, float] | None = None, rule: str = "threshold",
    require: bool = False, undecided: str | None = None, margins: dict[str, float] | None = None,
    allow_different: Any = False, metrics: Any = None, primary: Any = None, **policies: Any,
) -> Gate:  # fmt: skip
    """Return the gate of two runs; see `ragscore_gate`."""
    from ragscore.cli.builds import about_baseline, fetched, is_elsewhere
    from ragscore.evaluation import evaluate_pair
    from ragscore.scoring.policies import Policies

    sides = [
        fetched(one) if isinstance(one, str) and is_elsewhere(one) else one
        for one in (baseline, candidate)
    ]
    ev = evaluate_pair(sides[0], sides[1], golden, metrics, primary, Policies(**policies))
    about = about_baseline(
        ev.results, ev.run_ids[0], None if golden is None else ev.golden,
        may_differ=allow_different is True or "golden" in (allow_different or ()),
    )  # fmt: skip
    if queries is not None:
        ev = ev.select(queries=queries)
    cmp = ev.compare(*ev.run_ids, margins=margins, allow_different=allow_different)
    found = cmp.gate(max_drop, rule=rule, require=require, undecided=undecided)
    if found.passed:
        return found
    text = "\n\n".join([about, str(found)])
    request.node.add_report_section("call", "ragscore", f"{text}\n\n{cmp}")
    folder = request.config.getoption("--ragscore-report")
    kept = ""
    if folder:
        name = re.sub(r"[^\w.-]+", "-", request.node.nodeid).strip("-")
        file = Path(folder) / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        cmp.report(file)
        kept = f"\nreport: {file}"
    if found.exit_status == 1:
        pytest.fail(f"{found.headline()}\n{text}{kept}", pytrace=False)
    pytest.skip(f"{found.headline()}{kept}")
