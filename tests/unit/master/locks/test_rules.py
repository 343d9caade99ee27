# SPDX-License-Identifier: BSD-2-Clause
"""The rules for locks of the requirements S2.50 to S2.56, one test each; the waiting order is in `test_table`."""

import itertools

import pytest

from ganeti.base.errors import LockOrderError
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.table import LockTable
from ganeti.model.locks import LEVELS, Level, lock_order, set_lock_of

ONE, TWO = Owner(1, "/run/1"), Owner(2, "/run/2")


@pytest.fixture
def table():
    return LockTable()


@pytest.mark.requirement("S2.50")
def test_s2_50_each_client_has_its_set(table):
    table.update(ONE, {"node/a": "shared"})
    table.update(TWO, {"node/a": "shared", "node/b": "exclusive"})
    assert table.held(ONE) == {"node/a": "shared"}
    assert table.held(TWO) == {"node/a": "shared", "node/b": "exclusive"}


@pytest.mark.requirement("S2.51")
def test_s2_51_new_locks_and_upgrades_must_be_greater_than_all_held_or_the_call_fails_whole(table):
    table.update(ONE, {"instance/b": "shared", "node/b": "shared"})
    before = table.held(ONE)
    for element in ({"node/a": "shared"}, {"instance/b": "exclusive"}, {"instance/c": "shared"}):
        with pytest.raises(LockOrderError):
            table.update(ONE, {"node/b": "release", "node/c": "exclusive", **element})
        assert table.held(ONE) == before
    assert not table.take_effects()[1:], "nothing happened after the first update"


@pytest.mark.requirement("S2.51")
def test_s2_51_locks_not_listed_stay_and_weakening_needs_no_order(table):
    table.update(ONE, {"instance/a": "exclusive", "node/a": "shared", "node/b": "exclusive"})
    table.update(ONE, {"instance/a": "shared", "node/a": "release"})
    assert table.held(ONE) == {"instance/a": "shared", "node/b": "exclusive"}


@pytest.mark.requirement("S2.52")
def test_s2_52_an_opportunistic_union_takes_what_the_order_and_others_allow_and_never_fails(table):
    table.update(ONE, {"node/b": "shared"})
    table.update(TWO, {"node/d": "exclusive"})
    wanted = {"node/a": "shared", "node/c": "exclusive", "node/d": "shared", "node/e": "shared"}
    assert table.opportunistic_union(ONE, wanted).acquired == ("node/c", "node/e")
    assert table.opportunistic_union(ONE, {"node/d": "shared"}).acquired == ()
    assert table.held(ONE) == {"node/b": "shared", "node/c": "exclusive", "node/e": "shared"}


@pytest.mark.requirement("S2.53")
def test_s2_53_the_list_is_what_is_held(table):
    assert table.held(ONE) == {}
    table.update(ONE, {"node/a": "shared", "cluster/BGL": "shared"})
    assert list(table.held(ONE)) == ["cluster/BGL", "node/a"]


@pytest.mark.requirement("S2.54")
def test_s2_54_an_intersection_keeps_only_what_is_given(table):
    table.update(ONE, {"instance/a": "shared", "node/a": "exclusive"})
    table.intersect(ONE, ["node/a", "node/z"])
    assert table.held(ONE) == {"node/a": "exclusive"}
    table.intersect(TWO, ["node/a"])
    assert table.held(TWO) == {}


GROUPS = [f"{word}/[lockset]" for word, level in LEVELS.items() if level is not Level.CONFIG]
MEMBERS = ["cluster/BGL", "cluster/config"]
MEMBERS += [f"{word}/{name}" for word in LEVELS if word not in ("cluster", "config") for name in ("!", "a", "[", "zz")]


@pytest.mark.requirement("S2.55")
@pytest.mark.parametrize("group", GROUPS)
def test_s2_55_a_group_lock_precedes_its_members_and_nothing_else_lies_between(group):
    members = [lock for lock in MEMBERS if set_lock_of(lock) == group]
    assert members
    for member in members:
        assert lock_order(group) < lock_order(member)
        between = [lock for lock in [*GROUPS, *MEMBERS] if lock_order(group) < lock_order(lock) < lock_order(member)]
        assert all(set_lock_of(lock) == group for lock in between)


@pytest.mark.requirement("S2.55")
@pytest.mark.parametrize(("held", "asked"), list(itertools.product(["shared", "exclusive"], repeat=2)))
def test_s2_55_a_member_is_not_asked_for_exclusively_while_the_group_is_shared(table, held, asked):
    table.update(ONE, {"node/[lockset]": held})
    if (held, asked) == ("shared", "exclusive"):
        with pytest.raises(LockOrderError, match='requesting Node "a" while holding NodeLockSet'):
            table.update(ONE, {"node/a": asked})
    else:
        assert table.update(ONE, {"node/a": asked}).blockers == ()


@pytest.mark.requirement("S2.56")
def test_s2_56_pessimistic_take_all_decide_and_release_the_rest(table):
    table.update(ONE, {"node/[lockset]": "exclusive", "node/a": "exclusive", "node/b": "exclusive"})
    assert table.update(TWO, {"node/b": "shared"}).blockers == (ONE,)
    table.intersect(ONE, ["node/a"])
    assert table.update(TWO, {"node/b": "shared"}).blockers == ()


@pytest.mark.requirement("S2.56")
def test_s2_56_optimistic_decide_lock_and_start_again_when_it_has_changed(table):
    assert table.update(ONE, {"node/b": "shared"}).blockers == ()
    with pytest.raises(LockOrderError):
        table.update(ONE, {"node/a": "shared"})
    table.free(ONE)
    assert table.update(ONE, {"node/a": "shared", "node/b": "shared"}).blockers == ()
