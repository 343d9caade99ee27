# SPDX-License-Identifier: BSD-2-Clause
"""What a testbed is on disk: its directory, its nodes, their names and addresses.

``testbed.json`` holds what never changes after ``up``. What does change is asked of the kernel: a node runs if the
process of its ``pid`` file does, and is partitioned if its link is down.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

from ganeti.base.errors import PrerequisiteError

RECORD = "testbed.json"
CLUSTER_NAME = "cluster"
LAN_NETWORK = "10.77.0"
LAN_NETWORK_6 = "fd77:"
CLUSTER_INDEX = 100
HUB = "hub"
HELPERS = "/usr/lib/ganeti"
WITHOUT_ROOT = "fake"  # the hypervisor whose guests need no privilege
IP = ("4", "6", "hybrid")
HUB_LAN_ADDRESS = "10.77.0.254"
HUB_GUEST_INDEX = 254
GUEST_BRIDGE = "gnt-br0"
GUEST_NAMES = 200
GUEST_NAMES_WRAPPED = 20  # libnss_wrapper takes few names
NODES_MAX = 50
FORBIDDEN_IN_PATH = ":,\\\"' \n"  # overlay mounts and batch files of ip take these apart


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of a testbed; *place* is its directory on the host, *ip* as that of the testbed."""

    name: str
    index: int
    place: Path
    network: str = LAN_NETWORK
    ip: str = "4"

    @property
    def address(self) -> str:
        """The one of cluster traffic."""
        return self.addresses[0]

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of the cluster LAN; of two, the second is for replication."""
        return _in_lan(self.network, self.index, self.ip)

    @property
    def upper(self) -> Path:
        """Everything the node has written over the host's files; it survives a power-off."""
        return self.place / "upper"

    @property
    def pid_file(self) -> Path:
        """Process id and start time of the node's first process, as the host sees it."""
        return self.place / "pid"

    @property
    def console_log(self) -> Path:
        return self.place / "console.log"

    @property
    def disks(self) -> Path:
        """The node's own file storage, on the host."""
        return self.place / "disks"


@dataclasses.dataclass(frozen=True)
class Layout:
    """A testbed as ``testbed.json`` describes it."""

    directory: Path
    checkout: Path
    hypervisor: str
    node_count: int
    watcher_interval_s: int = 15
    unprivileged: bool = False
    netns_hub: str = "ns/hub"
    ip: str = "4"
    """Addresses of the cluster LAN: ``4``, ``6``, or ``hybrid`` with IPv6 first."""
    package: str = ""
    """A Debian package that is installed in every node; without it nodes run this very tree."""

    @property
    def tag(self) -> str:
        """A short name of this very directory, for what lies outside of it (cgroups)."""
        return "gnt-testbed-" + hashlib.sha256(str(self.directory).encode()).hexdigest()[:10]

    @property
    def network(self) -> str:
        """The first three parts of the nodes' addresses; on loopback every testbed has its own, from 127.128 on."""
        if not self.unprivileged:
            return LAN_NETWORK
        digest = hashlib.sha256(str(self.directory).encode()).digest()
        return f"127.{128 + digest[0] % 127}.{digest[1]}"

    @property
    def guest_names(self) -> int:
        """How many names ``instN`` stand for an address."""
        return GUEST_NAMES_WRAPPED if self.unprivileged else GUEST_NAMES

    def guest_address(self, index: int) -> str:
        """Give the one that the name ``instN`` stands for; with IPv6, guests have nothing else."""
        return f"10.78.0.{index}" if self.ip == "4" else f"fd78::{index}"

    @property
    def hub_guest_address(self) -> str:
        """Where the hub hears guests on their LAN."""
        return self.guest_address(HUB_GUEST_INDEX)

    @property
    def cluster_address(self) -> str:
        return self.lan_address(CLUSTER_INDEX)

    def lan_address(self, index: int) -> str:
        """Give an address of cluster traffic; nodes count from 1."""
        return _in_lan(self.network, index, self.ip)[0]

    @property
    def any_address(self) -> str:
        """Where a daemon listens that serves all addresses of a node."""
        return "0.0.0.0" if self.ip == "4" else "::"

    @property
    def record(self) -> Path:
        return self.directory / RECORD

    @property
    def shared(self) -> Path:
        return self.directory / "shared"

    @property
    def boot(self) -> Path:
        return self.directory / "boot"

    @property
    def hub_namespace(self) -> Path:
        return self.directory / self.netns_hub

    @property
    def commands(self) -> Path:
        return Path(HELPERS) if self.package else self.checkout / ".venv" / "bin"

    @property
    def nodes(self) -> tuple[Node, ...]:
        places = self.directory / "nodes"
        numbers = range(1, self.node_count + 1)
        return tuple(Node(f"node{n}", n, places / f"node{n}", self.network, self.ip) for n in numbers)

    def node(self, name: str) -> Node:
        """Raises `PrerequisiteError` when there is no such node."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise PrerequisiteError(
            f"no node {name} in {self.directory}; there are {', '.join(n.name for n in self.nodes)}"
        )

    def save(self) -> None:
        plain = dataclasses.asdict(self) | {"directory": str(self.directory), "checkout": str(self.checkout)}
        plain["nodes"] = {node.name: node.address for node in self.nodes}
        self.record.write_text(json.dumps(plain, indent=1) + "\n")


def _in_lan(network: str, index: int, ip: str) -> tuple[str, ...]:
    both = {"6": f"{LAN_NETWORK_6}:{index}", "4": f"{network}.{index}"}
    return tuple(both.values()) if ip == "hybrid" else (both[ip],)


def load(directory: Path) -> Layout:
    """Read the testbed in *directory*; raises `PrerequisiteError` when there is none."""
    directory = directory.resolve()
    try:
        plain = json.loads((directory / RECORD).read_text())
    except FileNotFoundError:
        raise PrerequisiteError(f"{directory} holds no testbed; make one with: gnt-testbed up {directory}") from None
    except ValueError as error:
        raise PrerequisiteError(f"{directory / RECORD} cannot be read ({error})") from None
    fields = {field.name for field in dataclasses.fields(Layout)}
    known = {key: value for key, value in plain.items() if key in fields}
    known.update(directory=directory, checkout=Path(plain["checkout"]))
    return Layout(**known)


def check_new(directory: Path, node_count: int) -> Path:
    """Give the absolute directory for a new testbed, or raise `PrerequisiteError` saying why it cannot be there."""
    directory = directory.resolve()
    if (directory / RECORD).exists():
        raise PrerequisiteError(
            f"{directory} is a testbed already; look at it with gnt-testbed status, or end it with gnt-testbed down"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise PrerequisiteError(f"{directory} exists and is not empty; name a new directory")
    if any(character in FORBIDDEN_IN_PATH for character in str(directory)):
        raise PrerequisiteError(f"{directory} holds a character that mounts cannot take; use letters, digits and -")
    if not 1 <= node_count <= NODES_MAX:
        raise PrerequisiteError(f"{node_count} nodes asked for; give a number from 1 to {NODES_MAX}")
    return directory
