# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``fake``: life and migration of guests that are files."""

import contextlib
import json
import os
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.instances import Console
from ganeti.model.node_calls.migration import MigrationStatus, MigrationTarget
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.model.parameters import Parameter
from ganeti.model.traits import HypervisorTraits
from ganeti.model.uid_pool import Ranges
from ganeti.node.hypervisors.capacity import read_memory_mib
from ganeti.node.hypervisors.fake.devices import FakeDevices
from ganeti.node.hypervisors.fake.failures import failing
from ganeti.node.hypervisors.fake.guests import UNDER_WAY, Guest, Guests, Migration
from ganeti.node.hypervisors.interface import (
    Hypervisor,
    RunningInstance,
    Sighting,
    filled_parameters,
    refuse_another,
)
from ganeti.system.boot import boot_identity

DIRECTORY = "fake-hypervisor"
CAPACITY_FILE = ".capacity"
LOAD_FILE = ".load"
_MIGRATION_PORT = 8102
_SENDING_S = 0.02
_MIB = 1024 * 1024
_NONE = "none"
_ACTIVE = "active"
_PRE_SWITCHOVER = "pre-switchover"
_COMPLETED = "completed"
_CANCELLED = "cancelled"


class FakeHypervisor(Hypervisor):
    traits = HypervisorTraits(
        name="fake",
        parameters=(
            Parameter(
                *("migration_mode", "string", "live", "migrate running or stopped"),
                choices=("live", "non-live"),
                cluster_only=True,
            ),
        ),
        can_migrate=True,
        can_balloon=True,
        can_hotplug=True,
        can_copy_disks=True,
        boots_backups=True,
        can_exchange_disks=True,
        can_move_disks=True,
    )

    @property
    def directory(self) -> str:
        return f"{self.world.paths.run_dir}/{DIRECTORY}"

    @property
    def guests(self) -> Guests:
        return Guests(self.directory)

    async def start(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, paused: bool = False) -> None:
        async with self._failing("start", spec.name):
            there = self.guests.read(spec.name)
            if there is not None and (there.state in ("incoming", "postmigrate") or there.moving):
                raise HypervisorError(f"{spec.name} is in a migration: end or cancel it first")
            if there is not None and there.state in ("running", "paused"):
                refuse_another(spec, there.uuid)
                return
            if len(disks) != len(spec.disks):
                raise HypervisorError(
                    f"{len(disks)} of the {len(spec.disks)} disks of {spec.name} are activated on this node"
                )
            await self.check_parameters(spec.hvparams)
            self.guests.write(self._new(spec, disks, "paused" if paused else "running"))

    async def stop(self, name: str, *, timeout_s: float, force: bool = False, may_write: bool = True) -> None:
        async with self._failing("stop", name):
            self.guests.remove(name)

    async def reboot(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, hard: bool) -> None:
        async with self._failing("reboot", spec.name):
            there = self.guests.read(spec.name)
            if there is None or hard:
                self.guests.write(self._new(spec, disks, "running"))
            else:
                self.guests.write(msgspec.structs.replace(there, state="running", started_s=self.world.now_s()))

    async def list_instances(self) -> list[RunningInstance]:
        async with self._failing("list_instances", ""):
            return [self._describe(guest) for guest in self.guests.all()]

    def seen(self) -> list[Sighting]:
        busy = self._object(LOAD_FILE, '{"web1": 2.5}')
        return [
            Sighting(
                name=guest.name,
                started_s=guest.started_s,
                cpu_time_s=self._describe(guest).cpu_time_s * busy.get(guest.name, 1.0),
                resident_bytes=guest.memory_mib * _MIB,
            )
            for guest in self.guests.all()
        ]

    async def capacity(self) -> NodeCapacity:
        async with self._failing("capacity", ""):
            total, available = read_memory_mib()
            replaced = self._replaced_capacity()
            total = int(replaced.get("memory_total", total))
            own = int(replaced.get("memory_dom0", max(0, total - available) if total >= available else 0))
            used = sum(guest.memory_mib for guest in self.guests.all())
            found: dict[str, Any] = {
                "memory_total": total,
                "memory_dom0": own,
                "memory_free": max(0, total - own - used),
                "cpu_total": os.cpu_count() or 1,
            }
            return msgspec.convert(found | replaced, NodeCapacity)

    async def verify(self, hvparams: dict[str, Any]) -> list[str]:
        async with self._failing("verify", ""):
            try:
                os.makedirs(self.directory, exist_ok=True)
            except OSError as err:
                return [f"The directory {self.directory} cannot be made: {err.strerror}"]
            return []

    async def check_parameters(self, hvparams: dict[str, Any], *, user_ids: Ranges | None = None) -> None:
        async with self._failing("check_parameters", ""):
            filled_parameters(self, hvparams)

    def console(self, spec: InstanceSpec) -> Console:
        return Console(instance=spec.name, kind="msg", message="Console not available for fake hypervisor")

    async def migration_info(self, name: str) -> dict[str, Any]:
        async with self._failing("migration_info", name):
            guest = self.guests.required(name)
            if guest.state not in ("running", "paused"):
                raise HypervisorError(f"{name} cannot be migrated now: its state is {guest.state}")
            data: dict[str, Any] = msgspec.to_builtins(guest)
            return data

    async def accept(
        self, spec: InstanceSpec, disks: Sequence[AttachedDisk], info: dict[str, Any], address: str
    ) -> MigrationTarget:
        async with self._failing("accept", spec.name):
            try:
                coming = msgspec.convert(info, Guest)
            except msgspec.ValidationError as err:
                raise HypervisorError(f"The migration source sent a runtime record that cannot be read: {err}") from err
            if coming.uuid != spec.uuid:
                raise HypervisorError(f"The runtime record is of {coming.name}, not of {spec.name}")
            if len(disks) < len(coming.disk_paths):
                raise HypervisorError(
                    f"{spec.name} runs with {len(coming.disk_paths)} disks, of which some are not activated on the "
                    "target"
                )
            there = self.guests.read(spec.name)
            if there is not None and there.state in ("running", "paused"):
                raise HypervisorError(f"{spec.name} is on the target already ({there.state}): stop it there first")
            resumes = coming.state == "running"
            self.guests.write(
                msgspec.structs.replace(
                    coming,
                    state="incoming",
                    boot=boot_identity(),
                    disk_paths=[disk.path for disk in disks][: len(coming.disk_paths)],
                    migration=None,
                    resumes=resumes,
                )
            )
            return MigrationTarget(address=address, port=_MIGRATION_PORT, key=secrets.token_hex(32))

    async def migrate(self, name: str, target: MigrationTarget, *, live: bool) -> None:
        async with self._failing("migrate", name):
            guest = self._advanced(name)
            if guest.migration is not None and guest.migration.status in (*UNDER_WAY, _COMPLETED):
                raise HypervisorError(
                    f"{name} is in a migration already ({guest.migration.status}): end or cancel it first"
                )
            begun = Migration(
                status=_ACTIVE, began_s=self.world.now_s(), live=live, was_running=guest.state == "running"
            )
            state = guest.state if live else "paused"
            self.guests.write(msgspec.structs.replace(guest, migration=begun, state=state))

    async def migration_status(self, name: str) -> MigrationStatus:
        async with self._failing("migration_status", name):
            if self.guests.read(name) is None:
                return MigrationStatus(status="failed", error=f"The instance {name} on the source has ended")
            return self._status(self._advanced(name))

    async def continue_switchover(self, name: str) -> None:
        async with self._failing("continue_switchover", name):
            guest = self._advanced(name)
            status = self._status(guest).status
            if status == _PRE_SWITCHOVER and guest.migration is not None:
                done = msgspec.structs.replace(guest.migration, status=_COMPLETED)
                self.guests.write(msgspec.structs.replace(guest, migration=done, state="postmigrate"))
            elif status != _COMPLETED:
                raise HypervisorError(f"The migration of {name} is not at its switchover but {status}")

    async def cancel_migration(self, name: str) -> MigrationStatus:
        async with self._failing("cancel_migration", name):
            if self.guests.read(name) is None:
                return MigrationStatus(status=_NONE)
            guest = self._advanced(name)
            if guest.moving:
                guest = self._returned(guest)
            return self._status(guest)

    async def finalize_target(self, name: str, *, success: bool) -> None:
        async with self._failing("finalize_target", name):
            guest = self.guests.read(name)
            if not success:
                if guest is not None and guest.state not in ("incoming", "postmigrate", "shutdown"):
                    raise HypervisorError(
                        f"{name} has been taken over on this node and is {guest.state}: it is not removed"
                    )
                self.guests.remove(name)
            elif guest is None:
                raise HypervisorError(f"{name} did not arrive: nothing of it is on the target")
            elif guest.state == "incoming":
                self.guests.write(msgspec.structs.replace(guest, state="running" if guest.resumes else "paused"))

    async def finalize_source(self, name: str, *, success: bool) -> None:
        async with self._failing("finalize_source", name):
            guest = self.guests.read(name)
            if guest is None:
                if success:
                    return
                raise HypervisorError(f"{name} cannot run on here: it has ended on this node; start it again")
            if success and guest.state != "postmigrate":
                status = self._status(guest).status
                raise HypervisorError(
                    f"{name} has not left this node: its migration is {status}, its state {guest.state}"
                )
            if success:
                self.guests.remove(name)
            elif guest.migration is not None:
                self._returned(guest)

    @property
    def devices(self) -> FakeDevices:
        return FakeDevices(self.world, self.directory)

    async def resize_disk(self, name: str, disk: AttachedDisk, size_mib: int) -> None:
        async with self._failing("resize_disk", name):
            self.guests.required(name)

    async def balloon(self, name: str, memory_mib: int) -> None:
        async with self._failing("balloon", name):
            guest = self.guests.required(name)
            if not 0 < memory_mib <= guest.maximum_mib:
                raise HypervisorError(
                    f"The memory of {name} can be set to 1..{guest.maximum_mib} MiB while it runs, not to {memory_mib}"
                )
            self.guests.write(msgspec.structs.replace(guest, memory_mib=memory_mib))

    def _new(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], state: str) -> Guest:
        memory_mib = int(spec.beparams["maxmem"])
        return Guest(
            name=spec.name,
            uuid=spec.uuid,
            memory_mib=memory_mib,
            maximum_mib=memory_mib,
            vcpus=int(spec.beparams["vcpus"]),
            state=state,
            boot=boot_identity(),
            started_s=self.world.now_s(),
            disk_paths=[disk.path for disk in disks],
            macs=[nic.mac for nic in spec.nics],
        )

    def _describe(self, guest: Guest) -> RunningInstance:
        return RunningInstance(
            name=guest.name,
            memory_mib=guest.memory_mib,
            vcpus=guest.vcpus,
            state=guest.state,
            cpu_time_s=max(0.0, self.world.now_s() - guest.started_s) if guest.state == "running" else 0.0,
        )

    def _advanced(self, name: str) -> Guest:
        """A migration under way is at its switchover after a moment: the guest is paused there."""
        guest = self.guests.required(name)
        moving = guest.migration
        if moving is None or moving.status != _ACTIVE or self.world.now_s() - moving.began_s < _SENDING_S:
            return guest
        arrived = msgspec.structs.replace(moving, status=_PRE_SWITCHOVER)
        guest = msgspec.structs.replace(guest, migration=arrived, state="paused")
        self.guests.write(guest)
        return guest

    def _returned(self, guest: Guest) -> Guest:
        """Running here again, as before the migration."""
        assert guest.migration is not None
        runs = guest.migration.was_running
        ended = msgspec.structs.replace(guest.migration, status=_CANCELLED)
        guest = msgspec.structs.replace(guest, state="running" if runs else "paused", migration=ended)
        self.guests.write(guest)
        return guest

    def _status(self, guest: Guest) -> MigrationStatus:
        if guest.migration is None:
            return MigrationStatus(status=_NONE)
        total = guest.memory_mib * _MIB
        sent = total if guest.migration.status in (_PRE_SWITCHOVER, _COMPLETED) else total // 2
        return MigrationStatus(status=guest.migration.status, transferred_ram=sent, total_ram=total)

    def _replaced_capacity(self) -> dict[str, Any]:
        return self._object(CAPACITY_FILE, '{"memory_total": 65536}')

    def _object(self, name: str, example: str) -> dict[str, Any]:
        """What a test has written into a file of the directory; nothing where it has not."""
        path = f"{self.directory}/{name}"
        try:
            with open(path, encoding="utf-8") as source:
                replaced = json.load(source)
        except FileNotFoundError:
            return {}
        except ValueError as err:
            raise HypervisorError(f"The file {path} is no JSON: {err}") from err
        if not isinstance(replaced, dict):
            raise HypervisorError(f"The file {path} must hold an object, such as {example}")
        return replaced

    def _failing(self, method: str, name: str) -> contextlib.AbstractAsyncContextManager[None]:
        return failing(self.world, self.directory, method, name)
