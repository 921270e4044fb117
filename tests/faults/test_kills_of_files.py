"""Kills and full disks while files outside of a store are written.

Reports, golden sets, saved runs, labels, collected runs. The work is in killed_writers.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults import killed_writers
from faults.size import tally, times

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked for speed")
def test_a_file_is_the_old_or_the_new_one_whatever_ends_its_writer(tmp_path):
    script = Path(killed_writers.__file__)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path), str(times(2))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rounds = json.loads(done.stdout)
    for name, _, _, outcome in rounds:
        tally(f"files: {name}", outcome.partition(":")[0])
    failed = [one for one in rounds if one[3].startswith("FAILED")]
    assert not failed, f"{len(failed)} of {len(rounds)}, first {failed[:3]}"
    assert {one[3] for one in rounds} >= {"killed", "whole"}
