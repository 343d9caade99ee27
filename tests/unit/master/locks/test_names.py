# SPDX-License-Identifier: BSD-2-Clause
"""Reading lock requests and owners, and showing locks."""

import pytest

from ganeti.base.errors import LockError
from ganeti.master.locks.names import describe, read_level, read_request
from ganeti.master.locks.owners import Owner
from ganeti.model.locks import Level


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        ("cluster/BGL", "BGL"),
        ("cluster/[lockset]", "ClusterLockSet"),
        ("cluster/config", "ConfigLock"),
        ("instance/web1", 'Instance "web1"'),
        ("nodegroup/u", 'NodeGroup "u"'),
        ("node-res/[lockset]", "NodeResLockSet"),
    ],
)
def test_locks_are_shown_in_the_words_of_3_1(lock, words):
    assert describe(lock) == words


def test_a_request_is_read_in_lock_order():
    request = read_request([["node/x", "release"], ["cluster/BGL", "shared"], ["node/x", "release"]])
    assert list(request.items()) == [("cluster/BGL", "shared"), ("node/x", "release")]


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([["node/x", "held"]], "'held' is not a state of lock node/x: use shared or exclusive or release"),
        ([["node/x", "shared"], ["node/x", "release"]], "asked for both shared and release"),
        ([["node/x"]], "is not a lock request"),
        ([["node/x", 1]], "is not a lock request"),
        (["ab"], "is not a lock request"),
        ([5], "is not a lock request"),
        ([["disk/x", "shared"]], "'disk/x' is not a lock"),
    ],
)
def test_a_malformed_request_is_refused(elements, message):
    with pytest.raises(LockError, match=message):
        read_request(elements)


def test_opportunistic_requests_release_nothing():
    with pytest.raises(LockError, match=r"use shared or exclusive$"):
        read_request([["node/x", "release"]], release=False)


def test_levels_are_read_by_their_word():
    assert read_level("node-res") is Level.NODE_RES
    with pytest.raises(LockError, match="use one of cluster, instance"):
        read_level("node_res")


@pytest.mark.requirement("S2.27", "S2.31")
def test_owners_are_the_same_whatever_their_process():
    owner = Owner.from_wire([12, "/run/job-12", 345])
    assert owner == Owner(12, "/run/job-12", 1)
    assert owner != Owner(12, "/run/job-12-2", 345)
    assert owner.to_wire() == [12, "/run/job-12", 345]
    assert (str(owner), str(Owner("masterd", "/run/m"))) == ("job 12", "masterd")


@pytest.mark.parametrize("data", [None, [], [1, "/run/x"], [True, "/run/x", 1], [1, "", 1], [1, 2, 3], [1, "/x", "1"]])
def test_malformed_owners_are_refused(data):
    with pytest.raises(LockError, match="is not a client"):
        Owner.from_wire(data)
