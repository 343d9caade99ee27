# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisors ``xen-pvm`` and ``xen-hvm``: life of a guest on one node, by the tool ``xl``."""

import asyncio
import contextlib
import os
import re
import secrets
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.node_calls.instances import Console
from ganeti.model.node_calls.migration import MigrationStatus, MigrationTarget
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.model.traits import HypervisorTraits
from ganeti.model.uid_pool import Ranges
from ganeti.node.hypervisors import guest_files
from ganeti.node.hypervisors.consoles import shell_console, vnc_console
from ganeti.node.hypervisors.interface import Hypervisor, RunningInstance, check_name, filled_parameters
from ganeti.node.hypervisors.started_guests import StartedGuest, StartedGuests, started
from ganeti.node.hypervisors.xen import configuration
from ganeti.node.hypervisors.xen.adoption import XenAdoption
from ganeti.node.hypervisors.xen.domains import (
    INCOMING,
    LEFT,
    NODE_DOMAIN,
    Domain,
    read_capacity,
    read_domains,
    read_kinds,
)
from ganeti.node.hypervisors.xen.migration import XL, Sendings
from ganeti.node.hypervisors.xen.parameters import parameters
from ganeti.system.event_loop import Deadline
from ganeti.system.files import read_if_there, write_atomically

_POLL_S = 0.2
_XL_S = 120.0
_REBOOT_S = 60.0
_MIB = 1024 * 1024
_KINDS = {"pv": "xen-pvm", "hvm": "xen-hvm", "pvh": "xen-hvm"}
"""The words of xl."""


def _unused(filled: dict[str, Any]) -> set[str]:
    """Parameters that are files and that such a guest does without."""
    return {"kernel_path", "initrd_path"} if filled.get("use_bootloader") else {"bootloader_path"}


class XenHypervisor(Hypervisor):
    """What both have in common."""

    disk_kind: ClassVar[Any] = staticmethod(lambda path: configuration.kind_of_file(os.stat(path).st_mode))

    @property
    def guests(self) -> StartedGuests:
        return StartedGuests(f"{self.world.paths.run_dir}/xen")

    @property
    def sendings(self) -> Sendings:
        return Sendings(self.world)

    def config_path(self, name: str) -> str:
        check_name(name)
        return self.world.paths.under(f"/etc/xen/{name}")

    async def start(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, paused: bool = False) -> None:
        check_name(spec.name)
        there = await self._domain(spec.name)
        if there is not None and there.state in ("incoming", "postmigrate"):
            raise HypervisorError(f"{spec.name} is in a migration: end or cancel it first")
        if there is not None and there.state in ("running", "paused"):
            if not paused:
                await self._end_pause(spec.name, there)
            return
        text = self._text(spec, disks)
        await self._remove(spec.name)
        self._write(spec, text)
        try:
            await self._xl("create", *(["-p"] if paused else []), self.config_path(spec.name))
        except BaseException:
            await asyncio.shield(self._remove(spec.name))
            raise

    async def stop(self, name: str, *, timeout_s: float, force: bool = False, may_write: bool = True) -> None:
        domain = await self._domain(name)
        if domain is not None and domain.state == "running" and may_write and not force and timeout_s > 0:
            await self._power_down(name, timeout_s)
        await self._remove(name)

    async def reboot(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, hard: bool) -> None:
        domain = await self._domain(spec.name)
        if hard or domain is None or domain.state != "running":
            await self.stop(spec.name, timeout_s=0, force=True)
            await self.start(spec, disks)
            return
        await self._xl("reboot", "-F", spec.name)
        deadline = Deadline(_REBOOT_S)
        while not deadline.is_over:
            found = await self._domain(spec.name)
            if found is not None and found.number != domain.number and found.state == "running":
                return
            await self.world.sleep(_POLL_S)
        raise HypervisorError(f"{spec.name} has not rebooted within {_REBOOT_S:g} s: reboot it hard (--type=hard)")

    async def list_instances(self) -> list[RunningInstance]:
        """Xen lists the guests of both hypervisors: a record says of which one a guest is, or Xen itself."""
        own = {guest.name: guest.hypervisor for guest in self.guests.all()}
        domains = await self._domains()
        kinds: dict[str, str] = {}
        if any(domain.instance not in own for domain in domains):
            kinds = {name: _KINDS.get(kind, "") for name, kind in read_kinds(await self._xl("list", "-l")).items()}
        return [
            domain.described()
            for domain in domains
            if own.get(domain.instance, kinds.get(domain.name, "")) == self.traits.name
        ]

    async def info(self, name: str) -> RunningInstance | None:
        domain = await self._domain(name)
        return None if domain is None else domain.described()

    async def capacity(self) -> NodeCapacity:
        return read_capacity(await self._xl("info"), await self._all_domains())

    async def verify(self, hvparams: dict[str, Any]) -> list[str]:
        try:
            await self.capacity()
        except HypervisorError as err:
            return [f"Xen does not run guests here: {err}; install xen-system-amd64 and boot its hypervisor"]
        return []

    async def check_parameters(self, hvparams: dict[str, Any], *, user_ids: Ranges | None = None) -> None:
        filled = self._filled(hvparams)
        known = {parameter.name: parameter for parameter in self.traits.parameters}
        unused = {"device_model", *_unused(filled)}
        for name, parameter in known.items():
            if parameter.is_file and filled[name] and name not in unused and not os.path.isfile(filled[name]):
                raise HypervisorError(f"The file of {name}, {filled[name]}, is not on this node")
        self._check_places(filled)

    async def balloon(self, name: str, memory_mib: int) -> None:
        guest = self.guests.read(name)
        if guest is None or await self._domain(name) is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        if not 0 < memory_mib <= guest.memory_mib:
            raise HypervisorError(
                f"The memory of {name} can be set to 1..{guest.memory_mib} MiB while it runs, not to {memory_mib}"
            )
        await self._xl("mem-set", name, f"{memory_mib}m")

    def adoption(self) -> XenAdoption:
        return XenAdoption(self.traits.name, self.guests, self.list_instances)

    async def migration_info(self, name: str) -> dict[str, Any]:
        domain, guest = await self._domain(name), self.guests.read(name)
        if domain is None or domain.state not in ("running", "paused"):
            raise HypervisorError(f"The instance {name} does not run on this node")
        if guest is None:
            raise HypervisorError(f"{name} was not started by this program: stop and start it before it is migrated")
        data: dict[str, Any] = msgspec.to_builtins(guest)
        return data

    async def accept(
        self, spec: InstanceSpec, disks: Sequence[AttachedDisk], info: dict[str, Any], address: str
    ) -> MigrationTarget:
        try:
            coming = msgspec.convert(info, StartedGuest)
        except msgspec.ValidationError as err:
            raise HypervisorError(f"The migration source sent a runtime record that cannot be read: {err}") from err
        if coming.uuid != spec.uuid:
            raise HypervisorError(f"The runtime record is of {coming.name}, not of {spec.name}")
        there = await self._domain(spec.name)
        if there is not None:
            raise HypervisorError(f"{spec.name} is on the target already ({there.state}): stop it there first")
        self._write(spec, self._text(spec, disks), memory_mib=coming.memory_mib)
        port = int(self._filled(spec.hvparams)["migration_port"])
        data = {"ssh_port": self._own_ssh_port()}
        return MigrationTarget(address=address, port=port, key=secrets.token_hex(32), data=data)

    async def migrate(self, name: str, target: MigrationTarget, *, live: bool) -> None:
        note = self.sendings.read(name)
        if note is not None and note.lives:
            raise HypervisorError(f"{name} is in a migration already (active): end or cancel it first")
        domain = await self._domain(name)
        if domain is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        cluster = self._ssconf("cluster_name")
        if not re.fullmatch(r"[A-Za-z0-9.-]+", cluster):
            raise HypervisorError("This node does not know the name of its cluster: run gnt-cluster redist-conf")
        pauses = not live and domain.state == "running"
        paused = pauses or (note is not None and note.paused)
        self.sendings.announce(name, paused=paused)
        if pauses:
            await self._xl("pause", name)
        await self.sendings.begin(name, target, cluster=cluster, paused=paused)

    async def migration_status(self, name: str) -> MigrationStatus:
        note = self.sendings.read(name)
        if note is None:
            return MigrationStatus(status="none")
        domain, guest = await self._domain(name), self.guests.read(name)
        total = guest.memory_mib * _MIB if guest is not None else 0
        if note.lives:
            # xl gives no figures: only ssh knows whether the connection lives, and ends it otherwise.
            return MigrationStatus(
                status="active", transferred_ram=int(self.world.now_s() - note.began_s), total_ram=total
            )
        if domain is None or domain.state == "postmigrate":
            return MigrationStatus(status="completed", transferred_ram=total, total_ram=total)
        return MigrationStatus(status="failed", total_ram=total, error=self.sendings.last_words(name))

    async def continue_switchover(self, name: str) -> None:
        status = (await self.migration_status(name)).status
        if status not in ("active", "completed"):
            raise HypervisorError(f"The migration of {name} is not at its switchover but {status}")

    async def cancel_migration(self, name: str) -> MigrationStatus:
        note = self.sendings.read(name)
        if note is None:
            return MigrationStatus(status="none")
        await self.sendings.end(note, name)
        status = await self.migration_status(name)
        if status.status == "completed":
            return status
        await self._run_on(name)
        return MigrationStatus(status="cancelled", total_ram=status.total_ram)

    async def finalize_target(self, name: str, *, success: bool) -> None:
        domain = await self._domain(name)
        if success:
            if domain is None or domain.state == "incoming":
                raise HypervisorError(f"{name} did not arrive: nothing of it is on the target")
            return
        if domain is not None and domain.state not in ("incoming", "postmigrate", "shutdown"):
            raise HypervisorError(f"{name} has been taken over on this node and is {domain.state}: it is not removed")
        await self._remove(name)

    async def finalize_source(self, name: str, *, success: bool) -> None:
        domain = await self._domain(name)
        if not success:
            if domain is None or domain.state == "postmigrate":
                raise HypervisorError(f"{name} cannot run on here: it has ended on this node; start it again")
            await self._run_on(name)
            return
        if domain is not None and domain.state != "postmigrate":
            status = (await self.migration_status(name)).status
            raise HypervisorError(f"{name} has not left this node: its migration is {status}, its state {domain.state}")
        await self._remove(name)

    @abstractmethod
    def settings(self, spec: InstanceSpec, hvparams: dict[str, Any]) -> Iterator[configuration.Setting]:
        """What guests of this kind have besides."""

    async def _run_on(self, name: str) -> None:
        domain = await self._domain(name)
        if domain is not None and domain.state == "paused":
            await self._xl("unpause", name)
        self.sendings.forget(name)

    async def _end_pause(self, name: str, domain: Domain) -> None:
        """Let a guest run on that was paused for a migration of which nothing came; one in a migration stays so."""
        note = self.sendings.read(name)
        if domain.state == "paused" and note is not None and note.paused and not note.lives:
            await self._run_on(name)

    async def _power_down(self, name: str, timeout_s: float) -> None:
        deadline = Deadline(timeout_s)
        try:
            await self._xl("shutdown", "-F", name)
        except HypervisorError as err:
            self.world.log(f"instance {name}: it does not hear of the shutdown and is ended: {err}")
            return
        while left_s := deadline.left_s:
            domain = await self._domain(name)
            if domain is None or domain.state == "shutdown":
                return
            await self.world.sleep(min(_POLL_S, left_s))
        self.world.log(f"instance {name} did not power off within {timeout_s:g} s, it is ended")

    async def _remove(self, name: str) -> None:
        """End what is left of a guest, and its files."""
        note = self.sendings.read(name)
        if note is not None and note.lives:
            await self.sendings.end(note, name)
        path = self.config_path(name)
        for domain in await self._all_domains():
            if domain.instance == name and domain.name != NODE_DOMAIN:
                await self._xl("destroy", domain.name)
        if self._is_own_file(path):
            os.unlink(path)
        self.sendings.forget(name)
        self.guests.remove(name)

    async def _domain(self, name: str) -> Domain | None:
        """The guest, also one that arrives or has left; what runs here comes first."""
        check_name(name)
        found = {domain.name: domain for domain in await self._domains() if domain.instance == name}
        return found.get(name) or found.get(name + INCOMING) or found.get(name + LEFT)

    async def _domains(self) -> list[Domain]:
        return [domain for domain in await self._all_domains() if domain.name != NODE_DOMAIN]

    async def _all_domains(self) -> list[Domain]:
        return read_domains(await self._xl("list"))

    async def _xl(self, *words: str) -> str:
        try:
            return (await self.world.run([XL, *words], timeout_s=_XL_S)).stdout
        except CommandError as err:
            raise HypervisorError(f"'xl {words[0]}' failed: {err}") from err

    def _filled(self, hvparams: dict[str, Any]) -> dict[str, Any]:
        return filled_parameters(self, hvparams)

    def _check_places(self, filled: dict[str, Any]) -> None:
        """xl opens these files as root."""
        used = [name for name in guest_files.PARAMETERS if name not in _unused(filled)]
        guest_files.check_places(self.world.paths, filled, used)
        guest_files.check_password(self.world.paths, "vnc_password_file", filled.get("vnc_password_file") or "")

    def _text(self, spec: InstanceSpec, disks: Sequence[AttachedDisk]) -> str:
        """The configuration of a guest; raises `HypervisorError` where it cannot be one."""
        if len(disks) != len(spec.disks):
            raise HypervisorError(
                f"{len(disks)} of the {len(spec.disks)} disks of {spec.name} are activated on this node"
            )
        hvparams = self._filled(spec.hvparams)
        self._check_places(hvparams)
        disk_words = configuration.disk_words(hvparams, disks, self.disk_kind)
        return configuration.text_of(
            [
                *self.settings(spec, hvparams),
                *configuration.common(spec, hvparams),
                ("vif", configuration.nic_words(hvparams, spec.nics)),
                ("disk", disk_words),
            ]
        )

    def _write(self, spec: InstanceSpec, text: str, memory_mib: int | None = None) -> None:
        path = self.config_path(spec.name)
        record = msgspec.structs.replace(started(spec, self.world.now_s()), hypervisor=self.traits.name)
        if memory_mib is not None:
            record = msgspec.structs.replace(record, memory_mib=memory_mib)
        if os.path.lexists(path) and not self._is_own_file(path):
            raise HypervisorError(f"{path} is no configuration of a guest: rename the instance")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(path, text.encode(), mode=0o600)
        except OSError as err:
            raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err
        self.guests.write(record)

    def _is_own_file(self, path: str) -> bool:
        """An instance may be called like one of the files that Xen itself has beside those of guests."""
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as source:
            return configuration.OWN_MARK in source.readline()
        return False

    def _ssconf(self, name: str) -> str:
        return (read_if_there(f"{self.world.paths.data_dir}/ssconf_{name}") or b"").decode("utf-8", "replace").strip()

    def _own_ssh_port(self) -> int:
        for line in self._ssconf("ssh_ports").splitlines():
            node, _, port = line.partition("=")
            if node == self.world.node_name and port.isdecimal():
                return int(port)
        return 22


class XenPvmHypervisor(XenHypervisor):
    traits = HypervisorTraits(name="xen-pvm", parameters=parameters("xen-pvm"), can_migrate=True, can_balloon=True)

    def settings(self, spec: InstanceSpec, hvparams: dict[str, Any]) -> Iterator[configuration.Setting]:
        return configuration.pvm(spec, hvparams)

    def console(self, spec: InstanceSpec) -> Console:
        return shell_console(spec, [XL, "console", spec.name], "Ctrl-] leaves the console")


class XenHvmHypervisor(XenHypervisor):
    traits = HypervisorTraits(
        name="xen-hvm",
        parameters=parameters("xen-hvm"),
        can_migrate=True,
        can_balloon=True,
        needs_network_port=True,
    )

    def settings(self, spec: InstanceSpec, hvparams: dict[str, Any]) -> Iterator[configuration.Setting]:
        path = hvparams["vnc_password_file"]
        password = (read_if_there(path) or b"").decode("utf-8", "replace").partition("\n")[0].strip()
        if not password:
            raise HypervisorError(f"The file of vnc_password_file, {path}, is not on this node or empty")
        return configuration.hvm(spec, hvparams, password)

    def console(self, spec: InstanceSpec) -> Console:
        bind = str(self._filled(spec.hvparams)["vnc_bind_address"])
        if bind and spec.network_port is not None:
            return vnc_console(spec, bind, spec.network_port)
        return shell_console(spec, [XL, "console", spec.name], "Ctrl-] leaves the console")
