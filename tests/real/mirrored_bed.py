# SPDX-License-Identifier: BSD-2-Clause
"""A testbed whose nodes mirror disks on small file systems, and what is on its nodes: copies, daemons, the guest."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from tests.real.numbered_blocks import NbdClient, NumberedBlocks, filled
from tests.system.fake_bed import MASTER, FakeBed
from tests.system.killing import make_jobs_stop

from ganeti.base.errors import GanetiError
from ganeti.node.storage.mirror.places import identity
from ganeti.node.storage.mirror.requests import Inspect, State
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, processes
from ganeti.tools.testbed.node_files import FILE_STORAGE
from ganeti.wire.job_file import FINAL_STATUSES

NAME = "inst1"
KEEPERS = ("node2", "node3", "node4")
"""Nodes that keep disks: the master keeps none, so that it is never cut off."""
MIRRORD, STORAGE_DAEMON = "ganeti-mirrord", "storage-daemon"
"""That one's name ends as the name of QEMU's does, which shows files."""
BALLAST = "ballast"
_STORAGE_SIZE = "96M"
_RUN = "run/ganeti/mirror"
_GO_ON_EVERY_S, _WRITE_EVERY_S = 0.02, 0.01


class MirroredBed(FakeBed):
    """The instance `NAME` with one disk, seen from outside."""

    def close(self) -> None:
        testbed.down(self.layout)

    def root(self, node: str) -> Path:
        """The node's own world of files, through its first process."""
        return Path(f"/proc/{machine.running_pid(self.layout, self.layout.node(node))}/root")

    def storage(self, node: str) -> Path:
        return self.root(node) / FILE_STORAGE.lstrip("/")

    def instance(self) -> dict | None:
        """With its disk and the names of its nodes."""
        config = self.config()
        for found in config["instances"].values():
            disk = config["disks"][found["disks"][0]]
            names = [config["nodes"][uuid]["name"] for uuid in disk.get("nodes") or [found["primary_node"]]]
            primary = config["nodes"][found["primary_node"]]["name"]
            secondary = next((name for name in names if name != primary), None)
            return {**found, "disk": disk, "primary": primary, "secondary": secondary}
        return None

    def opened(self, node: str) -> list[dict]:
        """What ganeti-mirrord has written down of disks in use on a node."""
        return [json.loads(path.read_text()) for path in (self.root(node) / _RUN).glob("*.json")]

    def state(self, node: str) -> State | None:
        """What ganeti-mirrord on a node says of the disk; None where it says nothing."""
        with contextlib.suppress(OSError, msgspec.ValidationError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10.0)
            client.connect(f"{self.root(node)}/{_RUN}/control")
            for opened in self.opened(node):
                client.sendall(msgspec.json.encode(Inspect(uuid=opened["uuid"], image=opened["image"])) + b"\n")
                return msgspec.json.decode(client.makefile().readline(), type=State)
        return None

    def stopped(self) -> Iterator[int]:
        """Looks at the few processes of the master first, by their names there: all of this machine take long."""
        places = (self.root(MASTER) / "proc").glob("[0-9]*/stat")
        if any(_is_stopped(place) for place in places):
            yield from super().stopped()

    def pids(self, node: str, program: str) -> list[int]:
        """Host's ids of what runs of *program* on a node."""
        init = machine.running_pid(self.layout, self.layout.node(node))
        found = []
        for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(word.endswith(program.encode()) for word in words[:3]):
                    found.append(pid)
        return found

    def running_at(self) -> str | None:
        """The node on which the guest writes: nobody does while it is paused for the switchover of a migration."""
        for node in KEEPERS:
            with contextlib.suppress(OSError, ValueError):
                guest = json.loads((self.root(node) / f"run/ganeti/fake-hypervisor/{NAME}").read_text())
                if guest["state"] == "running":
                    return node
        return None

    @contextlib.contextmanager
    def disk(self, node: str) -> Iterator[NbdClient]:
        """As the guest's QEMU has it; raises `OSError`."""
        for opened in self.opened(node):
            with NbdClient(f"{self.root(node)}/{_RUN}/{identity(opened['uuid'])}.nbd", opened["export"]) as client:
                yield client
                return
        raise ConnectionRefusedError(f"no disk is open on {node}")

    def image(self, node: str) -> Path:
        instance = self.instance()
        assert instance is not None
        return self.root(node) / instance["disk"]["logical_id"][1].lstrip("/")

    def stored(self, node: str) -> set[str]:
        """All files where the node keeps disks."""
        storage = self.storage(node)
        return {str(path.relative_to(storage)) for path in storage.rglob("*") if path.is_file()} - {BALLAST}

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Jobs do not stay stopped meanwhile."""
        with again_and_again(self.let_go_on, _GO_ON_EVERY_S):
            yield

    def has_ended(self, job: int) -> bool:
        return self.job_status(job) in FINAL_STATUSES

    def end_of(self, job: int, within_s: float) -> str:
        with self.going_on():
            self.wait(lambda: self.has_ended(job), f"the end of job {job}, now {self.job_status(job)}", within_s)
        return self.job_status(job)

    def why(self, job: int) -> str:
        """What the job's result and its log say."""
        told = json.loads((self.data(MASTER) / f"queue/job-{job}").read_text())["ops"][-1]
        return f"{told['result']}; {' | '.join(str(line[-1]) for line in told['log'])}"

    def obey(self, *words: str, within_s: float = 120.0) -> str:
        """A command whose jobs must not stop."""
        with self.going_on():
            return self.run(*words, within_s=within_s)


class Guest:
    """Writes wherever the instance runs, and knows what it was told is written."""

    def __init__(self, bed: MirroredBed, blocks: NumberedBlocks) -> None:
        self.bed = bed
        self.blocks = blocks
        self._one_write = threading.Lock()

    def write(self) -> bool:
        """One block; True when it was acknowledged."""
        with self._one_write:
            block, number = self.blocks.next()
            node = self.bed.running_at()
            if node is None:
                return False
            try:
                with self.bed.disk(node) as disk:
                    self.blocks.begin(block, number)
                    disk.write(block * len(filled(0)), filled(number))
            except (OSError, ValueError, GanetiError):
                return False
            self.blocks.confirm(block, number)
            return True

    def write_some(self, count: int) -> None:
        for _ in range(count):
            self.write()

    def write_to_image(self, count: int) -> None:
        """Of a stopped instance without mirrored disks, as programs that fill a disk do."""
        instance = self.bed.instance()
        assert instance is not None
        with open(self.bed.image(instance["primary"]), "r+b") as image:
            for _ in range(count):
                block, number = self.blocks.next()
                self.blocks.begin(block, number)
                image.seek(block * len(filled(0)))
                image.write(filled(number))
                self.blocks.confirm(block, number)
            image.flush()
            os.fsync(image.fileno())

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Block after block meanwhile."""
        with again_and_again(self.write, _WRITE_EVERY_S):
            yield


@contextlib.contextmanager
def again_and_again(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """Act beside what is done meanwhile, in a thread."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(every_s):
            act()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _is_stopped(stat: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] == "T"
    return False


def made(directory: Path) -> MirroredBed:
    layout = testbed.up(directory.resolve(), len(KEEPERS) + 1, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout, say=lambda sentence: None)
        bed = MirroredBed(layout)
        for node in KEEPERS:
            _give_small_storage(bed, node)
        bed.run("gnt-cluster", "modify", "-D", "mirror:resync-rate=24576")  # so that copies take half a second
        make_jobs_stop(bed)
    except BaseException:
        testbed.down(layout)
        raise
    return bed


def _give_small_storage(bed: MirroredBed, node: str) -> None:
    """A file system of its own, which can be full; it goes with the node's namespace."""
    image = bed.layout.node(node).disks / "storage.ext4"
    with image.open("wb") as file:
        file.truncate(int(_STORAGE_SIZE.removesuffix("M")) * 1024 * 1024)
    processes.run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
    bed.run("mount", "-o", "loop", f"{FILE_STORAGE}/{image.name}", FILE_STORAGE, node=node)
    bed.run("rmdir", f"{FILE_STORAGE}/lost+found", node=node)


def kept(bed: MirroredBed) -> str:
    """Save what the nodes have written, for who looks for the reason of a failure."""
    place = tempfile.mkdtemp(prefix="ganeti-mirrored-faults-")
    for node in bed.layout.nodes:
        with contextlib.suppress(shutil.Error):  # files that come and go: the nodes are still on
            shutil.copytree(node.upper / "var", f"{place}/{node.name}", symlinks=True)
    return f"{place} has all files of the nodes"
