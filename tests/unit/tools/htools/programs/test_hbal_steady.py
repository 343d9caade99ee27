# SPDX-License-Identifier: BSD-2-Clause
"""hbal moves nothing while measured load is even, and needs the master to know what has just moved."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ganeti.placement.cluster.picture import Cluster, Disk, Group, Instance, Node
from ganeti.tools.htools.loading import luxi
from ganeti.tools.htools.loading.sources import write_state
from ganeti.tools.htools.programs import hbal

GIB = 1024


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    nodes = [
        Node(
            name=name,
            group="one",
            total_memory_mib=64.0 * GIB,
            free_memory_mib=(64 - 4 * (4 if name == "n1" else 0)) * GIB,
            total_disk_mib=500.0 * GIB,
            free_disk_mib=400 * GIB,
            total_cpus=16,
            node_cpus=1,
        )
        for name in ("n1", "n2", "n3")
    ]
    instances = [
        Instance(f"w{k}", 4 * GIB, GIB, 2, "drbd", "n1", f"n{2 + k % 2}", disks=(Disk(GIB),)) for k in range(4)
    ]
    path = tmp_path / "cluster.data"
    write_state(str(path), Cluster(nodes, instances, [Group("one", "one")]))
    return path


def mond(tmp_path: Path, *loads: float) -> str:
    def report(load: float) -> dict:
        data = {"cpu_number": 16, "cpus": [], "cpu_total": load}
        frame = {"name": "cpu-avg-load", "version": "B", "format_version": 1, "timestamp": 1, "category": None}
        return {**frame, "kind": 0, "data": data}

    path = tmp_path / "mond.json"
    path.write_text(json.dumps([{"node": f"n{k}", "reports": [report(load)]} for k, load in enumerate(loads, 1)]))
    return str(path)


def run(cluster: Path, *words: str) -> int:
    return hbal.main(["-t", str(cluster), "--mond", *words])


def test_even_load_moves_nothing(cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = mond(tmp_path, 4.0, 3.0, 3.5)
    assert run(cluster, f"--mond-data={data}", "--load-threshold=0.2") == 0
    said = capsys.readouterr().out
    assert "Load is even: n1 is busiest with 0.25, the mean is 0.22." in said and "Trying" not in said
    data = mond(tmp_path, 12.0, 1.0, 1.0)
    assert run(cluster, f"--mond-data={data}", "--load-threshold=0.2") == 0
    assert "Trying to minimize the CV" in capsys.readouterr().out


def test_what_has_just_changed_stays(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as left:
        raise SystemExit(run(cluster, "--cool-down=3600"))
    assert left.value.code == 1 and "with -L" in capsys.readouterr().err
    from ganeti.tools.htools.loading import text

    monkeypatch.setattr(luxi, "read", lambda path, **_: (text.read(cluster.read_text())[0], "n1"))
    monkeypatch.setattr(luxi, "times_of_change", lambda path: {f"w{k}": time.time() - 60 for k in range(3)})
    data = mond(tmp_path, 12.0, 1.0, 1.0)
    assert hbal.main(["-L/nowhere", "--mond", f"--mond-data={data}", "--cool-down=3600"]) == 0
    said = capsys.readouterr().out
    assert "3 instances were changed within 3600 seconds and stay." in said
    assert "w3" in said and not any(f"w{k} " in said for k in range(3))
