# SPDX-License-Identifier: BSD-2-Clause
"""Lock names, their order and lock plans."""

import pytest

from ganeti.base.errors import LockError
from ganeti.model import locks
from ganeti.model.locks import LockPlan, lock_order


@pytest.mark.requirement("S2.49")
def test_levels_come_in_the_order_of_the_protocol():
    expected = [
        "cluster/[lockset]",
        "cluster/BGL",
        "instance/[lockset]",
        "instance/A",
        "instance/web1",
        "nodegroup/[lockset]",
        "nodegroup/u",
        "node/[lockset]",
        "node/u",
        "node-res/[lockset]",
        "node-res/u",
        "network/[lockset]",
        "network/u",
        "cluster/config",
    ]
    assert sorted(reversed(expected), key=lock_order) == expected


def test_helpers_spell_names_as_3_1_does():
    assert locks.instance_lock("web1") == "instance/web1"
    assert locks.node_lock("u") == "node/u"
    assert locks.node_res_lock("u") == "node-res/u"
    assert locks.group_lock("u") == "nodegroup/u"
    assert locks.network_lock("u") == "network/u"
    assert [level.word for level in locks.Level][4] == "node-res"


@pytest.mark.parametrize(
    "text", ["", "web1", "instance/", "disk/x", "cluster/other", "config/config", "Instance/web1", "/x"]
)
def test_other_strings_are_no_locks(text):
    with pytest.raises(LockError, match="is not a lock"):
        lock_order(text)


def test_set_locks_stand_above_their_members_only():
    assert locks.set_lock_of("node/u") == locks.ALL_NODES
    assert locks.set_lock_of(locks.BGL) == locks.CLUSTER_SET
    assert locks.set_lock_of(locks.ALL_NODES) is None
    assert locks.set_lock_of(locks.CONFIG) is None


def test_plan_is_a_request_in_lock_order():
    plan = LockPlan.of(shared=["node/b", locks.BGL, "node/a"], exclusive=["instance/z", "node/a"])
    assert plan.request() == [
        (locks.BGL, "shared"),
        ("instance/z", "exclusive"),
        ("node/a", "exclusive"),
        ("node/b", "shared"),
    ]


def test_plan_with_a_wrong_name_is_refused():
    with pytest.raises(LockError):
        LockPlan.of(shared=["web1"])


def test_a_plan_covers_what_its_set_locks_stand_for():
    all_shared = LockPlan.of(shared=[locks.ALL_NODES], exclusive=["node/a"])
    assert all_shared.covers(LockPlan.of(shared=["node/b"], exclusive=["node/a"]))
    assert not all_shared.covers(LockPlan.of(exclusive=["node/b"]))
    assert not all_shared.covers(LockPlan.of(shared=["node-res/b"]))
    assert LockPlan.of(exclusive=[locks.ALL_NODES]).covers(all_shared)
    assert not LockPlan.of(exclusive=["node/a"]).covers(LockPlan.of(shared=[locks.ALL_NODES]))


def test_union_keeps_the_stronger_state():
    union = LockPlan.of(shared=["node/a"]).union(LockPlan.of(exclusive=["node/a"], shared=["node/b"]))
    assert union == LockPlan.of(shared=["node/b"], exclusive=["node/a"])
