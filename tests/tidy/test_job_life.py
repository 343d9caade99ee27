# SPDX-License-Identifier: BSD-2-Clause
"""The picture of a job's life in the documentation is the one the code has."""

from pathlib import Path

from ganeti.master.queue.drawing import redrawn

JOB_LIFE = Path(__file__).resolve().parents[2] / "docs" / "design" / "job-life.md"


def test_the_drawing_is_fresh():
    text = JOB_LIFE.read_text()
    assert redrawn(text) == text, "run `python -m ganeti.tools.job_life`"
