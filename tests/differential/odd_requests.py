# SPDX-License-Identifier: BSD-2-Clause
"""Odd messages for allocators and odd command lines for hail: what the drawn clusters of the other cases never are.

Few nodes, groups without nodes, all of them offline, nodes without memory, exclusive storage, tags of every kind,
instances of unusual size or on unusual nodes, networks, every request, and mistakes at any place of the message.

What 3.0.2 does wrong and is not done here is left out (docs/operator/htools.md lists it): new secondaries on drained
nodes, N+1 where one of several groups is named, several new instances on exclusive storage.
"""

import copy
import json
from collections.abc import Sequence
from typing import Any

from tests.differential.cases import REQUEST, Case
from tests.fakes.cluster_drawing import Dice

TOOLS = ("hail",)
_TEMPLATES = ("drbd", "drbd", "drbd", "plain", "rbd", "ext", "sharedfile", "diskless", "blockdev", "file", "gluster")
_CLUSTER_TAGS = (
    "htools:iextags:service",
    "htools:nlocation:rack",
    "htools:nlocation:power",
    "htools:desiredlocation:rack",
    "htools:migration:os",
    "htools:allowmigration:os:a::os:b",
    "htools:iextags",
    "htools:allowmigration:os:a",
    "htools:bandwidth:net",
    "plain",
)
_NODE_TAGS = ("rack:1", "rack:2", "power:a", "power:b", "os:a", "os:b", "htools:standby:auto")
_INSTANCE_TAGS = ("service:dns", "service:web", "rack:1", "rack:2", "owner:x")
_NETWORKS = ("net-a", "net-b")
_BUILT_IN = {
    "std": {"memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1, "spindle-use": 1},
    "minmax": [
        {
            "min": {
                "memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1, "spindle-use": 1
            },
            "max": {
                "memory-size": 32768, "cpu-count": 8, "disk-size": 1048576, "disk-count": 16, "nic-count": 8,
                "spindle-use": 12
            },
        }
    ],
    "disk-templates": ["drbd", "plain", "rbd", "ext", "sharedfile", "diskless", "blockdev", "file", "gluster"],
    "vcpu-ratio": 4.0,
    "spindle-ratio": 32.0,
}  # fmt: skip
_ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    1.5,
    2.5,
    "",
    "x",
    [],
    {},
    True,
    [1],
    {"a": 1},
    "drbd",
    [[]],
)


def cases(seed: int, tools: Sequence[str] = TOOLS, mistakes: float = 0.15) -> list[Case]:
    """The one case of *seed*; *mistakes* is the share of messages with something wrong in them."""
    return [_Author(seed, mistakes).case] if TOOLS[0] in tools else []


class _Author:
    """Writes one message and the command line for it."""

    def __init__(self, seed: int, mistakes: float) -> None:
        self.dice = dice = Dice(seed * 977 + 3)
        self.stem = dice.pick(("", "", ".example.com"))
        self.strange = dice.chance(0.3)
        self.exclusive = dice.chance(0.2)
        self.zero = dice.chance(0.12)
        self.tagged = dice.chance(0.35)
        self.networked = dice.chance(0.2)
        message = self._message()
        arguments = self._arguments(message["request"])
        if dice.chance(mistakes):
            message = _mistaken(dice, message)
        text = json.dumps(message, indent=dice.pick((None, 1)))
        if dice.chance(0.02):
            text = text[: dice.below(len(text))]
        self.case = Case(seed, TOOLS[0], arguments, {REQUEST: text})

    def _message(self) -> dict[str, Any]:
        dice = self.dice
        groups = [f"uuid-{number}" for number in range(dice.pick((1, 1, 1, 2, 2, 3)))]
        self.groups = groups
        nodes = [f"node{number}{self.stem}" for number in range(dice.pick((0, 1, 2, 2, 3, 3, 4, 5, 6)))]
        self.group_of = {name: dice.pick(groups) for name in nodes}
        count = dice.pick((0, 1, 2, 3, 4, 6, 9)) if nodes else 0
        self.instances: dict[str, Any] = {f"inst{n}{self.stem}": self._instance(nodes) for n in range(count)}
        away = dice.chance(0.05)
        self.nodes = {name: self._node(name, away) for name in nodes}
        message: dict[str, Any] = {
            "version": 2,
            "cluster_name": "odd",
            "cluster_tags": [tag for tag in _CLUSTER_TAGS if self.tagged and dice.chance(0.5)],
            "enabled_hypervisors": [dice.pick(("fake", "kvm", "xen-pvm"))],
            "nodegroups": {uuid: self._group(number) for number, uuid in enumerate(groups)},
            "nodes": self.nodes,
            "instances": self.instances,
            "request": self._request(),
        }
        return message

    def _group(self, number: int) -> dict[str, Any]:
        dice = self.dice
        group: dict[str, Any] = {
            "name": ("default", "east", "west")[number],
            "alloc_policy": dice.pick(("preferred", "preferred", "preferred", "last_resort", "unallocable")),
            "networks": [net for net in _NETWORKS if self.networked and dice.chance(0.6)],
            "tags": [],
        }
        group["ipolicy"] = self._policy() if dice.chance(0.5) else _BUILT_IN
        return group

    def _policy(self) -> dict[str, Any]:
        dice = self.dice

        def spec(memory: int, cpus: int, disk: int, disks: int, spindles: int) -> dict[str, int]:
            return {
                "memory-size": memory,
                "cpu-count": cpus,
                "disk-size": disk,
                "disk-count": disks,
                "nic-count": 1,
                "spindle-use": spindles,
            }

        small = spec(dice.pick((64, 512, 1024)), 1, dice.pick((0, 1024, 10240)), dice.pick((0, 1, 2)), 1)
        large = spec(dice.pick((1024, 8192, 65536)), dice.pick((1, 4, 16)), dice.pick((10240, 10**7)), 8, 4)
        pairs = [{"min": small, "max": large}]
        if dice.chance(0.3):
            pairs.append({"min": spec(2048, 2, 20480, 1, 1), "max": spec(10**5, 32, 10**8, 16, 12)})
        if dice.chance(0.1):
            pairs = pairs[::-1]
        names = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster")
        return {
            "std": small,
            "minmax": pairs,
            "disk-templates": [name for name in names if not self.strange or dice.chance(0.7)],
            "vcpu-ratio": dice.pick((1, 1.5, 4.0, 4.0, 16)),
            "spindle-ratio": dice.pick((0.5, 2, 32.0, 32.0)),
        }

    def _instance(self, nodes: list[str]) -> dict[str, Any]:
        dice = self.dice
        template = dice.pick(_TEMPLATES)
        primary = dice.pick(nodes)
        places = [primary]
        if template == "drbd" and not (self.strange and dice.chance(0.1)):
            same = [name for name in nodes if name != primary and self.group_of[name] == self.group_of[primary]]
            mates = same if same and not (self.strange and dice.chance(0.15)) else [n for n in nodes if n != primary]
            if mates:
                places.append(dice.pick(mates))
            elif not self.strange:
                template = "plain"
        return {
            **self._size(template),
            "nodes": places,
            "admin_state": dice.pick(("up", "up", "up", "up", "down", "offline")),
            "admin_state_source": "admin",
            "os": "noop",
            "hypervisor": "fake",
        }

    def _size(self, template: str) -> dict[str, Any]:
        dice = self.dice
        size = dice.pick((512, 1024, 10240, 10240, 51200))
        disks = [{"mode": "rw", "size": size} for _ in range(dice.pick((1, 1, 1, 2, 0 if self.strange else 1)))]
        if self.exclusive and dice.chance(0.8):
            disks = [disk | {"spindles": dice.pick((0, 1, 1, 2))} for disk in disks]
        if template == "diskless":
            disks = []
        extra = 128 if template == "drbd" else 0
        found = {
            "tags": [tag for tag in _INSTANCE_TAGS if self.tagged and dice.chance(0.4)],
            "vcpus": dice.pick((1, 1, 2, 4, 9)),
            "memory": dice.pick((128, 512, 1024, 1024, 4096, 9000)),
            "spindle_use": dice.pick((1, 1, 2, 5)),
            "disks": disks,
            "disk_space_total": sum(disk["size"] + extra for disk in disks),  # type: ignore[operator, misc]
            "disk_template": template,
            "nics": [
                {"network": dice.pick((*_NETWORKS, None))} for _ in range(2) if self.networked and dice.chance(0.5)
            ],
        }
        if self.strange and dice.chance(0.1):
            found["memory"] = dice.pick((0, -5, 10**9, 2**40))
        if self.strange and dice.chance(0.1):
            found["disk_space_total"] = dice.pick((0, -5, 10**9, 2**40))
        if self.strange and dice.chance(0.05):
            found["vcpus"] = dice.pick((0, -1, 10**6))
        return found

    def _node(self, name: str, away: bool) -> dict[str, Any]:
        dice = self.dice
        own = [one for one in self.instances.values() if one["nodes"][0] == name]
        here = [
            one for one in self.instances.values() if name in one["nodes"] and one["disk_template"] in ("drbd", "plain")
        ]
        used = sum(one["memory"] for one in own if one["admin_state"] == "up")
        disk = sum(one["disk_space_total"] for one in here)
        memory = dice.pick((8192, 16384, 32768, 16385))
        total_disk = dice.pick((102400, 409600))
        reserved = dice.pick((0, 512, 1023))
        exclusive = self.exclusive and not (self.strange and dice.chance(0.4))
        node: dict[str, Any] = {
            "tags": [tag for tag in _NODE_TAGS if self.tagged and dice.chance(0.35)],
            "offline": away or dice.chance(0.08),
            "drained": dice.chance(0.06),
            "vm_capable": not dice.chance(0.05),
            "master_candidate": True,
            "group": self.group_of[name],
            "ndparams": {"spindle_count": dice.pick((1, 2, 4, 12)), "exclusive_storage": exclusive},
            "total_memory": memory,
            "reserved_memory": reserved,
            "free_memory": max(0, memory - reserved - used) - dice.pick((0, 0, 0, 0, 100, 700, -600)),
            "total_disk": total_disk,
            "free_disk": max(0, total_disk - disk) - dice.pick((0, 0, 0, 0, 100, 1500)),
            "total_cpus": dice.pick((2, 4, 8, 16)),
            "reserved_cpus": dice.pick((0, 1, 1, 2)),
            "total_spindles": dice.pick((0, 3, 8, 12)) if exclusive else 0,
            "free_spindles": dice.pick((0, 1, 3, 8)) if exclusive else 0,
        }
        if self.zero and dice.chance(0.5):
            node[dice.pick(("total_memory", "total_disk", "total_cpus", "free_memory", "free_disk"))] = 0
        if node["offline"] and dice.chance(0.5):
            for key in ("total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk", "total_cpus"):
                del node[key]
        if self.strange and dice.chance(0.1):
            node["ndparams"] = {"spindle_count": 0, "exclusive_storage": exclusive}
        return node

    def _request(self) -> dict[str, Any]:
        dice = self.dice
        kinds = (
            "allocate",
            "allocate",
            "multi-allocate",
            "relocate",
            "relocate",
            "node-evacuate",
            "node-evacuate",
            "change-group",
            "change-group",
            "node-evacuate" if any(map(_is_away, self.nodes.values())) else "allocate-secondary",
        )
        kind = dice.pick(kinds)
        names = list(self.instances) or ["inst0"]
        some = [name for name in names if dice.chance(0.4)] or [dice.pick(names)]
        if self.strange and dice.chance(0.1):
            extra = dice.pick((*names, "nowhere"))
            some += [] if extra in some else [extra]  # 3.0.2 moves an instance twice that is named twice
        if dice.chance(0.3):
            some = some[::-1]
        if kind == "allocate":
            return {"type": kind, **self._wanted("new" + self.stem)}
        if kind == "multi-allocate":
            many = [
                self._wanted(f"new{number}{self.stem}")
                for number in range(dice.pick((0, 1) if self.exclusive else (0, 1, 2, 3, 5)))
            ]
            for one in many:
                one.pop("restrict-to-nodes", None)
            request: dict[str, Any] = {"type": kind, "instances": many}
            self._named_group(request, 0.3)
            return request
        if kind == "relocate":
            return self._relocation(dice.pick(names))
        if kind == "allocate-secondary":
            return {"type": kind, "name": dice.pick(names)}
        if kind == "node-evacuate":
            if dice.chance(0.5) and self.nodes:
                node = dice.pick(list(self.nodes))
                some = [name for name, one in self.instances.items() if node in one["nodes"]]
            mode = dice.pick(("primary-only", "secondary-only", "all", "all"))
            return {"type": kind, "instances": some, "evac_mode": mode}
        targets = [
            dice.pick((uuid, ("default", "east", "west")[n])) for n, uuid in enumerate(self.groups) if dice.chance(0.4)
        ]
        if self.strange and dice.chance(0.1):
            targets.append("nowhere")
        return {"type": kind, "instances": some, "target_groups": targets}

    def _relocation(self, name: str) -> dict[str, Any]:
        dice, instance = self.dice, self.instances.get(name, {"nodes": ["node0"]})
        leaving = [instance["nodes"][-1]]
        if self.strange and dice.chance(0.3):
            leaving = dice.pick(([], instance["nodes"][:1], [*self.nodes][:2], ["nowhere"]))
        required = dice.pick((0, 2, 1)) if self.strange and dice.chance(0.2) else 1
        return {"type": "relocate", "name": name, "required_nodes": required, "relocate_from": leaving}

    def _named_group(self, request: dict[str, Any], share: float) -> None:
        dice = self.dice
        if dice.chance(share):
            number = dice.below(len(self.groups))
            request["group_name"] = ("default", "east", "west")[number]
            if self.strange and dice.chance(0.2):
                request["group_name"] = dice.pick(("nowhere", None))

    def _wanted(self, name: str) -> dict[str, Any]:
        dice = self.dice
        template = dice.pick(_TEMPLATES)
        required = 2 if template == "drbd" else 1
        if self.strange and dice.chance(0.15):
            required = dice.pick((0, 1, 2, 3))
        if self.strange and dice.chance(0.05) and self.instances:
            name = dice.pick(list(self.instances))
        found = {"name": name, "required_nodes": required, "os": "noop", "hypervisor": "fake", **self._size(template)}
        self._named_group(found, 0.3)
        if dice.chance(0.15):
            names = [node for node in self.nodes if dice.chance(0.6)]
            found["restrict-to-nodes"] = [*names, "nowhere"] if dice.chance(0.1) else names
        return found

    def _arguments(self, request: dict[str, Any]) -> list[str]:
        dice = self.dice
        named = request.get("group_name") is not None and len(self.groups) > 1
        words = ["--no-capacity-checks"] if named else []
        for share, choice in (
            (0.0 if named else 0.25, ("--no-capacity-checks",)),
            (0.12, ("--ignore-soft-errors",)),
            (0.06, ("--ignore-dynu",)),
            (
                0.04,
                ("-p", "--print-nodes", "-pname,pcnt,scnt,fmem,slist", "-p+peermap,ptags", "-pnonsense"),
            ),
            (0.1, ("--static-kvm-node-memory=0", "--static-kvm-node-memory=1000", "--static-kvm-node-memory=-3")),
            (0.08, ("-Ssaved", "--save=saved")),
            (
                0.02,
                ("-S/nonexistent/saved", "-q", "-Onode0", "--select-instances=inst0", "--mond=no"),
            ),
            (
                0.02,
                (
                    "--static-kvm-node-memory=x",
                    "--simulate=p,3,1t,32g,16",
                    "--simulate=x",
                    "-tnowhere",
                    "--restrict-allocation-to=",
                ),
            ),
            (0.1, ("-v", "-vv", "-vv", "-vvv")),
            (0.05, (f"--restrict-allocation-to={','.join(name for name in self.nodes if dice.chance(0.6))}",)),
        ):
            if dice.chance(share):
                words.append(dice.pick(choice))
        words.append(REQUEST)
        if dice.chance(0.01):
            words.append("another")
        return words


def _is_away(node: dict[str, Any]) -> bool:
    return bool(node["offline"] or node["drained"] or not node["vm_capable"])


def _places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value of the message."""
    entries = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    ways = [path] if path else []
    for key, value in entries:
        ways += _places(value, (*path, key))
    return ways


def _mistaken(dice: Dice, message: dict[str, Any]) -> dict[str, Any]:
    """The message with another value at one place: what is missing is borne with here, and not by 3.0.2."""
    message = copy.deepcopy(message)
    ways = _places(message)
    if dice.chance(0.3):
        ways = [way for way in ways if way[0] == "request"]
    *way, last = dice.pick(ways)
    holder: Any = message
    for key in way:
        holder = holder[key]
    holder[last] = dice.pick(_ODD)
    return message
