# SPDX-License-Identifier: BSD-2-Clause
"""ConfD: answers a second and how long one takes, of one candidate, before and after its master daemons end.

`.venv/bin/python bench/confd.py [answers=N] [large=N]`
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import cpu_s, pss_mib, report

from ganeti.wire.confd import LARGEST_REPLY_BYTES, Kind, Question, read_reply, request

KEY = b"0123456789abcdef\n"
NODE = "node1.example.com"
GOLDEN = Path(__file__).parents[1] / "tests/golden/config/config-3.1.json"
_IN_FLIGHT = 32


def answers(number: int) -> None:
    """A node's role, its master and a path, in turns, by one client with 32 questions under way."""
    with _running(json.loads(GOLDEN.read_text())) as place:
        _measure(place, number, "")


def large(number: int) -> None:
    """The same with so many instances."""
    config = json.loads(GOLDEN.read_text())
    one = next(iter(config["instances"].values()))
    for index in range(number):
        uuid = f"{index:08x}-0000-4000-8000-000000000000"
        config["instances"][uuid] = {**one, "uuid": uuid, "name": f"inst{index}.example.com", "disks": []}
    with _running(config) as place:
        _measure(place, 5000, f", {number} instances")
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


def _measure(place: _Place, number: int, where: str) -> None:
    asked = [(Kind.NODE_ROLE, NODE), (Kind.MASTER, None), (Kind.CONFIG, "/cluster/cluster_name")]
    datagrams = [request(Question(*asked[i % 3], f"t{i}"), time.time(), KEY) for i in range(number)]
    sent_s: dict[int, float] = {}
    took_s: list[float] = []
    before_s = cpu_s(place.process.pid)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", place.port))
        client.settimeout(5)
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
    report(f"answers of ConfD{where}", number / whole_s, "a second", bar="5000", met=number / whole_s >= 5000)
    p99_s = statistics.quantiles(took_s, n=100)[98]
    report(f"p99 of an answer{where}", p99_s * 1000, "ms", bar="5 ms", met=p99_s <= 0.005)
    report(f"CPU of an answer{where}", (cpu_s(place.process.pid) - before_s) / number * 1e6, "us")


FIGURES = {"answers": (answers, 20_000), "large": (large, 20_000)}


def main() -> None:
    asked = [word.partition("=") for word in sys.argv[1:] if not word.startswith("--")]
    for name, _, number in asked or [(name, "", "") for name in FIGURES]:
        if name not in FIGURES:
            sys.exit(f"there is no figure '{name}': use {', '.join(FIGURES)}")
        measure, usual = FIGURES[name]
        measure(int(number or usual))


if __name__ == "__main__":
    main()
