# SPDX-License-Identifier: BSD-2-Clause
"""A Ceph cluster in memory: one monitor, one store, no authentication, by Debian's own programs.

They are the installed ones; where there are none, ``setup/ceph-packages`` fetches and unpacks them.
"""

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ganeti.noded.world import RealNodeWorld
from ganeti.ports.node_world import Completed
from ganeti.tools.testbed import guest

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_MODULES = f"/{_LIBRARIES}/qemu"
WATCH_S = 5
"""After how many seconds without a word the cluster takes a client for gone; 30 is usual."""
_PROGRAMS = ("ceph-mon", "ceph-osd", "rbd", "ceph")


@functools.cache
def _packages() -> tuple[str, str]:
    """The directory that the packages were unpacked in, empty where they are installed; and why there are none."""
    if all(shutil.which(name) for name in _PROGRAMS) and Path(f"{_MODULES}/block-rbd.so").exists():
        return "", ""
    fetched = subprocess.run([guest.tree() / "setup/ceph-packages"], capture_output=True, text=True, check=False)
    return (fetched.stdout.strip(), "") if not fetched.returncode else ("", fetched.stderr.strip())


def why_not() -> str:
    """Why no cluster can be started here; empty where one can."""
    return _packages()[1]


def unpacked() -> str:
    """The root of the programs and libraries; empty where they are installed."""
    return _packages()[0]


class Ceph:
    """A cluster with the pool rbd, at an *address* of the network that the words *within* lead a command to."""

    def __init__(self, top: Path, address: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        self.top = top
        self.address = address
        self.within = within
        self.pids: list[int] = []
        self.for_clients = ""
        """The file `/etc/ceph/ceph.conf` of a machine that only uses the cluster."""
        for name in ("mon", "osd", "run", "log", "modules"):
            (top / name).mkdir(parents=True)
        self.environment = {**os.environ, "CEPH_CONF": str(top / "ceph.conf")}
        if root := unpacked():
            self.environment["LD_LIBRARY_PATH"] = f"{root}/{_LIBRARIES}:{root}/{_LIBRARIES}/ceph"
            self.environment["PYTHONPATH"] = f"{root}/usr/lib/python3/dist-packages"
            self.environment["PATH"] = f"{root}/usr/bin:{os.environ['PATH']}"
            for module in [*Path(_MODULES).glob("*.so"), *Path(f"{root}{_MODULES}").glob("*.so")]:
                with contextlib.suppress(FileExistsError):
                    (top / "modules" / module.name).symlink_to(module)
            self.environment["QEMU_MODULE_DIR"] = str(top / "modules")
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def run(self, *words: str, timeout_s: float = 60) -> str:
        if words[0] == "ceph":
            words = ("/usr/bin/python3", f"{unpacked()}/usr/bin/ceph", *words[1:])
        words = (*self.within, *words)
        return subprocess.run(
            words, check=True, capture_output=True, text=True, env=self.environment, timeout=timeout_s
        ).stdout

    def close(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def stop_answering(self, *, stopped: bool) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)

    def _start(self) -> None:
        identity, ports = str(uuid.uuid4()), [_free_port(), _free_port()]
        address = f"[v2:{self.address}:{ports[0]},v1:{self.address}:{ports[1]}]"
        lines = ["[global]", f"fsid={identity}", f"mon_host={address}"]
        lines += [f"auth_{what}_required=none" for what in ("cluster", "service", "client")]
        self.for_clients = "\n".join([*lines, "keyring=/dev/null", "log_file="]) + "\n"
        lines += [f"public_addr={self.address}"]
        lines += [f"keyring={self.top}/keyring", f"run_dir={self.top}/run", f"crash_dir={self.top}/log"]
        lines += [f"admin_socket={self.top}/run/$name.$pid.asok", f"log_file={self.top}/log/$name.log"]
        lines += ["osd_pool_default_size=1", "osd_pool_default_min_size=1", "osd_pool_default_pg_autoscale_mode=off"]
        lines += ["mon_allow_pool_size_one=true", "mon_warn_on_pool_no_redundancy=false", "mgr_initial_modules="]
        lines += [f"osd_client_watch_timeout={WATCH_S}"]
        lines += [f"mon_data={self.top}/mon/a", f"osd_data={self.top}/osd/$id", "osd_objectstore=memstore"]
        if root := unpacked():
            lines += [f"erasure_code_dir={root}/{_LIBRARIES}/ceph/erasure-code"]
            lines += [f"osd_class_dir={root}/{_LIBRARIES}/rados-classes"]
            lines += [f"plugin_dir={root}/{_LIBRARIES}/ceph"]
        (self.top / "ceph.conf").write_text("\n".join(lines) + "\n")
        (self.top / "keyring").touch()
        monitors = str(self.top / "monmap")
        self.run("monmaptool", "--create", "--fsid", identity, "--addv", "a", address, monitors)
        self.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monitors)
        self._daemon("ceph-mon", "-i", "a", "-f")
        self._until("ceph", "-s")
        store = str(uuid.uuid4())
        number = self.run("ceph", "osd", "new", store).strip()
        (self.top / "osd" / number).mkdir()
        self.run("ceph-osd", "-i", number, "--mkfs", "--osd-uuid", store)
        self._daemon("ceph-osd", "-i", number, "-f")
        self._until("ceph", "osd", "stat", "-f", "json", says='"num_up_osds":1,')
        self.run("ceph", "osd", "pool", "create", "rbd", "8", "8")
        self.run("rbd", "pool", "init", "rbd")

    def _daemon(self, *words: str) -> None:
        with (self.top / "log" / f"{words[0]}.out").open("wb") as log:
            process = subprocess.Popen(
                [*self.within, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        self.pids.append(process.pid)

    def _until(self, *words: str, says: str = "") -> None:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(subprocess.SubprocessError):
                if says in self.run(*words, timeout_s=5):
                    return
            assert time.monotonic() < deadline, f"{' '.join(words)} does not answer"


class CephWorld(RealNodeWorld):
    """A node whose tools reach the cluster of the test."""

    ceph: Ceph

    async def run(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Completed:
        if argv[0] == "ceph":
            argv = ["/usr/bin/python3", f"{unpacked()}/usr/bin/ceph", *argv[1:]]
        elif unpacked() and os.path.exists(f"{unpacked()}/usr/bin/{argv[0]}"):
            argv = [f"{unpacked()}/usr/bin/{argv[0]}", *argv[1:]]
        return await super().run(argv, env=self.ceph.environment | (env or {}), **options)

    async def spawn(self, argv: Sequence[str], **options: Any) -> int:
        told = ("CEPH_CONF", "LD_LIBRARY_PATH", "QEMU_MODULE_DIR")
        words = [f"{key}={self.ceph.environment[key]}" for key in told if key in self.ceph.environment]
        return await super().spawn(["env", *words, *argv], **options)


@functools.cache
def cluster() -> Ceph:
    """One for all tests of this process."""
    top = Path(tempfile.mkdtemp(prefix="gntceph"))
    found = Ceph(top)

    def end() -> None:
        found.close()
        shutil.rmtree(top, ignore_errors=True)

    atexit.register(end)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
