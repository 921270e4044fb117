"""The page on the data model names every frame, and lists its columns as the code declares them."""

from ragscore.frames.kinds import KINDS
from tests.manual import frames


def test_the_table_of_frames_is_the_one_in_the_code():
    assert frames.PAGE.read_text(encoding="utf-8") == frames.text()


def test_every_frame_has_a_place():
    page = frames.PAGE.read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("### ")]
    assert [name for name in KINDS if not any(name in one for one in headings)] == []
