# SPDX-License-Identifier: BSD-2-Clause
"""A node for tests of hypervisors: real processes below a directory of its own.

As a program (``python hypervisor_world.py ROOT DRIVER``) it is a node's daemon: one JSON request a line, one answer a
line. Real tests start it inside a network namespace, end it with SIGKILL and start another: guests must not care.
"""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ganeti.base.errors import CommandError, GanetiError
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.model.node_calls.disk_transfer import DiskDoor
from ganeti.model.node_calls.migration import MigrationTarget
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec, NicSpec
from ganeti.node import hypervisors
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.ports.node_world import Completed

import_all(hypervisors)

_POSITIONAL = ("spec", "name", "disks", "targets", "info", "target", "address", "door", "memory_mib", "hvparams")


class NodeOnDisk:
    """A `NodeWorld` below *root*."""

    def __init__(self, root: Path, name: str = "node1.example.com") -> None:
        self._paths = Paths(str(root))
        self._name = name
        self.sentences: list[str] = []
        self.started: list[int] = []

    @property
    def paths(self) -> Paths:
        return self._paths

    @property
    def node_name(self) -> str:
        return self._name

    def now_s(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        cwd: str | None = None,
        log_path: str | None = None,
        stdout_path: str | None = None,
        check: bool = True,
        largest_output_bytes: int | None = None,
        leaves_background: bool = False,  # what it leaves goes on here: nobody collects it
    ) -> Completed:
        with open(log_path or stdout_path or os.devnull, "ab" if log_path else "wb") as output:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if not (log_path or stdout_path) else output,
                stderr=asyncio.subprocess.PIPE if not log_path else output,
                env=dict(env) if env is not None else None,
                cwd=cwd,
            )
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(stdin)
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise CommandError(f"{argv[0]} did not end within {timeout_s:g} s") from error
        done = Completed(tuple(argv), process.returncode or 0, (out or b"").decode(), (err or b"").decode())
        if check and done.status:
            raise CommandError(f"{argv[0]} ended with status {done.status}: {done.output}")
        return done

    async def spawn(self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), log_path: str = "/dev/null") -> int:
        with open(log_path, "ab") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=tuple(pass_fds), start_new_session=True
            )
        process.returncode = 0  # nobody waits for it: it outlives this program
        self.started.append(process.pid)
        return process.pid

    def log(self, sentence: str) -> None:
        self.sentences.append(sentence)


def world_of(hypervisor: str, root: Path) -> NodeOnDisk:
    """The node that a driver of this name is asked on."""
    if hypervisor.startswith("xen-"):
        from tests.contract.xen_world import XenNode

        return XenNode(root)
    return NodeOnDisk(root)


def driver(name: str, world: NodeOnDisk) -> Hypervisor:
    return Hypervisor.registry[name](world)


def instance(hypervisor: str, name: str = "web1.example.com", **changes: Any) -> InstanceSpec:
    """An instance of this hypervisor without disks or NICs, that boots nothing."""
    hvparams = {parameter.name: parameter.default for parameter in Hypervisor.registry[hypervisor].traits.parameters}
    quiet = {"kernel_path": "", "kvm_flag": "disabled"} if hypervisor == "kvm" else {}
    if "vnc_password_file" in hvparams and hypervisor != "kvm":
        quiet = {"vnc_password_file": "/etc/debian_version"}  # any file of one line
    hvparams |= {key: value for key, value in quiet.items() if key in hvparams}
    hvparams |= changes.pop("hvparams", {})
    beparams = {"maxmem": 32, "minmem": 32, "vcpus": 1} | changes.pop("beparams", {})
    fields: dict[str, Any] = {
        "name": name,
        "uuid": "6d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c11",
        "hypervisor": hypervisor,
        "os": "noop",
        "primary_node": "node1.example.com",
        "primary_node_uuid": "0f0b7f0e-54d1-44a8-9c35-6d4a5f7d8e01",
        "hvparams": hvparams,
        "beparams": beparams,
        "network_port": 11000,
    }
    return InstanceSpec(**(fields | changes))


def disk(path: Path, index: int = 0, image_format: str = "raw") -> AttachedDisk:
    spec = DiskSpec(
        uuid=f"5c0f0a52-8f1c-4a79-8f5f-0000000000{index:02}",
        template="sharedfile",
        logical_id=["loop", str(path)],
        size_mib=16,
        index=index,
    )
    return AttachedDisk(spec=spec, path=str(path), image_format=image_format)


_INIT = """#!/bin/sh
trap 'exit 0' PWR
echo BOOTED
while :; do sleep 1000 & wait $!; done
"""
_CHROOT_SCRIPT = """#!/bin/sh
case $1 in
  start) sleep 100000 & echo $! >/guest.pid ;;
  stop) kill "$(cat /guest.pid)" ;;
  status) kill -0 "$(cat /guest.pid)" ;;
esac
"""
_COMMANDS = ("sh", "sleep", "cat", "id", "ip", "ls", "grep", "mount", "mknod", "dd")


def root_disk(directory: Path) -> AttachedDisk:
    """A disk with busybox, an init and a script for chroots; made once for a directory."""
    image, tree = directory / "root.img", directory / "tree"
    if not image.exists():
        for name in ("bin", "sbin", "dev", "proc", "sys", "tmp", "run"):
            (tree / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        for command in _COMMANDS:
            (tree / "bin" / command).symlink_to("busybox")
        for place, text in (("sbin/init", _INIT), ("ganeti-chroot", _CHROOT_SCRIPT)):
            (tree / place).write_text(text, encoding="ascii")
            (tree / place).chmod(0o755)
        os.mknod(tree / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(image)], check=True, timeout=60)
        shutil.rmtree(tree)
    return disk(image)


def nic(index: int = 0, **changes: Any) -> NicSpec:
    fields: dict[str, Any] = {
        "index": index,
        "uuid": f"0a2f5d10-6d7e-4c7d-8f5f-0000000000{index:02}",
        "mac": f"aa:00:00:00:00:{index + 1:02x}",
        "mode": "bridged",
        "link": "gnt-br0",
    }
    return NicSpec(**(fields | changes))


async def _answer(hypervisor: Hypervisor, request: dict[str, Any]) -> Any:
    arguments = dict(request["arguments"])
    shapes: dict[str, Any] = {
        "spec": InstanceSpec,
        "disks": list[AttachedDisk],
        "disk": AttachedDisk,
        "targets": list[AttachedDisk],
        "target": MigrationTarget,
        "door": DiskDoor,
    }
    for key, shape in shapes.items():
        if key in arguments:
            arguments[key] = msgspec.convert(arguments[key], shape)
    method = getattr(hypervisor, request["method"], None) or getattr(hypervisor.devices, request["method"])
    positional = [arguments.pop(key) for key in _POSITIONAL if key in arguments]
    return msgspec.to_builtins(await method(*positional, **arguments))


async def serve(root: Path, name: str) -> None:
    world = NodeOnDisk(root)
    hypervisor = driver(name, world)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            answer = {"value": await _answer(hypervisor, json.loads(line))}
        except GanetiError as err:
            answer = {"error": err.to_wire()}
        answer["log"] = world.sentences[:]
        world.sentences.clear()
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
