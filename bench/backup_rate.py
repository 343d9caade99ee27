# SPDX-License-Identifier: BSD-2-Clause
"""A first backup of a stopped instance through its job, and its restore: rate, and whose CPU seconds it takes.

Half of the disk can be compressed. CPU seconds are of the node that has the disk, of the job with the daemons of the
master's node beside it, and of the node that keeps the backup: together they say what a run beside others can reach.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from measure import cpu_s, processes, report, testbed

if TYPE_CHECKING:
    from ganeti.tools.testbed.layout import Layout

SIZE_MIB = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1024
ROLES = {"node1": "job and master", "node2": "node with the disk", "node3": "node that keeps it"}
_FILL = """
import os, sys
text = b"".join(b"%d: the quick brown fox jumps over the lazy dog\\n" % number for number in range(25000))[:1048576]
with open(sys.argv[1], "r+b") as disk:
    for number in range(int(sys.argv[2])):
        disk.write(os.urandom(1048576) if number % 2 else text)
"""


def spent(layout: Layout) -> dict[str, float]:
    """CPU seconds so far, by node; children that have ended are in it."""
    from ganeti.tools.testbed import machine

    found = {}
    for name in ROLES:
        init = machine.running_pid(layout, layout.node(name))
        found[name] = sum(cpu_s(pid) for pid in processes(init or 0))
    return found


def main() -> None:
    from ganeti.tools.testbed import machine

    with testbed("fake") as layout:

        def command(*words: str, node: str = "node1") -> str:
            done = machine.run(layout, node, *words, timeout_s=1200)
            if done.returncode:
                sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        def timed(what: str, *words: str) -> None:
            before, began = spent(layout), time.monotonic()
            command(*words)
            took_s, after = time.monotonic() - began, spent(layout)
            report(f"{what} of {SIZE_MIB} MiB", SIZE_MIB / took_s, "MiB/s")
            for name, role in ROLES.items():
                report(f"  CPU of the {role}", after[name] - before[name], "s")

        words = ("-t", "file", "-n", "node2", "-o", "heartbeat+default", "-s", f"{SIZE_MIB}m", "-B", "memory=64")
        command("gnt-instance", "add", *words, "--no-install", "--no-start", "web")
        path = command("sh", "-c", "ls /srv/ganeti/file-storage/web/*", node="node2").strip()
        command("python3", "-c", _FILL, path, str(SIZE_MIB), node="node2")
        command("gnt-backup", "key", "new")
        timed("first backup", "gnt-backup", "create", "-n", "node3", "web")
        timed("backup without a change", "gnt-backup", "create", "web")
        timed("restore", "gnt-backup", "restore", "-n", "node2", "web", "copy")


if __name__ == "__main__":
    main()
