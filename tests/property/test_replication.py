# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the copies, over clusters of two to five nodes with loss, restarts, take-overs and changes of the candidates.

- A record that was acknowledged is on every node that may take over.
- Two masters never both acknowledge: what one has acknowledged, the next has, and from then on the former is silent.
- After each event the machine's own invariants hold.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.master.replication import effects as todo
from ganeti.master.replication import events
from ganeti.master.replication.followers import Timing
from ganeti.master.replication.machine import Machine
from ganeti.master.replication.quorum import take_over_quorum
from ganeti.model.membership import Kept, Membership

Record = tuple[int, int, tuple[str, ...]]
"""Epoch, serial, and who the candidates are from here on."""
TIMING = Timing(take_s=5.0, quick_s=1.0, heartbeat_s=5.0)


@dataclass
class Disk:
    """What a candidate has on disk."""

    records: list[Record] = field(default_factory=list)
    membership: Membership | None = None
    kept: Kept | None = None
    promised: int = 0
    holder: str | None = None

    @property
    def established(self) -> int:
        return max([self.membership.version[0] if self.membership else 0, *(record[0] for record in self.records)])

    @property
    def candidates(self) -> tuple[str, ...]:
        return self.records[-1][2] if self.records else ()


@dataclass
class Master:
    """A life of a master: its machine, and what of its requests is under way."""

    name: str
    epoch: int
    machine: Machine
    log: list[Record]
    under_way: list = field(default_factory=list)
    began_with: int = 0
    """Records found at the start: a snapshot has them, acknowledged or not."""


class Cluster:
    """Nodes with disks, at first all of them candidates; any number of them may believe that they are master."""

    def __init__(self, size: int, others: int = 0) -> None:
        """*others* are nodes that are no candidates at first."""
        self.names = [f"n{number}" for number in range(size + others)]
        self.disks = {name: Disk() for name in self.names}
        self.down: set[str] = set()
        self.cut: set[tuple[str, str]] = set()
        self.masters: dict[str, Master] = {}
        self.acknowledged: dict[Record, None] = {}
        self.now_s = 0.0
        first = self.disks["n0"]
        first.records = [(1, 1, tuple(self.names[:size]))]
        first.membership = Membership((1, 1), ("n0",))
        first.kept = Kept(first.membership)
        first.promised, first.holder = 1, "n0"
        self.start("n0")

    # Masters

    def start(self, name: str) -> None:
        """A master begins with what its disk has."""
        disk = self.disks[name]
        epoch = disk.kept.membership.version[0]
        candidates = {node: node for node in disk.candidates}
        machine = Machine(name, disk.kept, candidates, len(disk.records), self.now_s, TIMING)
        master = self.masters[name] = Master(name, epoch, machine, list(disk.records), began_with=len(disk.records))
        self.tell(master, events.Tick())

    def tell(self, master: Master, event) -> None:
        if self.masters.get(master.name) is not master:
            return
        for effect in master.machine.handle(event, self.now_s):
            match effect:
                case todo.Release():
                    for record in master.log[: effect.up_to]:
                        self.acknowledge(master, record)
                case todo.Deposed():
                    del self.masters[master.name]
                    return
                case todo.StoreMembership() | todo.SendState() | todo.SendAppend() | todo.SendSnapshot():
                    master.under_way.append(effect)
                case todo.SendQueue():
                    master.under_way.append(effect)
                case todo.AskMembers():
                    master.under_way += [(node, effect.membership) for node in effect.nodes]
        master.machine.check_invariants()

    def acknowledge(self, master: Master, record: Record) -> None:
        if record in self.acknowledged:
            return
        self.acknowledged[record] = None
        for other in self.masters.values():
            assert other.epoch <= master.epoch, f"{master.name} acknowledges in epoch {master.epoch}, {other} reigns"

    def commit(self, name: str) -> None:
        master = self.masters.get(name)
        if master is not None and len(master.log) < 40:
            self.append(master, master.log[-1][2])

    def change_candidates(self, name: str, changed: tuple[str, ...]) -> None:
        """As WConfD does: a change for which it is not the time, or that is too much at once, is not made."""
        master = self.masters.get(name)
        if master is None or len(master.log) >= 40:
            return
        new = tuple(node for node in self.names if (node in master.log[-1][2]) != (node in changed and node != name))
        if master.machine.candidates.may_become(new):
            self.append(master, new)

    def append(self, master: Master, candidates: tuple[str, ...]) -> None:
        last = master.log[-1]
        master.log.append((master.epoch, last[1] + 1 if last[0] == master.epoch else 1, candidates))
        self.disks[master.name].records = list(master.log)
        if candidates != last[2]:
            self.tell(master, events.CandidatesChanged(len(master.log), {node: node for node in candidates}))
        self.tell(master, events.Durable(len(master.log)))

    # Messages

    def reaches(self, a: str, b: str) -> bool:
        return b not in self.down and (a, b) not in self.cut and (b, a) not in self.cut

    def deliver(self, name: str, index: int, fate: str) -> None:
        """Carry out one request that is under way; *fate* loses the request or its answer."""
        master = self.masters.get(name)
        if master is None or not master.under_way:
            return
        request = master.under_way.pop(index % len(master.under_way))
        if isinstance(request, todo.StoreMembership):
            disk = self.disks[name]
            disk.kept, disk.membership = request.kept, request.kept.membership
            self.tell(master, events.MembershipKept())
            return
        node = request[0] if isinstance(request, tuple) else request.node
        if fate == "lost" or not self.reaches(name, node):
            answers = [events.Failed(node, events.Problem.UNREACHABLE, "away")]
        else:
            answers = self.carry_out(master, node, request)
            if fate == "answer lost":
                answers = [events.Failed(node, events.Problem.SILENT, "silent")]
        for answer in answers:
            if isinstance(request, tuple) and isinstance(answer, events.Failed):
                answer = events.MembersRefused(node, answer.reason)
            self.tell(master, answer)

    def carry_out(self, master: Master, node: str, request) -> list:
        disk = self.disks[node]
        refused = master.epoch < disk.promised or (master.epoch == disk.promised and disk.holder != master.name)
        if refused or node in self.masters:
            failed = events.Failed(node, events.Problem.REFUSED, "epoch")
            return [events.EpochSeen(node, disk.promised, disk.holder, disk.established), failed]
        if isinstance(request, tuple):
            disk.promised, disk.holder = master.epoch, master.name
            self.take_membership(disk, request[1])
            return [events.MembersAccepted(node, request[1].version)]
        match request:
            case todo.SendState():
                there = disk.records
                number = len(there) if there and there == master.log[: len(there)] else None
                follower = master.machine.followers.get(node)
                expected = follower is not None and number == follower.commits
                version = disk.membership.version if disk.membership else None
                return [events.StateKnown(node, number, version, expected)]
            case todo.SendAppend():
                disk.promised, disk.holder = master.epoch, master.name
                if disk.records != master.log[: request.commits_after]:
                    return [events.Lost(node, "gap")]
                disk.records = master.log[: request.up_to]
                self.take_membership(disk, request.membership)
                version = request.membership.version if request.membership is not None else None
                return [events.Acked(node, request.up_to, request.up_to, version)]
            case todo.SendSnapshot():
                disk.promised, disk.holder = master.epoch, master.name
                number = max(master.machine.released, master.began_with)
                disk.records = master.log[:number]
                self.take_membership(disk, request.membership)
                return [events.SnapshotTaken(node, number, request.membership.version)]
            case todo.SendQueue():
                return [events.QueueEqual(node, request.as_of)]
        raise AssertionError(request)

    def take_membership(self, disk: Disk, membership: Membership | None) -> None:
        if membership is not None and (disk.membership is None or membership.version > disk.membership.version):
            disk.membership = membership
            disk.kept = None

    # Take-overs

    def may_take_over(self, name: str) -> tuple[list[str], Membership] | None:
        """Whom *name* has the promises of, and the newest membership they know; it counts by its own copy."""
        candidates = self.disks[name].candidates
        asked = [node for node in self.names if node == name or (self.reaches(name, node) and self.reaches(node, name))]
        counted = [node for node in asked if node in candidates]
        if name in self.down or name not in counted or len(counted) < take_over_quorum(len(candidates)):
            return None
        known = [disk.membership for node in asked if (disk := self.disks[node]).membership is not None]
        newest = max(known, key=lambda membership: membership.version)
        return (asked, newest) if name in newest.members else None

    def take_over(self, name: str) -> None:
        if name in self.masters or (found := self.may_take_over(name)) is None:
            return
        asked, newest = found
        epoch = max(self.disks[node].promised for node in asked) + 1
        disk = self.disks[name]
        membership = Membership((epoch, 1), newest.members)
        for node in asked:
            self.disks[node].promised, self.disks[node].holder = epoch, name
            self.masters.pop(node, None)
            if node in disk.candidates:
                self.take_membership(self.disks[node], membership)
        disk.records = [*disk.records, (epoch, 1, disk.candidates)]
        disk.kept = Kept(membership)
        self.start(name)

    def check_take_overs(self) -> None:
        """Whatever was acknowledged is on each node that may take over now, whoever else is away."""
        for name in self.names:
            for quorum in quorums(self.disks[name].candidates, name):
                known = [disk.membership for node in quorum if (disk := self.disks[node]).membership is not None]
                newest = max(known, key=lambda membership: membership.version, default=None)
                if newest is not None and name in newest.members:
                    lacking = [record for record in self.acknowledged if record not in self.disks[name].records]
                    assert not lacking, f"{name} may take over with {quorum} and lacks {lacking}"


def quorums(candidates, name):
    """The smallest sets of promises with which *name* may take over; larger ones know no less."""
    from itertools import combinations

    if name not in candidates:
        return []
    others = [node for node in candidates if node != name]
    return [(name, *chosen) for chosen in combinations(others, take_over_quorum(len(candidates)) - 1)]


NODES = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("commit"), NODES),
    st.tuples(st.just("deliver"), NODES, st.integers(0, 9), st.sampled_from(["ok"] * 6 + ["lost", "answer lost"])),
    st.tuples(st.just("deliver"), NODES, st.integers(0, 9), st.just("ok")),
    st.tuples(st.just("flow"), NODES, st.integers(1, 30)),
    st.tuples(st.just("time"), st.sampled_from([0.2, 1.0, 2.0, 6.0])),
    st.tuples(st.just("restart"), NODES),
    st.tuples(st.just("down"), NODES),
    st.tuples(st.just("up"), NODES),
    st.tuples(st.just("cut"), NODES, NODES),
    st.tuples(st.just("heal")),
    st.tuples(st.just("take over"), NODES),
)
CHANGES = st.tuples(st.just("candidates"), NODES, st.lists(NODES, min_size=1, max_size=2, unique=True).map(tuple))


@settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.integers(2, 5), st.lists(STEPS, min_size=10, max_size=120))
def test_what_was_acknowledged_survives(size, steps):
    cluster = Cluster(size)
    flow(cluster, "n0", 60)
    for step in steps:
        take(cluster, step)
        cluster.check_take_overs()


@settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.integers(1, 4), st.integers(1, 2), st.lists(st.one_of(STEPS, CHANGES), min_size=10, max_size=120))
def test_what_was_acknowledged_survives_changes_of_the_candidates(size, others, steps):
    cluster = Cluster(size, others)
    flow(cluster, "n0", 60)
    for step in steps:
        take(cluster, step)
        cluster.check_take_overs()


@pytest.mark.parametrize("changed", [("n2", "n3"), ("n3",)])
@pytest.mark.parametrize("as_wconfd_does", [True, False])
def test_a_change_only_the_next_master_has_heard_of_leaves_no_second_majority(changed, as_wconfd_does):
    """n2 counts by the former candidates. Then n0 is back, and n1, which is master, and n3 are not seen by them."""
    cluster = Cluster(3, 1)
    flow(cluster, "n0", 60)
    master = cluster.masters["n0"]
    if as_wconfd_does:
        cluster.change_candidates("n0", changed)
    else:
        cluster.append(
            master, tuple(node for node in cluster.names if (node in ("n0", "n1", "n2")) != (node in changed))
        )
    requests = [each for each in master.under_way if getattr(each, "node", "") == "n1"]
    for request in requests:
        cluster.deliver("n0", master.under_way.index(request), "ok")
    del cluster.masters["n0"]
    cluster.cut = {("n1", "n2")}
    cluster.take_over("n1")
    assert "n1" in cluster.masters
    cluster.cut |= {("n1", "n0"), ("n3", "n0"), ("n3", "n2")}
    for _ in range(10):
        take(cluster, ("time", 2.0))
        flow(cluster, "n1", 30)
    cluster.commit("n1")
    flow(cluster, "n1", 60)
    if as_wconfd_does or len(changed) == 1:
        cluster.check_take_overs()
    else:
        with pytest.raises(AssertionError, match="n2 may take over"):
            cluster.check_take_overs()


def take(cluster: Cluster, step) -> None:
    names = cluster.names
    match step:
        case ("commit", node):
            cluster.commit(names[node % len(names)])
        case ("candidates", node, changed):
            chosen = tuple(names[each % len(names)] for each in changed)
            cluster.change_candidates(names[node % len(names)], chosen)
        case ("deliver", node, index, fate):
            cluster.deliver(names[node % len(names)], index, fate)
        case ("flow", node, count):
            flow(cluster, names[node % len(names)], count)
        case ("time", seconds):
            cluster.now_s += seconds
            for master in list(cluster.masters.values()):
                cluster.tell(master, events.Tick())
        case ("restart", node):
            name = names[node % len(names)]
            if cluster.masters.pop(name, None) is not None and name not in cluster.down:
                cluster.start(name)
        case ("down", node):
            cluster.down.add(names[node % len(names)])
            cluster.masters.pop(names[node % len(names)], None)
        case ("up", node):
            name = names[node % len(names)]
            disk = cluster.disks[name]
            if name in cluster.down:
                cluster.down.discard(name)
                if disk.kept is not None and disk.promised == disk.kept.membership.version[0] and disk.holder == name:
                    cluster.start(name)
        case ("cut", a, b):
            cluster.cut.add((names[a % len(names)], names[b % len(names)]))
        case ("heal",):
            cluster.cut.clear()
        case ("take over", node):
            cluster.take_over(names[node % len(names)])


def flow(cluster: Cluster, name: str, count: int) -> None:
    """Let what is under way arrive, oldest first."""
    for _ in range(count):
        cluster.deliver(name, 0, "ok")


@given(st.integers(2, 5))
def test_everybody_is_in_sync_in_the_end(size):
    cluster = Cluster(size)
    flow(cluster, "n0", 200)
    cluster.commit("n0")
    flow(cluster, "n0", 50)
    assert set(cluster.masters["n0"].machine.membership.members) == set(cluster.names)
    assert len(cluster.acknowledged) == 2
