# SPDX-License-Identifier: BSD-2-Clause
"""Running the heartbeat guest by itself, without a cluster: to see whether this machine can, and to test the image.

Everything else runs guests through the product; this is the shortest way from QEMU to a beat.
"""

import collections
import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ganeti.base.errors import CommandError
from ganeti.tools.testbed import guest
from ganeti.tools.testbed.guest import GuestImage

QEMU = "qemu-system-x86_64"
# Not a multiple of 256 KiB: QEMU before 9.0 corrupts the memory of emulated guests in migration otherwise.
MEMORY = "131080k"
BOOTS_WITHIN_S = 60.0


class RunningGuest:
    """A QEMU process, its console as lines, and its monitor."""

    def __init__(self, process: subprocess.Popen[bytes], monitor: socket.socket) -> None:
        self.process = process
        self.lines: collections.deque[str] = collections.deque()
        self._monitor = monitor.makefile("rw")
        self._rest = b""
        json.loads(self._monitor.readline())
        self.ask("qmp_capabilities")

    def wait_for(self, pattern: str, within_s: float = BOOTS_WITHIN_S) -> re.Match[str]:
        """Read the console up to a line that matches from its start; raises `CommandError` if none comes."""
        deadline = time.monotonic() + within_s
        seen: collections.deque[str] = collections.deque(maxlen=5)
        while True:
            while self.lines:
                line = self.lines.popleft()
                seen.append(line)
                found = re.match(pattern, line)
                if found:
                    return found
            if not self._read(deadline - time.monotonic()):
                said = " | ".join(seen) or "nothing"
                raise CommandError(f"the guest did not say '{pattern}' within {within_s:.0f} s; it said {said}")

    def type(self, text: str) -> None:
        """Type on the guest's console."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send a monitor command and give its answer; events in between are passed over."""
        self._monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._monitor.flush()
        while True:
            answer = json.loads(self._monitor.readline())
            if "error" in answer:
                raise CommandError(f"QEMU refused {command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]

    def _read(self, within_s: float) -> bool:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        if within_s <= 0 or not select.select([descriptor], [], [], within_s)[0]:
            return False
        piece = os.read(descriptor, 65536)
        *whole, self._rest = (self._rest + piece).replace(b"\r", b"").split(b"\n")
        self.lines += [line.decode(errors="replace") for line in whole]
        return bool(piece)


@contextlib.contextmanager
def running(
    image: GuestImage, disk: Path | None = None, more: str = "", devices: Sequence[str] = ()
) -> Iterator[RunningGuest]:
    """Run the guest on *disk*, with *more* on its kernel command line; the process is gone when the block ends."""
    ours, theirs = socket.socketpair()
    words = [
        *(QEMU, "-accel", "tcg,tb-size=32", "-M", "q35", "-m", MEMORY, "-display", "none", "-nodefaults"),
        *("-no-user-config", "-chardev", "stdio,id=s0,signal=off", "-serial", "chardev:s0"),
        *("-chardev", f"socket,id=m0,fd={theirs.fileno()}", "-mon", "chardev=m0,mode=control"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", f"{guest.KERNEL_ARGS} {more}"),
    ]
    if disk is not None:
        words += ["-blockdev", json.dumps(_block_device(disk)), "-device", "virtio-blk-pci,drive=d0,id=disk0"]
    process = subprocess.Popen(
        [*words, *devices], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()]
    )
    theirs.close()
    try:
        with ours:
            yield RunningGuest(process, ours)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]


def _block_device(disk: Path) -> dict[str, Any]:
    with disk.open("rb") as stream:
        driver = "qcow2" if stream.read(4) == b"QFI\xfb" else "raw"
    return {
        "driver": driver,
        "node-name": "d0",
        "file": {"driver": "file", "filename": str(disk), "cache": {"direct": True}, "discard": "unmap"},
    }


def why_not(within_s: float = BOOTS_WITHIN_S) -> str | None:
    """Boot the guest once and give None, or the sentence why this machine cannot run real guests."""
    if shutil.which(QEMU) is None:
        return f"{QEMU} is missing; install the package qemu-system-x86, or run make install"
    try:
        with running(guest.ensure()) as booted:
            booted.wait_for("BOOTED-OK", within_s)
    except (CommandError, OSError, ValueError) as error:
        return f"the test guest does not boot here: {error}"
    return None
