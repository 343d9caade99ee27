# SPDX-License-Identifier: BSD-2-Clause
"""Commands that change who is in the cluster, and who leads it, are killed at random moments: it heals by itself.

The command, its job's process or daemons are killed; then nobody does anything but the watcher, for two rounds on every
node. After that there is one master, and `gnt-cluster verify` has nothing to say. A few rounds by default; 50 with
GANETI_CAMPAIGN, or GANETI_ROUNDS. GANETI_SEED repeats what is done and when; GANETI_INTERRUPT names actions.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.campaign.machines import Machines, machines

from ganeti.base.errors import GanetiError
from ganeti.tools.testbed import cluster, machine, processes

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
LONG = bool(os.environ.get("GANETI_CAMPAIGN"))
ROUNDS = int(os.environ.get("GANETI_ROUNDS", "50" if LONG else "2"))
ACTIONS = ("modify-offline", "node-add", "restart", "master-failover")
CHOSEN = os.environ.get("GANETI_INTERRUPT", ",".join(ACTIONS if LONG else ACTIONS[:3])).split(",")
VICTIMS = ("command", "job", "master's daemons", "all daemons")
LONGEST_S = {"modify-offline": 1.2, "node-add": 6.0, "restart": 4.0, "master-failover": 6.0}
WATCHER_ROUNDS = 2
HEALED_WITHIN_S = 30.0
GUEST_NODE = "node4"
SPAWNER = "ganeti.daemons.spawner"
PROGRAMS = ("ganeti-noded", "ganeti-wconfd", "ganeti-luxid", "ganeti.daemons.")


class Interrupter:
    """Begins something on a cluster, kills it, and looks what became of it."""

    def __init__(self, bed: Machines, seed: str) -> None:
        self.bed = bed
        self.choice = random.Random(seed)
        self.story: list[str] = []

    def play(self, action: str) -> None:
        master = self.master()
        node, commands = self._prepare(action, master)
        victim = self.choice.choice(VICTIMS)
        moment_s = self.choice.uniform(0.0, LONGEST_S[action])
        self.tell(f"{action} from {master}: {' '.join(commands[0][1])}; after {moment_s:.2f} s the {victim} is killed")
        running = [machine.popen(self.bed.layout, where, *words) for where, words in commands]
        try:
            with contextlib.suppress(Exception):
                running[0].wait(moment_s)
            self.tell("it had ended" if running[0].poll() is not None else "it was running")
            for process in running:
                process.kill()
            self._kill(victim, node)
        finally:
            for process in running:
                process.kill()
                said = " ".join("".join(process.communicate()).split())
                self.tell(f"it said: {said[-300:]}")
        self._leave_alone()
        self._judge()

    def master(self) -> str:
        return self.bed.run("node1", "gnt-cluster", "getmaster").strip()

    def tell(self, text: str) -> None:
        self.story.append(text)

    # What is done

    def _prepare(self, action: str, master: str) -> tuple[str, list[tuple[str, tuple[str, ...]]]]:
        """Give the node it is mostly about, and what to run where."""
        names = [name for name in self.bed.names if name != master]
        if action == "modify-offline":
            node = self.choice.choice([name for name in names if name in self._listed(master)])
            wanted = "no" if self._listed(master)[node] == "Y" else "yes"
            return master, [(master, ("gnt-node", "modify", "--offline", wanted, node))]
        self._bring_back(master)
        if action == "node-add":
            guest = GUEST_NODE if master != GUEST_NODE else "node3"
            self.bed.run(master, "gnt-node", "remove", guest)
            self._let_in(master, guest)
            return master, [(master, tuple(cluster.add_command(self.bed.layout.node(guest))))]
        if action == "restart":
            words = ("sh", "-c", "daemon-util stop-all; daemon-util start-all")
            return master, [(name, words) for name in self.bed.names]
        node = self.choice.choice(names)
        return node, [(node, ("gnt-cluster", "master-failover"))]

    def _listed(self, master: str) -> dict[str, str]:
        """All nodes of the cluster, and whether they are offline."""
        said = self.bed.run(master, "gnt-node", "list", "--no-headers", "--separator=|", "-o", "name,offline")
        return dict(line.split("|") for line in said.splitlines() if "|" in line)

    def _bring_back(self, master: str) -> None:
        """What the round before did or undid by halves, as it is entitled to, is completed by an administrator."""
        listed = self._listed(master)
        for name in self.bed.names:
            if name not in listed:
                self._let_in(master, name)
                self.bed.run(master, *cluster.add_command(self.bed.layout.node(name)))
            elif listed[name] == "Y":
                self.bed.run(master, "gnt-node", "modify", "--offline", "no", name)
        self.bed.master = master
        self.bed.settle()

    def _let_in(self, master: str, name: str) -> None:
        """A node outside the cluster lets in whom its administrator lets in: the master of the day may be another."""
        keys = self.bed.run(master, "sh", "-c", "cat /root/.ssh/id_*.pub")
        self.bed.run(name, "sh", "-c", 'printf "%s\\n" "$1" >>/root/.ssh/authorized_keys', "sh", keys.strip())

    def _kill(self, victim: str, node: str) -> None:
        if victim == "command":
            return
        nodes = self.bed.names if victim == "all daemons" else [node]
        pids = [pid for name in nodes for pid in self._programs(name)]
        if victim == "job":
            pids = [pid for pid in pids if SPAWNER in _words(_parent(pid))]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _programs(self, node: str) -> Iterator[int]:
        """The daemons of a node, its spawner, and its jobs."""
        init = machine.running_pid(self.bed.layout, self.bed.layout.node(node))
        for pid in list(processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid"))):
            if any(program in _words(pid) for program in PROGRAMS) or SPAWNER in _words(_parent(pid)):
                yield pid

    # What became of it

    def _leave_alone(self) -> None:
        for _ in range(WATCHER_ROUNDS):
            rounds = {name: machine.popen(self.bed.layout, name, "ganeti-watcher") for name in self.bed.names}
            for name, process in rounds.items():
                said = "".join(process.communicate(timeout=120))
                if process.returncode:
                    self.tell(f"the watcher of {name} ended with {process.returncode}: {' '.join(said.split())[:200]}")

    def _judge(self) -> None:
        deadline_s = time.monotonic() + HEALED_WITHIN_S
        while faults := list(self._faults()):
            if time.monotonic() > deadline_s:
                raise AssertionError("; ".join(faults))
            time.sleep(0.5)
        self.tell("all is well")

    def _faults(self) -> Iterable[str]:
        """What is not as it must be, if anything."""
        named = {name: self.bed.run(name, "gnt-cluster", "getmaster", expect=None).strip() for name in self.bed.names}
        masters = {said for said in named.values() if said in self.bed.names}
        if len(masters) != 1:
            return [f"there is no one master: {named}"]
        (master,) = masters
        done = machine.run(self.bed.layout, master, "gnt-cluster", "verify", timeout_s=120)
        said = done.stdout + done.stderr
        found = [line.strip() for line in said.splitlines() if "ERROR" in line or "WARNING" in line]
        if done.returncode or found:
            return [f"verify on {master} ended with {done.returncode}: {found or said}"]
        return []


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_interrupted_commands_heal_by_themselves(tmp_path: Path) -> None:
    seed = os.environ.get("GANETI_SEED") or ("20261123" if not LONG else str(random.randrange(10**9)))
    with machines((tmp_path / "bed").resolve(), 4) as bed:
        interrupter = Interrupter(bed, seed)
        for number in range(ROUNDS):
            action = CHOSEN[number % len(CHOSEN)]
            interrupter.tell(f"-- round {number + 1}")
            try:
                interrupter.play(action)
            except (AssertionError, GanetiError) as err:
                kept = tempfile.mkdtemp(prefix="ganeti-interrupted-")
                for node in bed.layout.nodes:
                    with contextlib.suppress(shutil.Error):  # files that come and go: the nodes are still on
                        shutil.copytree(node.upper / "var", f"{kept}/{node.name}", symlinks=True)
                story = "\n".join(interrupter.story[-30:])
                pytest.fail(
                    f"{err}\n{story}\nGANETI_SEED={seed} round {number + 1}; {kept} has all files", pytrace=False
                )
    print("\n".join(interrupter.story))
