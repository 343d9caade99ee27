# SPDX-License-Identifier: BSD-2-Clause
"""Makes the steps of a plan happen to a simulated cluster. Each kind of step is one method and its pattern."""

import errno
import importlib
import re
import signal
from collections.abc import Callable
from random import Random
from typing import Any

from ganeti_simulation.cluster import clients
from ganeti_simulation.cluster.world import World
from ganeti_simulation.disk.rot import flip_bit_at, flip_some_bit
from ganeti_simulation.plans.plan import Plan, PlanError
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import Machine, here
from ganeti_simulation.system.process import Process

DISK_MIB = 64
_WATCH_EVERY_S = 3.0
_WITHOUT_MASTER_S = 8.0
_DATABASE = "/var/lib/ganeti/config.sqlite"

Act = Callable[["Player", re.Match[str]], None]
_STEPS: list[tuple[re.Pattern[str], Act]] = []


def step(pattern: str) -> Callable[[Act], Act]:
    """Declare a kind of step. NODE, DAEMON and NAME stand for what they say."""
    for word, meaning in (
        ("NODE2", r"(?P<other>node[0-9]+)"),
        ("NODE", r"(?P<node>node[0-9]+)"),
        ("DAEMON", r"(?P<daemon>ganeti-[a-z]+|spawner|job)"),
        ("NAME", r"(?P<name>[a-z][a-z0-9]*)"),
        ("CALLS", r"(?: after (?P<calls>[0-9]+) calls)?"),
    ):
        pattern = pattern.replace(word, meaning)

    def declare(act: Act) -> Act:
        _STEPS.append((re.compile(pattern), act))
        return act

    return declare


def check(plan: Plan) -> None:
    """Raise `PlanError` for a step that nobody understands, before anything is played."""
    for each in plan.steps:
        what = each.what.partition(" when told ")[0]
        if not any(pattern.fullmatch(what) for pattern, _ in _STEPS):
            raise PlanError(f"'{what}' is nothing that can happen")
        for number in re.findall(r"\bnode([0-9]+)\b", each.what):
            if not 1 <= int(number) <= plan.nodes:
                raise PlanError(f"'{each.what}': there is no node{number}")


class Player:
    def __init__(self, world: World) -> None:
        self.world = world
        self.kernel = world.kernel
        self.ledger = clients.Ledger()
        self.watching = False
        self._without_master_s = 0.0
        self._failing_over: Process | None = None
        self.promoted: dict[str, None] = {}
        """Nodes that somebody wanted to be candidates, beside those that were from the beginning."""

    def play(self, what: str) -> None:
        """Raises `PlanError` for what nobody understands."""
        for pattern, act in _STEPS:
            match = pattern.fullmatch(what)
            if match is not None:
                self.kernel.tell("plan", what)
                act(self, match)
                return
        raise PlanError(f"'{what}' is nothing that can happen")

    def machine(self, name: str) -> Machine:
        number = int(name.removeprefix("node"))
        if not 1 <= number <= len(self.world.machines):
            raise PlanError(f"there is no {name}")
        return self.world.machines[number - 1]

    def user(self, purpose: str, *opcodes: dict[str, Any]) -> None:
        master = self.world.master()
        if master is None:
            self.kernel.tell("user", f"{purpose}: nobody takes jobs")
            return
        clients.submit(master, self.ledger, purpose, list(opcodes))

    # The administrator

    def watch(self) -> None:
        """Look after the cluster as somebody on call does: where there is no master for a while, make one."""
        if not self.watching:
            return
        self.kernel.after(_WATCH_EVERY_S, self.watch)
        if self._is_served():
            self._without_master_s = self.kernel.now_s
        elif self.kernel.now_s - self._without_master_s > _WITHOUT_MASTER_S:
            there = [
                machine
                for machine in self.world.machines
                if machine.powered and (machine.number <= self.world.candidates or machine.name in self.promoted)
            ]
            if there and (self._failing_over is None or not self._failing_over.alive):
                self.fail_over(self.kernel.random.choice(there))

    def _is_served(self) -> bool:
        """Whether there is a master that can do something: its WConfD is not let back where others named a new one."""
        master = self.world.master()
        return master is not None and self.world.supervision[master.name].serves("ganeti-wconfd")

    def fail_over(self, machine: Machine, *words: str) -> None:
        if machine.powered:
            self._failing_over = machine.start("administrator", lambda: _fail_over(self, words))

    def settle(self) -> None:
        """End all faults: from here on everything must come right by itself, and with the administrator."""
        world = self.world
        world.network.heal()
        weather = world.network.weather
        weather.loss, weather.duplication, weather.delay_most_s = 0.0, 0.0, 0.002
        for machine in world.machines:
            machine.disk.faults.clear()
            machine.disk.capacity_bytes = None
            machine.skew_s = 0.0
            machine.doom = None
            for process in list(machine.processes.values()):
                process.doom = None
                if process.stopped:
                    self.kernel.signal(process, signal.SIGCONT)
            machine.power_on()


def _fail_over(player: Player, words: tuple[str, ...]) -> int:
    main = importlib.import_module("ganeti.cli.main")
    program = here().programs.beside("gnt-cluster")
    Running.process().local["argv"] = [program, "master-failover", *words]
    status: int = main.run("gnt-cluster")
    said = " ".join("".join(Running.process().output).split())
    player.kernel.tell(f"administrator on {Running.process().machine.name}", f"exit status {status}: {said}")
    return status


# At moments that no second names


@step("(?P<what>.+) when told (?P<sentence>.+)")
def _(player: Player, match: re.Match[str]) -> None:
    """The next time the story has a sentence with these words."""
    kernel, waits = player.kernel, True

    def hear(_: float, who: str, sentence: str) -> None:
        nonlocal waits
        if waits and who != "plan" and match["sentence"] in sentence:
            waits = False
            kernel.after(0.0, lambda: player.play(match["what"]))

    kernel.listeners.append(hear)


# Users


@step(r"user adds NAME( diskless)? (on NODE|anywhere)")
def _(player: Player, match: re.Match[str]) -> None:
    diskless = " diskless" in match[0]
    where = {"iallocator": "hail"} if match["node"] is None else {"pnode": f"{match['node']}.example.com"}
    player.user(
        match[0],
        {
            "OP_ID": "OP_INSTANCE_CREATE",
            "instance_name": f"{match['name']}.example.com",
            "mode": "create",
            "disk_template": "diskless" if diskless else "sharedfile",
            "disks": [] if diskless else [{"size": DISK_MIB}],
            "nics": [{}],
            "os_type": "noop",
            "beparams": {"maxmem": 128, "minmem": 128, "vcpus": 1},
            **where,
        },
    )


def _instance(player: Player, match: re.Match[str], opcode: str, **fields: Any) -> None:
    player.user(match[0], {"OP_ID": opcode, "instance_name": f"{match['name']}.example.com", **fields})


@step("user removes NAME")
def _(player: Player, match: re.Match[str]) -> None:
    _instance(player, match, "OP_INSTANCE_REMOVE", ignore_failures=False)


@step("user migrates NAME to NODE")
def _(player: Player, match: re.Match[str]) -> None:
    _instance(player, match, "OP_INSTANCE_MIGRATE", target_node=f"{match['node']}.example.com")


@step("user fails NAME over to NODE")
def _(player: Player, match: re.Match[str]) -> None:
    _instance(player, match, "OP_INSTANCE_FAILOVER", target_node=f"{match['node']}.example.com")


@step("user stops NAME")
def _(player: Player, match: re.Match[str]) -> None:
    _instance(player, match, "OP_INSTANCE_SHUTDOWN")


@step("user starts NAME")
def _(player: Player, match: re.Match[str]) -> None:
    _instance(player, match, "OP_INSTANCE_STARTUP", force=False)


@step("user reboots NAME")
def _(player: Player, match: re.Match[str]) -> None:
    _instance(player, match, "OP_INSTANCE_REBOOT", reboot_type="hard")


@step("user lets NODE wait")
def _(player: Player, match: re.Match[str]) -> None:
    nodes = [f"{match['node']}.example.com"]
    player.user(match[0], {"OP_ID": "OP_TEST_DELAY", "duration": 2.0, "on_nodes": nodes, "on_master": True})


@step("user lets nothing happen")
def _(player: Player, match: re.Match[str]) -> None:
    player.user(match[0], {"OP_ID": "OP_TEST_DELAY", "duration": 0.0})


@step("user sets limit (?P<limit>[0-9]+)")
def _(player: Player, match: re.Match[str]) -> None:
    player.user(match[0], {"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": int(match["limit"])})


@step("user demotes NODE")
def _(player: Player, match: re.Match[str]) -> None:
    node = f"{match['node']}.example.com"
    player.user(match[0], {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node, "master_candidate": False})


@step("user promotes NODE")
def _(player: Player, match: re.Match[str]) -> None:
    node = f"{match['node']}.example.com"
    player.promoted[node] = None
    player.user(match[0], {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node, "master_candidate": True})


# Faults


@step("NODE loses powerCALLS")
def _(player: Player, match: re.Match[str]) -> None:
    machine = player.machine(match["node"])
    if match["calls"]:
        machine.doom = machine.calls + int(match["calls"])
    else:
        machine.lose_power()


@step("NODE gets power")
def _(player: Player, match: re.Match[str]) -> None:
    machine = player.machine(match["node"])
    machine.doom = None
    machine.power_on()


def _named(player: Player, match: re.Match[str]) -> list[Process]:
    name = match["daemon"]
    return [each for each in player.machine(match["node"]).processes.values() if each.name == name]


@step("DAEMON of NODE is killedCALLS")
def _(player: Player, match: re.Match[str]) -> None:
    for process in _named(player, match)[:1]:
        if match["calls"]:
            process.doom = process.calls + int(match["calls"])
        else:
            player.kernel.signal(process, signal.SIGKILL)


@step("DAEMON of NODE hangs")
def _(player: Player, match: re.Match[str]) -> None:
    for process in _named(player, match):
        player.kernel.signal(process, signal.SIGSTOP)


@step("DAEMON of NODE goes on")
def _(player: Player, match: re.Match[str]) -> None:
    for process in _named(player, match):
        player.kernel.signal(process, signal.SIGCONT)


@step("NODE is cut off")
def _(player: Player, match: re.Match[str]) -> None:
    player.world.network.isolate(player.machine(match["node"]).address)


@step("NODE hears nothing from NODE2")
def _(player: Player, match: re.Match[str]) -> None:
    source, target = player.machine(match["other"]).address, player.machine(match["node"]).address
    if source != target:
        player.world.network.cut(source, target, both_ways=False)


@step("NODE and NODE2 are cut apart")
def _(player: Player, match: re.Match[str]) -> None:
    one, other = player.machine(match["node"]).address, player.machine(match["other"]).address
    if one != other:
        player.world.network.cut(one, other)


@step("the network heals")
def _(player: Player, match: re.Match[str]) -> None:
    player.world.network.heal()


@step("the network loses (?P<loss>[0-9.]+) delays (?P<delay>[0-9.]+) doubles (?P<twice>[0-9.]+)")
def _(player: Player, match: re.Match[str]) -> None:
    weather = player.world.network.weather
    weather.loss, weather.delay_most_s = float(match["loss"]), float(match["delay"])
    weather.duplication = float(match["twice"])


@step("the network calms")
def _(player: Player, match: re.Match[str]) -> None:
    weather = player.world.network.weather
    weather.loss, weather.duplication, weather.delay_most_s = 0.0, 0.0, 0.002


@step("the disk of NODE is full")
def _(player: Player, match: re.Match[str]) -> None:
    disk = player.machine(match["node"]).disk
    disk.capacity_bytes = 4096


@step("the disk of NODE (?P<what>fails|syncs nothing)")
def _(player: Player, match: re.Match[str]) -> None:
    disk = player.machine(match["node"]).disk
    for kind in ("write", "fsync") if match["what"] == "fails" else ("fsync",):
        disk.faults.fail(kind, errno.EIO, 1 << 30, "/var/lib/ganeti")


@step("the disk of NODE is well")
def _(player: Player, match: re.Match[str]) -> None:
    disk = player.machine(match["node"]).disk
    disk.faults.clear()
    disk.capacity_bytes = None


@step("the clock of NODE is wrong by (?P<seconds>-?[0-9]+)")
def _(player: Player, match: re.Match[str]) -> None:
    player.machine(match["node"]).skew_s = float(match["seconds"])


@step("the clock of NODE is right")
def _(player: Player, match: re.Match[str]) -> None:
    player.machine(match["node"]).skew_s = 0.0


@step("the copy on NODE rots")
def _(player: Player, match: re.Match[str]) -> None:
    """Not the master's own, nor that of one about to be: it refuses changes then, until somebody fails over."""
    machine = player.machine(match["node"])
    is_used = any(process.name == "ganeti-wconfd" for process in machine.processes.values())
    if machine is not player.world.master() and not is_used and machine.disk.exists(_DATABASE):
        flip_some_bit(machine.disk, _DATABASE, Random(player.kernel.random.getrandbits(64)))  # noqa: S311


@step(r"the copy on NODE rots at (?P<words>\S.*?)(?P<unreadable> beyond reading)?")
def _(player: Player, match: re.Match[str]) -> None:
    """At the first place that has these words, and the master's own as well: who writes this knows what it is for.

    The first letter becomes its neighbour, or *beyond reading* a byte that is no text.
    """
    bit = 0x80 if match["unreadable"] else 0x01
    if not flip_bit_at(player.machine(match["node"]).disk, _DATABASE, match["words"].encode(), bit):
        raise PlanError(f"the copy on {match['node']} has no '{match['words']}'")


@step("administrator watches")
def _(player: Player, match: re.Match[str]) -> None:
    player.watching = True
    player.watch()


@step("administrator fails over to NODE(?P<force> without votes)?")
def _(player: Player, match: re.Match[str]) -> None:
    words = ("--no-voting", "--yes-do-it") if match["force"] else ()
    player.fail_over(player.machine(match["node"]), *words)
