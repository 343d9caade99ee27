# SPDX-License-Identifier: BSD-2-Clause
"""What a take-over does on one node. Guests run on through all of it."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import ganeti.node.hypervisors
import ganeti.node.storage
from ganeti.base.errors import WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.base.paths import OS_SEARCH_PATH
from ganeti.base.registry import import_all
from ganeti.base.version import RELEASE
from ganeti.bootstrap.foreign_daemons import check_no_foreign_daemon
from ganeti.bootstrap.machine import Machine
from ganeti.node.hypervisors.interface import Adopted, Hypervisor
from ganeti.node.storage.interface import DiskTemplate
from ganeti.noded.world import RealNodeWorld
from ganeti.system.ssconf import ssconf
from ganeti.tools.ensure_dirs import ensure
from ganeti.tools.take_over.kept_files import KeptFiles
from ganeti.tools.take_over.messages import BEFORE, NO_NODE, TAKEN, Done, GiveBack, Guest, Survey, SurveyAnswer, Take

T = TypeVar("T")
_EXPORTS_OF_DEBIAN = "/var/lib/ganeti/export"
"""Where Debian's Ganeti 3.0 keeps exports. What both keep stays in its place: only `gnt-backup` does not find it."""


class NodePart:
    """Every step may be repeated."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._paths = machine.paths
        self._world = RealNodeWorld(machine.paths, machine.hostname)
        self._kept = KeptFiles(machine.paths)
        import_all(ganeti.node.hypervisors)
        import_all(ganeti.node.storage)

    @property
    def state(self) -> str:
        if not os.path.exists(self._paths.ssconf_file("cluster_name")):
            return NO_NODE
        return TAKEN if os.path.exists(self._paths.authority_cert) else BEFORE

    def survey(self, wanted: Survey) -> SurveyAnswer:
        problems, remarks, running = [], [], []
        name = ssconf(self._paths, "cluster_name")
        if name and name != wanted.cluster_name:
            problems.append(f"this machine is a node of the cluster {name}")
        try:
            check_no_foreign_daemon(self._paths, os.path.dirname(self._machine.program("daemon-util")))
        except PrerequisiteError as err:
            problems.append(str(err))
        if self.state == TAKEN and not self._kept.are_there:
            remarks.append("nothing is kept of what this node had before: it was no node of the earlier Ganeti")
        for hypervisor in wanted.hypervisors:
            driver = self._driver(hypervisor)
            own = [guest for guest in wanted.guests if guest.hypervisor == hypervisor]
            adopted = [_adopted(guest, []) for guest in own]
            if (adoption := driver.adoption()) is not None:
                problems += _run(adoption.check_back(adopted) if wanted.back else adoption.check(adopted))
            running += [found.name for found in _run(driver.list_instances())]
        remarks += [
            f"the OS {system} is not on this node: instances of it run, and cannot be installed again here"
            for system in wanted.systems
            if not any(os.path.isdir(self._paths.under(f"{place}/{system}")) for place in OS_SEARCH_PATH)
        ]
        remarks += self._exports(back=wanted.back)
        return SurveyAnswer(
            release=RELEASE,
            state=self.state,
            running=sorted(running),
            problems=problems,
            remarks=remarks,
            old_digest=self._kept.old_digest(is_back=self.state == BEFORE),
        )

    def _exports(self, *, back: bool) -> list[str]:
        """What the one keeps, and the other does not look for."""
        debian, ours = self._paths.under(_EXPORTS_OF_DEBIAN), self._paths.export_dir
        here, there = (ours, debian) if back else (debian, ours)
        if not os.path.isdir(here) or not os.listdir(here):
            return []
        whose = "Debian's Ganeti 3.0" if back else "this program"
        return [f"there are exports in {here}, and {whose} looks for them in {there}: move them there"]

    def take(self, wanted: Take) -> Done:
        """Keep what there was, write keys and names, take over guests; daemons are not started."""
        check_no_foreign_daemon(self._paths, os.path.dirname(self._machine.program("daemon-util")))
        self._kept.save()
        taken = self._each_driver(wanted.guests, take=True)
        self._kept.put(wanted.files)
        ensure(self._paths, full=True)
        return Done(guests=taken)

    def give_back(self, wanted: GiveBack) -> Done:
        """Write what Ganeti 3.0 knows its guests by, put back what was kept; its package is installed after this."""
        self._machine.daemon_util("stop-all")
        if self.state == BEFORE:
            return Done()  # the mark goes last: a directory that is still there may lack files
        if not self._kept.are_there:
            raise PrerequisiteError(
                f"{self._kept.directory} is missing: what this node had before is not known", WRONG_STATE
            )
        given = self._each_driver(wanted.guests, take=False)
        self._kept.restore(wanted.files)
        return Done(guests=given)

    def start(self) -> None:
        self._machine.daemon_util("start-all")

    def stop(self) -> None:
        self._machine.daemon_util("stop-all")

    def _each_driver(self, guests: list[Guest], *, take: bool) -> list[str]:
        done: list[str] = []
        for name in sorted({guest.hypervisor for guest in guests}):
            own = [guest for guest in guests if guest.hypervisor == name]
            driver = self._driver(name)
            running = {found.name for found in _run(driver.list_instances())}
            adopted = [_adopted(guest, self._disks(guest, take=take) if guest.name in running else []) for guest in own]
            if (adoption := driver.adoption()) is not None:
                done += _run(adoption.take(adopted) if take else adoption.give_back(adopted))
        return done

    def _disks(self, guest: Guest, *, take: bool) -> list[str]:
        """Where the disks of a running guest are; what says that this node alone writes them is taken or given up."""
        found = []
        for disk in guest.disks:
            driver = DiskTemplate.registry[disk.template](self._world)
            found.append(_run(driver.activate(disk, guest.name)).path)
            if not take:
                _run(driver.deactivate(disk))
        return found

    def _driver(self, name: str) -> Hypervisor:
        driver = Hypervisor.registry.get(name)
        if driver is None:
            raise GanetiError(f"The hypervisor {name} is not among those of this program")
        return driver(self._world)


def _adopted(guest: Guest, paths: list[str]) -> Adopted:
    return Adopted(
        name=guest.name,
        uuid=guest.uuid,
        network_port=guest.network_port,
        tags=guest.tags,
        disks=list(zip(guest.plain_disks, paths, strict=False)),
    )


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
