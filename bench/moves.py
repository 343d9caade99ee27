# SPDX-License-Identifier: BSD-2-Clause
"""One disk over TLS on loopback, by our import-export and by Debian's (3.0.2), and between the two.

Debian's packages are fetched and unpacked, not installed (`setup/peer-packages`). Each line is checked: what arrives is
what was sent. ``python bench/moves.py [MIB]``, 1024 without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from measure import report

from ganeti.node.certificates import transfer_certificate

TREE = Path(__file__).resolve().parent.parent
MIB = 1024 * 1024
OURS = ("env", f"PYTHONPATH={TREE}/src", sys.executable, "-m", "ganeti.tools.import_export.command")


@dataclass(frozen=True)
class Side:
    name: str
    words: tuple[str, ...]


def peer(place: Path) -> Side:
    packages = subprocess.run(
        [TREE / "setup/peer-packages"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    for package in Path(packages).glob("*.deb"):
        if package.name.startswith(("ganeti_", "ganeti-3.0_", "python3-")):
            subprocess.run(["dpkg", "-x", package, place], check=True)
    code = place / "usr/share/ganeti/3.0"
    path = f"{code}:{place}/usr/lib/python3/dist-packages"
    return Side("peer", ("env", f"PYTHONPATH={path}", "/usr/bin/python3", "-B", f"{code}/import-export"))


class Place:
    def __init__(self, directory: Path, size_mib: int) -> None:
        self.directory = directory
        self.data = directory / "data"
        with self.data.open("wb") as file:
            for _ in range(size_mib):
                file.write(os.urandom(MIB // 2) + bytes(MIB // 2))
        self.sum = hashlib.sha256(self.data.read_bytes()).hexdigest()
        for side in ("a", "b"):
            key, certificate = transfer_certificate("ganeti.example.com", 3600)
            (directory / f"{side}.key").write_text(key)
            (directory / f"{side}.pem").write_text(certificate)

    def files(self, own: str, other: str) -> list[str]:
        at = self.directory
        return [
            f"--key={at}/{own}.key",
            f"--cert={at}/{own}.pem",
            f"--ca={at}/{other}.pem",
            "--ipv4",
            "--magic=bench-1",
        ]


def transfer(place: Place, sender: Side, receiver: Side, compress: str) -> tuple[float, float]:
    """Seconds from the sender's start to both ends, and CPU seconds of both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arrived = place.directory / "arrived"
    arrived.unlink(missing_ok=True)
    common = [f"--compress={compress}", f"--port={port}"]
    states = {name: place.directory / f"{name}.status" for name in ("in", "out")}
    for state in states.values():
        state.write_text("")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = place.directory / "take"
    script.write_text(f"#!/bin/sh\nexec cat > {arrived}\n")
    script.chmod(0o755)
    take = f"| {script}" if receiver.name == "peer" else str(script)
    words = [*receiver.words, states["in"], "import", *place.files("b", "a"), "--bind=127.0.0.1", *common]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    receiving = subprocess.Popen([*words, f"--cmd-suffix={take}"], **quiet)  # type: ignore[call-overload]
    while not _listens(states["in"]):
        assert receiving.poll() is None, f"the receiver has ended: {states['in'].read_text()}"
        time.sleep(0.05)
    begun_s = time.monotonic()
    give = f"cat {place.data}" + (" |" if sender.name == "peer" else "")
    words = [*sender.words, states["out"], "export", *place.files("a", "b"), "--host=127.0.0.1", *common]
    subprocess.run([*words, f"--cmd-prefix={give}"], check=True, timeout=600, **quiet)  # type: ignore[call-overload]
    assert receiving.wait(60) == 0, states["in"].read_text()
    took_s = time.monotonic() - begun_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert hashlib.sha256(arrived.read_bytes()).hexdigest() == place.sum, "what arrived is not what was sent"
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took_s, cpu_s


def _listens(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text()).get("listen_port"))
    except ValueError:
        return False


def main() -> None:
    size_mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    with tempfile.TemporaryDirectory(prefix="moves-", dir="/var/tmp") as directory:
        place = Place(Path(directory), size_mib)
        ours, other = Side("ours", OURS), peer(Path(directory) / "peer")
        for compress in ("none", "gzip-fast"):
            took: dict[str, float] = {}
            for sender, receiver in ((ours, ours), (other, other), (ours, other), (other, ours)):
                name = f"{sender.name}-to-{receiver.name}"
                took[name], cpu_s = transfer(place, sender, receiver, compress)
                report(f"{compress}, {name}", took[name], "s")
                report(f"{compress}, {name}: rate", size_mib / took[name], "MiB/s")
                report(f"{compress}, {name}: CPU", cpu_s, "s")
            ratio = took["peer-to-peer"] / took["ours-to-ours"]
            report(f"{compress}: our rate over the peer's", ratio, "times", bar="1", met=ratio >= 1)


if __name__ == "__main__":
    main()
