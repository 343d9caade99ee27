# SPDX-License-Identifier: BSD-2-Clause
"""Private memory of the process of a running job: one that has called no node, and one with sessions to three open.

Private is what the process has for itself (Private_Clean + Private_Dirty); the rest it shares with the spawner.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import private_mib, processes, pss_mib, report, testbed
from tests.fakes.master_daemons import Master, children_of, running_master

from ganeti.wire.framing_sync import connect
from ganeti.wire.luxi import VERSION

JOBS = 5
LONG_S = 60
WITHIN_S = 60.0
SESSIONS_S = 4
"""How long the job with sessions does nothing, before and after it calls the nodes."""


def running_pid(master: Master, job_id: int) -> int:
    master.until(lambda: master.file(job_id).status == "running", "it runs")
    return master.file(job_id).process_id or 0


def without_sessions() -> None:
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as root, running_master(Path(root) / "cluster") as master:
        ids = [master.submit({"OP_ID": "OP_TEST_DELAY", "duration": LONG_S}) for _ in range(JOBS)]
        used = statistics.median(private_mib(running_pid(master, job_id)) for job_id in ids)
        report("private memory of a running job", used, "MiB", bar="4 MB", met=used <= 4)
        (spawner,) = children_of(master.daemons["luxid"].pid)
        for name, pid in [*((name, each.pid) for name, each in master.daemons.items()), ("spawner", spawner)]:
            report(f"PSS of {name}", pss_mib(pid), "MiB")
        for job_id in ids:
            master.luxi("CancelJob", job_id, True)


def with_sessions() -> None:
    """A job that sleeps, calls all nodes, and sleeps again: in the second sleep it has sessions to them."""
    from ganeti.tools.testbed import machine

    with testbed("fake") as layout:
        names = [node.name for node in layout.nodes]
        opcode = {"OP_ID": "OP_TEST_DELAY", "duration": SESSIONS_S, "repeat": 2, "on_nodes": names}
        node = layout.nodes[0]
        root = Path(f"/proc/{machine.running_pid(layout, node)}/root")
        connection = connect(str(root / "run/ganeti/socket/ganeti-query"), WITHIN_S)
        connection.send({"method": "SubmitJob", "args": [[opcode]], "version": VERSION})
        answer = connection.receive()
        if not answer["success"]:
            sys.exit(f"the job was refused: {answer['result']}")
        used = _second_round(layout, node, root / f"var/lib/ganeti/queue/job-{answer['result']}")
        report("private memory of a job with sessions to 3 nodes", used, "MiB", bar="8 MB", met=used <= 8)


def _second_round(layout: Any, node: Any, job: Path) -> float:
    from ganeti.tools.testbed import machine

    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        content = json.loads(job.read_text()) if job.exists() else {"ops": [{"log": []}]}
        if any("iteration 1/1" in str(entry[3]) for entry in content["ops"][0]["log"]):
            return private_mib(_outer_pid(machine.running_pid(layout, node), content["process_id"]))
        time.sleep(0.05)
    sys.exit(f"the job did not come to its second round: {content}")


def _outer_pid(init_pid: int, inner_pid: int) -> int:
    """The id here of a process of a node."""
    for pid in processes(init_pid):
        status = Path(f"/proc/{pid}/status").read_text()
        if any(line.startswith("NSpid:") and line.split()[-1] == str(inner_pid) for line in status.splitlines()):
            return pid
    sys.exit(f"process {inner_pid} of the node is gone")


def main() -> None:
    without_sessions()
    with_sessions()


if __name__ == "__main__":
    main()
