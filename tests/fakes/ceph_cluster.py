# SPDX-License-Identifier: BSD-2-Clause
"""A Ceph cluster in memory on loopback: one monitor, one store, no authentication, by Debian's own programs.

``GANETI_CEPH`` names a directory that the packages ceph-mon, ceph-osd, ceph-common and qemu-block-extra were unpacked
in; otherwise the installed ones are used.
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

UNPACKED = os.environ.get("GANETI_CEPH", "")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_MODULES = f"/{_LIBRARIES}/qemu"


def why_not() -> str:
    """Why no cluster can be started here; empty where one can."""
    path = f"{UNPACKED}/usr/bin" if UNPACKED else None
    missing = [name for name in ("ceph-mon", "ceph-osd", "rbd") if shutil.which(name, path=path) is None]
    return f"the packages ceph-mon, ceph-osd and ceph-common are missing ({', '.join(missing)})" if missing else ""


class Ceph:
    """A cluster with the pool rbd."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.pids: list[int] = []
        for name in ("mon", "osd", "run", "log", "modules"):
            (top / name).mkdir(parents=True)
        self.environment = {**os.environ, "CEPH_CONF": str(top / "ceph.conf")}
        if UNPACKED:
            libraries = [
                f"{UNPACKED}/{_LIBRARIES}",
                f"{UNPACKED}/lib/x86_64-linux-gnu",
                f"{UNPACKED}/{_LIBRARIES}/ceph",
            ]
            self.environment["LD_LIBRARY_PATH"] = ":".join(libraries)
            self.environment["PYTHONPATH"] = f"{UNPACKED}/usr/lib/python3/dist-packages"
            self.environment["PATH"] = f"{UNPACKED}/usr/bin:{os.environ['PATH']}"
            for module in [*Path(_MODULES).glob("*.so"), *Path(f"{UNPACKED}{_MODULES}").glob("*.so")]:
                with contextlib.suppress(FileExistsError):
                    (top / "modules" / module.name).symlink_to(module)
            self.environment["QEMU_MODULE_DIR"] = str(top / "modules")
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def run(self, *words: str, timeout_s: float = 60) -> str:
        if words[0] == "ceph" and UNPACKED:
            words = ("/usr/bin/python3", f"{UNPACKED}/usr/bin/ceph", *words[1:])
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
        address = f"[v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]"
        lines = ["[global]", f"fsid={identity}", f"mon_host={address}", "public_addr=127.0.0.1"]
        lines += [f"auth_{what}_required=none" for what in ("cluster", "service", "client")]
        lines += [f"keyring={self.top}/keyring", f"run_dir={self.top}/run", f"crash_dir={self.top}/log"]
        lines += [f"admin_socket={self.top}/run/$name.$pid.asok", f"log_file={self.top}/log/$name.log"]
        lines += ["osd_pool_default_size=1", "osd_pool_default_min_size=1", "osd_pool_default_pg_autoscale_mode=off"]
        lines += ["mon_allow_pool_size_one=true", "mon_warn_on_pool_no_redundancy=false", "mgr_initial_modules="]
        lines += [f"mon_data={self.top}/mon/a", f"osd_data={self.top}/osd/$id", "osd_objectstore=memstore"]
        if UNPACKED:
            lines += [f"erasure_code_dir={UNPACKED}/{_LIBRARIES}/ceph/erasure-code"]
            lines += [f"osd_class_dir={UNPACKED}/{_LIBRARIES}/rados-classes"]
            lines += [f"plugin_dir={UNPACKED}/{_LIBRARIES}/ceph"]
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
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, start_new_session=True
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
        if argv[0] == "ceph" and UNPACKED:
            argv = ["/usr/bin/python3", f"{UNPACKED}/usr/bin/ceph", *argv[1:]]
        elif UNPACKED and os.path.exists(f"{UNPACKED}/usr/bin/{argv[0]}"):
            argv = [f"{UNPACKED}/usr/bin/{argv[0]}", *argv[1:]]
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
