# SPDX-License-Identifier: BSD-2-Clause
"""One round of the watcher on the master of a large cluster where all is well, and an idle cluster with all daemons.

    .venv/bin/python bench/watcher.py [--idle]

Real WConfD, LuxiD and jobs; 1,000 nodes in 20 groups with 10,000 instances, whose node calls one process answers over
TLS as node daemons do (it is not counted). With ``--idle``: three nodes of a testbed with every daemon of a node, how
much of a core they take when nothing happens, and the memory (PSS) of an ordinary node.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import resource
import ssl
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from measure import TREE, cpu_s, precedence, processes, pss_mib, report, testbed

sys.path.insert(0, str(TREE))
NODES, GROUPS, INSTANCES = 1000, 20, 10_000
WALL_S, CPU_S = 10.0, 6.0
IDLE_S, SHARE_PERCENT, NODE_MIB = 60.0, 0.5, 150.0
SETTLE_S = 10.0
DOMAIN = "example.com"
DAEMON = re.compile(r"(ganeti-(?:[a-z]+d|rapi)|ganeti\.[a-z.]*spawner)")


def name_of(number: int) -> str:
    return f"node{number}.{DOMAIN}"


def large_configuration(plain: dict[str, Any]) -> dict[str, Any]:
    """The cluster of one node that *plain* is, and 1,000 nodes with 10 running instances each."""
    nodes, groups = plain["nodes"], plain["nodegroups"]
    (master, node), (group_uuid, group) = next(iter(nodes.items())), next(iter(groups.items()))
    nodes.clear()
    nodes[master] = node
    for number in range(1, GROUPS):
        uuid = f"10000000-0000-4000-8000-{number:012}"
        groups[uuid] = group | {"uuid": uuid, "name": f"group{number}"}
    members = [group_uuid, *(uuid for uuid in groups if uuid != group_uuid)]
    for number in range(2, NODES + 1):
        address = f"127.{1 + number // 250}.{number % 250}.1"
        uuid = f"20000000-0000-4000-8000-{number:012}"
        own = {"uuid": uuid, "name": name_of(number), "primary_ip": address, "secondary_ip": address}
        nodes[uuid] = node | own | {"group": members[number % GROUPS], "master_candidate": False}
    uuids = list(nodes)
    for number in range(INSTANCES):
        uuid = f"30000000-0000-4000-8000-{number:012}"
        plain["instances"][uuid] = {
            "uuid": uuid,
            "name": f"i{number}.{DOMAIN}",
            "os": "",
            "hypervisor": "fake",
            "hvparams": {},
            "beparams": {},
            "osparams": {},
            "nics": [],
            "disks": [],
            "tags": [],
            "admin_state": "up",
            "primary_node": uuids[number % NODES],
            "disks_active": True,
            "serial_no": 1,
            "ctime": 1.0,
            "mtime": 1.0,
        }
    return plain


def serve_nodes(certificate: str, ready: Any) -> None:
    """Answer as every node's daemon, until ended."""
    from tests.fakes.node_answers import facts, found_instance

    numbers = {127 * 256**3 + (1 + n // 250) * 256**2 + (n % 250) * 256 + 1: n for n in range(2, NODES + 1)}
    answers: dict[tuple[int, str], bytes] = {}

    def answer(number: int, call: str) -> bytes:
        if (number, call) not in answers:
            mine = [k for k in range(INSTANCES) if k % NODES == number - 1]
            guests = [msgspec.structs.replace(found_instance(f"i{k}.{DOMAIN}"), hypervisor="fake") for k in mine]
            told = facts(boot_id=f"boot{number}", guests=guests)
            told = msgspec.structs.replace(told, hypervisors={"fake": next(iter(told.hypervisors.values()))})
            value: Any = guests if call == "all_instances_info" else told
            answers[number, call] = msgspec.json.encode([True, msgspec.to_builtins(value)])
        return answers[number, call]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        one, two, three, four = map(int, host.split("."))
        number = numbers.get(((one * 256 + two) * 256 + three) * 256 + four, 1)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length"))
                await reader.readexactly(length)
                body = answer(number, lines[0].split()[1].strip("/"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = await asyncio.start_server(serve, "0.0.0.0", 1811, ssl=context, backlog=4096)
        for number in range(1, NODES + 1):
            for call in ("all_instances_info", "node_info"):
                answer(number, call)
        ready.set()
        async with server:
            await server.serve_forever()

    asyncio.run(main())


def a_round(directory: Path) -> None:
    from tests.fakes.master_daemons import Master, serving

    from ganeti.daemons.watcher_master import MasterWork
    from ganeti.node.certificates import create_authority, issue_node_certificate

    master = Master(directory)
    authority = create_authority("cluster.example.com")
    pem = issue_node_certificate(authority, f"*.{DOMAIN}", "cluster.example.com")
    Path(master.paths.authority_cert).write_text(authority.certificate)
    for path in (master.paths.server_cert, master.paths.client_cert):
        Path(path).write_text(pem)
    config = Path(master.paths.config_file)
    config.write_text(json.dumps(large_configuration(json.loads(config.read_text()))))
    ready = multiprocessing.Event()
    nodes = multiprocessing.Process(target=serve_nodes, args=(master.paths.server_cert, ready), daemon=True)
    nodes.start()
    ready.wait(60.0)
    try:
        with serving(master):
            os.environ |= {"GANETI_ROOTDIR": str(directory)}
            master.until(lambda: Path(master.paths.ssconf_file("nodegroups")).exists(), "ssconf")
            os.makedirs(master.paths.lock_dir, exist_ok=True)
            work = MasterWork(master.paths, lambda name: None, lambda name: None, 30.0)
            for turn in ("the first round, which connects to all nodes", "a later round"):
                daemons = [process.pid for process in master.daemons.values()]
                before_s, own_s, began_s = sum(map(cpu_s, daemons)), children_s(), time.monotonic()
                status = work.run(group=None, job_age_s=21600, wait=True, let_go=lambda: None)
                wall_s = time.monotonic() - began_s
                spent_s = sum(map(cpu_s, daemons)) - before_s + children_s() - own_s
                states = Counter(Path(f"{master.paths.run_dir}/instance-status").read_text().split()[1::2])
                assert (status, states) == (0, {"running": INSTANCES}), (status, states)
                figure = f"watcher, {NODES} nodes, {GROUPS} groups, {INSTANCES} instances, {turn}"
                report(f"{figure}: wall", wall_s, "s", bar=f"{WALL_S:g} s", met=wall_s <= WALL_S)
                report(f"{figure}: CPU with daemons", spent_s, "s", bar=f"{CPU_S:g} s", met=spent_s <= CPU_S)
    finally:
        nodes.terminate()
        nodes.join()


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def idle() -> None:
    from cluster_commands import on_master

    from ganeti.tools.testbed import machine

    with testbed("fake") as layout:
        on_master(layout, "gnt-cluster", "modify", "--user-shutdown=yes")
        nodes = layout.nodes
        for node in nodes:
            machine.run(layout, node.name, "daemon-util", "start", "ganeti-kvmd")
        time.sleep(SETTLE_S)
        inside = {node.name: processes(machine.running_pid(layout, node)) for node in nodes}
        daemons = {
            name: {pid: match[1] for pid, line in found.items() if (match := DAEMON.search(line))}
            for name, found in inside.items()
        }
        everyone = [pid for found in daemons.values() for pid in found]
        before_s, began_s = sum(map(cpu_s, everyone)), time.monotonic()
        time.sleep(IDLE_S)
        share = (sum(map(cpu_s, everyone)) - before_s) / (time.monotonic() - began_s) * 100
        report("idle cluster of 3 nodes, all daemons but the timer's watcher", share, "%", bar=f"{SHARE_PERCENT} %")
        for name in ("node1", "node2"):
            for pid, daemon in sorted(daemons[name].items()):
                report(f"PSS of {daemon} on {name}", pss_mib(pid), "MiB")
            bar = f"{NODE_MIB:g} MiB" if name == "node2" else ""
            report(f"PSS of all daemons on {name}", sum(map(pss_mib, daemons[name])), "MiB", bar=bar)


if __name__ == "__main__":
    if "--idle" in sys.argv:
        with precedence():
            idle()
    else:
        with tempfile.TemporaryDirectory() as scratch, precedence():
            a_round(Path(scratch))
