# SPDX-License-Identifier: BSD-2-Clause
"""hcheck beyond what it prints for whole clusters (``test_outputs``)."""

from pathlib import Path

import pytest

from ganeti.tools.htools.programs import hcheck

CLUSTERS = Path(__file__).resolve().parents[4] / "golden" / "htools" / "clusters"


@pytest.mark.parametrize(
    ("uuid", "word"), [("a1.b", "a1.b"), ("a-b", "'a-b'"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("", "")]
)
def test_values_are_words_of_a_shell(uuid: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster"
    path.write_text(f"name|{uuid}|preferred||\n\n\n\n")
    hcheck.main(["-t", str(path), "--machine-readable"])
    assert capsys.readouterr().out.splitlines()[0] == f"HCHECK_GROUP_UUID_0={word}"


def test_a_split_instance_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """3.1 dies of it."""
    status = hcheck.main(["-t", str(CLUSTERS / "groups.data"), "--machine-readable"])
    out = capsys.readouterr().out
    assert status == int("HCHECK_INIT_CLUSTER_NEED_REBALANCE=1" in out)
    assert out.endswith("HCHECK_OK=1\n")


def test_the_number_of_a_group_counts_groups_without_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    hcheck.main(["-t", str(CLUSTERS / "groups.data"), "--machine-readable", "--no-simulation"])
    scores = [line for line in capsys.readouterr().out.splitlines() if "INIT_GROUP" in line and "SCORE" in line]
    assert [line.split("_")[3] for line in scores] == ["1", "2", "3"]
