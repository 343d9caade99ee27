# SPDX-License-Identifier: BSD-2-Clause
"""What a guest gets of a mirrored disk: its own 4k writes to it and to a plain file, at depth 1 and 16, in turns.

`mirror.py` writes to such a disk without a guest. The guest is emulated here: its own part of a write is larger than
with KVM, so the ratio is smaller.
"""

from __future__ import annotations

import gzip
import stat
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import precedence, report
from mirror import COUNTS, ROUNDS, beside_file

from ganeti.tools.testbed import guest, guest_run
from ganeti.tools.testbed.guest import GuestImage

WITHIN_S = 120.0
SOURCE = Path(__file__).with_name("guest_writes.c")
FILE, MIRROR = "/dev/vda", "/dev/vdb"
INIT = """#!/bin/busybox sh
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module.ko" 2>/dev/null; done </modules/order
{commands}
echo ENDED
poweroff -f
"""


def writing_image(scratch: Path) -> GuestImage:
    """The test guest, with another first process: it only writes."""
    program = scratch / "writes"
    subprocess.run(["cc", "-O2", "-static", "-o", str(program), str(SOURCE)], check=True)
    each = [f"/bin/writes {disk} {depth} {COUNTS[depth]}" for depth in COUNTS for disk in (FILE, MIRROR)]
    archive = guest.Archive()
    archive.add("init", stat.S_IFREG | 0o755, INIT.format(commands="\n".join(each * ROUNDS)).encode())
    archive.add("bin/writes", stat.S_IFREG | 0o755, program.read_bytes())
    usual = guest.ensure()
    (scratch / "initrd").write_bytes(usual.initrd.read_bytes() + gzip.compress(archive.finish()))
    return GuestImage(usual.kernel, scratch / "initrd")


def drive(number: int, where: str) -> list[str]:
    name = f"drive{number}"
    return [
        *("-drive", f"if=none,id={name},format=raw,cache=none,{where}"),
        *("-device", f"virtio-blk-pci,drive={name}"),
    ]


def main() -> None:
    with precedence(), beside_file() as (root, pair, disk, plain):
        socket, export = pair.one.places.socket(disk.uuid), pair.one.export(disk)
        mirrored = f"file.driver=nbd,file.server.type=unix,file.server.path={socket},file.export={export}"
        devices = [*drive(0, f"file={plain}"), *drive(1, mirrored)]
        took_us: dict[tuple[str, int], list[float]] = {}
        with guest_run.running(writing_image(root), devices=devices) as running:
            for _ in range(ROUNDS * len(COUNTS) * 2):
                found = running.wait_for(r"WRITES (\S+) (\d+) ([0-9.]+)", WITHIN_S)
                took_us.setdefault((found[1], int(found[2])), []).append(float(found[3]))
        for depth in COUNTS:
            file_us, mirror_us = (statistics.median(took_us[where, depth]) for where in (FILE, MIRROR))
            report(f"4k write of a guest, depth {depth}, plain file", file_us, "us")
            report(f"4k write of a guest, depth {depth}, mirror", mirror_us, "us")
            report(f"mirror to plain file in a guest, depth {depth}", mirror_us / file_us, "times", bar="3")


if __name__ == "__main__":
    main()
