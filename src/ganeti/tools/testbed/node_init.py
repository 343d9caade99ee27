# SPDX-License-Identifier: BSD-2-Clause
"""First process of a node: mounts its world, starts sshd and the cluster's daemons, then does what cron does.

It runs alone, isolated, in new network, mount, UTS and PID namespaces: ``python -IS node_init.py CONFIG.json``. Ending
it is pulling the node's plug. Standard library only, none of our packages: it must not care what state the tree is in.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE, MNT_DETACH = 16384, 1 << 18, 2
PR_SET_CHILD_SUBREAPER = 36
PATH_TAIL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOUNT_AGAIN_WITHIN_S = 10.0

libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    answer = libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)
    if answer:
        code = ctypes.get_errno()
        raise OSError(code, f"mount of {kind or source} on {target}: {os.strerror(code)}")


def bind(source: str, target: str, flags: int = 0) -> None:
    os.makedirs(target, exist_ok=True)
    mount(source, target, flags=MS_BIND | flags)


def mount_overlay(place: str) -> str:
    """Mount the node's root; the one of its previous life may need a moment to go away."""
    root = f"{place}/root"
    options = f"lowerdir=/,upperdir={place}/upper,workdir={place}/work"
    deadline = time.monotonic() + MOUNT_AGAIN_WITHIN_S
    while True:
        try:
            mount("overlay", root, "overlay", options=options)
            return root
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def build_world(config: dict[str, object]) -> None:
    """Make the mounts of the node and turn its root into ours."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    root = mount_overlay(str(config["place"]))
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", f"{root}/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if os.path.isdir("/sys/fs/cgroup"):
        mount("/sys/fs/cgroup", f"{root}/sys/fs/cgroup", flags=MS_BIND | MS_REC)
    mount("/dev", f"{root}/dev", flags=MS_BIND | MS_REC)
    for directory, mode in (("/dev/shm", "1777"), ("/run", "755"), ("/tmp", "1777")):  # noqa: S108
        mount("tmpfs", root + directory, "tmpfs", MS_NOSUID, f"mode={mode}")
    for source, target in config["binds"].items():  # type: ignore[attr-defined]
        bind(source, root + target)
    os.chdir(root)
    if libc.pivot_root(b".", b"."):
        raise OSError(ctypes.get_errno(), "pivot_root failed")
    libc.umount2(b".", MNT_DETACH)
    os.chdir("/")
    for directory in ("/run/lock", "/run/sshd"):
        os.makedirs(directory, exist_ok=True)


class Init:
    """What keeps running: reaps orphans, calls the watcher as cron would."""

    def __init__(self, config: dict[str, object]) -> None:
        self._name = str(config["name"])
        self._root = str(config.get("root", ""))
        self._interval_s = int(str(config["watcher_interval_s"]))
        self._watcher: int | None = None
        self._wakeup, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        if not self._root:
            self._start("/usr/sbin/sshd")
        if self._has_cluster():
            self._start("daemon-util", "start-all")
        next_round = time.monotonic() + self._interval_s
        while True:
            select.select([self._wakeup], [], [], max(0.0, next_round - time.monotonic()))
            self._reap()
            if time.monotonic() >= next_round:
                next_round = time.monotonic() + self._interval_s
                if self._watcher is None and self._has_cluster():
                    self._watcher = self._start("ganeti-watcher", "--no-wait-children")

    def _has_cluster(self) -> bool:
        return os.path.exists(f"{self._root}/var/lib/ganeti/ssconf_master_node")

    def _start(self, *command: str) -> int | None:
        try:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, cwd="/").pid
        except OSError as error:
            print(f"{self._name}: {command[0]} cannot start: {error}", flush=True)
            return None

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._watcher:
                self._watcher = None
                if status:
                    print(f"{self._name}: ganeti-watcher ended with {os.waitstatus_to_exitcode(status)}", flush=True)


def main() -> None:
    with open(sys.argv[1]) as stream:
        config = json.load(stream)
    if "root" in config:
        os.environ.update(config["environment"])  # a node of directories has nothing to mount
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    else:
        build_world(config)
        socket.sethostname(config["name"])
        os.environ.clear()
        os.environ.update(config["settings"])
        os.environ.update(HOME="/root", LANG="C.UTF-8", PATH=f"{config['commands']}:{PATH_TAIL}", SHELL="/bin/bash")
        with open("/run/testbed-ready", "w") as ready:
            ready.write(f"{config['name']}\n")
    Init(config).run()


if __name__ == "__main__":
    main()
