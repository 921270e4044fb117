"""The explorer of runs: its data, its element, and what comes back to Python."""

import base64
import gzip
import json

from ragscore.reporting.explorer.element import element, pack


def test_equal_content_has_equal_bytes():
    content = {"version": 1, "queries": {"id": ["a"], "text": ["naïve"]}}
    assert element(content).html == element(json.loads(json.dumps(content))).html


def test_half_a_character_is_shown_as_unknown():
    packed = pack({"text": "a\ud800b 😀"})
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == {"text": "a\ufffdb 😀"}
