# SPDX-License-Identifier: BSD-2-Clause
"""The laws of the lock table, and its behaviour against a slow model that is obvious.

A history is a list of steps; each is carried out on the table and on the model, all answers are compared, and the
table's invariants are checked after every step. At the end those who do not wait leave, until nobody is left.
"""

import itertools
import json
import os
import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.base.errors import LockError
from ganeti.master.locks import asking, snapshot
from ganeti.master.locks.effects import tell
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.snapshot import Saved, effects_to_plain, redo
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.times import Times
from ganeti.model.locks import EXCLUSIVE, LEVELS, RELEASE, SHARED, Level, lock_level, lock_order

LOCKS = ["cluster/BGL", "instance/[lockset]", "instance/a", "instance/b", "node/[lockset]", "node/x", "cluster/config"]
OWNERS = [Owner(job, f"/run/job-{job}", job) for job in range(1, 6)]
HEIR = Owner(99, "/run/job-99")
HISTORIES = int(os.environ.get("GANETI_HISTORIES", 1_000))
"""`make check` runs some, `make test` 10,000, `make campaign` 200,000."""
CHUNKS = 10
LAW = settings(max_examples=examples(100), deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


def related(one, other):
    """Same lock, or one is the set lock of the other; from the spelling alone."""
    if one == other:
        return True
    if "cluster/config" in (one, other) or one.split("/")[0] != other.split("/")[0]:
        return False
    return "[lockset]" in one or "[lockset]" in other


RELATED = {pair: related(*pair) for pair in itertools.product(LOCKS, LOCKS)}


def conflict(claims, others):
    return any(
        RELATED[lock, other] and (state == EXCLUSIVE or other_state == EXCLUSIVE)
        for lock, state in claims.items()
        for other, other_state in others.items()
    )


def wants_of(request):
    return {lock: state for lock, state in request.items() if state != RELEASE}


class Model:
    """The lock table without any index: everything is looked at again after every step."""

    def __init__(self):
        self.held = {}
        self.waiting = []  # [priority, rank, arrival, owner, request]
        self.arrivals = 0

    def mine(self, owner):
        return self.held.get(owner, {})

    def holders_against(self, owner, wants):
        return {other for other, held in self.held.items() if other != owner and conflict(wants, held)}

    def ahead_of(self, key, owner, wants):
        others = [entry for entry in self.waiting if entry[3] != owner]
        if any(conflict(wants_of(entry[4]), self.mine(owner)) for entry in others):
            return set()  # others wait for its owner: it does not queue
        return {entry[3] for entry in others if tuple(entry[:3]) < key and conflict(wants, wants_of(entry[4]))}

    def kept_back(self, entry):
        wants = wants_of(entry[4])
        return self.holders_against(entry[3], wants) or self.ahead_of(tuple(entry[:3]), entry[3], wants)

    def asks_more(self, owner, lock, state):
        return state != RELEASE and self.mine(owner).get(lock) not in (state, EXCLUSIVE)

    def in_order(self, owner, request):
        for lock, state in request.items():
            if self.asks_more(owner, lock, state):
                for held, held_state in self.mine(owner).items():
                    if held != lock and lock_order(held) > lock_order(lock):
                        return False
                    whole = "[lockset]" in held and held != lock and RELATED[held, lock]
                    if whole and held_state == SHARED and state == EXCLUSIVE:
                        return False
        return True

    def apply(self, owner, request):
        held = {**self.mine(owner), **request}
        held = {lock: state for lock, state in held.items() if state != RELEASE}
        self.held.pop(owner, None)
        if held:
            self.held[owner] = held

    def serve(self):
        granted = []
        while True:
            ready = [entry for entry in sorted(self.waiting, key=lambda e: e[:3]) if not self.kept_back(entry)]
            if not ready:
                return granted
            self.waiting.remove(ready[0])
            self.apply(ready[0][3], ready[0][4])
            granted.append(ready[0][3])

    def find(self, owner):
        return next((entry for entry in self.waiting if entry[3] == owner), None)

    def rank(self, priority, arrival, wants):
        groups = []
        for lock, state in wants.items():
            group = [e[1] for e in self.waiting if e[0] == priority and e[4].get(lock) == SHARED]
            if state == EXCLUSIVE or not group:
                return arrival
            groups.append(min(group))
        return min([arrival, max(groups, default=arrival)])

    def update(self, owner, request, key=None):
        """Blockers, or None if the call is refused."""
        more = any(self.asks_more(owner, lock, state) for lock, state in request.items())
        if more and (self.find(owner) or not self.in_order(owner, request)):
            return None
        blockers = self.holders_against(owner, wants_of(request))
        if not blockers and key and more:
            blockers = self.ahead_of(key, owner, wants_of(request))
        if not blockers:
            self.apply(owner, request)
        return blockers

    def update_waiting(self, owner, priority, request):
        entry = self.find(owner)
        if entry and (entry[0], entry[4]) == (priority, request):
            return self.kept_back(entry)
        arrival = self.arrivals + 1
        key = (priority, self.rank(priority, arrival, wants_of(request)), arrival)
        blockers = self.update(owner, request, key)
        if not blockers:
            return blockers
        if self.reaches(owner, self.holders_against(owner, wants_of(request))):
            return None
        self.arrivals = arrival
        self.waiting.append([*key, owner, request])
        return blockers

    def reaches(self, owner, others):
        seen = set()
        while others:
            other = others.pop()
            entry = self.find(other)
            if other == owner:
                return True
            if entry and other not in seen:
                others |= self.holders_against(other, wants_of(entry[4]))
            seen.add(other)
        return False

    def ask(self, owner, priority, request, granted):
        """Blockers, or None if refused; those whom giving up the former has let pass are added to *granted*."""
        entry = self.find(owner)
        if entry and owner not in self.held and entry[4] == request:
            self.move(entry, priority)
            return self.kept_back(entry)
        if not entry and self.mine(owner) == wants_of(request):
            return set()
        self.forget(owner)
        self.held.pop(owner, None)
        granted += self.serve()
        return self.update_waiting(owner, priority, request)

    def claim(self, old, new, priority, request, granted):
        key = (priority, 10**9, 10**9)
        if old is not None:
            if new in self.held or self.find(new):
                self.forget(old)
                self.held.pop(old, None)
            else:
                self.hand_over(old, new)
            granted += self.serve()
            self.apply(new, {lock: RELEASE for lock in self.mine(new) if lock not in wants_of(request)})
            granted += self.serve()
            if not self.in_order(new, request):
                self.held.pop(new, None)
                granted += self.serve()
        return self.update(new, request, key)

    def move(self, entry, priority):
        self.forget(entry[3])
        if entry[0] != priority:
            entry[:2] = [priority, self.rank(priority, entry[2], wants_of(entry[4]))]
        self.waiting.append(entry)

    def hand_over(self, old, new):
        self.forget(old)
        if old in self.held:
            self.held[new] = self.held.pop(old)

    def forget(self, owner):
        self.waiting = [entry for entry in self.waiting if entry[3] != owner]


def compare_asking(table, model, kind, owner, priority, request):
    if kind == "update":
        expected = model.update(owner, request)
        call = lambda: table.update(owner, request)  # noqa: E731
    elif kind == "update_yielding":
        expected = model.update(owner, request, (priority, 10**9, 10**9))
        call = lambda: table.update(owner, request, priority)  # noqa: E731
    else:
        expected = model.update_waiting(owner, priority, request)
        call = lambda: table.update_waiting(owner, priority, request)  # noqa: E731
    if expected is None:
        with pytest.raises(LockError):
            call()
        return
    change = call()
    granted = model.serve()
    if owner in granted:
        expected = set()
    elif expected and (entry := model.find(owner)):
        expected = model.kept_back(entry)
    assert set(change.blockers) <= expected
    assert bool(change.blockers) == bool(expected)
    assert [pending.owner for pending in change.granted] == [other for other in granted if other != owner]


def compare_giving(table, model, kind, owner, priority, request):
    held, level = model.mine(owner), lock_level(next(iter(request)))
    if kind == "free":
        change = table.free(owner)
        model.forget(owner)
        model.held.pop(owner, None)
    elif kind == "free two":
        both = owner, OWNERS[priority % len(OWNERS)]
        change = table.free(*both)
        for each in both:
            model.forget(each)
            model.held.pop(each, None)
    elif kind == "cancel":
        change = table.cancel(owner)
        model.forget(owner)
    elif kind == "intersect":
        change = table.intersect(owner, request)
        model.apply(owner, {lock: RELEASE for lock in held if lock not in request})
    elif kind == "free_level":
        change = table.free_level(owner, level)
        model.apply(owner, {lock: RELEASE for lock in held if lock_level(lock) is level})
    else:
        change = table.downgrade_level(owner, level)
        model.apply(owner, {lock: SHARED for lock in held if lock_level(lock) is level})
    assert [pending.owner for pending in change.granted] == model.serve()


def compare_rest(table, model, kind, owner, priority, request):
    if kind == "opportunistic":
        request, at_least = wants_of(request), priority % 3
        got = {
            lock: state
            for lock, state in request.items()
            if model.asks_more(owner, lock, state)
            and not model.find(owner)
            and model.in_order(owner, {lock: state})
            and not model.holders_against(owner, {lock: state})
        }
        got = got if len(got) >= at_least else {}
        model.apply(owner, got)
        assert set(table.opportunistic_union(owner, request, at_least).acquired) == set(got)
    elif kind == "priority":
        entry = model.find(owner)
        if entry is None:
            with pytest.raises(LockError):
                table.change_priority(owner, priority)
            return
        change = table.change_priority(owner, priority)
        model.forget(owner)
        entry[:2] = [priority, model.rank(priority, entry[2], wants_of(entry[4]))]
        model.waiting.append(entry)
        granted = model.serve()
        assert [pending.owner for pending in change.granted] == [other for other in granted if other != owner]
        assert bool(change.blockers) == (owner not in granted)
    elif HEIR not in model.held:
        change = table.hand_over(owner, HEIR)
        model.hand_over(owner, HEIR)
        assert [pending.owner for pending in change.granted] == model.serve()
    else:
        assert table.free(HEIR).blockers == ()
        model.held.pop(HEIR)
        model.serve()


def compare_engine(table, model, kind, owner, priority, request):
    granted = []
    if kind.startswith("ask"):
        expected = model.ask(owner, priority, request, granted)
        change, error = asking.ask(table, owner, priority, request)
    else:
        old, owner = (None, owner) if kind == "claim" else (owner, HEIR)
        expected = model.claim(old, owner, priority, request, granted)
        change, error = asking.claim(table, old, owner, priority, request)
    granted += model.serve()
    assert [pending.owner for pending in change.granted] == [other for other in granted if other != owner]
    assert (error is None) == (expected is not None)
    if owner in granted:
        expected = set()
    elif expected and (entry := model.find(owner)):
        expected = model.kept_back(entry)
    if expected is not None:
        assert set(change.blockers) <= expected
        assert bool(change.blockers) == bool(expected)


class Watcher:
    """Another table that only gets the journal, and somebody who only hears the stories."""

    def __init__(self):
        self.saved = Saved(LockTable(), Times())
        self.held, self.waiting = {}, {}

    def see(self, table):
        effects = table.take_effects()
        redo(self.saved, 1.0, json.loads(json.dumps(effects_to_plain(effects))))
        self.saved.table.check()
        assert to_plain(self.saved.table) == to_plain(table)
        for kind, owner, locks, *priority in tell(effects):
            self.hear(kind, owner, locks, *priority)
        assert {owner: held for owner, held in self.held.items() if held} == dict(table.all_held())
        assert self.waiting == {pending.owner: (pending.wants, pending.priority) for pending in table.waiting()}

    def hear(self, kind, owner, locks, *priority):
        held = self.held.setdefault(owner, {})
        if kind == "waiting":
            self.waiting[owner] = (locks, *priority)
        elif kind == "withdrawn":
            assert self.waiting.pop(owner)[0] == locks
        elif kind == "freed":
            for lock, state in locks.items():
                assert held.pop(lock) == state
        else:
            held.update(locks)
            if owner in self.waiting and self.waiting[owner][0].keys() <= locks.keys():
                del self.waiting[owner]


def to_plain(table):
    return snapshot.to_plain(table, Times())


def from_plain(plain):
    return snapshot.from_plain(plain).table


STEPS = {
    **dict.fromkeys(["update", "update_yielding", "wait", "wait ", "wait  ", "wait   "], compare_asking),
    **dict.fromkeys(["free", "free two", "cancel", "intersect", "free_level", "downgrade"], compare_giving),
    **dict.fromkeys(["opportunistic", "priority", "hand_over"], compare_rest),
    **dict.fromkeys(["ask", "ask ", "claim", "claim given"], compare_engine),
}
KINDS = list(STEPS)
STATES = [SHARED, EXCLUSIVE, SHARED, EXCLUSIVE, RELEASE]


def run(history, watcher=None):
    table, model = LockTable(), Model()
    for kind, owner, priority, request in history:
        request = {lock: request[lock] for lock in sorted(request, key=lock_order)}
        STEPS[kind](table, model, kind, owner, priority, request)
        table.check()
        if watcher is not None:
            watcher.see(table)
        assert {other: table.held(other) for other in table.owners() if table.held(other)} == model.held
        assert [pending.owner for pending in table.waiting()] == [
            e[3] for e in sorted(model.waiting, key=lambda e: e[:3])
        ]
    return table


def drain(table):
    """Let all who do not wait leave, again and again; a table in which somebody is stuck never empties."""
    while owners := table.owners():
        free = [owner for owner in owners if not table.has_pending(owner)]
        assert free, f"all wait for each other: {table.waiting()}"
        table.free(*free)
        table.check()


def random_history(rng):
    """Few locks and mostly waiting, so that queues form; each history has its own taste."""
    locks, owners = rng.sample(LOCKS, rng.randint(1, 4)), OWNERS[: rng.randint(3, 5)]
    engine = ["ask", "ask", "ask", "claim", "claim given", "free", "priority"]
    kinds = rng.choice([KINDS, ["wait", "wait", "wait", "free", "update", rng.choice(KINDS)], engine])
    priorities = rng.choice([[0], [0, 0, 10], [-10, 0, 10]])
    return [
        (
            rng.choice(kinds),
            rng.choice(owners),
            rng.choice(priorities),
            {rng.choice(locks): rng.choice(STATES) for _ in range(rng.choice([1, 1, 2, 3]))},
        )
        for _ in range(rng.randint(6, 20))
    ]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_table_behaves_as_the_model_in_random_histories(chunk):
    for seed in range(chunk, HISTORIES, CHUNKS):
        history = random_history(random.Random(seed))
        try:
            drain(run(history, Watcher() if seed % 8 == 0 else None))
        except BaseException as err:
            err.add_note(f"seed {seed}: " + "\n".join(map(str, history)))
            raise


requests = st.dictionaries(st.sampled_from(LOCKS), st.sampled_from(STATES), min_size=1, max_size=3)
steps = st.tuples(st.sampled_from(KINDS), st.sampled_from(OWNERS), st.sampled_from([-10, 0, 10]), requests)
histories = st.lists(steps, max_size=14)
PASSED_BY_ONE_AHEAD = [
    ("update", OWNERS[0], -10, {"cluster/BGL": SHARED}),
    ("update", OWNERS[2], -10, {"cluster/BGL": SHARED}),
    ("update", OWNERS[3], -10, {"cluster/BGL": SHARED, "cluster/config": SHARED}),
    ("wait", OWNERS[0], -10, {"cluster/config": EXCLUSIVE}),
    ("wait", OWNERS[1], -10, {"cluster/BGL": EXCLUSIVE}),
    ("wait", OWNERS[2], -10, {"cluster/BGL": SHARED, "cluster/config": EXCLUSIVE}),
]
"""Two who hold what a third wants pass all others; both want one lock, and the first of them gets it."""


@LAW
@given(histories)
def test_no_waiter_lost_or_stuck(history):
    """Everyone who waits is served once the others leave, and stays known until then."""
    drain(run(history))


@LAW
@given(histories)
def test_locks_disjoint(history):
    """No two owners hold the same lock, or a set lock and its member, if one of them does so exclusively."""
    table = run(history)
    for one, other in itertools.combinations(table.owners(), 2):
        assert not conflict(table.held(one), table.held(other))


@LAW
@given(histories, st.sampled_from(OWNERS), requests)
def test_update_atomic(history, owner, request):
    """An update holds in full, or it changed nothing at all."""
    table = run(history)
    before = to_plain(table)
    try:
        done = not table.update(owner, request).blockers
    except LockError:
        done = False
    if not done:
        assert to_plain(table) == before
        return
    held = table.held(owner)
    assert all(held.get(lock, RELEASE) == state for lock, state in request.items())


@LAW
@given(histories, st.sampled_from(OWNERS), requests)
def test_block_sufficient(history, owner, request):
    """When all blockers an update names are gone, the update is granted."""
    table = run(history)
    table.cancel(owner)
    for waiting in table.waiting():
        table.cancel(waiting.owner)
    try:
        blockers = table.update(owner, request).blockers
    except LockError:
        return
    if blockers:
        table.free(*blockers)
        assert not table.update(owner, request).blockers


@LAW
@given(histories, st.sampled_from(OWNERS), requests)
def test_block_necessary(history, owner, request):
    """While one of the blockers an update names stays as it is, the update is not granted."""
    table = run(history)
    table.cancel(owner)
    for waiting in table.waiting():
        table.cancel(waiting.owner)
    try:
        blockers = table.update(owner, request).blockers
    except LockError:
        return
    for left in blockers:
        copy = from_plain(to_plain(table))
        copy.free(*(other for other in blockers if other != left))
        assert copy.update(owner, request).blockers == (left,)


def named_in_the_way(table, owner):
    """Everyone `explainLocks` names."""
    holders = [hit.holder for hit in table.obstacles(owner)]
    return set(holders) | {pending.owner for _, pending in table.all_ahead(owner)}


@LAW
@given(histories)
@example(PASSED_BY_ONE_AHEAD)
def test_who_is_named_in_the_way_of_a_waiting_request_is_sufficient(history):
    """Once all who are named have gone, the request is granted; or one ahead of it, which passes others as it does."""
    table = run(history)
    for pending in table.waiting():
        copy = from_plain(to_plain(table))
        change = copy.free(*named_in_the_way(table, pending.owner))
        if copy.has_pending(pending.owner):
            assert not table.queued_behind(pending)
            served_first = {other.owner for other in change.granted if other.key < pending.key}
            assert set(copy.in_the_way(pending)) <= served_first


@LAW
@given(histories)
def test_who_is_named_in_the_way_of_a_waiting_request_is_necessary(history):
    """While one of those who are named stays, the request goes on waiting."""
    table = run(history)
    for pending in table.waiting():
        named = named_in_the_way(table, pending.owner)
        assert set(table.in_the_way(pending)) <= named
        for left in named:
            copy = from_plain(to_plain(table))
            copy.free(*(named - {left}))
            assert copy.has_pending(pending.owner)


@LAW
@given(histories)
def test_the_journal_and_the_stories_tell_the_table(history):
    """Whoever does again what is noted has the same table after each step; who listens knows who holds and waits."""
    run(history, Watcher())


@LAW
@given(histories)
def test_a_saved_table_is_the_same_table(history):
    table = run(history)
    again = from_plain(to_plain(table))
    assert to_plain(again) == to_plain(table)
    served = lambda t: [p.owner for p in t.free(*(o for o in t.owners() if not t.has_pending(o))).granted]  # noqa: E731
    assert served(again) == served(table)


def test_levels_used_here_exist():
    assert {lock_level(lock) for lock in LOCKS} <= set(LEVELS.values()) == set(Level)
