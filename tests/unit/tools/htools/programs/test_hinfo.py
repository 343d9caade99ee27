# SPDX-License-Identifier: BSD-2-Clause
"""hinfo beyond what it prints for whole clusters (``test_outputs``)."""

from pathlib import Path

import pytest

from ganeti.tools.htools.programs import hinfo

CLUSTERS = Path(__file__).resolve().parents[4] / "golden" / "htools" / "clusters"


@pytest.mark.parametrize(
    ("nodes", "line"),
    [(0, "Loaded 0 nodes, 0 instances, 1 node group"), (1, "Loaded 1 node, 0 instances, 1 node group")],
)
def test_one_is_singular(nodes: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster"
    path.write_text("g|u|preferred||\n\n" + "n|1000|0|1000|1000|1000|4|M|u\n" * nodes + "\n\n")
    assert hinfo.main(["-t", str(path)]) == 0
    assert line in capsys.readouterr().out.splitlines()


def test_the_cluster_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    path.write_text((CLUSTERS / "tagged.data").read_text())
    hinfo.main(["-t", str(path), "-v", "-v", "-p"])
    assert path.read_text() == (CLUSTERS / "tagged.data").read_text()
    assert list(tmp_path.iterdir()) == [path]
