# SPDX-License-Identifier: BSD-2-Clause
"""A cluster that the machine of maintenance looks after, with jobs that do at once what they say, or fail.

The allocator is the real one, over nodes of one size and instances of another: so anybody can count what is redundant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from ganeti.master.maintenance.changes import BeginRound, ChangeMaintenance, EndRound, RecordIncidents, RecordRound
from ganeti.master.maintenance.incidents import SeenObjects, record
from ganeti.master.maintenance.rounds import Answers, balance_question, is_due, plan_round, room_question
from ganeti.master.maintenance.task import SOURCE, Opcode, Round, with_reason
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import Cluster, Disk, Instance, Maintenance, Node, NodeGroup, Plain
from ganeti.model.placement_requests import BalanceStep, EmptyNodes, NodeRoom
from ganeti.model.templates import traits_of
from ganeti.placement.cluster import picture
from ganeti.placement.dispatch import place
from ganeti.placement.request.terms import NodeRooms
from ganeti.placement.request.typed import terms_of
from ganeti.ports.config import Change

NODE_MIB, GUEST_MIB, OWN_MIB = 65536, 4096, 1024
SHARED, MIRRORED, LOCAL = "sharedfile", "drbd", "plain"
PER_NODE = (NODE_MIB - OWN_MIB) // GUEST_MIB


@dataclass
class MaintainedCluster:
    """*fails* says how likely a job fails."""

    nodes: int = 6
    guests_per_node: int = 3
    seed: int = 0
    fails: float = 0.0
    template: str = SHARED
    now_s: float = 1e9
    config: Configuration = field(init=False)
    defects: dict[str, Plain] = field(default_factory=dict)
    """By the name of a node, what its command says."""
    silent: set[str] = field(default_factory=set)
    jobs: dict[int, tuple[str, list[Opcode]]] = field(default_factory=dict)
    seen: SeenObjects = field(default_factory=SeenObjects)
    stuck: Sequence[str] = ()
    planned: Round = field(default_factory=Round)
    dies_submitting: bool = False
    """The daemon ends after it has submitted the next round, before it has written down the numbers."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self._ids = 0
        config = self.config = Configuration()
        config.put(
            "cluster",
            "cluster",
            Cluster(uuid="c", cluster_name="c", master_node="n0", master_ip="1", master_netdev="e"),
        )
        config.put("nodegroups", "g", NodeGroup(uuid="g", name="default"))
        for number in range(self.nodes):
            uuid = f"n{number}"
            address = f"10.0.{number // 250}.{number % 250 + 1}"
            node = Node(uuid=uuid, name=uuid, primary_ip=address, secondary_ip=address, group="g")
            config.put("nodes", uuid, replace(node, master_candidate=number < 3))
        for number in range(self.nodes * self.guests_per_node):
            self._add_guest(number)
        self.commit(ChangeMaintenance(values={"round_delay_s": 60}))

    def _add_guest(self, number: int) -> None:
        homes = [f"n{(number + step) % self.nodes}" for step in (0, 1)]
        nodes = homes if self.is_paired else homes[:1]
        disk = Disk(uuid=f"d{number}", dev_type=self.template, size=1, iv_name="disk/0", nodes=nodes)
        self.config.put("disks", disk.uuid, disk)
        guest = Instance(
            uuid=f"i{number}", name=f"i{number}", primary_node=homes[0], disks=[disk.uuid], admin_state="up"
        )
        self.config.put("instances", guest.uuid, guest)

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:08d}-0000-4000-8000-000000000000"

    def commit(self, change: Change) -> Any:
        draft = Draft(self.config, self.now_s)
        result = change.apply(draft)
        for (kind, uuid), obj in draft.touched.items():
            if obj is None:
                self.config.remove(kind, uuid)
            else:
                self.config.put(kind, uuid, obj)
        return result

    @property
    def is_paired(self) -> bool:
        """Whether instances have a secondary node."""
        traits = traits_of(self.template)
        return traits is not None and traits.has_secondary

    @property
    def maintenance(self) -> Maintenance:
        return self.config.maintenance

    # One step of the daemon, as `maintd/rounds.py` makes it

    def step(self, passed_s: float = 60.0) -> None:
        self.now_s += passed_s
        if self.maintenance.submitting:
            self._find_round(self.maintenance.submitting)
        told = {
            node.uuid: self.defects.get(node.name, {"status": "Ok"})
            for node in self.config.nodes()
            if node.name not in self.silent
        }
        statuses = {job: status for job, (status, _) in self.jobs.items()}
        change = record(self.config, self.seen, told, statuses, self.new_id, self.stuck)
        if change != RecordIncidents():
            self.commit(change)
            self.stuck = ()
        if self.maintenance.jobs:
            self.commit(EndRound())
        if is_due(self.config, self.now_s):
            self.planned = self.plan()
            self.stuck = self.planned.stuck
            if self.planned.tasks:
                self._submit(self.planned)

    def plan(self) -> Round:
        rooms = {room.node: room for room in self.ask(room_question(self.config))}
        balance = self.ask(balance_question(self.config, None, self.now_s))
        return plan_round(self.config, Answers(rooms, balance), self.now_s)

    def ask(self, question: EmptyNodes | BalanceStep | None) -> list[NodeRoom]:
        if question is None:
            return []
        found = place(self.picture(), terms_of(question))
        assert isinstance(found, NodeRooms)
        return found.rooms

    def picture(self) -> picture.Cluster:
        held = {node.uuid: 0 for node in self.config.nodes()}
        for guest in self.config.instances():
            held[guest.primary_node] += GUEST_MIB
        nodes = [
            picture.Node(
                name=node.name,
                group="g",
                total_memory_mib=NODE_MIB,
                node_memory_mib=OWN_MIB,
                free_memory_mib=NODE_MIB - OWN_MIB - held[node.uuid],
                total_disk_mib=10**6,
                free_disk_mib=10**6 - 1000,
                total_cpus=64,
                unavailable="offline" if node.offline else "drained" if node.drained else "",
            )
            for node in self.config.nodes()
        ]
        guests = [
            picture.Instance(
                name=guest.name,
                memory_mib=GUEST_MIB,
                disk_mib=1024,
                vcpus=1,
                template=self.template,
                primary=guest.primary_node,
                secondary=self.secondary(guest),
                disks=(picture.Disk(1024, 1),),
            )
            for guest in self.config.instances()
        ]
        return picture.Cluster(nodes=nodes, instances=guests, groups=[picture.Group("g", "default")])

    def secondary(self, guest: Instance) -> str:
        others = self.config.secondary_nodes(guest) if self.is_paired else []
        return others[0] if others else ""

    def _submit(self, planned: Round) -> None:
        token = self.new_id()
        self.commit(BeginRound(token=token))
        jobs, of_incidents = [], dict[str, list[int]]()
        for task in planned.tasks:
            numbers = [self._run(job) for job in with_reason(task.jobs, task, token, 1)]
            jobs += numbers
            for incident in task.incidents:
                of_incidents.setdefault(incident, []).extend(numbers)
        if self.dies_submitting:
            self.dies_submitting, self.seen, self.stuck = False, SeenObjects(), ()
            return
        self.commit(RecordRound(token=token, jobs=jobs, of_incidents=of_incidents))

    def _find_round(self, token: str) -> None:
        jobs, of_incidents = [], dict[str, list[int]]()
        for number, (_, opcodes) in self.jobs.items():
            entries = [str(entry[1]) for opcode in opcodes for entry in opcode["reason"] if entry[0] == SOURCE]
            if any(token in text for text in entries):
                jobs.append(number)
                for incident in set(entries):
                    of_incidents.setdefault(incident, []).append(number)
        self.commit(RecordRound(token=token, jobs=jobs, of_incidents=of_incidents))

    # What jobs do

    def _run(self, job: Sequence[Opcode]) -> int:
        number = len(self.jobs) + 1
        waits = job[0].get("depends") or []
        fails = any(self.jobs[number + distance][0] != "success" for distance, _ in waits)
        fails = fails or self.random.random() < self.fails
        if not fails:
            for opcode in job:
                self._carry_out(opcode)
        self.jobs[number] = ("error" if fails else "success", list(job))
        return number

    def _carry_out(self, opcode: Opcode) -> None:
        match opcode["OP_ID"]:
            case "OP_NODE_SET_PARAMS":
                self.set_node(
                    opcode["node_name"], **{key: opcode[key] for key in ("drained", "offline") if key in opcode}
                )
            case "OP_INSTANCE_MIGRATE" | "OP_INSTANCE_FAILOVER":
                guest = self.config.find_instance(opcode["instance_name"])
                self._put_guest(guest, opcode.get("target_node") or self.secondary(guest), guest.primary_node)
            case "OP_INSTANCE_REPLACE_DISKS":
                guest = self.config.find_instance(opcode["instance_name"])
                self._put_guest(guest, guest.primary_node, opcode["remote_node"])

    def _put_guest(self, guest: Instance, primary: str, secondary: str) -> None:
        disk = self.config.disk(guest.disks[0])
        nodes = [primary, secondary] if self.is_paired else [primary]
        self.config.put("disks", disk.uuid, replace(disk, nodes=nodes))
        self.config.put("instances", guest.uuid, replace(guest, primary_node=primary))

    def set_node(self, name: str, **values: bool) -> None:
        node = self.config.find_node(name)
        if values.get("offline"):
            values |= {"drained": False, "master_candidate": False}
        if values.get("drained"):
            values |= {"master_candidate": False}
        self.config.put("nodes", node.uuid, replace(node, **values))

    def remove_tag(self, name: str, tag: str) -> None:
        node = self.config.find_node(name)
        self.config.put("nodes", node.uuid, replace(node, tags=[each for each in node.tags if each != tag]))

    def is_redundant(self) -> bool:
        """Counted by hand: whatever node in service fails, its instances fit on the others in service."""
        held = dict.fromkeys((node.uuid for node in self.config.nodes() if node.usable_for_instances), 0)
        for guest in self.config.instances():
            if guest.primary_node in held:
                held[guest.primary_node] += 1
        free = sum(PER_NODE - count for count in held.values())
        return all(free - (PER_NODE - count) >= count for count in held.values())

    def opcodes(self, name: str) -> list[Opcode]:
        return [opcode for _, job in self.jobs.values() for opcode in job if opcode["OP_ID"] == name]
