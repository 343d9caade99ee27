# SPDX-License-Identifier: BSD-2-Clause
"""A Gluster volume of a test's own, where the machine runs glusterd (``make test-host``)."""

import itertools
import os
import shutil
import socket
import subprocess
from pathlib import Path

_numbers = itertools.count()


def why_not() -> str:
    """Why no volume can be made here; empty where one can."""
    for program, package in (("gluster", "glusterfs-server"), ("mount.glusterfs", "glusterfs-client")):
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            return f"the package {package} is missing"
    if os.geteuid() != 0:
        return "Gluster volumes are made and mounted by root"
    told = subprocess.run(["gluster", "--mode=script", "pool", "list"], capture_output=True, text=True, check=False)
    return "" if told.returncode == 0 else f"glusterd does not answer: {(told.stdout + told.stderr).strip()}"


class GlusterVolume:
    """One brick on this machine."""

    def __init__(self, brick: Path) -> None:
        self.name = f"ganeti-test-{os.getpid()}-{next(_numbers)}"
        brick.mkdir()
        self._run("volume", "create", self.name, f"{socket.gethostname()}:{brick}", "force")
        try:
            self._run("volume", "start", self.name)
        except BaseException:
            self._run("volume", "delete", self.name)
            raise

    def close(self, mounted_at: Path) -> None:
        subprocess.run(["umount", str(mounted_at)], capture_output=True, check=False)
        self._run("volume", "stop", self.name, "force")
        self._run("volume", "delete", self.name)

    def _run(self, *words: str) -> None:
        subprocess.run(["gluster", "--mode=script", *words], check=True, capture_output=True, text=True)
