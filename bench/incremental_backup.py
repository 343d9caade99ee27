# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups of a running guest whose disk is full of data, from one node of a testbed to another.

What a second backup keeps after the guest has written over 1 % of its disk (bar: 2 %), the longest gap in the replies
to ping while it is made, beside the longest of the same time while nothing happens (bar: 100 ms more), and how long it
takes to prove one (bar: 60 s).
"""

from __future__ import annotations

import re
import sys
import time

from measure import report, testbed

NAME, ADDRESS = "inst1", "10.78.0.1"
SIZE_MIB = 512
CHANGED_MIB = 5
BOOTS_WITHIN_S = 180.0
_SERIAL = f"/run/ganeti/kvm-hypervisor/ctrl/{NAME}.serial"
_TYPE = """
import socket, sys
serial = socket.socket(socket.AF_UNIX)
serial.settimeout(float(sys.argv[2]))
serial.connect(sys.argv[1])
def wait(mark):
    seen = b""
    while mark not in seen:
        seen += serial.recv(4096)
serial.sendall(b"\\n")
wait(b"# ")
serial.sendall(sys.argv[3].encode() + b"\\n")
wait(b"WRITTEN")
"""
"""Type a command on the guest's console, and stay connected until it has said its word: QEMU drops what it has not read
yet when the connection ends."""


def main() -> None:
    from ganeti.tools.testbed import machine, watching

    with testbed("kvm") as layout, watching.watching(layout, [ADDRESS]) as watch:

        def command(*words: str) -> str:
            done = machine.run(layout, "node1", *words)
            if done.returncode:
                sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        words = ("-t", "file", "-n", "node1", "-o", "heartbeat+default", "--disk", f"0:size={SIZE_MIB}m")
        options = ("-B", "memory=128", "-O", f"rate=2,ack={watching.ack(layout)}", "--net", "0:", "--no-start")
        command("gnt-instance", "add", *words, *options, NAME)
        disk = f"$(ls /srv/ganeti/file-storage/{NAME}/*)"
        command("sh", "-c", f"dd if=/dev/urandom of={disk} bs=1M seek=1 count={SIZE_MIB - 2} conv=notrunc")
        command("gnt-instance", "startup", NAME)
        watch.wait_for_beat(NAME, 0.0, BOOTS_WITHIN_S)
        command("gnt-backup", "key", "new")
        gaps, idle, times = [], [], []
        for number in range(2):
            if number:
                write = f"dd if=/dev/urandom of=/dev/vda bs=1M seek=200 count={CHANGED_MIB}; echo WRIT''TEN"
                command("python3", "-c", _TYPE, _SERIAL, str(BOOTS_WITHIN_S), write)
            began = time.monotonic()
            said = command("gnt-backup", "create", "-n", "node2", NAME)
            ended = time.monotonic()
            watch.wait_for_beat(NAME, ended + 0.5, BOOTS_WITHIN_S)
            times.append(ended - began)
            gaps.append(watch.longest_gap_s(ADDRESS, began, ended + 0.5) * 1000)
            idle_until = time.monotonic() + ended - began + 0.5
            time.sleep(idle_until - time.monotonic())
            idle.append(watch.longest_gap_s(ADDRESS, ended + 0.5, idle_until) * 1000)
        found = re.search(r"([0-9.]+) MiB stored", said)
        share = 100 * float(found[1]) / SIZE_MIB if found else 0.0
        report(f"first backup of {SIZE_MIB} MiB that cannot be compressed", times[0], "s")
        report("second backup", times[1], "s")
        report("what it keeps after 1 % has changed", share, "% of the disk", bar="2 %", met=0 < share <= 2)
        for name, gap, without in zip(("first", "second"), gaps, idle, strict=True):
            report(f"longest gap in the replies to ping, {name} backup", gap, "ms")
            report("the same for as long without a backup", without, "ms")
        more = gaps[1] - idle[1]
        report("what the second backup adds to it", more, "ms", bar="100 ms", met=more <= 100)
        began = time.monotonic()
        command("gnt-backup", "prove", "-n", "node2", NAME)
        proved_s = time.monotonic() - began
        report("proving the newest backup", proved_s, "s", bar="60 s", met=proved_s <= 60)


if __name__ == "__main__":
    main()
