# SPDX-License-Identifier: BSD-2-Clause
"""Copies of a running guest's disks, all as of one moment, made by backup jobs of its QEMU.

Before the guest changes a block that has not been copied yet, QEMU copies it. Jobs and block nodes have names of their
own, so those that a killed daemon has left are found and ended.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import plugging
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.ports.node_world import NodeWorld

_NAME = "copy"
_FIRST_SET = 1000
"""Numbers of file sets that no disk and no CD has."""
_POLL_S = 0.2
_END_S = 30.0
_TRANSACTION_S = 120.0


class DiskCopies:
    def __init__(self, world: NodeWorld, places: Places, known: RuntimeRecord) -> None:
        self._world = world
        self._socket = places.socket(known.name, "qmp")
        self._known = known

    async def run(self, paths: Sequence[str]) -> None:
        """Copy each disk into its file; raises `HypervisorError`. On the way out nothing is left in QEMU."""
        name = self._known.name
        if len(paths) != len(self._known.disks):
            raise HypervisorError(
                f"{name} runs with {len(self._known.disks)} disks, and has {len(paths)} in the configuration: start it "
                "again first"
            )
        await self.end()
        try:
            async with Qmp(self._socket) as qmp:
                sizes = await self._sizes(qmp)
                for number, (size, path) in enumerate(zip(sizes, paths, strict=True)):
                    await self._open_target(qmp, number, path, size)
                actions = [self._backup(number, place.node_name) for number, place in enumerate(self._known.disks)]
                await qmp.execute("transaction", {"actions": actions}, timeout_s=_TRANSACTION_S)
            await self._wait(len(paths))
        finally:
            await asyncio.shield(self.end())

    async def end(self) -> None:
        """End all copying, of this daemon and of one before."""
        deadline_s = self._world.now_s() + _END_S
        async with Qmp(self._socket) as qmp:
            while jobs := [job for job in await qmp.execute("query-jobs") if job["id"].startswith(_NAME)]:
                for job in jobs:
                    if job["status"] == "concluded":
                        await qmp.execute("job-dismiss", {"id": job["id"]})
                    elif job["status"] not in ("aborting", "null"):
                        await _tolerating(qmp, "job-cancel", {"id": job["id"]})
                if self._world.now_s() > deadline_s:
                    raise HypervisorError(
                        f"The copying of disks of {self._known.name} does not end: its storage may hang"
                    )
                await self._world.sleep(_POLL_S)
            for node in await qmp.execute("query-named-block-nodes", {"flat": True}):
                if str(node.get("node-name", "")).startswith(_NAME):
                    await _tolerating(qmp, "blockdev-del", {"node-name": node["node-name"]})
            for entry in await qmp.execute("query-fdsets"):
                if entry["fdset-id"] >= _FIRST_SET:
                    await _tolerating(qmp, "remove-fd", {"fdset-id": entry["fdset-id"]})

    async def _sizes(self, qmp: Qmp) -> list[int]:
        """Bytes of each disk, as the guest sees it."""
        sizes: dict[str, int] = {}
        for block in await qmp.execute("query-block"):
            inserted = block.get("inserted")
            if inserted is not None:
                sizes[block.get("device") or ""] = sizes[inserted.get("node-name", "")] = inserted["image"][
                    "virtual-size"
                ]
        try:
            return [sizes[place.node_name] for place in self._known.disks]
        except KeyError as err:
            raise HypervisorError(f"{self._known.name} runs without the disk {err}: start it again first") from err

    async def _open_target(self, qmp: Qmp, number: int, path: str, size: int) -> None:
        try:
            os.truncate(path, size)
        except OSError as err:
            raise HypervisorError(f"The copy {path} cannot be made: {err.strerror}") from err
        what = f"The copy of disk {number}"
        shown = await plugging.hand_over(qmp, _FIRST_SET + number, path, what, [os.O_RDONLY, os.O_RDWR])
        node: dict[str, Any] = {"driver": "raw", "node-name": f"{_NAME}{number}", "discard": "unmap"}
        node |= {"detect-zeroes": "unmap", "file": {"driver": "file", "filename": shown, "locking": "off"}}
        await qmp.execute("blockdev-add", node)

    def _backup(self, number: int, node: str) -> dict[str, Any]:
        data = {"job-id": f"{_NAME}{number}", "device": node, "target": f"{_NAME}{number}", "sync": "full"}
        return {"type": "blockdev-backup", "data": data | {"auto-dismiss": False}}

    async def _wait(self, count: int) -> None:
        """Until all jobs have come to their end; the socket is free for others in between."""
        while True:
            async with Qmp(self._socket) as qmp:
                jobs = [job for job in await qmp.execute("query-jobs") if job["id"].startswith(_NAME)]
            failed = next((job["error"] for job in jobs if job.get("error")), None)
            if failed is not None or len(jobs) < count:
                reason = failed or "it was ended"
                raise HypervisorError(f"The disks of {self._known.name} could not be copied: {reason}")
            if all(job["status"] == "concluded" for job in jobs):
                return
            await self._world.sleep(_POLL_S)


async def _tolerating(qmp: Qmp, command: str, arguments: dict[str, Any]) -> None:
    """What has ended meanwhile is no error."""
    try:
        await qmp.execute(command, arguments)
    except QmpError:
        return
