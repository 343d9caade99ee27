# SPDX-License-Identifier: BSD-2-Clause
"""What stands for hardware, and for the kernel's own ways, in production modules of a simulation.

Only what cannot work over simulated system calls is replaced: HTTP and TLS, inotify, fork, network interfaces, and
state that production keeps once in a process where one real process here is many.
"""

import asyncio
import errno
import importlib
import json
import logging
import os as real_os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ganeti_simulation.facades import mirrored_disks, replicated_volumes, transfers
from ganeti_simulation.system import network as net
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import here, machine_of


class _SentenceHandler(logging.Handler):
    """The daemons' logs become the story."""

    def emit(self, record: logging.LogRecord) -> None:
        kernel = getattr(Running, "kernel", None)
        if kernel is None or kernel.current is None or not kernel.current.process.alive:
            return
        thread = kernel.current
        text = " ".join(record.getMessage().split("\n"))
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
            thread.process.local.setdefault("faults", []).append(record)
            kernel.faults.append((repr(thread.process), text, record.exc_info))
        mark = "" if record.levelno <= logging.INFO else f"{record.levelname}: "
        kernel.tell(repr(thread.process), mark + text)


def _logs(module: ModuleType) -> None:
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.addHandler(_SentenceHandler())
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    module.set_up_logs = lambda *_, **__: None  # type: ignore[attr-defined]
    module.reopen_logs = lambda: None  # type: ignore[attr-defined]


def _http_server(module: Any) -> None:
    reply, request = module.HttpReply, module.HttpRequest
    error = module.TransportError

    class HttpServer:
        def __init__(
            self,
            handler: Any,
            *,
            address: str,
            port: int,
            tls: Any,
            door: Any = lambda _: None,
            trusts: Any = None,
            early: bool = False,
            body_limit_bytes: int = 0,
            short: frozenset[str] = frozenset(),
        ) -> None:
            self._handler, self._door, self.port = handler, door, port

        async def start(self) -> None:
            process = Running.process()
            server = net.Server(process, asyncio.get_running_loop(), self._serve)
            if not machine_of(process).network.listen(process.machine.address, self.port, server):
                raise error(f"Cannot listen on port {self.port}: {real_os.strerror(errno.EADDRINUSE)}")

        async def _serve(self, path: str, body: bytes, caller: Any) -> tuple[int, bytes]:
            asked = request(method="POST", path=path, body=body, peer=caller.address, certificate=caller.certificate)
            answer = self._door(asked) or await self._handler(asked)
            assert isinstance(answer, reply)
            return answer.status, answer.body

        async def close(self) -> None:
            process = Running.process()
            machine_of(process).network.stop_listening(process.machine.address, self.port, process)

    module.HttpServer = HttpServer


def _http_client(module: Any) -> None:
    broken, slow = module.BrokenError, module.NodeTimeoutError

    class HttpClient:
        def __init__(self, tls: Any, address_of: Callable[[str], str]) -> None:
            self._address_of = address_of

        async def post(
            self, host: str, port: int, path: str, body: Any, *, limit_s: float, connect_s: float, headers: Any = None
        ) -> tuple[int, bytes]:
            """Headers are not carried: the times in them are what they are for."""
            data = body if isinstance(body, bytes) else b"".join([piece async for piece in body])
            process = Running.process()
            Running.kernel.system_call()
            network, address = machine_of(process).network, self._address_of(host)
            reachable = network.passes(process.machine.address, address)
            timeout_s = max(limit_s, 0.001) if reachable else min(limit_s, connect_s)
            outcome = await network.request(process, address, port, path, data, timeout_s)
            if outcome == net.SILENT:
                if not reachable and connect_s <= limit_s:
                    raise broken(f"no connection to {address} within {connect_s:g} seconds")
                raise slow(f"Node {host} did not answer the call {path} within {limit_s:.0f} seconds")
            if outcome == net.REFUSED:
                raise broken(f"{address} port {port}: connection refused", may_restart=True)
            if outcome == net.BROKEN:
                raise broken(f"{address} port {port}: the connection broke", may_restart=True, stale=True)
            assert not isinstance(outcome, str)
            return outcome

        async def get(self, host: str, port: int, path: str, *, limit_s: float, **_: Any) -> tuple[int, bytes]:
            """The report of a MonD, made as that makes it; no other daemon is asked in this way."""
            process = Running.process()
            Running.kernel.system_call()
            network, address = machine_of(process).network, self._address_of(host)
            await asyncio.sleep(network.delay_s())
            if not network.passes(process.machine.address, address):
                raise broken(f"{host} did not answer within {limit_s:g} seconds")
            return 200, _report_of(network.machines[address])

        async def close(self) -> None:
            """Nothing is kept."""

    module.HttpClient = HttpClient


def _report_of(machine: Any) -> bytes:
    diagnose = importlib.import_module("ganeti.node.collectors.diagnose")
    key = machine.forged_key or machine.disk.content("/var/lib/ganeti/hmac.key").strip()
    signed = diagnose.signed(machine.diagnosis, machine.name, key, machine.wall_s)
    return json.dumps({"data": machine.diagnosis, "signed": signed}).encode()


def _directory_watch(module: Any) -> None:
    class DirectoryWatch:
        def __init__(self, directory: str, replaced: Callable[[str], None], lost: Callable[[], None]) -> None:
            process, loop = Running.process(), asyncio.get_running_loop()

            def tell(name: str) -> None:
                if process.alive:
                    loop.call_soon_threadsafe(replaced, name)

            self._disk = machine_of(process).disk
            self._handle = self._disk.watch(directory, tell)

        def close(self) -> None:
            self._disk.unwatch(self._handle)

    module.DirectoryWatch = DirectoryWatch


def _forking(module: Any) -> None:
    def fork(child: Callable[[], Any]) -> int:
        Running.kernel.system_call()
        parent = Running.process()
        process = Running.kernel.start_process(
            parent.machine,
            "job",
            child,
            environ=parent.environ,
            descriptors=parent.descriptors,
            parent=parent.pid,
        )
        process.blocked = set(parent.blocked)
        process.handlers = dict(parent.handlers)
        return process.pid

    module.fork = fork
    module.PAYS_IN_ADVANCE = False


def _job_loop(module: Any) -> None:
    def the_loop() -> asyncio.AbstractEventLoop:
        local = Running.process().local
        if "job_loop" not in local:
            local["job_loop"] = asyncio.new_event_loop()
            asyncio.set_event_loop(local["job_loop"])
        loop: asyncio.AbstractEventLoop = local["job_loop"]
        return loop

    module.the_loop = the_loop


def _boot(module: Any) -> None:
    module.boot_identity = lambda: Running.process().machine.boot_id


def _registry(module: Any) -> None:
    inner = module.import_all
    done: dict[str, None] = {}

    def import_all(package: ModuleType) -> None:
        if package.__name__ not in done:
            done[package.__name__] = None
            inner(package)

    module.import_all = import_all


def _node(module: Any) -> None:
    module.owns_address = lambda address: address in Running.process().machine.addresses


def _master_ip(module: Any) -> None:
    def change(master: Any, what: str) -> None:
        addresses = Running.process().machine.addresses
        if what == "add":
            addresses[master.ip] = None
        else:
            addresses.pop(master.ip, None)

    async def answers(address: str) -> bool:
        machine = here()
        return any(
            address in other.addresses and machine.network.passes(machine.address, other.address)
            for other in machine.network.machines.values()
            if other is not machine
        )

    module._change, module._answers = change, answers
    module.fault_of_place = lambda master: ""
    module.owns_address = lambda address: address in Running.process().machine.addresses


def _node_verify(module: Any) -> None:
    async def reach(ip: str, port: int) -> str | None:
        machine = here()
        there = machine.network.answers_at(machine.address, machine.network.home_of(ip), port)
        return None if there else "no answer"

    module._reach = reach


def _daemonize(module: Any) -> None:
    class Report:
        write_end = -1

        def send(self, status: int, sentence: str) -> None:
            process = Running.process()
            process.local["report"] = (status, sentence)
            for tell in process.local.get("when_reported", []):
                tell()

    module._Report = Report


def _tls(module: Any) -> None:
    module.server_context = module.client_context = lambda *_, **__: object()
    module.client_contexts = lambda *_: iter((object(),))
    module.former_certificates = lambda *_: []


def _node_call(module: Any) -> None:
    """One blocking request: a loop of its own carries it."""
    unreachable = module.NodeUnreachableError

    def send(paths: Any, address: str, call: str, body: bytes, timeout_s: float) -> Any:
        process = Running.process()
        network = machine_of(process).network
        outcome = network.request_blocking(process, network.home_of(address), module.NODED_PORT, call, body, timeout_s)
        if isinstance(outcome, str):
            raise unreachable(f"The node daemon at {address} does not answer: {outcome}")
        try:
            return json.loads(outcome[1])
        except ValueError as err:
            raise unreachable(f"The node daemon at {address} does not answer: {err}") from err

    module._send = send


def _wconfd_commits(module: Any) -> None:
    """Nothing is changed: the checkers are told what was acknowledged."""
    inner = module.Committer._finish

    def finish(self: Any, request: Any) -> None:
        commit = request.commit
        if commit is not None and commit.changes_objects:
            heard = Running.kernel.local.get("acknowledged")
            if heard is not None:
                members = self._replicator._machine.membership.members
                heard(Running.process(), commit.position, commit.digest, members)
                Running.kernel.local["committed_for"](request.step.job, commit.position)
        inner(self, request)

    module.Committer._finish = finish


def _replica_store(module: Any) -> None:
    """Nothing is changed: the checkers are told what a copy has on disk."""
    store = module.ReplicaStore
    apply, restore = store.apply, store.restore

    def tell(what: str, position: Any) -> None:
        heard = Running.kernel.local.get(what)
        if heard is not None:
            heard(Running.process(), position)

    def apply_and_tell(self: Any, commits: Any, *rest: Any) -> None:
        apply(self, commits, *rest)
        for commit in commits[-1:]:
            tell("held", commit.position)

    def restore_and_tell(self: Any, commit: Any, *rest: Any) -> None:
        restore(self, commit, *rest)
        tell("held", commit.position)
        tell("given", commit.position)

    store.apply, store.restore = apply_and_tell, restore_and_tell


def _replica(module: Any) -> None:
    """Nothing is changed: the checkers are told what a node has promised."""
    inner = module.Replica.promise

    async def promise(self: Any, caller: Any, ask_only: bool) -> Any:
        answer = await inner(self, caller, ask_only)
        heard = Running.kernel.local.get("promised")
        if heard is not None and answer["granted"] and not ask_only:
            heard(Running.process(), caller.epoch)
        return answer

    module.Replica.promise = promise


def _node_ledger(module: Any) -> None:
    """Nothing is changed: the checkers are told of every call that is let in to change a node."""
    inner = module.CallLedger.admit

    def admit(self: Any, epoch: int, number: Any) -> bool:
        raised: bool = inner(self, epoch, number)
        heard = Running.kernel.local.get("admitted")
        if heard is not None:
            heard(Running.process(), epoch, number)
        return raised

    module.CallLedger.admit = admit


def _execution(module: Any) -> None:
    """Nothing is changed: the checkers are told when a process begins with an opcode of a job."""
    inner = module.JobRunner._carry_out

    async def carry_out(self: Any, entry: Any, *rest: Any) -> Any:
        heard = Running.kernel.local.get("begun")
        if heard is not None:
            heard(Running.process(), self.job.id, self.job.ops.index(entry))
        return await inner(self, entry, *rest)

    module.JobRunner._carry_out = carry_out


def _bootstrap_machine(module: Any) -> None:
    def answers(self: Any, address: str, port: int, timeout_s: float) -> bool:
        machine = here()
        return bool(machine.network.answers_at(machine.address, machine.network.home_of(address), port))

    module.Machine.owns = lambda self, address: address in Running.process().machine.addresses
    module.Machine.answers = answers


def _pause_points(module: Any) -> None:
    """Nobody stops there: who plays crashes hears of it (`crash_points`)."""

    def reach(name: str) -> None:
        kernel = getattr(Running, "kernel", None)
        heard = kernel.local.get("crash points") if kernel is not None else None
        if heard is not None:
            heard(name)

    module.reach = reach


def _noded(module: Any) -> None:
    module.lock_memory = lambda: None


def _nothing(name: str) -> Callable[[Any], None]:
    def patch(module: Any) -> None:
        setattr(module, name, lambda *_, **__: None)

    return patch


PATCHES: dict[str, Callable[[Any], None]] = {
    "ganeti.system.logs": _logs,
    "ganeti.system.http_server": _http_server,
    "ganeti.system.http_client": _http_client,
    "ganeti.system.directory_watch": _directory_watch,
    "ganeti.system.forking": _forking,
    "ganeti.job.loop": _job_loop,
    "ganeti.calls.node_sessions": _nothing("prepare"),
    "ganeti.job.rehearsal": _nothing("rehearse"),
    "ganeti.system.daemonize": _daemonize,
    "ganeti.base.registry": _registry,
    "ganeti.system.tls": _tls,
    "ganeti.bootstrap.node_call": _node_call,
    "ganeti.wconfd.commits": _wconfd_commits,
    "ganeti.stores.replica_store": _replica_store,
    "ganeti.noded.replica": _replica,
    "ganeti.node.ledger": _node_ledger,
    "ganeti.master.queue.execution": _execution,
    "ganeti.bootstrap.machine": _bootstrap_machine,
    "ganeti.system.boot": _boot,
    "ganeti.node.actions.node": _node,
    "ganeti.node.actions.master_ip": _master_ip,
    "ganeti.node.actions.verify": _node_verify,
    "ganeti.daemons.noded": _noded,
    "ganeti.system.pause_points": _pause_points,
    "ganeti.node.storage.mirror.client": mirrored_disks.client,
    "ganeti.node.transfers": transfers.transfers,
    "ganeti.noded.world": replicated_volumes.tools,
}
