# SPDX-License-Identifier: BSD-2-Clause
"""The maintenance daemon: one look at every node and what follows from it, and its memory.

`.venv/bin/python bench/maintd.py [nodes=N]`; one server on 127.0.0.0/8 answers for all MonDs, each report signed
for its node. The evaluation runs in a process of its own, with ten guests a node and ten nodes that ask to be emptied.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

from measure import pss_mib, report

from ganeti.maintd.report_polling import MOND_PORT, ReportPoller
from ganeti.master.maintenance.incidents import SeenObjects, record
from ganeti.master.maintenance.rounds import Answers, plan_round, room_question
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import Cluster, Disk, Instance, Node, NodeGroup
from ganeti.node.collectors.diagnose import signed
from ganeti.system.http_client import HttpClient

KEY = b"0123456789abcdef"
GUESTS = 10
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def main() -> None:
    given = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
    nodes = int(given.get("nodes", 1000))
    if "--server" in sys.argv:
        asyncio.run(_serve(nodes))
        return
    server = subprocess.Popen([sys.executable, __file__, "--server", f"nodes={nodes}"])
    try:
        _await_server()
        asyncio.run(_evaluate(nodes))
    finally:
        server.kill()
        server.wait()


async def _evaluate(nodes: int) -> None:
    config = _configuration(nodes)
    client = HttpClient(None, lambda name: config.node(name).primary_ip)
    poller, seen = ReportPoller(client, lambda: KEY, time.time), SeenObjects()
    for number in range(3):
        began_s, cpu_s = time.monotonic(), time.process_time()
        found = await poller.poll(config.nodes(), 5.0)
        change = record(config, seen, found, {}, _new_id)
        draft = Draft(config, time.time())
        change.apply(draft)
        for (kind, uuid), obj in draft.touched.items():
            if obj is not None:
                config.put(kind, uuid, obj)
        room_question(config)
        plan_round(config, Answers(), time.time())
        assert len(found) == nodes, f"{len(found)} of {nodes} nodes were believed"
        if number == 2:
            report(f"one evaluation of {nodes} nodes", time.monotonic() - began_s, "s")
            report("CPU of it", time.process_time() - cpu_s, "s")
    assert len(config.maintenance.incidents) == min(10, nodes)
    report("memory", pss_mib(os.getpid()), "MiB")
    await client.close()


def _configuration(nodes: int) -> Configuration:
    config = Configuration()
    cluster = Cluster(uuid="c", cluster_name="c", master_node="n0", master_ip="1", master_netdev="e")
    config.put("cluster", "cluster", cluster)
    config.put("nodegroups", "g", NodeGroup(uuid="g", name="default"))
    for number in range(nodes):
        address = f"127.1.{number // 250}.{number % 250 + 1}"
        node = Node(uuid=f"n{number}", name=f"n{number}", primary_ip=address, secondary_ip=address, group="g")
        config.put("nodes", node.uuid, node)
    for number in range(nodes * GUESTS):
        home = f"n{number % nodes}"
        disk = Disk(uuid=f"d{number}", dev_type="sharedfile", size=1024, iv_name="disk/0", nodes=[home])
        config.put("disks", disk.uuid, disk)
        config.put("instances", f"i{number}", Instance(uuid=f"i{number}", name=f"i{number}", primary_node=home))
    return config


async def _serve(nodes: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, third, fourth = map(int, writer.get_extra_info("sockname")[0].split("."))
        number = third * 250 + fourth - 1
        original: dict[str, Any] = {"status": "evacuate" if number % max(1, nodes // 10) == 1 else "Ok"}
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                body = json.dumps({"data": original, "signed": signed(original, f"n{number}", KEY)}).encode()
                writer.write(_HEAD % len(body) + body)

    server = await asyncio.start_server(answer, "0.0.0.0", MOND_PORT, backlog=2048)
    async with server:
        await server.serve_forever()


def _await_server() -> None:
    end_s = time.monotonic() + 30
    while time.monotonic() < end_s:
        try:
            socket.create_connection(("127.1.0.1", MOND_PORT), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit("the server of reports did not start")


_ids = iter(range(10**9))


def _new_id() -> str:
    return f"{next(_ids):08d}-0000-4000-8000-000000000000"


if __name__ == "__main__":
    main()
