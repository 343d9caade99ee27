# SPDX-License-Identifier: BSD-2-Clause
"""The second run of what failed: see tests/once_more.py."""

from pathlib import Path

import pytest
from tests import once_more

STORY = """
import pathlib, pytest
pytestmark = pytest.mark.story
PLACE = pathlib.Path(__file__).parent

def test_begin():
    (PLACE / "begun").touch()

def test_end():
    again = (PLACE / "again").exists()
    (PLACE / "again").touch()
    assert (PLACE / "begun").exists()
    (PLACE / "begun").unlink()
    assert again
"""
ALONE = """
import pathlib
AGAIN = pathlib.Path(__file__).parent / "alone"

def test_once():
    assert not (AGAIN.parent / "counted").exists()
    (AGAIN.parent / "counted").touch()

def test_twice():
    again = AGAIN.exists()
    AGAIN.touch()
    assert again
"""


def test_a_story_runs_again_as_a_whole_and_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = story\n")
    (tmp_path / "test_story.py").write_text(STORY)
    (tmp_path / "test_alone.py").write_text(ALONE)
    monkeypatch.chdir(tmp_path)
    assert once_more.main(["-q", "test_story.py", "test_alone.py"]) == once_more.PASSED
    told = capfd.readouterr().out
    assert "2 failed, 2 passed" in told and "3 passed" in told
    assert "2 passed alone, look at them:\n   test_alone.py::test_twice\n   test_story.py::test_end" in told


def test_what_fails_again_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_bad.py").write_text("def test_bad():\n    assert False\n")
    monkeypatch.chdir(tmp_path)
    assert once_more.main(["-q", "test_bad.py"]) == once_more.FAILED
