# SPDX-License-Identifier: BSD-2-Clause
"""A guest's disks sent to another node while it runs there: QEMU's mirror jobs, over NBD into the incoming QEMU.

The guest's writes never wait for the other node: what changes meanwhile is sent again, and the last of it at the
switchover, when the guest has stopped. So a target that hangs costs the guest nothing before that moment, and at that
moment `SWITCHOVER_S`.
"""

import asyncio
import contextlib
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.disk_transfer import DiskDoor
from ganeti.model.node_calls.hotplug import MirrorProgress
from ganeti.node.hypervisors.kvm import keys
from ganeti.node.hypervisors.kvm.block_nodes import close_node
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.ports import listen_on_free_port
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord
from ganeti.node.hypervisors.kvm.status import RUNNING, state_of
from ganeti.ports.node_world import NodeWorld

SWITCHOVER_S = 20.0
"""For the last of the data, while the guest stands still."""
_CONCLUDED = "concluded"
_END_S = 60.0
_POLL_S = 0.02


class DiskReceiver:
    """The target's side: an incoming guest that listens for the content of its disks."""

    def __init__(self, places: Places, guest: GuestProcess, known: RuntimeRecord) -> None:
        self._places = places
        self._guest = guest
        self._known = known

    async def open(self, address: str) -> DiskDoor:
        """Begin to listen; an earlier door is closed first. Raises `HypervisorError`."""
        if self._known.started:
            raise HypervisorError(f"{self._known.name} has arrived here: its disks are not received any more")
        key = keys.make()
        async with self._qmp() as qmp:
            await self._close(qmp)
            made = await keys.place(qmp, self._places, self._guest, self._known, keys.RECEIVER, key)
            port = await listen_on_free_port(
                self._known,
                address,
                lambda number: qmp.execute(
                    "nbd-server-start",
                    {
                        "addr": {"type": "inet", "data": {"host": address, "port": str(number)}},
                        "tls-creds": made,
                        "max-connections": len(self._known.disks),
                    },
                ),
            )
            for place in self._known.disks:
                node = place.node_name
                shown = {"type": "nbd", "id": f"door-{place.identity}", "node-name": node, "name": place.identity}
                await qmp.execute("block-export-add", shown | {"writable": True})
        return DiskDoor(address=address, port=port, key=key)

    async def close(self) -> None:
        """Let nobody write the disks any more; nothing open is no error."""
        async with self._qmp() as qmp:
            await self._close(qmp)

    async def _close(self, qmp: Qmp) -> None:
        with contextlib.suppress(QmpError):
            await qmp.execute("nbd-server-stop")
        await keys.take(qmp, self._places, self._known.name, self._known, keys.RECEIVER)

    def _qmp(self) -> Qmp:
        return Qmp(self._places.socket(self._known.name, "qmp"))


class DiskSender:
    """The source's side."""

    def __init__(self, world: NodeWorld, places: Places, guest: GuestProcess, known: RuntimeRecord) -> None:
        self._world = world
        self._places = places
        self._guest = guest
        self._known = known

    async def send(self, count: int, door: DiskDoor) -> list[MirrorProgress]:
        """Begin to send *count* disks, which are all, or tell how far that is; raises `HypervisorError`."""
        if count != len(self._known.disks):
            raise HypervisorError(
                f"{self._known.name} runs with {len(self._known.disks)} disks, and has {count} in the configuration: "
                "start it again first"
            )
        async with self._qmp() as qmp:
            jobs = await self._jobs(qmp)
            if not jobs:
                await self._begin(qmp, door)
                jobs = await self._jobs(qmp)
        self._require_all(jobs)
        return [
            MirrorProgress(
                index=index,
                is_equal=job["status"] == "ready",
                done_bytes=job["current-progress"],
                total_bytes=job["total-progress"],
            )
            for index, job in enumerate(jobs[_job_id(place)] for place in self._known.disks)
        ]

    async def hand_over(self) -> None:
        """Send what is left, with the guest stopped: both sides are equal then. Raises `HypervisorError`."""
        async with self._qmp() as qmp:
            if state_of((await qmp.execute("query-status"))["status"]) == RUNNING:
                raise HypervisorError(f"{self._known.name} still runs here: its disks are not handed over")
            jobs = await self._jobs(qmp)
            self._require_all(jobs)
            for job in jobs.values():
                if job["status"] != "ready":
                    raise HypervisorError(f"The disks of {self._known.name} are not copied yet ({job['status']})")
                await qmp.execute("block-job-cancel", {"device": job["id"], "force": False})
            self._require_all(await self._ended(qmp, SWITCHOVER_S))
            await self._forget(qmp)

    async def stop(self) -> None:
        """End all sending at once, even where the target hangs; nothing going on is no error."""
        async with self._qmp() as qmp:
            await self._stop(qmp)

    async def _stop(self, qmp: Qmp) -> None:
        for place in self._known.disks:
            with contextlib.suppress(QmpError):
                connection = {"type": "block-node", "node-name": _connection(place)}
                await qmp.execute("yank", {"instances": [connection]})
        for job in (await self._jobs(qmp)).values():
            if job["status"] != _CONCLUDED:
                with contextlib.suppress(QmpError):
                    await qmp.execute("block-job-cancel", {"device": job["id"], "force": True})
        await self._ended(qmp, _END_S)
        await self._forget(qmp)

    async def _begin(self, qmp: Qmp, door: DiskDoor) -> None:
        try:
            await self._forget(qmp)
            made = await keys.place(qmp, self._places, self._guest, self._known, keys.SENDER, door.key)
            keys.forget(self._places, self._known.name, self._known, keys.SENDER)
            for place in self._known.disks:
                await qmp.execute("blockdev-add", _remote(place, door, made))
            for place in self._known.disks:
                await qmp.execute(
                    "blockdev-mirror",
                    {"job-id": _job_id(place), "device": place.node_name, "target": _node(place), "sync": "full"}
                    | {"copy-mode": "background", "auto-dismiss": False},
                )
        except BaseException:
            await asyncio.shield(self._stop(qmp))
            raise

    async def _forget(self, qmp: Qmp) -> None:
        for job in (await self._jobs(qmp)).values():
            await qmp.execute("job-dismiss", {"id": job["id"]})
        for place in self._known.disks:
            await close_node(self._world, qmp, _node(place))
        await keys.take(qmp, self._places, self._known.name, self._known, keys.SENDER)

    async def _ended(self, qmp: Qmp, limit_s: float) -> dict[str, dict[str, Any]]:
        deadline_s = self._world.now_s() + limit_s
        while True:
            found = await self._jobs(qmp)
            if all(job["status"] == _CONCLUDED for job in found.values()):
                return found
            if self._world.now_s() > deadline_s:
                raise HypervisorError(
                    f"The disks of {self._known.name} were not sent to their end within {limit_s:g} s: see that the "
                    "target's storage and the network between the nodes are fast enough"
                )
            await self._world.sleep(_POLL_S)

    async def _jobs(self, qmp: Qmp) -> dict[str, dict[str, Any]]:
        mine = {_job_id(place) for place in self._known.disks}
        return {job["id"]: job for job in await qmp.execute("query-jobs") if job["id"] in mine}

    def _require_all(self, jobs: dict[str, dict[str, Any]]) -> None:
        for place in self._known.disks:
            job = jobs.get(_job_id(place))
            if job is None or job.get("error"):
                reason = job["error"] if job is not None else "it is not being sent"
                raise HypervisorError(f"{place.identity} of {self._known.name} was not copied: {reason}")

    def _qmp(self) -> Qmp:
        return Qmp(self._places.socket(self._known.name, "qmp"))


def _remote(place: DiskPlace, door: DiskDoor, key_name: str) -> dict[str, Any]:
    connection = {
        "driver": "nbd",
        "node-name": _connection(place),
        "server": {"type": "inet", "host": door.address, "port": str(door.port)},
        "export": place.identity,
        "tls-creds": key_name,
    }
    return {"driver": "raw", "node-name": _node(place), "discard": "unmap", "file": connection | {"discard": "unmap"}}


def _job_id(place: DiskPlace) -> str:
    return f"send-{place.identity}"


def _node(place: DiskPlace) -> str:
    """Of the disk on the target, in this QEMU."""
    return f"{place.identity}-there"


def _connection(place: DiskPlace) -> str:
    return f"{place.identity}-nbd"
