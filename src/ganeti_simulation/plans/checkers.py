# SPDX-License-Identifier: BSD-2-Clause
"""What must hold of a simulated cluster, whatever happens to it (`docs/design/never-lost.md`).

Some is looked at while things happen, the rest when everything has come to rest. A violation is a sentence; the first
one ends a schedule.
"""

import json
from collections.abc import Collection
from typing import Any

from ganeti_simulation.cluster.machine_files import (
    QUEUE,
    Copy,
    Position,
    file_number,
    guests_on,
    images,
    job_files,
    lock_owners,
    read_copy,
    results_of,
    same,
    status_of,
)
from ganeti_simulation.cluster.world import World, node_uuid
from ganeti_simulation.facades.mirrored_disks import RUNS, is_good
from ganeti_simulation.facades.replicated_volumes import VOLUMES, is_complete
from ganeti_simulation.plans.player import Player
from ganeti_simulation.system.machine import Machine
from ganeti_simulation.system.process import Process

_FINAL = ("success", "error", "canceled")


class Violation(Exception):
    """Something that must never be."""


class Checkers:
    def __init__(self, world: World, player: Player) -> None:
        self._world = world
        self._player = player
        self.acknowledged: dict[Position, tuple[str, str]] = {}
        """What was acknowledged: position -> (machine, fingerprint)."""
        self._highest_epoch = 0
        self._begun = {
            each.name: (copy.start, file_number(each))
            for each in world.machines
            if (copy := read_copy(each)) is not None
        }
        """Where the history of each copy begins, as long as it is the same file."""
        self.violations: list[str] = []
        self._carrying_out: dict[int, tuple[Process, int]] = {}
        """Which process of a job began last, and with which opcode."""
        self._done: dict[tuple[int, int], tuple[Process, Position]] = {}
        """What was committed for an opcode of a job, and by which process."""
        self._held: dict[str, Position] = {}
        """What the copy of a machine has on disk, since something came to it."""
        self._given: dict[tuple[str, Position], None] = {}
        """What copies were given whole: there their history begins."""
        self._promised: dict[str, int] = {}
        """The highest epoch a machine has told to have promised."""
        world.kernel.local["acknowledged"] = self._heard
        world.kernel.local["held"] = self._holds
        world.kernel.local["given"] = self._is_given
        world.kernel.local["promised"] = self._promises
        world.kernel.local["admitted"] = self._admits
        world.kernel.local["committed_for"] = self._committed_for
        world.kernel.local["begun"] = self._begins

    def violated(self, sentence: str) -> None:
        self._world.kernel.tell("checker", f"VIOLATION: {sentence}")
        self.violations.append(sentence)

    # While things happen

    def _holds(self, process: Process, position: Position) -> None:
        """A copy has this on its disk."""
        self._held[process.machine.name] = position

    def _is_given(self, process: Process, position: Position) -> None:
        """A copy was sent everything."""
        self._given[process.machine.name, position] = None

    def _promises(self, process: Process, epoch: int) -> None:
        name = process.machine.name
        self._promised[name] = max(self._promised.get(name, 0), epoch)

    def _admits(self, process: Process, epoch: int, number: tuple[int, int, int]) -> None:
        """A node daemon is going to carry out a call that changes its node."""
        promised = self._promised.get(process.machine.name, 0)
        if epoch < promised:
            job, attempt, step = number
            self.violated(
                f"{process} carries out step {step} of job {job}.{attempt}, of epoch {epoch}, although it has promised "
                f"epoch {promised}"
            )

    def _heard(self, process: Process, position: Position, digest: str, members: Collection[str]) -> None:
        """A master has acknowledged a commit, when these were the *members*."""
        name = process.machine.name
        known = self.acknowledged.get(position)
        if known is not None and known != (name, digest):
            self.violated(f"{position} was acknowledged by {known[0]} and again by {name} as something else")
        if position[0] < self._highest_epoch:
            self.violated(
                f"{name} acknowledged {position} although epoch {self._highest_epoch} has acknowledged commits"
            )
        for machine in self._world.machines:
            held = self._held.get(machine.name, (0, 0))
            if machine is process.machine or node_uuid(machine.number) not in members or held >= position:
                continue
            copy = read_copy(machine)  # its node daemon may have been killed after the sync, before it could tell
            if copy is None or copy.position < position:
                self.violated(f"{name} acknowledged {position} while {machine.name}, a member, had {held}")
        self._highest_epoch = max(self._highest_epoch, position[0])
        self.acknowledged[position] = (name, digest)

    def _begins(self, process: Process, job: int, opcode: int) -> None:
        """A process begins with an opcode: no other may have done any of it."""
        done = self._done.get((job, opcode))
        if done is not None and done[0] is not process:
            self.violated(f"job {job} runs again: {process} begins, and {done[1]} was committed for {done[0]}")
        self._carrying_out[job] = (process, opcode)

    def _committed_for(self, job: int, position: Position) -> None:
        """A commit of a job is acknowledged."""
        known = self._carrying_out.get(job)
        if known is not None:
            process, opcode = known
            self._done.setdefault((job, opcode), (process, position))

    def look(self) -> None:
        """At any moment: no guest runs twice, and nothing of ours has failed by its own fault."""
        for who, sentence, _ in self._world.kernel.faults:
            self.violated(f"{who} met an internal error: {sentence}")
        self._world.kernel.faults.clear()
        running: dict[str, str] = {}
        for machine in self._world.machines:
            for name in guests_on(machine):
                if name in running:
                    self.violated(f"{name} runs on {running[name]} and on {machine.name}")
                running[name] = machine.name

    # At rest

    def at_rest(self) -> bool:
        """Whether everything has come right: one master, all jobs ended, all copies alike."""
        world = self._world
        serving = [each for each in world.machines if world.supervision[each.name].serves("ganeti-luxid")]
        if len(serving) != 1:
            return False
        if any(process.name in ("job", "user", "administrator") for process in serving[0].processes.values()):
            return False
        if any(status_of(raw) not in _FINAL for raw in job_files(serving[0]).values()):
            return False
        if lock_owners(serving[0]):
            return False
        first = read_copy(serving[0])
        if first is None or first.members != first.candidates:
            return False
        copies = [read_copy(machine) for machine in self._candidates(first) if machine is not serving[0]]
        return all(copy is not None and same(copy, first) for copy in copies) and not self._different_jobs(serving[0])

    def why_not_at_rest(self) -> list[str]:
        """What is still in the way of rest, in sentences."""
        world = self._world
        serving = [each for each in world.machines if world.supervision[each.name].serves("ganeti-luxid")]
        if len(serving) != 1:
            return [f"{len(serving)} machines serve as master: {', '.join(each.name for each in serving) or 'none'}"]
        found = []
        for job, raw in job_files(serving[0]).items():
            if status_of(raw) not in _FINAL:
                found.append(f"job {job} is {status_of(raw)} still")
        found += lock_owners(serving[0])
        for machine in self._candidates(read_copy(serving[0])):
            copy = read_copy(machine)
            if copy is None:
                found.append(f"{machine.name} has no copy")
            else:
                found.append(f"{machine.name} has {copy.position} with members {', '.join(copy.members)}")
        return found + self._different_jobs(serving[0])

    def check_at_rest(self) -> None:
        """When everything is at rest."""
        world = self._world
        master = world.master()
        if master is None:
            self.violated("there is no master in the end")
            return
        self._check_commits(master)
        self._check_jobs(master)
        self._check_left_overs(master)
        self.look()

    def _check_commits(self, master: Machine) -> None:
        copy = read_copy(master)
        if copy is None:
            self.violated(f"the master {master.name} has no configuration in the end")
            return
        begun, number = self._begun.get(master.name, ((0, 0), None))
        if copy.start > begun and file_number(master) == number and (master.name, copy.start) not in self._given:
            self.violated(
                f"the history of {master.name} begins with {copy.start}: what was before is not told any more"
            )
        for position, (name, digest) in self.acknowledged.items():
            if position > copy.position:
                self.violated(f"{position}, acknowledged by {name}, is lost: {master.name} has {copy.position}")
            elif position > copy.start and copy.digests.get(position) != digest:
                self.violated(f"{position}, acknowledged by {name}, is not what {master.name} has")

    def _check_jobs(self, master: Machine) -> None:
        files = job_files(master)
        for accepted in self._player.ledger.accepted_jobs.values():
            raw = files.get(accepted.job)
            if raw is None:
                self.violated(f"job {accepted.job} ({accepted.purpose}) was accepted and is unknown in the end")
                continue
            status = status_of(raw)
            if accepted.status is not None and accepted.status != status:
                self.violated(
                    f"job {accepted.job} ({accepted.purpose}) was told to have ended with {accepted.status}, "
                    f"and has ended with {status}"
                )
            elif accepted.status is not None and accepted.result != (results := results_of(raw)):
                self.violated(
                    f"job {accepted.job} ({accepted.purpose}) was told to have given {accepted.result}, "
                    f"and has given {results}"
                )

    def _check_mirrored(self, disks: list[dict[str, Any]]) -> None:
        """What was written to a mirrored disk is on a node that has it; none is open where it has no copy."""
        known = {disk["uuid"]: disk for disk in disks}
        written = self._world.kernel.local.get("mirrored disks written", {})
        names = {node_uuid(machine.number): machine for machine in self._world.machines}
        for uuid, disk in known.items():
            copies, image = [names[node].disk for node in disk["nodes"]], (disk["logical_id"] or [None])[-1]
            if image in written and not any(is_good(copy, image) for copy in copies):
                self.violated(f"no complete copy of the mirrored disk {uuid} is left on its nodes")
        for machine in self._world.machines:
            for name in machine.disk.listdir(RUNS) if machine.disk.isdir(RUNS) else ():
                uuid = json.loads(machine.disk.content(f"{RUNS}/{name}"))["uuid"]
                if uuid not in known or node_uuid(machine.number) not in known[uuid]["nodes"]:
                    self.violated(f"{machine.name} has the mirrored disk {uuid} open, and has no copy of it")

    def _check_volumes(self, disks: list[dict[str, Any]], named: str, told: str) -> None:
        """What was written to a replicated disk is on a node that has it; no volume is left without a disk.

        *told* is what jobs have said: of a copy on a node that was away, that it stays there.
        """
        names = {node_uuid(machine.number): machine for machine in self._world.machines}
        written = self._world.kernel.local.get("volumes written", {})
        wanted: dict[str, list[str]] = {machine.name: [] for machine in self._world.machines}
        for disk in disks:
            volumes = [child["logical_id"][1] for child in disk.get("children") or ()]
            for node in disk["nodes"] if volumes else ():
                wanted[names[node].name] += volumes
            if not volumes or f"{VOLUMES}/{volumes[0]}" not in written:
                continue
            if not any(is_complete(names[node].disk, f"{VOLUMES}/{volumes[0]}") for node in disk["nodes"]):
                self.violated(f"no complete copy of the replicated disk {disk['uuid']} is left on its nodes")
        for machine in self._world.machines:
            if f"stays on {machine.name}" in told:
                continue
            for name in machine.disk.listdir(VOLUMES) if machine.disk.isdir(VOLUMES) else ():
                origin, name = name.partition(".disk")[0], name.removesuffix(".old")
                if name not in wanted[machine.name] and name not in named and origin not in named:
                    self.violated(
                        f"the volume {name} of {machine.name} belongs to no disk, and no undo record names it"
                    )

    def _check_left_overs(self, master: Machine) -> None:
        for name in master.disk.listdir(QUEUE):
            if name.endswith(".undo"):
                text = master.disk.content(f"{QUEUE}/{name}").decode(errors="replace")
                if "given_up" not in text:
                    self.violated(f"{name} holds records that nobody will carry out, and nobody names: {text[:300]}")
        config = read_copy(master)
        if config is None:
            return
        known = [json.loads(data) for (kind, _), data in config.objects.items() if kind == "disks"]
        disks = {disk["logical_id"][1] for disk in known if len(disk.get("logical_id") or []) > 1}
        self._check_mirrored(known)
        named = self._named(master)
        told = b"".join(job_files(master).values()).decode(errors="replace")
        self._check_volumes(known, named, told)
        for _, path in images(self._world):
            # A half-made image and snapshots go with their disk: whoever removes it, or is told to, removes them too.
            image = path.partition(".snap-")[0].removesuffix(".mirror").removesuffix(".old")
            if image not in disks and path.removesuffix(".mirror").removesuffix(".new") not in named:
                self.violated(f"{path} belongs to no instance, and no undo record names it")
        forthcoming = [
            json.loads(data)["name"]
            for (kind, _), data in config.objects.items()
            if kind == "instances" and json.loads(data).get("forthcoming")
        ]
        reserved = {
            entry["input"].get("instance_name")
            for raw in job_files(master).values()
            if forthcoming and status_of(raw) != "damaged"
            for entry in json.loads(raw)["ops"]
            if entry["input"].get("forthcoming")
        }
        for name in forthcoming:
            if name not in named and name not in reserved:
                self.violated(f"{name} is half made in the end, and no undo record names it")

    def _named(self, master: Machine) -> str:
        return "".join(
            master.disk.content(f"{QUEUE}/{name}").decode(errors="replace")
            for name in master.disk.listdir(QUEUE)
            if name.endswith(".undo")
        )

    def _candidates(self, copy: Copy | None) -> list[Machine]:
        """The machines that are to have copies; of those that never had to, nobody asks."""
        if copy is None:
            return self._world.machines[: self._world.candidates]
        return [machine for machine in self._world.machines if node_uuid(machine.number) in copy.candidates]

    def _different_jobs(self, master: Machine) -> list[str]:
        """Members have the files of the queue as the master has them, soon after the last change."""
        wanted, found = job_files(master), []
        for machine in self._candidates(read_copy(master)):
            theirs = job_files(machine)
            for job in sorted({*wanted, *theirs}):
                if wanted.get(job) != theirs.get(job):
                    found.append(f"job {job} is not on {machine.name} what it is on the master {master.name}")
        return found
