# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the daemons of this node, the watcher's pause, and leaving the cluster."""

import contextlib
import os
import re
import shutil
import sys

from ganeti.base.errors import CommandError, GanetiError, ParameterError
from ganeti.base.names import shown
from ganeti.model.node_calls import FAST_S, URGENT_S
from ganeti.model.node_calls.daemons import GetWatcherPause, NodeEnsureDaemon, NodeLeaveCluster, SetWatcherPause
from ganeti.model.node_calls.mastership import MasterEnded, NodeStopMaster
from ganeti.model.node_calls.node import WatcherRun
from ganeti.node.actions.candidate_keys import forget_ssh_keys
from ganeti.node.actions.files import read_text
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.system.files import write_atomically

STARTABLE = ("ganeti-confd", "ganeti-mond", "ganeti-metad", "ganeti-kvmd", "ganeti-maintd")
"""What other nodes' jobs may start or stop here; noded is running, and master daemons are the master's."""

_IS_WATCHED = 15
"""The exit status of a watcher that found another one at work on its group."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def daemon_util() -> str:
    """Our own `daemon-util`, beside this daemon or its interpreter: another release's may be installed elsewhere."""
    return own_program("daemon-util")


def own_program(name: str) -> str:
    own = [os.path.join(os.path.dirname(os.path.realpath(path)), name) for path in sys.argv[:1]]
    return next((path for path in own if os.access(path, os.X_OK)), f"{os.path.dirname(sys.executable)}/{name}")


@answers(WatcherRun)
async def watcher_run(node: NodeState, asked: WatcherRun) -> bool:
    """What it has to say is in its log; disks are left to its usual round."""
    if not _UUID.fullmatch(asked.group):
        raise ParameterError(f"'{shown(asked.group)}' is the UUID of no node group")
    words = [own_program("ganeti-watcher"), f"--nodegroup={asked.group}", "--no-verify-disks"]
    ended = await node.world.run(words, timeout_s=FAST_S, check=False)
    if ended.status not in (0, _IS_WATCHED):
        raise CommandError(f"ganeti-watcher ended with status {ended.status} (see watcher.log): {ended.stderr.strip()}")
    return ended.status == 0


@answers(NodeEnsureDaemon)
async def node_ensure_daemon(node: NodeState, asked: NodeEnsureDaemon) -> None:
    daemon = asked.daemon
    if daemon not in STARTABLE:
        raise ParameterError(f"Daemon '{daemon}' cannot be started by a call: these can: {', '.join(STARTABLE)}")
    await node.world.run([daemon_util(), "start" if asked.run else "stop", daemon], timeout_s=URGENT_S)
    node.world.log(f"{daemon} {'started' if asked.run else 'stopped'}")


@answers(GetWatcherPause)
async def get_watcher_pause(node: NodeState, asked: GetWatcherPause) -> float | None:
    text = read_text(node.paths.watcher_pause_file)
    try:
        until = float(text) if text else None
    except ValueError:
        return None
    return until if until is not None and until > node.world.now_s() else None


@answers(SetWatcherPause)
async def set_watcher_pause(node: NodeState, asked: SetWatcherPause) -> None:
    until = asked.until
    if until is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(node.paths.watcher_pause_file)
        node.world.log("watcher goes on")
        return
    write_atomically(node.paths.watcher_pause_file, f"{int(until)}\n".encode(), mode=0o644)
    node.world.log(f"watcher pauses until {int(until)}")


@answers(NodeStopMaster)
async def node_stop_master(node: NodeState, asked: NodeStopMaster) -> MasterEnded:
    ended = await node.replica.stop_master()
    if ended.daemons:
        node.world.log(f"{', '.join(ended.daemons)} ended for another node to be the master")
    return ended


@answers(NodeLeaveCluster)
async def node_leave_cluster(node: NodeState, asked: NodeLeaveCluster) -> None:
    await node.forget_copy()
    await _stop_others(node)
    if asked.modify_ssh_setup:
        forget_ssh_keys(node.paths)
    data_dir = node.paths.data_dir
    for name in _names(data_dir):
        path = f"{data_dir}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            if name in ("queue", "migrated", "rapi"):
                shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    # The next cluster counts its jobs anew: an answer kept for one of this cluster's must not be taken for its own.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(node.paths.answers_file)
    node.world.log("this node has left the cluster; the node daemon ends")
    node.daemon.stop_after_answer()


async def _stop_others(node: NodeState) -> None:
    """End the daemons that answer for the cluster here: they would go on without files to answer from."""
    for daemon in (*STARTABLE, "ganeti-mirrord"):
        if os.path.exists(node.paths.pid_file(daemon)):
            try:
                await node.world.run([daemon_util(), "stop", daemon], timeout_s=URGENT_S)
            except GanetiError as err:
                node.world.log(f"{daemon} does not end: {err}")


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
