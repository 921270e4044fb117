"""A store keeps the names of profiles, so a reading of one's own is refused."""

from dataclasses import replace

import pytest

import ragscore as rs
from ragscore.scoring.readings import READINGS
from tests.messages import refused


@pytest.mark.parametrize("name", ["rig", "mine"])
def test_a_reading_of_ones_own_is_not_stored_as_that_of_its_name(tmp_path, name):
    own = replace(READINGS["rig"], name=name, empty={"recall": 0.25})
    ev = rs.evaluate({"q": ["a"], "r": ["b"]}, {"q": {"a": 1}, "r": {"c": 1}}, profile=own)
    with refused(name, field="profile"):
        rs.RunStore(tmp_path).save(ev)
