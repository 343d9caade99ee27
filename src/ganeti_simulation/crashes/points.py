# SPDX-License-Identifier: BSD-2-Clause
"""Interrupts every operation at every point, and looks whether it is done or clean afterwards (issue 4).

An operation is played once undisturbed: its crash points are all the places it passes - those production names by
`pause_points.reach`, the arrival and the answer of every node call, both sides of every durable write. Then it is
played once for each point and victim, in a process of its own: the seed is the same, so what happens is the same up to
the point. After it everything is mended, comes to rest, and is compared.

`crash_branches` plays many of them in one go, `crash_campaign` all.
"""

import functools
import importlib
import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ganeti_simulation.cluster import clients, machine_files
from ganeti_simulation.cluster.world import MASTER_IP, World, prepared
from ganeti_simulation.crashes.cases import Case
from ganeti_simulation.facades import replicated_volumes
from ganeti_simulation.facades.mirrored_disks import fill
from ganeti_simulation.plans.checkers import Checkers
from ganeti_simulation.plans.player import Player
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine
from ganeti_simulation.system.network import Answer, Serve, Server
from ganeti_simulation.system.process import Host, Process

NODES: Final = 3
_SEED = 1
_BEGIN_S, _PREPARE_S, _PLAY_S, _REST_S = 60.0, 60.0, 90.0, 900.0
_BACK_S, _LONG_BACK_S = 3.0, 60.0
_LOOK_EVERY_S = 0.5
_CALM_LOOKS = 3
_SILENT: Final = ("replica_state", "write_ssconf_files", "differing_ssconf")
"""Calls that are made again and again, whatever is done."""
_SMALL_STEP: Final = "publish-writing"
"""A place that is passed with every piece of a file which is only for readers, and renamed when it is whole."""
_SIMULATED_S: Final = 1.7e9
"""Simulated clocks show more, in seconds since 1970."""
_VOLATILE: Final = ("serial_no", "mtime", "ctime", "master_node")
_RANDOM_UUID: Final = re.compile(
    r"(?!00000000-0000-4000-8000)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_RANDOM_MAC: Final = re.compile(r"aa:00:00(:[0-9a-f]{2}){3}")
_LOCKS: Final = ["name", "owner"]
_FIRST_PORT: Final = 11000


@dataclass(frozen=True)
class Point:
    """One place that is passed; *number* counts them in a play."""

    number: int
    machine: str
    process: str
    name: str
    has_job: bool
    """Whether a job process runs at that moment."""

    def __str__(self) -> str:
        return f"point {self.number} ({self.process} of {self.machine.partition('.')[0]}: {self.name})"


@dataclass(frozen=True)
class Crash:
    """At which point of which case what is hit."""

    point: Point
    victim: str


Strikes = Callable[[Point], Crash | None]
"""Says whether, and whom, to strike at a point."""


def _nobody(_: Point) -> None:
    """Before the operation begins."""


@dataclass
class Ending:
    """What an operation has come to."""

    before: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    """Of the jobs that there are on top of those before."""
    told: str | None = None
    result: str = ""
    points: list[Point] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    rebooted: list[str] = field(default_factory=list)
    named: bool = False
    """Whether undo records that were given up tell of what is left."""
    simulated_s: float = 0.0


class Stage:
    """A prepared cluster at rest, for one play."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.world = World(_SEED, NODES, prepared(NODES))
        self.player = Player(self.world)
        self.checkers = Checkers(self.world, self.player)
        self.told: str | None = None
        self._points: list[Point] | None = None
        self._strikes: Strikes = _nobody
        self._prepare()
        self._known_jobs = self._jobs()
        self.state = self.state_now()

    def _prepare(self) -> None:
        world = self.world
        self._listen()
        world.start()
        if not world.run_until(lambda: world.master() is not None, _BEGIN_S):
            raise RuntimeError("the cluster has no master after it was switched on")
        for opcode in self.case.before:
            master = world.master()
            assert master is not None
            process = clients.submit(master, self.player.ledger, "prepares", [dict(opcode)])
            world.run_until(lambda process=process: not process.alive, _PREPARE_S)
        unfit = [each for each in self.player.ledger.accepted_jobs.values() if each.status != "success"]
        if unfit:
            raise RuntimeError(f"{self.case.name} cannot be prepared: {unfit[0].result}")
        world.run(5.0)
        disks = {machine.name: machine.disk for machine in world.machines}
        fill((disks[holder], image) for holder, image in machine_files.images(world) if holder)
        replicated_volumes.fill(disks.values())

    # Points

    def _listen(self) -> None:
        world = self.world
        world.kernel.local["crash points"] = self._pass
        for machine in world.machines:
            machine.wait_for_disk = functools.partial(self._write, machine.wait_for_disk)  # type: ignore[method-assign]
        listen = world.network.listen

        def listen_to_all(address: str, port: int, server: Server) -> bool:
            server.serve = functools.partial(self._serve, server.serve)
            return listen(address, port, server)

        world.network.listen = listen_to_all  # type: ignore[method-assign]

    async def _serve(self, inner: Serve, path: str, body: bytes, caller: Host) -> Answer:
        if path.rpartition("/")[2] in _SILENT:
            return await inner(path, body, caller)
        self._pass(f"{path} arrives")
        answer = await inner(path, body, caller)
        self._pass(f"{path} is done")
        return answer

    def _write(self, inner: Callable[[], None]) -> None:
        self._pass("before a durable write")
        inner()
        self._pass("after a durable write")

    def _pass(self, name: str) -> None:
        points, thread = self._points, self.world.kernel.current
        if points is None or thread is None or name == _SMALL_STEP:
            return
        process = thread.process
        jobs = _processes(process.machine if process.name != "ganeti-noded" else self.world.machines[0], "job")
        point = Point(len(points), process.machine.name, process.name, name, bool(jobs))
        points.append(point)
        crash = self._strikes(point)
        if crash is not None:
            self._points = None
            self._strike(crash, point, process)

    def _strike(self, crash: Crash, point: Point, process: Process) -> None:
        """May not return: the process that passes the point may be the victim."""
        world, kernel = self.world, self.world.kernel
        if (point.machine, point.process, point.name) != (crash.point.machine, crash.point.process, crash.point.name):
            self.checkers.violated(f"the play is another one: {point} instead of {crash.point}")
        kernel.tell("crash", f"{crash.victim} at {point}")
        master = world.machines[0]
        if crash.victim in ("master", "master for good", "node"):
            machine = process.machine if crash.victim == "node" else master
            back_s = _LONG_BACK_S if crash.victim == "master for good" else _BACK_S
            kernel.after(back_s, machine.power_on)
            if crash.victim == "master for good":
                kernel.after(0.0, self._watch)
            machine.lose_power()
        elif crash.victim == "job":
            for each in _processes(master, "job"):
                kernel.signal(each, signal.SIGKILL)
        elif crash.victim == "ganeti-noded":
            kernel.signal(process, signal.SIGKILL)
        else:
            daemon = world.process_of(master, crash.victim)
            if daemon is not None:
                kernel.signal(daemon, signal.SIGKILL)

    def _watch(self) -> None:
        if not self.player.watching:
            self.player.watching = True
            self.player.watch()

    # One play

    def play(self, strikes: Strikes) -> Ending:
        """Play the operation; *strikes* is asked at each point, until it has named a crash."""
        world, kernel, checkers = self.world, self.world.kernel, self.checkers
        master = world.master()
        assert master is not None
        begun_s = kernel.now_s
        points = self._points = []
        self._strikes = strikes

        def look() -> None:
            checkers.look()
            kernel.after(_LOOK_EVERY_S, look)

        look()
        user = self._user(master)
        world.run_until(lambda: not user.alive or bool(checkers.violations), _PLAY_S)
        self._points = None
        self._rest()
        ending = Ending(self.state, self.state_now(), points=points, violations=list(checkers.violations))
        found = self._jobs()
        ending.statuses = [found[job] for job in sorted(found) if job not in self._known_jobs]
        ending.told = self.told
        for job, accepted in self.player.ledger.accepted_jobs.items():
            if job not in self._known_jobs:
                ending.told, ending.result = accepted.status, str(accepted.result)
        ending.rebooted = [machine.name for machine in world.machines if machine.boots > 1]
        ending.named = any(name.endswith(".undo") for name in self._final_master().disk.listdir(machine_files.QUEUE))
        ending.simulated_s = kernel.now_s - begun_s
        return ending

    def _user(self, master: Machine) -> Process:
        if self.case.opcode is not None:
            return clients.submit(master, self.player.ledger, self.case.name, [dict(self.case.opcode)])
        assert self.case.request is not None
        method, arguments = self.case.request

        def tell(answer: dict[str, Any]) -> None:
            self.told = "success" if answer["success"] else "error"

        return _ask(master, method, list(arguments), tell)

    def _rest(self) -> None:
        world, kernel, checkers = self.world, self.world.kernel, self.checkers
        kernel.run(kernel.now_s + _BACK_S)
        if self.player.watching:
            kernel.run(kernel.now_s + _LONG_BACK_S)
        self.player.settle()
        end_s = kernel.now_s + _REST_S
        on_call_s = kernel.now_s + _LONG_BACK_S
        calm = 0
        while kernel.now_s < end_s and not checkers.violations:
            kernel.run(kernel.now_s + 1.0)
            if kernel.now_s > on_call_s:
                self._watch()
            self._count_candidates()
            calm = calm + 1 if self._daemons_run() and checkers.at_rest() else 0
            if calm == _CALM_LOOKS:
                break
        else:
            if not checkers.violations:
                checkers.violated(f"no rest within {_REST_S:g} seconds: {'; '.join(checkers.why_not_at_rest())}")
            return
        checkers.check_at_rest()
        self._check_locks()
        holders = [machine.name for machine in world.machines if machine.powered and MASTER_IP in machine.addresses]
        if len(holders) > 1:
            checkers.violated(f"{' and '.join(holders)} have the address of the master")

    def _daemons_run(self) -> bool:
        """A daemon that was killed comes back within seconds; what nobody can be told meanwhile is told then."""
        supervision, master = self.world.supervision, self.world.master()
        return (
            master is not None
            and supervision[master.name].serves("ganeti-wconfd")
            and all(each.serves("ganeti-noded") for each in supervision.values())
        )

    def _final_master(self) -> Machine:
        return self.world.master() or self.world.machines[0]

    def _count_candidates(self) -> None:
        """The operation may have changed how many there are."""
        copy = machine_files.read_copy(self._final_master())
        if copy is not None:
            nodes = [json.loads(data) for (kind, _), data in copy.objects.items() if kind == "nodes"]
            self.world.candidates = sum(bool(each.get("master_candidate")) for each in nodes)

    def _check_locks(self) -> None:
        held: list[Any] = []

        def tell(answer: dict[str, Any]) -> None:
            rows = answer["result"]["data"] if answer["success"] else []
            held.extend(row for row in rows if row[1][1])

        process = _ask(self._final_master(), "Query", ["lock", _LOCKS, None], tell)
        if not self.world.run_until(lambda: not process.alive, 30.0) or process.status:
            self.checkers.violated("the locks cannot be asked for in the end")
        for row in held:
            self.checkers.violated(f"lock {row[0][1]} is held by {row[1][1]} in the end")

    # What there is

    def _jobs(self) -> dict[int, str]:
        files = machine_files.job_files(self._final_master())
        return {job: machine_files.status_of(raw) for job, raw in files.items()}

    def state_now(self) -> list[str]:
        """Everything an operation may change, with what differs from play to play left out."""
        master = self._final_master()
        copy = machine_files.read_copy(master)
        found = []
        for (kind, _), data in (copy.objects if copy is not None else {}).items():
            found.append(f"{kind} {_plain(data)}")
        for machine in self.world.machines:
            found += [f"guest {name} on {machine.name}" for name in machine_files.guests_on(machine)]
        images = [each for each in machine_files.images(self.world) if not each[1].endswith((".mirror", ".old"))]
        found += [_RANDOM_UUID.sub("*", f"{holder}{path}") for holder, path in images]
        for machine in self.world.machines:
            names = replicated_volumes.Volumes(machine).names()
            names = [name for name in names if not name.endswith(".old")]  # verify names those
            found += [_RANDOM_UUID.sub("*", f"volume {name} on {machine.name}") for name in names]
        if master.disk.exists(f"{machine_files.QUEUE}/drain"):
            found.append("the queue is drained")
        return sorted(found)


def _processes(machine: Host, name: str) -> list[Process]:
    return [each for each in machine.processes.values() if each.name == name]


def _plain(data: bytes) -> str:
    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {_RANDOM_UUID.sub("*", key): clean(inner) for key, inner in value.items() if key not in _VOLATILE}
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        return "a time" if isinstance(value, float) and value > _SIMULATED_S else value

    found = clean(json.loads(data))
    if "tcpudp_port_pool" in found:  # whether a free port was ever used is no state
        used = set(range(_FIRST_PORT, found.pop("highest_used_port") + 1)) - set(found.pop("tcpudp_port_pool"))
        found["ports in use"] = sorted(used)
    text = json.dumps(found, sort_keys=True)
    return _RANDOM_MAC.sub("*", _RANDOM_UUID.sub("*", text))


def _ask(machine: Machine, method: str, arguments: list[Any], tell: Callable[[dict[str, Any]], None]) -> Process:
    """Have a user make one LUXI request and wait for its answer."""

    def program() -> int:
        framing = importlib.import_module("ganeti.wire.framing_sync")
        errors = importlib.import_module("ganeti.base.errors")
        try:
            connection = framing.connect("/run/ganeti/socket/ganeti-query", 10.0)
            connection.send({"method": method, "args": arguments, "version": 3010000})
            answer = connection.receive()
        except (errors.GanetiError, OSError) as err:
            Running.kernel.tell("user", f"{method}: no answer: {err}")
            return 1
        tell(answer)
        return 0

    return machine.start("user", program)


def play(case: Case, crash: Crash | None = None, listener: Callable[[float, str, str], None] | None = None) -> Ending:
    """Play *case* once; *listener* is told the story from where the operation begins."""
    stage = Stage(case)
    if listener is not None:
        stage.world.kernel.listeners.append(listener)
    try:
        return stage.play(lambda point: crash if crash is not None and crash.point.number == point.number else None)
    finally:
        for machine in stage.world.machines:
            machine.databases.close()
