# SPDX-License-Identifier: BSD-2-Clause
"""ConfD: answers a second and how long one takes, of one candidate; and when the master's daemons and node have gone.

`.venv/bin/python bench/confd.py [answers=N] [large=N] [master=TURNS]`
"""

import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import cpu_s, processes, pss_mib, report
from tests.campaign.machines import Machines, machines

from ganeti.tools.testbed.processes import recall
from ganeti.wire.confd import LARGEST_REPLY_BYTES, PORT, Kind, Question, read_reply, request

KEY = b"0123456789abcdef\n"
NODE = "node1.example.com"
GOLDEN = Path(__file__).parents[1] / "tests/golden/config/config-3.1.json"
_IN_FLIGHT = 32


def answers(number: int) -> None:
    """A node's role, its master and a path, in turns, by one client with 32 questions under way."""
    with _running(json.loads(GOLDEN.read_text())) as place:
        _tell(_measure(_connect(place.port), place.process.pid, KEY, NODE, number), "")


def large(number: int) -> None:
    """The same with so many instances."""
    config = json.loads(GOLDEN.read_text())
    one = next(iter(config["instances"].values()))
    for index in range(number):
        uuid = f"{index:08x}-0000-4000-8000-000000000000"
        config["instances"][uuid] = {**one, "uuid": uuid, "name": f"inst{index}.example.com", "disks": []}
    with _running(config) as place:
        _tell(_measure(_connect(place.port), place.process.pid, KEY, NODE, 5000), f", {number} instances")
        report(f"memory of ConfD, {number} instances", pss_mib(place.process.pid), "MiB")


class _Place:
    def __init__(self, root: Path, config: object) -> None:
        data = root / "var/lib/ganeti"
        data.mkdir(parents=True)
        (data / "config.data").write_text(json.dumps(config))
        (data / "hmac.key").write_bytes(KEY)
        (data / "ssconf_master_candidates").write_text(f"{NODE}\n")
        environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": NODE}
        self.port = _free_port()
        words = [sys.executable, "-m", "ganeti.daemons.confd", "-f", "-b", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class _running:
    def __init__(self, config: object) -> None:
        self._config = config

    def __enter__(self) -> _Place:
        self._directory = TemporaryDirectory(prefix="bench-", dir="/var/tmp")
        self._place = _Place(Path(self._directory.name), self._config)
        end_s = time.monotonic() + 30
        while not _ask(self._place.port, Kind.PING, None):
            if time.monotonic() > end_s:
                sys.exit("ganeti-confd does not answer")
        return self._place

    def __exit__(self, *_: object) -> None:
        self._place.process.terminate()
        self._place.process.wait()
        self._directory.cleanup()


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ask(port: int, kind: Kind, query: object) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.5)
        client.connect(("127.0.0.1", port))
        question = Question(kind, query, "token")
        try:
            client.send(request(question, time.time(), KEY))
            return read_reply(client.recv(LARGEST_REPLY_BYTES), question, [KEY]) is not None
        except OSError:
            return False


@dataclass(frozen=True)
class Figures:
    rate: float
    """Answers a second."""
    p99_s: float
    cpu_s: float
    """Of one answer."""


def _connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((address, port))
    client.settimeout(5)
    return client


def _measure(client: socket.socket, pid: int, key: bytes, node: str, number: int) -> Figures:
    asked = [(Kind.NODE_ROLE, node), (Kind.MASTER, None), (Kind.CONFIG, "/cluster/cluster_name")]
    datagrams = [request(Question(*asked[i % 3], f"t{i}"), time.time(), key) for i in range(number)]
    sent_s: dict[int, float] = {}
    took_s: list[float] = []
    before_s = cpu_s(pid)
    with client:
        begin_s = time.perf_counter()
        following = 0
        while len(took_s) < number:
            while following < number and following - len(took_s) < _IN_FLIGHT:
                sent_s[following] = time.perf_counter()
                client.send(datagrams[following])
                following += 1
            salt = client.recv(LARGEST_REPLY_BYTES).partition(b'"salt": "t')[2].partition(b'"')[0]
            took_s.append(time.perf_counter() - sent_s[int(salt)])
        whole_s = time.perf_counter() - begin_s
    p99_s = statistics.quantiles(took_s, n=100)[98]
    return Figures(number / whole_s, p99_s, (cpu_s(pid) - before_s) / number)


def _tell(found: Figures, where: str) -> None:
    report(f"answers of ConfD{where}", found.rate, "a second", bar="5000", met=found.rate >= 5000)
    report(f"p99 of an answer{where}", found.p99_s * 1000, "ms", bar="5 ms", met=found.p99_s <= 0.005)
    report(f"CPU of an answer{where}", found.cpu_s * 1e6, "us")


def master(turns: int) -> None:
    """The ConfD of another candidate, asked by a third node: all up, the master's daemons ended, its node off.

    In turns, so that what else the machine does counts for all three.
    """
    found: dict[str, list[Figures]] = {"master up": [], "master's daemons ended": [], "master's node off": []}
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory, machines(Path(directory) / "bed") as bed:
        for _ in range(turns):
            for state, measured in found.items():
                if state == "master's daemons ended":
                    bed.run("node1", "daemon-util", "stop-master")
                elif state == "master's node off":
                    bed.pull_plug("node1")
                measured.append(_of_candidate(bed))
            bed.switch_on("node1")
            bed.master = "node1"
            bed.settle()
    middle = {state: _median(measured) for state, measured in found.items()}
    before = middle["master up"]
    for state, figures in middle.items():
        _tell(figures, f", {state}")
        if figures is not before:
            report(f"rate against that with the master up, {state}", figures.rate / before.rate, "times")
            report(f"CPU against that with the master up, {state}", figures.cpu_s / before.cpu_s, "times")


def _of_candidate(bed: Machines) -> Figures:
    address = bed.layout.node("node2").address
    confd = next(pid for pid, words in processes(_init(bed, "node2")).items() if "ganeti-confd" in words)
    key = (bed.data("node2") / "hmac.key").read_bytes()
    return _measure(_connect_from(_init(bed, "node3"), address), confd, key, "node2", 10_000)


def _init(bed: Machines, node: str) -> int:
    pid = recall(bed.layout.node(node).pid_file)
    assert pid is not None, f"{node} is off"
    return pid


def _connect_from(pid: int, address: str) -> socket.socket:
    """A socket of the network that this process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
        assert libc.setns(other.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        try:
            return _connect(PORT, address)
        finally:
            libc.setns(own.fileno(), 0)


def _median(all_figures: list[Figures]) -> Figures:
    return Figures(
        *(statistics.median(getattr(one, name) for one in all_figures) for name in ("rate", "p99_s", "cpu_s"))
    )


FIGURES = {"answers": (answers, 20_000), "large": (large, 20_000), "master": (master, 5)}


def main() -> None:
    asked = [word.partition("=") for word in sys.argv[1:] if not word.startswith("--")]
    for name, _, number in asked or [(name, "", "") for name in FIGURES]:
        if name not in FIGURES:
            sys.exit(f"there is no figure '{name}': use {', '.join(FIGURES)}")
        measure, usual = FIGURES[name]
        measure(int(number or usual))


if __name__ == "__main__":
    main()
