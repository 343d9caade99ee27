# SPDX-License-Identifier: BSD-2-Clause
"""Guests with ids of the pool, on real QEMU: each its own, sandboxed, and one that is taken over reaches nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.kvm_lab import Lab, LabNode, wait_until

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import emulator
from ganeti.node.hypervisors.kvm.sockets import short_path

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
FIRST, LAST = 310_000, 310_001
POOL = {"security_model": "pool"}

ATTEMPTS = """
import json, os, socket, sys
found = {}
for path in json.loads(sys.argv[1]):
    try:
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            socket.socket(socket.AF_UNIX).connect(path)
        elif os.path.isdir(path):
            os.listdir(path)
        else:
            opened = open(path, "rb")
            path.endswith("/mem") or opened.read(1)
        found[path] = "reached"
    except OSError as err:
        found[path] = err.strerror
print(json.dumps(found))
"""
"""What a shell under the user of a guest would try."""


@pytest.fixture
def lab(guest_image: Any) -> Iterator[Lab]:
    """Below a directory that everybody may enter: what keeps a guest out must be the modes of the files themselves."""
    directory = Path(tempfile.mkdtemp(prefix="ganeti-pool-"))
    directory.chmod(0o755)
    made = Lab(directory, guest_image)
    try:
        made.open()
        for node in made.nodes:
            data = node.root / "var/lib/ganeti"
            data.mkdir(parents=True, exist_ok=True)
            last = LAST if node is made.nodes[0] else LAST + 2  # both see the processes of this machine
            (data / "ssconf_uid_pool").write_text(f"{FIRST}-{last}\n")
            (data / "server.pem").write_text("key")
            (data / "server.pem").chmod(0o440)
        yield made
    finally:
        made.close()
        shutil.rmtree(directory, ignore_errors=True)


def user(node: LabNode, name: str) -> tuple[int, int]:
    status = os.stat(f"/proc/{node.pid(name)}")
    return status.st_uid, status.st_gid


def status(node: LabNode, name: str, field: str) -> str:
    lines = Path(f"/proc/{node.pid(name)}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:"))


def confined(node: LabNode, name: str) -> None:
    """A filter of system calls, no capability, and none to be had from a program with the bit of its owner's rights."""
    assert status(node, name, "Seccomp") == "2"
    assert status(node, name, "NoNewPrivs") == "1"
    for kind in ("Inh", "Prm", "Eff", "Amb"):
        assert int(status(node, name, f"Cap{kind}"), 16) == 0, kind


def reached(uid: int, paths: list[str]) -> dict[str, str]:
    """What a process of this user, with no capability, gets at each path."""
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
    done = subprocess.run(
        [*(words if uid else []), sys.executable, "-IS", "-c", ATTEMPTS, json.dumps(paths)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_guests_of_the_pool_are_apart_and_move(lab: Lab) -> None:
    source, target = lab.nodes
    specs = [lab.instance(name, hvparams=POOL) for name in ("pool1", "pool2")]
    for spec in specs:
        for disk in lab.disks(spec.name):
            os.chmod(disk.path, 0o660)
        lab.start(source, spec)
    users = [user(source, spec.name) for spec in specs]
    assert {uid for uid, _ in users} == {FIRST, LAST} == {gid for _, gid in users}
    for spec in specs:
        confined(source, spec.name)
        assert status(source, spec.name, "Groups").split() in ([], [str(user(source, spec.name)[1])])

    run = source.root / "run/ganeti/kvm-hypervisor"
    others = [
        *(disk.path for disk in lab.disks("pool2")),
        *(str(run / "ctrl" / f"{name}.{kind}") for name in ("pool1", "pool2") for kind in ("qmp", "monitor", "serial")),
        *(str(run / kind) for kind in ("ctrl", "keys", "conf", "uid")),
        str(source.root / "var/lib/ganeti/server.pem"),
        str(source.root / "var/log/ganeti/kvm/pool2.serial.log"),
        f"/proc/{source.pid('pool2')}/fd",
        f"/proc/{source.pid('pool2')}/mem",
    ]
    assert set(reached(0, others).values()) == {"reached"}  # they are there
    stolen = reached(users[0][0], others)
    assert set(stolen.values()) <= {"Permission denied"}, stolen

    third = lab.instance("pool3", hvparams=POOL, nics=0)
    with pytest.raises(HypervisorError, match="has none left for pool3"):
        lab.start(source, third)
    assert not source.leftovers("pool3")[:-2] or all("tap" in found for found in source.leftovers("pool3"))

    source.wait_console("pool1", "^BOOTED-OK")
    lab.begin(specs[0], source, target)
    lab.finish(specs[0], source, target)
    source.call("finalize_source", name="pool1", success=True)
    assert user(target, "pool1")[0] in (LAST + 1, LAST + 2)
    target.wait_beats("pool1")
    assert not (run / "uid/pool1").exists()
    lab.start(source, third)
    assert user(source, "pool3")[0] == users[0][0]


def migrating_into(program: str) -> str:
    """What QEMU's monitor takes to start a program."""
    return f'migrate "exec:{program}"\n'


def alone(sandbox: list[str], typed: str) -> subprocess.Popen[str]:
    """A QEMU without a machine, with this sandbox, whose monitor has been given *typed*."""
    words = ["qemu-system-x86_64", "-machine", "none", "-display", "none", "-nodefaults", "-S", "-monitor", "stdio"]
    made = subprocess.Popen(
        [*words, *sandbox], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    assert made.stdin is not None
    made.stdin.write(typed)
    made.stdin.flush()
    return made


def test_a_guest_that_is_taken_over_starts_no_program(lab: Lab) -> None:
    """Its monitor starts programs: without the sandbox one runs, within it the kernel ends QEMU at the attempt."""
    node = lab.nodes[0]
    spec = lab.instance("pool1", hvparams=POOL)
    for disk in lab.disks(spec.name):
        os.chmod(disk.path, 0o660)
    lab.start(node, spec)
    confined(node, "pool1")
    pid = node.pid("pool1")
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    sandbox = words[words.index("-sandbox") :][:2]
    assert "spawn=deny" in sandbox[1].split(",")
    place = lab.directory / "open"
    place.mkdir()
    place.chmod(0o777)  # nothing but the sandbox keeps the guest from writing here

    free = alone([], migrating_into(f"touch {place}/free"))
    wait_until((place / "free").exists, "the program that nobody forbids")
    free.communicate("quit\n")
    for setting in (sandbox, ["-sandbox", emulator.SANDBOX]):
        tried = alone(setting, migrating_into(f"touch {place}/alone"))
        assert tried.wait(30) == -signal.SIGSYS
        tried.communicate()

    with socket.socket(socket.AF_UNIX) as monitor:
        with short_path(str(node.root / "run/ganeti/kvm-hypervisor/ctrl/pool1.monitor")) as short:
            monitor.connect(short)
        monitor.sendall(migrating_into(f"touch {place}/guest").encode())
        wait_until(lambda: node.state("pool1") is None, "the end of the guest")
    assert [path.name for path in place.iterdir()] == ["free"]
