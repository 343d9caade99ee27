# SPDX-License-Identifier: BSD-2-Clause
"""A node with a stand-in for Xen: what ``xl`` of Xen 4.17 prints, and domains that are lines of a file.

It shows that the drivers say and read the right words, not that Xen does what they mean. Guests do not hear the power
button, as those of the suite that boot nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import CommandError
from ganeti.node.hypervisors.xen.domains import INCOMING
from ganeti.node.hypervisors.xen.migration import XL
from ganeti.ports.node_world import Completed

_INFO = """\
host                   : node1
release                : 6.1.0-18-amd64
nr_cpus                : 8
max_cpu_id             : 7
nr_nodes               : 1
cores_per_socket       : 4
threads_per_core       : 2
cpu_mhz                : 2294.610
total_memory           : 16383
free_memory            : {free}
xen_major              : 4
xen_minor              : 17
xen_extra              : .3
xen_version            : 4.17.3
xen_scheduler          : credit2
"""
_HEADING = "Name                                        ID   Mem VCPUs\tState\tTime(s)\n"
_NODE = {"name": "Domain-0", "id": 0, "mem": 2048, "vcpus": 4, "state": "r-----", "time": 1234.5}
_SETTING = re.compile(r"^(\w+) = (.*)$", re.MULTILINE)


class XenNode(NodeOnDisk):
    """Its xl knows the domains of this node's file."""

    peers: ClassVar[dict[str, XenNode]] = {}
    """By address: where a migration goes to."""
    stalls = False
    """A migration goes on until it is ended."""
    said: list[list[str]]

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        root.mkdir(parents=True, exist_ok=True)
        self._file = root / "xen.json"
        self.said = []

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] != XL:
            return await super().run(argv, **options)
        self.said.append(list(argv[1:]))
        return Completed(tuple(argv), 0, getattr(self, "_" + argv[1].replace("-", "_"))(list(argv[2:])), "")

    async def spawn(self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), log_path: str = "/dev/null") -> int:
        self.said.append(list(argv[1:]))
        if self.stalls:
            return await super().spawn(["/bin/sleep", "600"], log_path=log_path)
        name, address = argv[-2:]
        moved = next(domain for domain in self.domains() if domain["name"] == name)
        self.peers[address].put([*self.peers[address].domains(), {**moved, "state": "-b----"}])
        self.put([domain for domain in self.domains() if domain["name"] != name])
        return await super().spawn(["/bin/true"], log_path=log_path)

    def domains(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._file.read_text()) if self._file.exists() else []
        return found

    def put(self, domains: list[dict[str, Any]]) -> None:
        self._file.write_text(json.dumps(domains))

    def arriving(self, name: str) -> None:
        """As xl has it on the target before the guest has arrived."""
        self.put([*self.domains(), self._made({"name": name + INCOMING}, "--p---")])

    def _list(self, words: list[str]) -> str:
        if words == ["-l"]:
            kinds = [(domain["name"], domain["type"]) for domain in self.domains()]
            return json.dumps(
                [{"domid": 0, "config": {"c_info": {"type": "pv", "name": "Domain-0"}, "b_info": {}}}]
                + [{"domid": 1, "config": {"c_info": {"type": kind, "name": name}}} for name, kind in kinds]
            )
        lines = [
            f"{each['name']:<40} {each['id']:>5} {each['mem']:>5} {each['vcpus']:>5}"
            f"     {each['state']} {each['time']:>8.1f}\n"
            for each in (_NODE, *self.domains())
        ]
        return _HEADING + "".join(lines)

    def _info(self, words: list[str]) -> str:
        return _INFO.format(free=16383 - 2048 - 100 - sum(each["mem"] for each in self.domains()))

    def _create(self, words: list[str]) -> str:
        text = Path(words[-1]).read_text()
        settings = {key: value.strip("'") for key, value in _SETTING.findall(text)}
        self.put([*self.domains(), self._made(settings, "--p---" if words[0] == "-p" else "-b----")])
        return f"Parsing config from {words[-1]}\n"

    def _made(self, settings: dict[str, str], state: str) -> dict[str, Any]:
        number = 1 + max((each["id"] for each in self.domains()), default=0)
        return {
            "name": settings["name"],
            "id": number,
            "mem": int(settings.get("memory", "32")),
            "vcpus": int(settings.get("vcpus", "1")),
            "state": state,
            "time": 0.3,
            "type": settings.get("builder", "pv"),
        }

    def _destroy(self, words: list[str]) -> str:
        self._required(words[0])
        self.put([each for each in self.domains() if each["name"] != words[0]])
        return ""

    def _shutdown(self, words: list[str]) -> str:
        self._required(words[-1])
        return f"Shutting down domain {words[-1]}\n"

    def _reboot(self, words: list[str]) -> str:
        old = self._required(words[-1])
        self._change(words[-1], id=old["id"] + 1, time=0.1)
        return ""

    def _mem_set(self, words: list[str]) -> str:
        self._change(words[0], mem=int(words[1].removesuffix("m")))
        return ""

    def _pause(self, words: list[str]) -> str:
        self._change(words[0], state="--p---")
        return ""

    def _unpause(self, words: list[str]) -> str:
        self._change(words[0], state="-b----")
        return ""

    def _change(self, name: str, **changes: Any) -> None:
        self._required(name)
        self.put([{**each, **changes} if each["name"] == name else each for each in self.domains()])

    def _required(self, name: str) -> dict[str, Any]:
        for each in self.domains():
            if each["name"] == name:
                return each
        raise CommandError(f"{XL} ended with status 1: {name} is an invalid domain identifier (rc=-6)")
