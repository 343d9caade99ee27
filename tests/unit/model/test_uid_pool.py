# SPDX-License-Identifier: BSD-2-Clause
"""The pool of user ids: what ranges come to, and which id a guest gets."""

import pytest

from ganeti.base.errors import ParameterError
from ganeti.model import uid_pool

POOL = [[100, 104], [200, 200]]


def test_ranges_that_touch_are_one() -> None:
    assert uid_pool.checked([[5, 9], [1, 2], [3, 4], [20, 20]]) == [[1, 9], [20, 20]]
    assert uid_pool.added(POOL, [[105, 110]]) == [[100, 110], [200, 200]]


def test_a_part_of_a_range_can_be_removed() -> None:
    assert uid_pool.removed(POOL, [[102, 103]]) == [[100, 101], [104, 104], [200, 200]]
    assert uid_pool.removed(POOL, POOL) == []


@pytest.mark.parametrize("ranges", [[[0, 5]], [[5, 4]], [[1, 2**32 - 1]]])
def test_what_is_no_range_of_users_is_refused(ranges: list[list[int]]) -> None:
    with pytest.raises(ParameterError, match="cannot be used"):
        uid_pool.checked(ranges)


@pytest.mark.parametrize("gone", [[[99, 100]], [[150, 150]], [[104, 200]]])
def test_ids_that_are_not_there_cannot_be_removed(gone: list[list[int]]) -> None:
    with pytest.raises(ParameterError, match="not in the pool, which is 100-104, 200"):
        uid_pool.removed(POOL, gone)


def test_a_guest_gets_the_same_id_everywhere_and_each_another_one() -> None:
    used: set[int] = set()
    for guest in ("a", "b", "c", "d", "e", "f"):
        uid = uid_pool.choose(POOL, used, guest)
        assert uid == uid_pool.choose(POOL, set(used), guest)
        assert uid is not None and uid not in used
        used.add(uid)
    assert used == {100, 101, 102, 103, 104, 200}
    assert uid_pool.choose(POOL, used, "g") is None
    assert uid_pool.choose([], set(), "a") is None


def test_ssconf_is_read_as_it_is_written() -> None:
    assert uid_pool.read(["100-104", "200", "", "rubbish"]) == POOL
