# SPDX-License-Identifier: BSD-2-Clause
"""The remote API: simple requests, bulk lists, submissions, and listeners on `/3/events`.

bench/rapi.py [requests=N]. Simple requests and submissions are measured on a testbed; the long list and the listeners
on a RapiD whose LuxiD is played by this program, so that the figures are RapiD's alone. The peer's figures are of the
same run where a peer cluster is up, otherwise those recorded before.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HOST = os.environ.get("API_HOST", "127.0.0.1")
PEER_HOST = os.environ.get("PEER_API", "10.77.0.10")
PORT = 5080
RECORDED = {"simple": 20.0, "bulk": 5.5}
"""Requests a second of the peer, recorded on a machine like this."""
LISTED, MANY, LISTENERS, QUIET_S = 200, 20_000, 1000, 60.0
BEST_OF = 3
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_master": True}


async def ask(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> int:
    """Send one request; gives the length of the answer."""
    reader, writer = streams
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        total = 0
        while size := int(await reader.readline(), 16):
            total += size
            await reader.readexactly(size + 2)
        await reader.readline()
        return total
    length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0] or -1)
    body = await (reader.read() if length < 0 else reader.readexactly(length))
    return len(body)


def request(method: str, path: str, body: Any = None, headers: str = "") -> bytes:
    login = base64.b64encode(b"jack:secret").decode()
    data = b"" if body is None else json.dumps(body).encode()
    told = (
        f"Host: x\r\nAuthorization: Basic {login}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    )
    return f"{method} {path} HTTP/1.1\r\n{told}{headers}\r\n".encode() + data


async def load(words: list[str]) -> None:
    """``METHOD PATH CLIENTS REQUESTS KEEP [BODY]``: print requests a second."""
    method, path, clients, count, keep, *rest = words
    context = ssl._create_unverified_context()
    asked = request(
        method, path, json.loads(rest[0]) if rest else None, "" if keep == "keep" else "Connection: close\r\n"
    )
    each = int(count) // int(clients)

    async def one() -> None:
        streams = None
        for _ in range(each):
            if streams is None:
                streams = await asyncio.open_connection(HOST, PORT, ssl=context, limit=2**26)
            await ask(streams, asked)
            if keep != "keep":
                streams[1].transport.abort()
                streams = None

    await one_request(asked, context)
    began_s = time.monotonic()
    await asyncio.gather(*[one() for _ in range(int(clients))])
    print(each * int(clients) / (time.monotonic() - began_s))


async def one_request(asked: bytes, context: ssl.SSLContext) -> None:
    streams = await asyncio.open_connection(HOST, PORT, ssl=context, limit=2**26)
    await ask(streams, asked)
    streams[1].transport.abort()


async def submissions(socket_path: str, count: int) -> None:
    """Submit jobs over LUXI and over `/3` in turn, on kept connections; print the median seconds of each."""
    luxi = await asyncio.open_unix_connection(socket_path)
    api = await asyncio.open_connection(HOST, PORT, ssl=ssl._create_unverified_context())
    message = json.dumps({"method": "SubmitJob", "args": [[DELAY]], "version": 3000000}).encode() + b"\x03"
    body = {name: value for name, value in DELAY.items() if name != "OP_ID"}
    asked = request("POST", "/3/operations/test-delay", body)
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        began_s = time.monotonic()
        luxi[1].write(message)
        await luxi[0].readuntil(b"\x03")
        between_s = time.monotonic()
        await ask(api, asked)
        spent[0].append(between_s - began_s)
        spent[1].append(time.monotonic() - between_s)
    print(*(statistics.median(each) for each in spent))


def on_testbed(requests: int) -> None:
    from measure import peer_command, report, testbed

    from ganeti.tools.testbed import machine

    def rate(*words: str) -> float:
        told = machine.command_line(layout, "node1", [sys.executable, __file__, "load", *words])
        return float(subprocess.run(told, capture_output=True, text=True, check=True).stdout)

    def peer_rate(path: str, count: int) -> tuple[float | None, str]:
        told = peer_command(
            "env", f"API_HOST={PEER_HOST}", "/usr/bin/python3", __file__, "load", "GET", path, "1", str(count), "close"
        )
        done = subprocess.run(told, capture_output=True, text=True, check=False) if told else None
        return (float(done.stdout), "") if done is not None and done.returncode == 0 else (None, ", recorded")

    with testbed("fake", 1) as layout:
        users = "mkdir -p /var/lib/ganeti/rapi && echo 'jack secret write' > /var/lib/ganeti/rapi/users"
        subprocess.run(machine.command_line(layout, "node1", ["sh", "-c", users]), check=True)
        peer, how = peer_rate("/version", 40)
        for clients, bar in ((1, 30), (16, 60)):
            before = cpu_of(layout)
            found = max(rate("GET", "/version", str(clients), str(requests), "keep") for _ in range(BEST_OF))
            spent_ms = (cpu_of(layout) - before) / requests / BEST_OF * 1000
            again, how = peer_rate("/version", 40)
            peer = max(peer or 0.0, again or 0.0) or None
            ratio = found / (peer or RECORDED["simple"])
            report(
                f"simple GET, {clients} clients{how}",
                found,
                "/s",
                bar=f"{bar} x the peer, is {ratio:.0f} x",
                met=ratio >= bar,
            )
        report("CPU of a simple GET, RapiD and LuxiD", spent_ms, "ms", bar="0.5", met=spent_ms <= 0.5)
        before = cpu_of(layout)
        found = rate("GET", "/2/nodes", "1", str(requests), "keep")
        report("list of nodes, 1 client", found, "/s")
        report("CPU of it, RapiD and LuxiD", (cpu_of(layout) - before) / requests * 1000, "ms")
        program = ["/var/run/ganeti/socket/ganeti-query", "60"]
        told = machine.command_line(layout, "node1", [sys.executable, __file__, "submissions", *program])
        done = subprocess.run(told, capture_output=True, text=True, check=True).stdout
        luxi_ms, api_ms = (float(word) * 1000 for word in done.split())
        report("submission over LUXI", luxi_ms, "ms")
        report("submission over /3", api_ms, "ms", bar="1.2 x LUXI", met=api_ms <= 1.2 * luxi_ms)


def cpu_of(layout: Any) -> float:
    from measure import cpu_s, processes

    from ganeti.tools.testbed import machine

    found = processes(machine.running_pid(layout, layout.nodes[0]))
    return sum(cpu_s(pid) for pid, words in found.items() if "ganeti-rapi" in words or "ganeti-luxid" in words)


class PlayedLuxi:
    """Answers lists of instances, and streams nothing."""

    def __init__(self) -> None:
        from ganeti.rapi.reading import INSTANCE_FIELDS

        params = {f"parameter_{number}": "value" for number in range(40)}
        given = {"hvparams": params, "beparams": {"maxmem": 1024, "vcpus": 1}}
        row = [given.get(name, "some value") for name in INSTANCE_FIELDS]
        self.rows = {count: self._answer([row] * count) for count in (LISTED, MANY)}
        self.wanted = LISTED

    @staticmethod
    def _answer(result: Any) -> bytes:
        return json.dumps({"success": True, "result": result}, separators=(",", ":")).encode() + b"\x03"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = json.loads((await reader.readuntil(b"\x03"))[:-1])
                if asked["method"] == "Subscribe":
                    writer.write(self._answer({"position": "a-0-1.1", "kinds": []}))
                else:
                    writer.write(self.rows[self.wanted])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def alone(root: Path) -> None:
    from measure import cpu_s, memory_mib, pss_mib, report

    from ganeti.base.paths import Paths
    from ganeti.node.certificates import create_self_signed

    paths = Paths(str(root))
    for directory in (f"{paths.data_dir}/rapi", paths.socket_dir, paths.log_dir):
        os.makedirs(directory)
    Path(f"{paths.data_dir}/rapi.pem").write_text(create_self_signed("node1"))
    Path(f"{paths.data_dir}/rapi/users").write_text("jack secret write\n")
    luxi = PlayedLuxi()
    server = await asyncio.start_unix_server(luxi.serve, paths.luxi_socket, limit=2**26)
    words = [sys.executable, "-m", "ganeti.daemons.rapi", "-f", "-b", HOST, "-p", str(PORT)]
    environment = {**os.environ, "GANETI_ROOTDIR": str(root), "GANETI_HOSTNAME": "node1"}
    daemon = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context = ssl._create_unverified_context()
    try:
        while True:
            try:
                streams = await asyncio.open_connection(HOST, PORT, ssl=context, limit=2**26)
                break
            except OSError:
                await asyncio.sleep(0.05)
        bulk = request("GET", "/2/instances?bulk=1")
        began_s, times = time.monotonic(), 50
        for _ in range(times):
            length = await ask(streams, bulk)
        found = times / (time.monotonic() - began_s)
        report(
            f"bulk list of {LISTED} ({length // 1024} KiB), peer recorded",
            found,
            "/s",
            bar="100",
            met=found >= 100,
        )
        luxi.wanted = MANY
        idle_mib = pss_mib(daemon.pid)
        began_s, began_cpu = time.monotonic(), cpu_s(daemon.pid)
        length = await ask(streams, bulk)
        spent_s = time.monotonic() - began_s
        report("CPU of the next one, RapiD alone", cpu_s(daemon.pid) - began_cpu, "s")
        report(f"bulk list of {MANY} ({length >> 20} MiB)", spent_s, "s", bar="1", met=spent_s <= 1)
        peak = int(Path(f"/proc/{daemon.pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
        report("memory at most while it was sent, above idle", peak - idle_mib, "MiB")
        await listeners(daemon.pid, context, memory_mib, cpu_s, report)
    finally:
        daemon.terminate()
        daemon.wait()
        server.close()


async def listeners(pid: int, context: ssl.SSLContext, memory: Any, cpu: Any, report: Any) -> None:
    asked = request("GET", "/3/events")
    before = memory(pid, "Private_Clean", "Private_Dirty")
    found = []
    for _ in range(LISTENERS):
        reader, writer = await asyncio.open_connection(HOST, PORT, ssl=context)
        writer.write(asked)
        await reader.readuntil(b"event: begin")
        found.append((reader, writer))
    each_kib = (memory(pid, "Private_Clean", "Private_Dirty") - before) * 1024 / LISTENERS
    report(f"memory of a listener, {LISTENERS} on /3/events", each_kib, "KiB", bar="60", met=each_kib <= 60)
    began_s, began_cpu = time.monotonic(), cpu(pid)
    await asyncio.sleep(QUIET_S)
    share = (cpu(pid) - began_cpu) / (time.monotonic() - began_s) * 100
    report(f"idle CPU of RapiD with {LISTENERS} listeners", share, "%", bar="1", met=share <= 1)
    for _, writer in found:
        writer.transport.abort()


def main() -> None:
    given = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
    on_testbed(int(given.get("requests", 2000)))
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="bench-", dir="/var/tmp"))
        asyncio.run(alone(Path(directory)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        asyncio.run(load(sys.argv[2:]))
    elif sys.argv[1:2] == ["submissions"]:
        asyncio.run(submissions(sys.argv[2], int(sys.argv[3])))
    else:
        main()
