# SPDX-License-Identifier: BSD-2-Clause
"""The life of one node: power on, power off, hang, come back; and commands run inside it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ganeti.base.errors import CommandError, PrerequisiteError
from ganeti.system import call_delay
from ganeti.tools.testbed import layout, loopback, network, node_files, node_init, processes
from ganeti.tools.testbed.layout import Layout, Node
from ganeti.wconfd.lock_check import STRICT

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x04000000, 0x20000000, 0x40000000
READY_WITHIN_S = 30.0
PASSED_ON = ("TERM", "COLUMNS", "LINES", "CI")
_SETTINGS = (call_delay.DELAY, call_delay.SEED, STRICT)
"""Variables of the caller that the daemons of a node see, too."""
PASSED_ON_PREFIXES = ("GANETI_", "GNT_")
RUNNING, STOPPED, OFF = "running", "stopped", "off"


def state(bed: Layout, node: Node) -> str:
    pid = processes.recall(node.pid_file)
    if pid is None:
        return OFF
    if bed.unprivileged:
        return STOPPED if processes.is_stopped(pid) else RUNNING
    return STOPPED if freezer(bed, node).is_frozen(pid) else RUNNING


def freezer(bed: Layout, node: Node) -> processes.Freezer:
    return processes.Freezer(f"{bed.tag}-{node.name}")


def start(bed: Layout, node: Node) -> None:
    """Switch the node on and return once its world is mounted and its sshd listens; its daemons are being started."""
    if processes.recall(node.pid_file) is not None:
        raise PrerequisiteError(f"{node.name} is running already")
    if bed.unprivileged:
        loopback.start(bed, node)
        return
    config = node.place / "init.json"
    config.write_text(json.dumps(_init_config(bed, node), indent=1))
    freezer(bed, node).create()
    go_read, go_write = os.pipe()
    pid = _spawn(bed, node, config, go_read)
    os.close(go_read)
    with os.fdopen(go_write, "w") as go:
        processes.remember(node.pid_file, pid)
        network.plug_in(bed, node, pid)
        go.write("go")
    run = Path(f"/proc/{pid}/root/run")
    ready = run / "testbed-ready"

    def is_ready() -> bool:
        if processes.recall(node.pid_file) is None:
            raise CommandError(f"{node.name} did not start: {last_words(node)}")
        is_itself = ready.exists() and ready.read_text().strip() == node.name
        return is_itself and (run / "sshd.pid").exists()  # written once it listens

    processes.wait_for(is_ready, READY_WITHIN_S, f"the start of {node.name}")


def last_words(node: Node) -> str:
    lines = node.console_log.read_text().strip().splitlines() if node.console_log.exists() else []
    return lines[-1] if lines else "it said nothing"


def _init_config(bed: Layout, node: Node) -> dict[str, object]:
    binds = {
        **({} if bed.package else {str(bed.checkout): str(bed.checkout)}),
        str(bed.shared): node_files.SHARED_FILE_STORAGE,
        str(node.disks): node_files.FILE_STORAGE,
    }
    if bed.boot.exists():
        binds[str(bed.boot)] = node_files.GUEST_BOOT
    return {
        "name": node.name,
        "place": str(node.place),
        "commands": str(bed.commands),
        "watcher_interval_s": bed.watcher_interval_s,
        "binds": binds,
        "settings": {
            name: os.environ[name] for name in (call_delay.DELAY, call_delay.SEED, STRICT) if name in os.environ
        },
    }


def _spawn(bed: Layout, node: Node, config: Path, go: int) -> int:
    """Fork the node's first process into new namespaces; it waits for a word on *go*. Gives its id on the host.

    Two forks: the PID namespace begins with the child of the process that asked for it, and no process of the testbed
    shall be its parent for longer than this.
    """
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become_parent(bed, node, config, go, tell)
        finally:
            os._exit(1)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(answer) as stream:
        told = stream.read()
    if not told:
        raise CommandError(f"{node.name} did not start: new namespaces were refused ({last_words(node)})")
    return int(told)


def _become_parent(bed: Layout, node: Node, config: Path, go: int, tell: int) -> NoReturn:
    log = os.open(node.console_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.setsid()
    freezer(bed, node).join()
    if node_init.libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWNET):
        os.write(2, b"unshare was refused\n")
        os._exit(1)
    first = os.fork()
    if first == 0:
        os.close(tell)
        if os.read(go, 2) == b"go":
            os.closerange(3, 1024)
            os.execv("/usr/bin/python3", ["node-init", "-IS", node_init.__file__, str(config)])  # noqa: S606
        os._exit(1)
    os.write(tell, str(first).encode())
    os._exit(0)


def kill(bed: Layout, node: Node) -> None:
    """Pull the plug: cables first, so that no connection is closed in good order; then everything at once."""
    pid = processes.recall(node.pid_file)
    if pid is None:
        raise PrerequisiteError(f"{node.name} is off already")
    if bed.unprivileged:
        loopback.kill(bed, node)
        return
    network.unplug(bed, node)
    os.kill(pid, 9)
    freezer(bed, node).thaw(None)
    processes.end(pid)
    node.pid_file.unlink()


def stop(bed: Layout, node: Node) -> None:
    """Hang the node: everything in it stops, its addresses stay."""
    pid = running_pid(bed, node)
    if bed.unprivileged:
        loopback.signal_all(node, signal.SIGSTOP)
        processes.wait_stopped(pid)
        return
    freezer(bed, node).freeze(pid)


def resume(bed: Layout, node: Node) -> None:
    pid = processes.recall(node.pid_file)
    if pid is None:
        raise PrerequisiteError(f"{node.name} is off; switch it on with gnt-testbed start")
    if bed.unprivileged:
        loopback.signal_all(node, signal.SIGCONT)
        processes.wait_stopped(pid, stopped=False)
        return
    freezer(bed, node).thaw(pid)


def running_pid(bed: Layout, node: Node) -> int:
    """Give the node's first process; raises `PrerequisiteError` when the node is off or hangs."""
    now = state(bed, node)
    if now == OFF:
        raise PrerequisiteError(f"{node.name} is off; switch it on with gnt-testbed start")
    if now == STOPPED:
        raise PrerequisiteError(f"{node.name} is stopped; let it go on with gnt-testbed cont")
    pid = processes.recall(node.pid_file)
    assert pid is not None
    return pid


def command_line(bed: Layout, name: str, command: Sequence[str]) -> list[str]:
    """Give the host's words that run *command* in the node (or, for ``hub``, on the wire between the nodes)."""
    if name == layout.HUB:
        return [*network.in_hub(bed), *command]
    node = bed.node(name)
    pid = running_pid(bed, node)
    environment = {"LANG": "C.UTF-8", "SHELL": "/bin/bash"}
    for key, value in os.environ.items():
        if key in PASSED_ON or key.startswith(PASSED_ON_PREFIXES):
            environment[key] = value
    if bed.unprivileged:
        environment |= loopback.environment(bed, node)
        before: Sequence[str] = ()
    else:
        environment |= {"HOME": "/root", "USER": "root", "PATH": f"{bed.commands}:{node_init.PATH_TAIL}"}
        before = processes.enter(pid)
    settings = [f"{key}={value}" for key, value in environment.items()]
    return [*before, "/usr/bin/env", "-i", f"--chdir={environment['HOME']}", *settings, *command]


def become(bed: Layout, name: str, command: Sequence[str]) -> NoReturn:
    """Turn this very process into *command* inside the node: terminal, signals and exit status are its own."""
    words = command_line(bed, name, command)
    if name != layout.HUB and not bed.unprivileged:
        freezer(bed, bed.node(name)).join()
    sys.stdout.flush()
    os.execvp(words[0], words)  # noqa: S606


def run(
    bed: Layout, name: str, *command: str, text: str | None = None, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run *command* in the node to its end, for tests and tools; the exit status is in the answer."""
    with popen(bed, name, *command, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE) as process:
        try:
            out, errors = process.communicate(text, timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def popen(bed: Layout, name: str, *command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start *command* in the node, its output to be read from the answer; it hangs when the node does."""
    words = command_line(bed, name, command)
    join = None if name == layout.HUB or bed.unprivileged else freezer(bed, bed.node(name)).join
    return subprocess.Popen(
        words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=join
    )
