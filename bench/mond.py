# SPDX-License-Identifier: BSD-2-Clause
"""MonD: what its reports cost a node with so many guests, asked of all collectors every 5 s, and its memory.

`.venv/bin/python bench/mond.py [guests=N] [rounds=N]`; guests are processes that look like QEMU's to it.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import cpu_s, pss_mib, report

NODE = "node1.example.com"
EVERY_S = 5.0


def main() -> None:
    given = dict(word.split("=") for word in sys.argv[1:])
    guests, rounds = int(given.get("guests", 50)), int(given.get("rounds", 24))
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", dir="/var/tmp")))
        _node(root)
        for index in range(guests):
            stack.callback(_end, _guest(root, f"web{index}.example.com"))
        port = _free_port()
        words = [sys.executable, "-m", "ganeti.daemons.mond", "-f", "-b", "127.0.0.1", "-p", str(port)]
        environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": NODE}
        daemon = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(_end, daemon)
        _measure(daemon.pid, port, guests, rounds)


def _measure(pid: int, port: int, guests: int, rounds: int) -> None:
    end_s = time.monotonic() + 30
    while (found := _ask(port)) is None:
        if time.monotonic() > end_s:
            sys.exit("ganeti-mond does not answer")
        time.sleep(0.05)
    seen = next(each["data"]["instances"] for each in found if each["name"] == "inst-status-kvm")
    assert len(seen) == guests, f"{len(seen)} of {guests} guests are seen"
    before_s, begin_s = cpu_s(pid), time.monotonic()
    for index in range(1, rounds + 1):
        time.sleep(max(0.0, begin_s + index * EVERY_S - time.monotonic()))
        _ask(port)
    passed_s = time.monotonic() - begin_s
    report(f"MonD, {guests} guests, all reports every {EVERY_S:g} s", (cpu_s(pid) - before_s) / passed_s * 100, "% CPU")
    report(f"memory of MonD, {guests} guests", pss_mib(pid), "MiB")


def _node(root: Path) -> None:
    data = root / "var/lib/ganeti"
    data.mkdir(parents=True)
    (data / "hmac.key").write_text("0123456789abcdef\n")
    (data / "ssconf_hypervisor_list").write_text("kvm\n")
    (data / "ssconf_master_candidates_ips").write_text("127.0.0.1\n")


def _guest(root: Path, name: str) -> subprocess.Popen[bytes]:
    directory = root / "run/ganeti/kvm-hypervisor/pid"
    directory.mkdir(parents=True, exist_ok=True)
    place = directory / name
    words = ["/bin/sh", "-c", "read forever", "guest", "-pidfile", str(place)]
    guest = subprocess.Popen(words, stdin=subprocess.PIPE)
    place.write_text(f"{guest.pid}\n")
    return guest


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _ask(port: int) -> list[dict[str, Any]] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/1/report/all", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found
    except OSError:
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
