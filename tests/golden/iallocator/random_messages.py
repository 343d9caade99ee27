# SPDX-License-Identifier: BSD-2-Clause
"""Random iallocator inputs, the same for the same seed: clusters of many kinds, with one request each.

Only ``random.Random(seed).random()`` is used, so that the clusters do not depend on the version of Python. Node memory
is odd and reported memory never exceeds what the instances leave: 3.0 and 3.1 read those borders differently.
"""

import random
from typing import Any

TEMPLATES = ("drbd", "drbd", "drbd", "plain", "sharedfile", "file", "rbd", "diskless", "blockdev")
REQUESTS = ("allocate", "allocate", "relocate", "node-evacuate", "allocate-secondary", "multi-allocate", "change-group")
KINDS = ("even", "uneven", "tags", "groups", "policies", "locations", "exclusive", "full", "mixed")
_SPECIFICATION = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")
_GROUP = "00000000-0000-4000-8000-{:012d}"


class Dice:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def among(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def pick(self, values: Any) -> Any:
        return values[self.below(len(values))]


class Builder:
    """Builds one message; *kind* steers what is unusual about the cluster."""

    def __init__(self, seed: int, kind: str, request: str, template: str = "") -> None:
        self.dice = Dice(seed)
        self.kind = kind
        self.request = request
        self.template = template
        self.even = kind == "even"
        self.message: dict[str, Any] = {}

    def has(self, feature: str, share: float) -> bool:
        return self.kind == feature or (self.kind == "mixed" and self.dice.chance(share))

    def build(self) -> dict[str, Any]:
        self.message = {
            "version": 2,
            "cluster_name": "test.example.com",
            "cluster_tags": self._cluster_tags(),
            "enabled_hypervisors": [self.dice.pick(("kvm", "fake"))],
            "ipolicy": _policy(),
            "nodegroups": self._groups(),
        }
        self.message["nodes"] = self._nodes()
        self.message["instances"] = self._instances()
        self.message["request"] = self._request()
        return self.message

    def _cluster_tags(self) -> list[str]:
        tags = []
        if self.has("tags", 0.5):
            tags += ["htools:iextags:service"]
        if self.has("locations", 0.5):
            tags += ["htools:iextags:service", "htools:nlocation:rack", "htools:desiredlocation:rack"]
        if self.kind == "mixed" and self.dice.chance(0.3):
            tags += ["htools:migration:os", "htools:allowmigration:os:a::os:b"]
        return tags

    def _groups(self) -> dict[str, Any]:
        count = self.dice.among(2, 3) if self.has("groups", 0.4) or self.request == "change-group" else 1
        groups: dict[str, Any] = {}
        for number in range(count):
            policy = (
                self.dice.pick(("preferred", "preferred", "last_resort", "unallocable")) if count > 1 else "preferred"
            )
            groups[_GROUP.format(number + 1)] = {
                "name": f"group{number}",
                "alloc_policy": policy,
                "networks": [],
                "tags": [],
                "ipolicy": self._tight_policy() if self.has("policies", 0.3) else _policy(),
            }
        return groups

    def _tight_policy(self) -> dict[str, Any]:
        policy = _policy()
        policy["vcpu-ratio"] = self.dice.pick((1.0, 1.5, 2.0))
        policy["spindle-ratio"] = self.dice.pick((3.0, 8.0, 32.0))
        policy["minmax"][0]["max"]["memory-size"] = self.dice.pick((1024, 4096, 32768))
        if self.dice.chance(0.3):
            policy["disk-templates"] = ["drbd", "plain"]
        return policy

    def _nodes(self) -> dict[str, Any]:
        groups = list(self.message["nodegroups"])
        count = self.dice.among(3, 8) + (3 if len(groups) > 1 else 0)
        exclusive = self.has("exclusive", 0.1)
        nodes = {}
        for number in range(count):
            memory = 32769 if self.even else self.dice.pick((16385, 24577, 32769))
            disk = 819200 if self.even else self.dice.pick((409600, 819200, 1228800))
            down = not self.even and self.dice.chance(0.12)
            tags = [f"rack:{self.dice.below(3)}"] if self.dice.chance(0.8) else []
            tags += [f"os:{self.dice.pick('ab')}"] if self.kind == "mixed" and self.dice.chance(0.3) else []
            nodes[f"node{number}.example.com"] = {
                "tags": tags,
                "primary_ip": f"10.0.0.{number + 1}",
                "secondary_ip": f"10.1.0.{number + 1}",
                "offline": down and number % 2 == 0,
                "drained": down and number % 2 == 1,
                "master_candidate": True,
                "master_capable": True,
                "vm_capable": True,
                "group": groups[number % len(groups)],
                "ndparams": {
                    "spindle_count": 1 if self.even else self.dice.among(1, 4),
                    "exclusive_storage": exclusive,
                },
                "total_memory": memory,
                "reserved_memory": 1024,
                "free_memory": memory - 4096,
                "total_disk": disk,
                "free_disk": disk,
                "total_cpus": 8 if self.even else self.dice.pick((4, 8, 16)),
                "reserved_cpus": 1,
                "i_pri_memory": 0,
                "i_pri_up_memory": 0,
                "total_spindles": 40 if exclusive else 0,
                "free_spindles": 40 if exclusive else 0,
            }
        return nodes

    def _instances(self) -> dict[str, Any]:
        names = list(self.message["nodes"])
        count = (
            0
            if self.even and self.dice.chance(0.3)
            else self.dice.among(2, 4 * len(names) if self.kind == "full" else 20)
        )
        instances = {}
        for number in range(count):
            data = self._instance(self.template or self.dice.pick(TEMPLATES))
            primary = self.dice.pick(names)
            mates = [n for n in names if n != primary and self._group(n) == self._group(primary)]
            places = [primary]
            if data["disk_template"] == "drbd":
                if not mates:
                    continue
                places.append(self.dice.pick(mates))
            data["admin_state"] = "up" if self.even else self.dice.pick(("up",) * 8 + ("down", "offline"))
            data["nodes"] = places
            if self._take(data):
                instances[f"inst{number}.example.com"] = data
        return instances

    def _group(self, node: str) -> str:
        return str(self.message["nodes"][node]["group"])

    def _take(self, data: dict[str, Any]) -> bool:
        """Subtract the instance from what its nodes report; an instance that finds no room is left out."""
        nodes = [self.message["nodes"][name] for name in data["nodes"]]
        if data["admin_state"] == "up":
            if nodes[0]["free_memory"] - data["memory"] < 200:
                return False
            nodes[0]["free_memory"] -= data["memory"]
        for node in nodes:
            if data["disk_template"] in ("drbd", "plain"):
                node["free_disk"] -= data["disk_space_total"]
                node["free_spindles"] -= data["disks"][0].get("spindles", 0) if data["disks"] else 0
        return True

    def _instance(self, template: str) -> dict[str, Any]:
        size = 10240 if self.even else self.dice.pick((2048, 10240, 20480))
        disks = [] if template == "diskless" else [{"mode": "rw", "size": size}]
        if disks and any(node["ndparams"]["exclusive_storage"] for node in self.message["nodes"].values()):
            disks[0]["spindles"] = self.dice.among(1, 3)
        tags = []
        if self.kind in ("tags", "mixed", "locations") and self.dice.chance(0.7):
            tags = [f"service:{self.dice.below(4)}"]
        if self.kind in ("locations", "mixed") and self.dice.chance(0.4):
            tags.append(f"rack:{self.dice.below(3)}")
        total = sum(disk["size"] for disk in disks)
        return {
            "tags": tags,
            "vcpus": 1 if self.even else self.dice.among(1, 3),
            "memory": 1024 if self.even else self.dice.pick((512, 1024, 2048, 3000)),
            "spindle_use": 1 if self.even else self.dice.among(1, 2),
            "os": "noop",
            "nics": [],
            "disks": disks,
            "disk_template": template,
            "disk_space_total": total + (128 if template == "drbd" else 0),
            "hypervisor": "kvm",
        }

    def _request(self) -> dict[str, Any]:
        if self.request == "allocate":
            return self._allocate("new0.example.com")
        if self.request == "multi-allocate":
            first = next(iter(self.message["nodegroups"].values()))["name"]
            instances = [self._allocate(f"new{n}.example.com") for n in range(self.dice.among(1, 4))]
            return {"type": "multi-allocate", "instances": instances, "group_name": first}
        names = list(self.message["instances"]) or ["missing.example.com"]
        name = self.dice.pick(names)
        if self.request == "relocate":
            places = self.message["instances"].get(name, {"nodes": ["missing"]})["nodes"]
            return {"type": "relocate", "name": name, "relocate_from": [places[-1]], "required_nodes": 1}
        if self.request == "allocate-secondary":
            return {"type": "allocate-secondary", "name": name}
        some = [n for n in names if self.dice.chance(0.3)] or [name]
        if self.request == "change-group":
            return {"type": "change-group", "instances": some, "target_groups": []}
        mode = self.dice.pick(("primary-only", "secondary-only", "all"))
        return {"type": "node-evacuate", "instances": some, "evac_mode": mode}

    def _allocate(self, name: str) -> dict[str, Any]:
        data = self._instance(self.template or self.dice.pick(TEMPLATES))
        if not self.even and self.dice.chance(0.2):
            data["memory"] = self.dice.pick((64, 8192, 16384))
        data |= {"type": "allocate", "name": name, "required_nodes": 2 if data["disk_template"] == "drbd" else 1}
        if self.dice.chance(0.2):
            data["group_name"] = next(iter(self.message["nodegroups"].values()))["name"]
        return data


def _policy() -> dict[str, Any]:
    low = dict(zip(_SPECIFICATION, (128, 1, 1024, 1, 1, 1), strict=True))
    high = dict(zip(_SPECIFICATION, (32768, 8, 1048576, 16, 8, 12), strict=True))
    return {
        "std": dict(low),
        "minmax": [{"min": low, "max": high}],
        "disk-templates": ["diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster"],
        "vcpu-ratio": 4.0,
        "spindle-ratio": 32.0,
    }


def build(seed: int, kind: str, request: str, template: str = "") -> dict[str, Any]:
    """Give the message of *seed*; *template* fixes the disk template of every instance."""
    return Builder(seed, kind, request, template).build()
