# SPDX-License-Identifier: BSD-2-Clause
"""What stands for ganeti-mirrord and its storage daemons: the two copies of a mirrored disk, by what is asked of them.

Roles, generations and refusals are those of production (`tests/simulation/test_mirrored_pair.py` plays that itself);
the files are production's, too. Bytes are one word that is written into all images before the play (`fill`): a copy
that was made equal has it. Making equal takes a second, and ends when somebody looks.
"""

import importlib
import json
import os
from collections.abc import Iterable
from typing import Any, Final

from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.preparing import put_file
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine, here

WORD: Final = b"written "
RUNS: Final = "/run/ganeti/mirror"
_COPYING_S: Final = 1.0


class Copies:
    """The disks of one machine; a step of it is whole, for the daemons that it stands for outlive the node daemon."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._places = importlib.import_module("ganeti.node.storage.mirror.places")
        self.terms = importlib.import_module("ganeti.node.storage.mirror.requests")
        self.term: int = importlib.import_module("ganeti.model.objects").TERM
        self._json = importlib.import_module("msgspec").json
        self._replace = importlib.import_module("msgspec.structs").replace
        self._refused: type[Exception] = importlib.import_module("ganeti.base.errors").BlockDeviceError

    # What is kept

    def opened(self, uuid: str) -> Any | None:
        content = _content(self.machine.disk, f"{RUNS}/{self._places.identity(uuid)}.json")
        return self._json.decode(content, type=self.terms.Opened) if content else None

    def kept(self, image: str) -> Any:
        content = _content(self.machine.disk, self._places.kept_file(image))
        return self._json.decode(content, type=self.terms.Kept) if content else self.terms.Kept()

    def keep(self, image: str, **values: Any) -> None:
        if self.machine.disk.exists(image):
            kept = self._replace(self.kept(image), **values)
            put_file(self.machine.disk, self._places.kept_file(image), self._json.encode(kept), 0o600)

    def _rewrite(self, opened: Any) -> None:
        path = f"{RUNS}/{self._places.identity(opened.uuid)}.json"
        put_file(self.machine.disk, path, self._json.encode(opened), 0o600)

    def _peer(self, opened: Any) -> "Copies | None":
        """The other node's daemon, where it answers and has the disk open."""
        network, there = self.machine.network, self.machine.network.machines.get(opened.address)
        if not isinstance(there, Machine) or not network.passes(self.machine.address, opened.address):
            return None
        peer = Copies(there)
        return peer if peer.opened(opened.uuid) is not None else None

    # What is asked

    def answer(self, request: Any) -> Any:
        """Raises `BlockDeviceError`."""
        kind = type(request).__name__
        if kind == "Open":
            return self._open(request.disk)
        opened = self.opened(request.uuid)
        if kind == "Inspect":
            return self._state(request, opened)
        if kind == "Steal":
            return self._steal(request, opened)
        if kind == "Close":
            if opened is not None:
                self._leave(opened)
                self.machine.disk.unlink(f"{RUNS}/{self._places.identity(opened.uuid)}.json")
            return self.terms.Done()
        if opened is None:
            raise self._refused(f"Disk {request.uuid} is not open on this node")
        if kind == "AsFile":
            return self.terms.Done(path=opened.image)
        if kind == "Resize":
            self.machine.disk.truncate(opened.image, request.size)
        else:
            {"HandOver": self._hand_over, "TakeOver": self._take_over, "TakeBack": self._take_back}[kind](opened)
        return self.terms.Done()

    def _open(self, wanted: Any) -> Any:
        now = self.opened(wanted.uuid)
        export = now.export if now is not None else f"disk-{wanted.generation // self.term}"
        wanted = self._replace(wanted, export=export, session=now.session if now is not None else "opened")
        if wanted.role == self.terms.SECONDARY:
            if now is not None:
                self._leave(now)
            self._rewrite(wanted)
        elif now is not None and now.role in (self.terms.PRIMARY, self.terms.INCOMING):
            kept = self.kept(wanted.image)
            if now.peer != wanted.peer or now.role == self.terms.INCOMING or wanted.generation > kept.generation:
                self.keep(wanted.image, generation=max(kept.generation + 1, wanted.generation), valid=True)
            opened = self._replace(wanted, marked=-1 if now.peer != wanted.peer else now.marked)
            self._rewrite(opened)
            self._copy(opened)
        else:
            self.keep(wanted.image, **self._newest(wanted), clean=False)
            self._rewrite(wanted)
            self._copy(wanted)
        return self.terms.Done(export=export)

    def _newest(self, wanted: Any) -> dict[str, Any]:
        mine, peer = self.kept(wanted.image), self._peer(wanted)
        if peer is None:
            if not mine.valid:
                raise self._refused(
                    f"The copy of disk {wanted.image} on this node is not complete, and {wanted.peer} is silent"
                )
            return {"generation": max(mine.generation, wanted.generation), "valid": True}
        theirs, role = peer.kept(wanted.image), peer.opened(wanted.uuid).role  # type: ignore[union-attr]
        if role == self.terms.PRIMARY and theirs.generation // self.term >= wanted.generation // self.term:
            raise self._refused(f"Disk {wanted.image} is in use on node {wanted.peer}: stop the instance there")
        if (theirs.generation, theirs.valid) > (mine.generation, mine.valid):
            raise self._refused(f"The copy of disk {wanted.image} on this node is behind that of node {wanted.peer}")
        return {"generation": max(mine.generation, wanted.generation, 1), "valid": True}

    def _state(self, request: Any, opened: Any) -> Any:
        if opened is None:
            return self.terms.State(role=self.terms.CLOSED, kept=self.kept(request.image))
        in_sync = self._copy(opened) if opened.role in (self.terms.PRIMARY, self.terms.INCOMING) else False
        opened = self.opened(request.uuid)
        percent = 50.0 if opened.role == self.terms.PRIMARY and opened.marked >= 0 and not in_sync else None
        return self.terms.State(
            role=opened.role, kept=self.kept(opened.image), in_sync=in_sync, percent=percent, export=opened.export
        )

    def _steal(self, request: Any, opened: Any) -> Any:
        if opened is None or opened.role != self.terms.PRIMARY:
            kept = self.kept(request.image)
            if not kept.valid:
                raise self._refused(f"The copy of disk {request.image} on this node is not complete")
            self.keep(request.image, generation=max(kept.generation + 1, request.generation), clean=False)
        return self.terms.Done()

    def _hand_over(self, opened: Any) -> None:
        if opened.role == self.terms.HANDED:
            return
        if opened.role != self.terms.PRIMARY or not self._copy(opened):
            raise self._refused(f"Disk {opened.image} cannot be handed over: {opened.peer} is not up to date")
        self._rewrite(self._replace(opened, role=self.terms.HANDED))

    def _take_over(self, opened: Any) -> None:
        if opened.role in (self.terms.PRIMARY, self.terms.INCOMING):
            return
        peer, mine = self._peer(opened), self.kept(opened.image)
        there = peer.opened(opened.uuid) if peer is not None else None
        if peer is None or there is None or there.role != self.terms.HANDED or peer.kept(opened.image) != mine:
            raise self._refused(f"Disk {opened.image} is not handed over by {opened.peer}")
        self._rewrite(self._replace(opened, role=self.terms.INCOMING, marked=0))

    def _take_back(self, opened: Any) -> None:
        if opened.role != self.terms.HANDED:
            return
        peer = self._peer(opened)
        there = peer.opened(opened.uuid) if peer is not None else None
        if peer is not None and there is not None and there.role == self.terms.INCOMING:
            peer._rewrite(self._replace(there, role=self.terms.SECONDARY))
        self.keep(opened.image, generation=self.kept(opened.image).generation + 1, valid=True)
        self._rewrite(self._replace(opened, role=self.terms.PRIMARY, marked=-1))

    # How the copies become equal

    def _leave(self, opened: Any) -> None:
        """Nothing writes here any more: where both copies are equal, that is kept."""
        peer = self._peer(opened) if opened.role in (self.terms.PRIMARY, self.terms.INCOMING) else None
        if peer is not None and self._copy(opened):
            for each in (self, peer):
                each.keep(opened.image, clean=True)

    def _copy(self, opened: Any) -> bool:
        """Go on with making the other copy equal; true where it is. *marked* is the time at which that began."""
        peer, mine = self._peer(opened), self.kept(opened.image)
        there = peer.opened(opened.uuid) if peer is not None else None
        follows = there is not None and there.role in (self.terms.SECONDARY, self.terms.HANDED)
        if peer is None or not follows:
            if opened.marked == 0:
                self.keep(opened.image, generation=mine.generation + 1)
            self._rewrite(self._replace(opened, marked=-1))
            return False
        theirs = peer.kept(opened.image)
        if theirs.generation // self.term > mine.generation // self.term:
            self.keep(opened.image, valid=False, clean=False)
            self._rewrite(self._replace(opened, role=self.terms.SECONDARY, marked=-1))
            return False
        if opened.marked == 0 and theirs.valid and theirs.generation == mine.generation:
            return True
        now_ms = int(1000 * Running.kernel.now_s)
        if opened.marked <= 0:
            peer.keep(opened.image, generation=mine.generation, valid=False, clean=False)
            self._rewrite(self._replace(opened, marked=now_ms))
            return False
        if now_ms - opened.marked < 1000 * _COPYING_S:
            return False
        if has_word(self.machine.disk, opened.image):
            _write(peer.machine.disk, opened.image)
        peer.keep(opened.image, generation=mine.generation, valid=True, clean=False)
        self._rewrite(self._replace(opened, marked=0))
        return True


def client(module: Any) -> None:
    """In place of `ganeti.node.storage.mirror.client.ask`."""

    async def ask(world: Any, daemon_util: str, request: Any, answer: Any) -> Any:
        del world, daemon_util, answer
        Running.kernel.system_call()
        found = Copies(here()).answer(request)
        Running.kernel.system_call()
        return found

    module.ask = ask


def fill(disks: Iterable[tuple[Disk, str]]) -> None:
    """Write something to the images that are there, before what is played may lose it."""
    for disk, image in disks:
        if ".mirror.disk" in image and not image.endswith(".mirror"):
            Running.kernel.local.setdefault("mirrored disks written", {})[image] = None
            _write(disk, image)


def has_word(disk: Disk, image: str) -> bool:
    if not disk.exists(image):
        return False
    file = disk.open(image, os.O_RDONLY, 0)
    found = file.read(len(WORD))
    file.close()
    return found == WORD


def is_good(disk: Disk, image: str) -> bool:
    """Whether this copy says that it is complete, and is."""
    kept = _content(disk, f"{image}.mirror")
    return kept is not None and bool(json.loads(kept)["valid"]) and has_word(disk, image)


def _write(disk: Disk, image: str) -> None:
    file = disk.open(image, os.O_WRONLY, 0)
    file.write(WORD)
    file.fsync()
    file.close()


def _content(disk: Disk, path: str) -> bytes | None:
    return disk.content(path) if disk.exists(path) else None
