# SPDX-License-Identifier: BSD-2-Clause
"""A cluster of simulated machines with production daemons on them."""

import base64
import functools
import hashlib
import importlib
import json
from dataclasses import dataclass
from typing import Any

from ganeti_simulation.cluster.supervision import MASTER_DAEMONS, Supervision
from ganeti_simulation.disk.disk import VOLATILE, WRITTEN_THROUGH, Disk
from ganeti_simulation.disk.preparing import make_directories, mount, provide_standard_devices, put_file
from ganeti_simulation.facades.replicated_volumes import VOLUMES
from ganeti_simulation.system.kernel import Kernel, Running
from ganeti_simulation.system.machine import EPOCH_S, Machine
from ganeti_simulation.system.network import Network
from ganeti_simulation.system.process import Process

CLUSTER_NAME = "cluster.example.com"
OTHER_CLUSTER_NAME = "other.example.com"
"""Another name of its address, which the cluster may get."""
CLUSTER_UUID = "00000000-0000-4000-8000-000000000000"
GROUP_UUID = "00000000-0000-4000-8000-0000000000ff"
MASTER_IP = "10.0.0.254"
SHARED = "/srv/ganeti/shared-file-storage"
LOCAL = "/srv/ganeti/file-storage"
OS_DIRECTORY = "/srv/ganeti/os/noop"
"""Of the one OS there is; its scripts succeed and do nothing."""
OS_SCRIPTS = ("create", "import", "export", "rename")
_READY_S = 120.0


def node_uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def node_name(number: int) -> str:
    return f"node{number}.example.com"


def node_address(number: int) -> str:
    return f"10.0.0.{number}"


def certificate_of(name: str) -> bytes:
    """What stands for a machine's certificate."""
    return f"certificate of {name}".encode()


def _pem(certificate: bytes) -> bytes:
    lines = (b"-----BEGIN CERTIFICATE-----", base64.b64encode(certificate), b"-----END CERTIFICATE-----", b"")
    return b"\n".join(lines)


def configuration(nodes: int, candidates: int) -> dict[str, Any]:
    """`config.data` of a new cluster; the first node is the master."""
    module = importlib.import_module("ganeti.model.configuration")
    objects = importlib.import_module("ganeti.model.objects")
    config = module.Configuration()
    config.header = {"version": objects.CONFIG_VERSION, "serial_no": 1, "ctime": EPOCH_S, "mtime": EPOCH_S}
    digests = {
        node_uuid(number): hashlib.sha256(certificate_of(node_name(number))).hexdigest()
        for number in range(1, candidates + 1)
    }
    cluster = objects.Cluster(
        uuid=CLUSTER_UUID,
        cluster_name=CLUSTER_NAME,
        master_node=node_uuid(1),
        master_ip=MASTER_IP,
        master_netdev="eth0",
        master_netmask=32,
        enabled_hypervisors=["fake"],
        hvparams={"fake": {}},
        enabled_disk_templates=["diskless", "sharedfile", "file"],
        shared_file_storage_dir=SHARED,
        file_storage_dir=LOCAL,
        candidate_certs=digests,
        candidate_pool_size=1,  # so that candidates may cease to be any, and nobody takes their place by himself
        mac_prefix="aa:00:00",
    )
    config.put("cluster", "cluster", cluster)
    for number in range(1, nodes + 1):
        node = objects.Node(
            uuid=node_uuid(number),
            name=node_name(number),
            primary_ip=node_address(number),
            secondary_ip=node_address(number),
            group=GROUP_UUID,
            master_candidate=number <= candidates,
        )
        config.put("nodes", node.uuid, node)
    config.put("nodegroups", GROUP_UUID, objects.NodeGroup(uuid=GROUP_UUID, name="default"))
    plain: dict[str, Any] = config.to_plain()
    return plain


def _succeed(arguments: list[str], environment: dict[str, str]) -> int:
    del arguments, environment
    return 0


def _wall_of(machine: Machine) -> float:
    return machine.wall_s


@dataclass
class Image:
    """Disks of a cluster that has been made, to begin from."""

    disks: list[Disk]
    shared: Disk


class World:
    def __init__(self, seed: int, nodes: int, image: Image | None = None, candidates: int | None = None) -> None:
        self.kernel = Kernel(seed)
        Running.kernel = self.kernel
        self.seed = seed
        self.nodes = nodes
        self.candidates = nodes if candidates is None else candidates
        self.network = Network(self.kernel)
        copies: dict[Disk, Disk] = {}
        self.shared = (
            image.shared.clone(copies)
            if image is not None
            else Disk(durability=WRITTEN_THROUGH, device=9, capacity_bytes=1 << 40)
        )
        self.machines: list[Machine] = []
        self.supervision: dict[str, Supervision] = {}
        for number in range(1, nodes + 1):
            disk = image.disks[number - 1].clone(copies) if image is not None else self._new_disk(number)
            machine = Machine(self.kernel, self.network, number, node_name(number), node_address(number), disk)
            disk.clock = functools.partial(_wall_of, machine)
            machine.certificate = certificate_of(machine.name)
            machine.programs.scripts |= {f"{OS_DIRECTORY}/{script}": _succeed for script in OS_SCRIPTS}
            self.machines.append(machine)
            self.supervision[machine.name] = Supervision(machine)
        self.network.names |= {CLUSTER_NAME: MASTER_IP, OTHER_CLUSTER_NAME: MASTER_IP}
        self.network.also[MASTER_IP] = None

    def _new_disk(self, number: int) -> Disk:
        disk = Disk()
        for path in (
            "/var/lib/ganeti/queue/archive",
            "/var/log/ganeti",
            "/etc/ganeti/hooks",
            SHARED,
            LOCAL,
            "/tmp",  # noqa: S108 - on a simulated disk
            VOLUMES,
            "/proc",
            "/root",
            "/sys/class/net/xen-br0/bridge",
        ):
            make_directories(disk, path)
        mount(disk, "/run", Disk(durability=VOLATILE, device=2))
        disk.symlink("/run", "/var/run")
        mount(disk, SHARED, self.shared)
        put_file(disk, "/etc/ganeti/file-storage-paths", f"{SHARED}\n{LOCAL}\n".encode())
        put_file(disk, "/var/lib/ganeti/client.pem", _pem(certificate_of(node_name(number))))
        put_file(disk, "/var/lib/ganeti/cluster-domain-secret", b"secret of both\n", 0o600)
        put_file(disk, f"{OS_DIRECTORY}/ganeti_api_version", b"10\n")
        for script in OS_SCRIPTS:
            put_file(disk, f"{OS_DIRECTORY}/{script}", b"#!/bin/sh\n", 0o755)
        provide_standard_devices(disk, self.kernel.random)
        if number == 1:
            text = json.dumps(configuration(self.nodes, self.candidates))
            put_file(disk, "/var/lib/ganeti/config.data", text.encode(), 0o640)
        disk.sync_all()
        return disk

    # What a scenario does

    @property
    def now_s(self) -> float:
        return self.kernel.now_s

    def run(self, seconds: float) -> None:
        self.kernel.run(self.kernel.now_s + seconds)

    def run_until(self, done: Any, within_s: float = _READY_S) -> bool:
        return self.kernel.run(self.kernel.now_s + within_s, done)

    def start(self, *, first: bool = False) -> None:
        """Switch everything on; the *first* time the master's daemons are told not to ask for votes."""
        for machine in self.machines:
            self.supervision[machine.name].begin()
        if first:
            machine = self.machines[0]
            supervision = self.supervision[machine.name]

            def begin() -> int:
                for daemon in MASTER_DAEMONS:
                    supervision.start_and_wait(daemon, ["--no-voting", "--yes-do-it"])
                return 0

            machine.start("first start", begin)

    def master(self) -> Machine | None:
        """A machine whose LuxiD serves; the newest such, where there are two."""
        serving = [machine for machine in self.machines if self.supervision[machine.name].serves("ganeti-luxid")]
        return serving[-1] if serving else None

    def process_of(self, machine: Machine, daemon: str) -> Process | None:
        return self.supervision[machine.name].process(daemon)

    def stop_all(self) -> None:
        """End all daemons in order, as a shutdown does."""
        for machine in self.machines:
            supervision = self.supervision[machine.name]
            supervision.quiet = True

            def stop(supervision: Supervision = supervision) -> int:
                for daemon in (*reversed(supervision.master_daemons()), "ganeti-noded"):
                    supervision.stop_and_wait(daemon)
                return 0

            machine.start("shutdown", stop)
        self.run_until(lambda: not any(machine.processes for machine in self.machines), 60.0)

    def image(self) -> Image:
        for machine in self.machines:
            machine.disk.sync_all()
        copies: dict[Disk, Disk] = {}
        return Image([machine.disk.clone(copies) for machine in self.machines], self.shared.clone(copies))


@functools.cache
def prepared(nodes: int, candidates: int | None = None) -> Image:
    """The disks of a new cluster whose candidates are all in sync, switched off in order."""
    world = World(0, nodes, candidates=candidates)
    world.start(first=True)
    world.run(30.0)
    world.stop_all()
    return world.image()
