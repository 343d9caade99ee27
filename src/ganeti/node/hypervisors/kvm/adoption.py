# SPDX-License-Identifier: BSD-2-Clause
"""Guests that Ganeti 3.0 or 3.1 has started, taken over as they run, and given back. No guest is stopped or paused.

The runtime file of the earlier Ganeti is kept beside this program's record, as ``conf/NAME.runtime-before``.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.interface import Adopted, Adoption
from ganeti.node.hypervisors.kvm import checks, process, record, runtime_file
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.runtime_file import ForeignRuntime
from ganeti.system.files import write_atomically


class KvmAdoption(Adoption):
    def __init__(self, places: Places) -> None:
        self._places = places

    async def check(self, wanted: Sequence[Adopted]) -> list[str]:
        problems = []
        for guest, known in self._running(wanted):
            try:
                await self._record(guest, known)
            except HypervisorError as err:
                problems.append(str(err))
        return problems + self._unknown(wanted)

    async def take(self, wanted: Sequence[Adopted]) -> list[str]:
        made = []
        for guest, known in self._running(wanted):
            made.append((guest, await self._record(guest, known)))
        self._places.prepare()
        taken = []
        for guest, fresh in made:
            if fresh is None:
                continue
            path = self._places.record(guest.name)
            write_atomically(self._places.record_before(guest.name), _read(path), mode=0o600, durable=False)
            record.write(self._places, fresh)
            process.note(self._places, guest)
            taken.append(guest.name)
        return taken

    async def check_back(self, wanted: Sequence[Adopted]) -> list[str]:
        problems = []
        for guest, _ in self._running(wanted):
            memory = process.option(guest.pid, "-m") or ""
            if not memory.isdigit():
                problems.append(
                    f"{guest.name} was started by this program with {memory} of memory, because processors are "
                    "emulated: Ganeti 3.0 reads whole MiB only, so shut it down first"
                )
            if record.read_note(self._places, guest.name) is not None:
                problems.append(f"{guest.name} is in a migration: end or cancel it first")
        return problems

    async def give_back(self, wanted: Sequence[Adopted]) -> list[str]:
        given = []
        for guest, known in self._running(wanted):
            if self._foreign(guest.name) is not None:
                continue
            made = record.read(self._places, guest.name)
            if made is None:
                raise HypervisorError(f"{guest.name} runs, and there is no record of it: shut it down first")
            write_atomically(
                self._places.record(guest.name),
                msgspec.json.encode(self._file_of(made, known)),
                mode=0o600,
                durable=False,
            )
            for path in (self._places.record_before(guest.name), self._places.process(guest.name)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            self._link_disks(guest.name, known)
            given.append(guest.name)
        return given

    def _running(self, wanted: Sequence[Adopted]) -> Iterator[tuple[GuestProcess, Adopted]]:
        names = {one.name: one for one in wanted}
        for guest in process.find_all(self._places):
            if guest.name in names:
                yield guest, names[guest.name]

    def _unknown(self, wanted: Sequence[Adopted]) -> list[str]:
        names = {one.name for one in wanted}
        return [
            f"{guest.name} runs here, and the configuration has no such instance on this node: stop it, or move it back"
            for guest in process.find_all(self._places)
            if guest.name not in names
        ]

    async def _record(self, guest: GuestProcess, known: Adopted) -> record.RuntimeRecord | None:
        """The guest as this program notes it, its QMP socket tried; None for one that it knows already."""
        found = self._foreign(guest.name)
        if found is None:
            return None
        async with Qmp(self._places.socket(guest.name, "qmp")) as qmp:
            version = (await qmp.execute("query-version"))["qemu"]
            await qmp.execute("query-status")
        made = runtime_file.to_record(
            guest.name,
            found,
            checks.filled(_known_values(found.hvparams)),
            qemu_version=[version["major"], version["minor"], version["micro"]],
            network_port=known.network_port,
            tags=known.tags,
        )
        if made.uuid != known.uuid:
            raise HypervisorError(f"{guest.name} runs with the UUID {made.uuid}, and the instance has {known.uuid}")
        return made

    def _foreign(self, name: str) -> ForeignRuntime | None:
        path = self._places.record(name)
        try:
            return runtime_file.decode(_read(path), path)
        except FileNotFoundError as err:
            raise HypervisorError(f"{name} runs, and its runtime file {path} is missing: restart it first") from err

    def _file_of(self, made: record.RuntimeRecord, known: Adopted) -> ForeignRuntime:
        try:
            before = runtime_file.decode(_read(self._places.record_before(made.name)), made.name)
        except FileNotFoundError:
            before = None
        if before is not None:
            return runtime_file.with_nics(before, made)
        return runtime_file.compose(made, [disk for disk, _ in known.disks], self._places)

    def _link_disks(self, name: str, known: Adopted) -> None:
        for index, (_, path) in enumerate(known.disks):
            link = runtime_file.link_of(self._places, name, index)
            if path and not os.path.lexists(link):
                os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
                os.symlink(path, link)


def _known_values(hvparams: dict[str, object]) -> dict[str, object]:
    """What Ganeti 3.0 calls ``default`` is this program's ``ignore`` (`master/config/versions`)."""
    return {
        name: "ignore" if (name, value) == ("disk_discard", "default") else value for name, value in hvparams.items()
    }


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
