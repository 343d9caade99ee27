# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-noded: carries out node calls on this node. Guests, and files of the cluster, outlive it."""

import argparse
import asyncio
import ctypes
import gc
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

import msgspec

from ganeti.base.clocks import SENT_AT
from ganeti.base.errors import ParameterError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.machine import Machine, has_joining
from ganeti.daemons.noded_options import NAME, check, make_parser
from ganeti.node.state import NodeState
from ganeti.noded.access import CandidateCertificates, own_name
from ganeti.noded.call_record import CallRecord
from ganeti.noded.call_spans import CallSpans
from ganeti.noded.calls import NodeCalls, StoppingError
from ganeti.noded.lost_guests import LostGuests
from ganeti.noded.probe_server import serve_probes
from ganeti.noded.replica import Replica
from ganeti.noded.world import RealNodeWorld, end_orphans
from ganeti.system.daemonize import Daemon, parse_options, run_daemon
from ganeti.system.environment import Environment, any_address, read_environment
from ganeti.system.event_loop import Background
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer
from ganeti.system.ssconf import ssconf_words
from ganeti.system.tls import ServerFiles, server_context
from ganeti.system.tracing import Tracing
from ganeti.system.unix_socket import UnixServer

STOP_GRACE_S = 1.0
_ANSWER_S = 0.2
_CALLS_FIRST_S = 0.5
"""For those that have waited for the start: `gnt-node add`, say."""
_SHORT_HEADERS = frozenset({SENT_AT.lower(), "traceparent"})
"""All that node calls come with (`calls/node_client.py`)."""
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_log = logging.getLogger(NAME)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    try:
        options.address = check(options, any_address(read_environment().paths))
    except ParameterError as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1

    end_joining(read_environment())

    def before_loop(environment: Environment) -> None:
        if not options.no_mlock:
            lock_memory()

    return run_daemon(NAME, options, serve, before_loop)


def end_joining(environment: Environment) -> None:
    """What a killed joining has left is taken back, not served with: no cluster knows of it."""
    if not has_joining(environment.paths):
        return
    from ganeti.bootstrap.attempt import take_back_interrupted  # seldom needed, and slow to import

    machine = Machine(environment.paths.root, environment.hostname)
    try:
        take_back_interrupted(machine, daemons=False)
    except PrerequisiteError:
        return  # one is under way, which starts this daemon
    except OSError as err:
        print(f"{NAME}: what an interrupted joining has left stays: {err}", file=sys.stderr)


async def serve(daemon: Daemon) -> None:
    node = NodeDaemon(daemon.environment.paths, daemon.options, daemon.stopping)
    await node.start()
    daemon.ready()
    await daemon.stopping.wait()
    await node.close()


class NodeDaemon:
    """The parts, put together."""

    def __init__(self, paths: Paths, options: argparse.Namespace, stopping: asyncio.Event) -> None:
        self._paths, self._stopping = paths, stopping
        self._probes: UnixServer | None = None
        self._background = Background()
        self._candidates = CandidateCertificates(paths)
        self._candidates.resume()
        files = ServerFiles.of(paths, key=options.ssl_key, certificate=options.ssl_cert)
        self._tls = None if options.no_ssl else server_context(files)
        orphans = end_orphans(paths)
        if orphans:
            _log.warning("%d process groups that a killed daemon had left behind were ended", orphans)
        self._record = CallRecord(paths)
        self._calls = NodeCalls(paths, self._candidates, max_running=options.max_clients, tell=self._record.tell)
        world = RealNodeWorld(paths, own_name(paths))
        self._replica = Replica(paths, world.node_name, self._calls, world.now_s)
        self._state = NodeState(world, self._calls, self, self._replica, self._replica.newest_ssconf)
        self._tracing = Tracing(NAME, paths)
        self._spans = CallSpans(self._tracing, world.node_name)
        self._server = HttpServer(
            self._handle,
            address=options.address,
            port=options.port,
            tls=self._tls,
            door=self._admit,
            trusts=self._candidates.accepts,
            short=_SHORT_HEADERS,
        )

    async def start(self) -> None:
        """Listen; raises `TransportError`."""
        await self._server.start()
        self._probes = await serve_probes(self._paths, self._state.world.node_name, partial(ssconf_words, self._paths))
        _log.info("node daemon of %s listens on port %d", self._state.world.node_name, self._server.port)
        self._background.start(self._replica.resume(), "the copy of the configuration")
        self._background.start(self._guard_disks(), "the guards of disks")

    async def _guard_disks(self) -> None:
        """Last, since the drivers of all disks are loaded for it: calls need not wait for that."""
        await asyncio.sleep(_CALLS_FIRST_S)
        for guard in LostGuests.all(self._state, self._record.tell_of):
            self._background.start(guard.run(), "the look for disks that were taken")
        gc.collect()
        gc.freeze()

    async def close(self) -> None:
        """Calls still running are ended; their callers repeat them to the next daemon."""
        await self._calls.close(STOP_GRACE_S)
        await self._server.close()
        if self._probes is not None:
            await self._probes.close()
        await self._background.cancel()
        await self._replica.close()
        self._record.close()
        await self._tracing.close()
        _log.info("node daemon stops; instances go on running")

    def stop_after_answer(self) -> None:
        asyncio.get_running_loop().call_later(_ANSWER_S, self._stopping.set)

    def _admit(self, request: HttpRequest) -> HttpReply | None:
        """Before a request is read: a stranger's may be long."""
        name = request.path.strip("/")
        if self._tls is not None and not self._candidates.accepts(request.certificate):
            _log.warning("call %s from %s refused: its certificate is not a master candidate's", name, request.peer)
            return _refusal(403, "Node calls are for master candidates: this certificate is not in their list")
        if request.method != "POST":
            return _refusal(405, "Node calls are POST requests")
        return None

    async def _handle(self, request: HttpRequest) -> HttpReply:
        name = request.path.strip("/")
        return await self._spans.around(name, request.headers, self._answer(name, request))

    async def _answer(self, name: str, request: HttpRequest) -> HttpReply:
        try:
            sent_at = request.headers.get(SENT_AT, "")
            return HttpReply(
                200, await self._calls.serve(self._state, name, request.body, sent_at, is_gone=request.is_gone)
            )
        except StoppingError:
            return _refusal(503, "The node daemon is ending")
        except Exception:
            _log.exception("call %s could not be answered", name)
            return _refusal(500, f"Call {name} could not be answered: the node daemon's log says why")


def _refusal(status: int, sentence: str) -> HttpReply:
    return HttpReply(status, msgspec.json.encode([False, PrerequisiteError(sentence).to_wire()]))


def lock_memory() -> None:
    """Keep what is used in memory: a node that swaps must still answer. Pages never touched stay out."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        return  # others may lock a few pages only, and would get no more memory after those
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        _log.warning("memory cannot be locked: %s", os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    sys.exit(main())
