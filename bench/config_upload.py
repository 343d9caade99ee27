# SPDX-License-Identifier: BSD-2-Clause
"""How long sending `config.data` of 10,000 instances to master candidates stops the event loop of the one who sends it.

Over TLS to a node's HTTP server in another process, as WConfD's `Distributor` does it, with a clock on the same loop,
at real-time priority where that is allowed. Bar: 20 ms.

    bench/config_upload.py [CANDIDATES]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measure import report

from ganeti.base.paths import Paths
from ganeti.calls.node_client import NodeClient
from ganeti.calls.node_requests import TextOfFile
from ganeti.node.certificates import create_authority, issue_node_certificate
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer
from ganeti.system.tls import ServerFiles, server_context

STALL_MS = 20.0
SIZE_BYTES = 36_000_000
NODE: Any = SimpleNamespace(name="node1.example.com", primary_ip="127.0.0.1", offline=False, uuid="n")
VIEW: Any = SimpleNamespace(position=(1, 1), node=lambda uuid: NODE, find_node=lambda name: NODE)
LINE = '"web1":{"name":"web1","beparams":{"maxmem":1024,"minmem":512,"vcpus":2},"tags":["a","b"],"serial_no":12}'


async def be_node(files: ServerFiles, port_file: str) -> None:
    async def handle(request: HttpRequest) -> HttpReply:
        return HttpReply(200, b"[true,null]")

    server = HttpServer(handle, address="127.0.0.1", port=0, tls=server_context(files))
    await server.start()
    Path(f"{port_file}.new").write_text(str(server.port))
    os.rename(f"{port_file}.new", port_file)
    await asyncio.Event().wait()


async def longest_stall(paths: Paths, port: int, count: int) -> tuple[float, float]:
    """Give the longest stall and the whole duration, in seconds."""
    client = NodeClient(paths, lambda: VIEW, port=port)
    stalls = [0.0]

    async def watch() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - begun - 0.001)

    async def send() -> None:
        await client.call("n", "upload_file", path="/x", content=TextOfFile(paths.config_file), mode=0o640)

    await client.call("n", "version")
    watching = asyncio.create_task(watch())
    begun = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(count)))
    took_s = time.perf_counter() - begun
    watching.cancel()
    await client.close()
    return max(stalls), took_s


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        paths = Paths(root)
        os.makedirs(paths.data_dir)
        authority = create_authority("c")
        pem = issue_node_certificate(authority, NODE.name, "c", ["127.0.0.1"])
        Path(paths.client_cert).write_text(pem)
        Path(paths.authority_cert).write_text(authority.certificate)
        Path(paths.config_file).write_text("{" + ",\n".join([LINE] * (SIZE_BYTES // len(LINE))) + "}")
        port_file = Path(root, "port")
        node = subprocess.Popen(
            [sys.executable, __file__, "node", paths.client_cert, paths.authority_cert, str(port_file)]
        )
        with suppress(PermissionError):  # others who work on this machine are not what is measured
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
        try:
            while not port_file.exists():
                time.sleep(0.01)
            stall_s, took_s = asyncio.run(longest_stall(paths, int(port_file.read_text()), count))
        finally:
            node.kill()
            node.wait()
    report(f"config.data of {SIZE_BYTES / 1e6:.0f} MB sent to {count} candidates", took_s, "s")
    stall_ms = stall_s * 1000
    report("longest stall of the loop meanwhile", stall_ms, "ms", bar="20 ms", met=stall_ms <= STALL_MS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["node"]:
        certificate, authority, port_file = sys.argv[2:]
        asyncio.run(be_node(ServerFiles(certificate=certificate, key="", authority=authority), port_file))
    else:
        main(next((int(word) for word in sys.argv[1:] if word.isdigit()), 4))
