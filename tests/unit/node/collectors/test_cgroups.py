# SPDX-License-Identifier: BSD-2-Clause
"""Control groups of guests: versions 1 and 2, and groups that say nothing of a guest."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti.node.collectors.cgroups import CONTROLLERS, read
from ganeti.node.hypervisors.interface import Sighting

GUEST = Sighting(name="web1", started_s=0.0, pid=77)
GROUP = "/machine.slice/web1.scope"


def tree(root: Path, cgroup: str, files: dict[str, str]) -> None:
    (root / "proc/77").mkdir(parents=True)
    (root / "proc/77/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = Path(f"{root}{CONTROLLERS}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_version_1(tmp_path: Path) -> None:
    cpu, memory = f"cpu,cpuacct{GROUP}", f"memory{GROUP}"
    files = {
        f"{cpu}/cgroup.procs": "77\n",
        f"{cpu}/cpuacct.usage": "2500000000\n",
        f"{cpu}/cpu.cfs_quota_us": "150000\n",
        f"{cpu}/cpu.cfs_period_us": "100000\n",
        f"{memory}/cgroup.procs": "77\n",
        f"{memory}/memory.usage_in_bytes": "1048576\n",
        f"{memory}/memory.limit_in_bytes": "9223372036854771712\n",
    }
    tree(tmp_path, f"9:memory:{GROUP}\n4:cpu,cpuacct:{GROUP}\n1:name=systemd:/x\n", files)
    wanted = {"version": 1, "cpu_seconds": 2.5, "cpu_limit": 1.5, "memory_bytes": 1048576, "memory_limit_bytes": None}
    assert read([GUEST], str(tmp_path)) == {"web1": wanted}


def test_version_2(tmp_path: Path) -> None:
    own = GROUP.lstrip("/")
    files = {
        f"{own}/cgroup.procs": "77\n",
        f"{own}/cpu.stat": "usage_usec 1500000\nuser_usec 1000000\n",
        f"{own}/cpu.max": "max 100000\n",
        f"{own}/memory.current": "4096\n",
        f"{own}/memory.max": "8192\n",
    }
    tree(tmp_path, f"0::{GROUP}\n", files)
    wanted = {"version": 2, "cpu_seconds": 1.5, "cpu_limit": None, "memory_bytes": 4096, "memory_limit_bytes": 8192}
    assert read([GUEST], str(tmp_path)) == {"web1": wanted}


@pytest.mark.parametrize(
    ("cgroup", "processes"),
    [
        ("0::/\n", "77\n"),
        (f"0::{GROUP}\n", "76\n77\n"),
        (f"0::{GROUP}\n", ""),
        ("0::/../elsewhere\n", "77\n"),
        ("", "77\n"),
        ("nonsense::\n", "77\n"),
    ],
)
def test_a_group_that_says_nothing_of_the_guest(tmp_path: Path, cgroup: str, processes: str) -> None:
    tree(tmp_path, cgroup, {f"{GROUP.lstrip('/')}/cgroup.procs": processes})
    assert read([GUEST], str(tmp_path)) == {}


def test_a_guest_without_a_process_has_none(tmp_path: Path) -> None:
    assert read([Sighting(name="web1", started_s=0.0)], str(tmp_path)) == {}


@pytest.mark.skipif(
    not (os.access(f"{CONTROLLERS}/cpuacct", os.W_OK) and os.access(f"{CONTROLLERS}/memory", os.W_OK)),
    reason="control groups of version 1 need root and their file systems",
)
def test_real_groups_of_version_1() -> None:
    groups = [Path(f"{CONTROLLERS}/{name}/ganeti-test-{os.getpid()}") for name in ("cpuacct", "memory")]
    busy = "import os\nwhile os.times().user < 0.2: pass\nprint('worked', flush=True)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for group in groups:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(process.pid))
        assert process.stdout is not None and process.stdout.readline() == b"worked\n"
        found = read([Sighting(name="web1", started_s=0.0, pid=process.pid)])["web1"]
        assert found["version"] == 1 and found["cpu_seconds"] > 0 and found["memory_bytes"] is not None
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for group in groups:
            group.rmdir()
