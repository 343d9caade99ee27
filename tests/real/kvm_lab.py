# SPDX-License-Identifier: BSD-2-Clause
"""Two nodes in network namespaces with a bridge each, one wire between them, and a node daemon in each.

Everything is named after this process, and removed when the lab closes.
"""

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.contract import hypervisor_world

from ganeti.base.errors import GanetiError, from_wire
from ganeti.base.paths import Paths
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.hypervisors.kvm.sockets import short_path
from ganeti.node.metadata import socket_path
from ganeti.tools.testbed import guest
from ganeti.wire.framing_sync import ask

BRIDGE = "gnt-br0"
GUEST_ADDRESS = "10.99.0.10"
MEMORY_MIB = 96
PATIENCE_S = 60.0
OTHER_QEMU = os.environ.get("GANETI_QEMU", "")
"""Path of a QEMU of another release to run the tests with."""
WORLD = Path(hypervisor_world.__file__)
_NUMBERS = itertools.count()


class LabNode:
    """A node: namespace, directory, and a daemon that can be killed and started again."""

    def __init__(self, namespace: str, address: str, root: Path) -> None:
        self.namespace = namespace
        self.address = address
        self.root = root
        self.log: list[str] = []
        self._daemon: subprocess.Popen[bytes] | None = None

    def daemon(self) -> subprocess.Popen[bytes]:
        if self._daemon is None:
            self._daemon = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.namespace}", sys.executable, str(WORLD), str(self.root), "kvm"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._daemon

    def kill_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
            self._daemon = None

    def call(self, method: str, **arguments: Any) -> Any:
        """Run a method of the driver in the daemon; raises what the driver raised."""
        daemon = self.daemon()
        assert daemon.stdin is not None and daemon.stdout is not None
        request = {"method": method, "arguments": msgspec.to_builtins(arguments)}
        daemon.stdin.write(json.dumps(request).encode() + b"\n")
        daemon.stdin.flush()
        answer = json.loads(daemon.stdout.readline())
        self.log += answer["log"]
        if "error" in answer:
            raise from_wire(answer["error"])
        return answer["value"]

    def state(self, name: str) -> str | None:
        found = self.call("info", name=name)
        return found["state"] if found else None

    def run(self, *argv: str) -> str:
        return run("nsenter", f"--net=/run/netns/{self.namespace}", *argv)

    def taps(self) -> list[str]:
        return re.findall(r"^\d+: (tap\d+)", self.run("ip", "-o", "link"), re.M)

    def pid(self, name: str) -> int:
        return int((self.root / "run/ganeti/kvm-hypervisor/pid" / name).read_text())

    def console(self, name: str) -> str:
        path = self.root / "var/log/ganeti/kvm" / f"{name}.serial.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def forget_console(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.root / "var/log/ganeti/kvm" / f"{name}.serial.log", 0)

    def beats(self, name: str) -> list[int]:
        return [int(number) for number in re.findall(r"^HB (\d+)\r?$", self.console(name), re.M)]

    def wait_console(self, name: str, pattern: str) -> None:
        wait_until(
            lambda: re.search(pattern, self.console(name), re.M) is not None,
            f"{pattern} on {name}'s console",
            lambda: self.console(name)[-500:],
        )

    def wait_beats(self, name: str, more: int = 3) -> None:
        """Wait until the guest has written that many more beats."""
        first = len(self.beats(name))
        wait_until(lambda: len(self.beats(name)) >= first + more, f"{more} beats of {name}")

    def leftovers(self, name: str) -> list[str]:
        run_dir = self.root / "run/ganeti"
        found = [str(path) for path in run_dir.rglob("*") if name in path.name]
        return found + [f"tap {tap}" for tap in self.taps()]


class Lab:
    def __init__(self, directory: Path, image: guest.GuestImage) -> None:
        self.directory = directory
        self.image = image
        identity = f"hvt{os.getpid()}n{next(_NUMBERS)}"
        self.nodes = tuple(
            LabNode(f"{identity}-{number}", f"10.99.0.{number}", directory / f"node{number}") for number in (1, 2)
        )
        self.names: list[str] = []

    def open(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        first, second = self.nodes
        for node in self.nodes:
            run("ip", "netns", "add", node.namespace)
            node.run("ip", "link", "set", "lo", "up")
            # An address of its own: otherwise it is the lowest of its ports', changes with them, and the other node
            # goes on sending to the old one until its neighbour entry is stale (about a minute).
            hardware = f"02:00:00:00:00:{int(node.address.rpartition('.')[2]):02x}"
            node.run("ip", "link", "add", BRIDGE, "address", hardware, "type", "bridge")
            node.run("ip", "addr", "add", f"{node.address}/24", "dev", BRIDGE)
            node.run("ip", "link", "set", BRIDGE, "up")
        first.run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", second.namespace)
        for node in self.nodes:
            node.run("ip", "link", "set", "wire", "master", BRIDGE, "up")

    def close(self) -> None:
        for node in self.nodes:
            with contextlib.suppress(Exception):
                for found in node.call("list_instances"):
                    with contextlib.suppress(GanetiError):
                        node.call("stop", name=found["name"], timeout_s=0)
            node.kill_daemon()
            for pid_file in (node.root / "run/ganeti/kvm-hypervisor/pid").glob("*"):
                _kill_guest(pid_file)
            subprocess.run(["ip", "netns", "del", node.namespace], capture_output=True, check=False)

    def instance(self, name: str, *, nics: int = 1, disk: bool = True, **changes: Any) -> InstanceSpec:
        """A heartbeat guest with a disk that both nodes reach."""
        arguments = f"{guest.KERNEL_ARGS} hostname={name} addr={GUEST_ADDRESS}/24 hb=4"
        hvparams = {
            "kernel_path": str(self.image.kernel),
            "initrd_path": str(self.image.initrd),
            "kernel_args": arguments,
            "root_path": "",
            **({"kvm_path": OTHER_QEMU} if OTHER_QEMU else {}),
        } | changes.pop("hvparams", {})
        attached = self.disks(name) if disk else []
        return hypervisor_world.instance(
            "kvm",
            name,
            hvparams=hvparams,
            beparams={"maxmem": MEMORY_MIB, "minmem": MEMORY_MIB, "vcpus": 1},
            nics=[hypervisor_world.nic(index, link=BRIDGE) for index in range(nics)],
            disks=[one.spec for one in attached],
            **changes,
        )

    def disks(self, name: str) -> list[AttachedDisk]:
        return [self.disk(name)]

    def disk(self, name: str, index: int = 0, size_mib: int = 16) -> AttachedDisk:
        path = self.directory / (f"{name}-{index}.img" if index else f"{name}.img")
        if not path.exists():
            path.touch()
            os.truncate(path, size_mib * 1024 * 1024)
        return hypervisor_world.disk(path, index)

    def start(self, node: LabNode, spec: InstanceSpec) -> None:
        node.call("start", spec=spec, disks=attached(spec))

    def accept(self, spec: InstanceSpec, source: LabNode, target: LabNode) -> dict[str, Any]:
        info = source.call("migration_info", name=spec.name)
        found: dict[str, Any] = target.call(
            "accept", spec=spec, disks=attached(spec), info=info, address=target.address
        )
        return found

    def begin(self, spec: InstanceSpec, source: LabNode, target: LabNode, *, live: bool = True) -> dict[str, Any]:
        where = self.accept(spec, source, target)
        source.call("migrate", name=spec.name, target=where, live=live)
        return where

    def wait_status(self, node: LabNode, name: str, *wanted: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def reached() -> bool:
            found.update(node.call("migration_status", name=name))
            if found["status"] == "failed" and "failed" not in wanted:
                raise AssertionError(f"the migration failed: {found['error']}")
            return found["status"] in wanted

        wait_until(reached, f"the migration to be {wanted}", lambda: str(found), step_s=0.01)
        return found

    def finish(self, spec: InstanceSpec, source: LabNode, target: LabNode) -> dict[str, Any]:
        self.wait_status(source, spec.name, "pre-switchover")
        source.call("continue_switchover", name=spec.name)
        self.wait_status(source, spec.name, "completed")
        target.call("finalize_target", name=spec.name, success=True)
        found: dict[str, Any] = source.call("migration_status", name=spec.name)
        source.call("finalize_source", name=spec.name, success=True)
        return found


class Pings:
    """Pings a guest every few milliseconds from a namespace, and knows the longest time without an answer."""

    STEP_S = 0.05

    def __init__(self, node: LabNode, address: str) -> None:
        self.node = node
        self.address = address

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        argv = ["nsenter", f"--net=/run/netns/{self.node.namespace}", "busybox", "ping", "-i", str(self.STEP_S)]
        self._process = subprocess.Popen([*argv, self.address], stdout=subprocess.PIPE, text=True)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGINT)
            self._answers = self._process.communicate()[0]

    def longest_gap_s(self) -> float:
        """Between answers, by their sequence numbers."""
        numbers = [int(found) for found in re.findall(r"seq=(\d+)", self._answers)]
        assert len(numbers) > 5, f"only {len(numbers)} pings were answered"
        return max(later - earlier for earlier, later in itertools.pairwise(numbers)) * self.STEP_S


def watch_devices(node: LabNode, name: str) -> None:
    """Have the guest write what it has to its console, again and again."""
    path = str(node.root / "run/ganeti/kvm-hypervisor/ctrl" / f"{name}.serial")
    with socket.socket(socket.AF_UNIX) as serial:
        with short_path(path) as short:
            serial.connect(short)
        serial.sendall(b"\n")
        node.wait_console(name, f"^{name}:.*# ")
        serial.sendall(b"while :; do devices; sleep 0.2; done\n")
        node.wait_console(name, "^HAS=.*=")


def type_in(node: LabNode, name: str, *lines: str, kind: str = "serial") -> None:
    """At the console of a guest, or at another of its sockets."""
    sockets = node.root / "run/ganeti/kvm-hypervisor/ctrl"
    for line in lines:
        run("sh", "-c", f"cd {sockets} && echo '{line}' | socat -t0.5 - UNIX-CONNECT:{name}.{kind}")


def devices_seen(node: LabNode, name: str) -> list[tuple[str, ...]]:
    """What the guest told so far: addresses of NICs, NICs on PCI, sectors of disks and of CDs, processors, memory."""
    return re.findall("^HAS=(.*)=(.*)=(.*)=(.*)=(.*)=(.*)=", node.console(name), re.M)


def attached(spec: InstanceSpec) -> list[AttachedDisk]:
    return [AttachedDisk(spec=disk, path=disk.logical_id[1]) for disk in spec.disks]


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def wait_until(
    question: Callable[[], bool], what: str, detail: Callable[[], str] = lambda: "", *, step_s: float = 0.05
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what} {detail()}"
        time.sleep(step_s)


def _kill_guest(pid_file: Path) -> None:
    """End a guest a failed test left, if its pid file is really that of a QEMU."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        if os.fsencode(pid_file) in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def opened(directory: Path, image: guest.GuestImage) -> Iterator[Lab]:
    lab = Lab(directory, image)
    try:
        lab.open()
        yield lab
    finally:
        lab.close()
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def metadata_daemon(node: LabNode) -> Iterator[Callable[..., Any]]:
    """Run ganeti-metad in the namespace of *node*; gives what asks it."""
    path = socket_path(Paths(str(node.root)))
    words = ["nsenter", f"--net=/run/netns/{node.namespace}", sys.executable, "-m", "ganeti.daemons.metad", "-f"]
    daemon = subprocess.Popen(words, env=os.environ | {"GANETI_ROOTDIR": str(node.root)}, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.path.exists(path), "ganeti-metad")
        yield functools.partial(ask, path, 10.0)
    finally:
        daemon.terminate()
        daemon.wait()
