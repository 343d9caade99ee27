# SPDX-License-Identifier: BSD-2-Clause
"""Nodes for users without root: directories and loopback addresses instead of namespaces, `fake` guests only.

A node is every process whose ``GANETI_ROOTDIR`` is its directory. Names come from the testbed's own hosts file through
libnss_wrapper, and ``ssh NODE COMMAND`` runs the command in that node's environment: nobody listens for it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.tools.testbed import layout, node_files, node_init, processes
from ganeti.tools.testbed.layout import Layout, Node

NSS_WRAPPER = "libnss_wrapper.so"
DIRECTORIES = (
    "etc/default",
    "etc/ganeti",
    "etc/ssh",
    "root/.ssh",
    "run/lock",
    "srv/ganeti",
    "usr/lib/ganeti/iallocators",
)
LATER = ("var/lib/ganeti", "var/log/ganeti", "tmp")
READY_WITHIN_S = 20.0


def up(bed: Layout, say: Callable[[str], None]) -> None:
    """Lay out and start all nodes in the testbed's directory, which holds the record already."""
    if bed.hypervisor != layout.WITHOUT_ROOT:
        raise PrerequisiteError(f"without root only --hypervisor {layout.WITHOUT_ROOT} is possible: taps need root")
    bed.shared.mkdir()
    (bed.directory / "hosts").write_text(node_files.hosts(bed))
    _write_ssh(bed)
    node_files.make_keys(bed)
    for node in bed.nodes:
        _write_files(bed, node)
        start(bed, node)
        say(f"{node.name} is on, {node.address}")


def root(node: Node) -> Path:
    return node.place / "root"


def environment(bed: Layout, node: Node) -> dict[str, str]:
    """Give the settings that make a process part of the node."""
    return {
        "GANETI_ROOTDIR": str(root(node)),
        "GANETI_HOSTNAME": node.name,
        "HOME": str(root(node) / "root"),
        "LD_PRELOAD": NSS_WRAPPER,
        "NSS_WRAPPER_HOSTS": str(bed.directory / "hosts"),
        "PATH": f"{bed.directory}/bin:{bed.commands}:{node_init.PATH_TAIL}",
    }


def start(bed: Layout, node: Node) -> None:
    """Start the node's first process, which does what cron and init do elsewhere."""
    run_directory = root(node) / "run"
    shutil.rmtree(run_directory, ignore_errors=True)  # it does not survive a power-off elsewhere either
    (run_directory / "lock").mkdir(parents=True)
    config = node.place / "init.json"
    settings = environment(bed, node)
    plain = {"name": node.name, "commands": str(bed.commands), "watcher_interval_s": bed.watcher_interval_s}
    config.write_text(json.dumps({**plain, "root": str(root(node)), "environment": settings}))
    with node.console_log.open("ab") as log:
        process = subprocess.Popen(
            ["/usr/bin/python3", "-IS", node_init.__file__, str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=settings,
            start_new_session=True,
        )
    processes.remember(node.pid_file, process.pid)


def kill(bed: Layout, node: Node) -> None:
    """End every process of the node at once."""
    signal_all(node, signal.SIGSTOP)
    for pid in list(members(node)):
        processes.end(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    node.pid_file.unlink(missing_ok=True)


def signal_all(node: Node, number: signal.Signals) -> None:
    """Signal the node's processes, again until nobody new appears."""
    done: set[int] = set()
    while new := set(members(node)) - done:
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        done |= new


def members(node: Node) -> list[int]:
    """Give the node's processes, as far as they still run."""
    found = processes.with_setting(f"GANETI_ROOTDIR={root(node)}")
    return [pid for pid in found if pid != os.getpid() and processes.started_at(pid) is not None]


def check_machine() -> None:
    done = subprocess.run(
        ["/usr/bin/env", f"LD_PRELOAD={NSS_WRAPPER}", "true"], capture_output=True, text=True, check=False
    )
    if done.returncode or NSS_WRAPPER in done.stderr:
        raise PrerequisiteError(f"{NSS_WRAPPER} is missing; install the package libnss-wrapper, or run make install")


def _write_files(bed: Layout, node: Node) -> None:
    for directory in (*DIRECTORIES, *LATER):
        (root(node) / directory).mkdir(parents=True)
    paths = f"{node_files.FILE_STORAGE}\n{node_files.SHARED_FILE_STORAGE}\n"
    for path in paths.split():
        paths += f"{root(node)}{path}\n"
    node.disks.mkdir()
    (root(node) / "etc/ganeti/file-storage-paths").write_text(paths)
    (root(node) / "etc/default/ganeti").write_text(f'NODED_ARGS="-b {node.address}"\nRAPI_ARGS="-b {node.address}"\n')
    (root(node) / node_files.FILE_STORAGE.lstrip("/")).symlink_to(node.disks)
    (root(node) / node_files.SHARED_FILE_STORAGE.lstrip("/")).symlink_to(bed.shared)
    node_files.link_os_definitions(bed, root(node) / "srv/ganeti/os")
    (root(node) / "usr/lib/ganeti/iallocators/hail").symlink_to(bed.commands / "hail")
    for kind in node_files.KEY_TYPES:
        key = bed.directory / "ssh" / f"{node.name}_{kind}"
        shutil.copy(key, root(node) / f"etc/ssh/ssh_host_{kind}_key")
        shutil.copy(key.with_suffix(".pub"), root(node) / f"etc/ssh/ssh_host_{kind}_key.pub")


def _write_ssh(bed: Layout) -> None:
    place = bed.directory / "bin" / "ssh"
    place.parent.mkdir()
    place.write_text(
        f"#!{bed.commands}/python -IS\nimport sys\nsys.path[:0] = [{str(bed.checkout / 'src')!r}]\n"
        f"from ganeti.tools.testbed.loopback import ssh\nsys.exit(ssh({str(bed.directory)!r}, sys.argv[1:]))\n"
    )
    place.chmod(0o755)


def ssh(directory: str, words: list[str]) -> int:
    """Stand in for ssh: ``[options] [user@]NODE COMMAND...`` runs in the node, its words joined for a shell."""
    bed = layout.load(Path(directory))
    target = ""
    while words:
        word = words.pop(0)
        if word in {"-o", "-p", "-l", "-i", "-F", "-b", "-c", "-e", "-m"}:
            words.pop(0)
        elif not word.startswith("-"):
            target = word.rpartition("@")[2]
            break
    node = next((node for node in bed.nodes if target in (node.name, node.address)), None)
    if node is None or processes.recall(node.pid_file) is None:
        print(f"ssh: connect to host {target}: No route to host", file=sys.stderr)
        return 255
    if words[:1] == ["--"]:
        words.pop(0)
    command = " ".join(words).replace(f"{layout.HELPERS}/", f"{bed.commands}/")
    settings = environment(bed, node)
    try:
        return subprocess.run(["/bin/sh", "-c", command], env=settings, cwd=settings["HOME"], check=False).returncode
    except OSError as error:
        raise CommandError(f"{node.name} cannot run {command}: {error}") from error
