# SPDX-License-Identifier: BSD-2-Clause
"""The addresses of a network."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ganeti.base.errors import ParameterError
from ganeti.model.network_pool import new_pool, pool_of
from ganeti.model.objects import Network


def network(text: str = "192.0.2.0/28") -> Network:
    return Network(uuid="n", name="n", network=text)


def test_a_new_pool_keeps_its_ends_back() -> None:
    written = new_pool("192.0.2.0/28").put_into(network())
    assert (written.reservations, written.ext_reservations) == ("0" * 16, "1" + "0" * 14 + "1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.0/8", "from 16 to 30"),
        ("10.0.0.0/31", "has 2 addresses"),
        ("10.0.0.1/24", "not an IPv4 network"),
        ("2001:db8::/120", "not an IPv4 network"),
        ("all", "not an IPv4 network"),
    ],
)
def test_what_is_no_pool_is_refused(text: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        new_pool(text)


def test_addresses_are_given_from_the_lowest() -> None:
    pool = new_pool("192.0.2.0/29").keep("192.0.2.2")
    given_out = []
    for _ in range(5):
        given_out.append(pool.first_free())
        pool = pool.take(pool.first_free())
    assert given_out == ["192.0.2.1", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"]
    with pytest.raises(ParameterError, match=r"All addresses of the network 192\.0\.2\.0/29 are taken"):
        pool.first_free()
    assert pool.give_back("192.0.2.4").first_free() == "192.0.2.4"


def test_an_address_has_one_owner() -> None:
    pool = new_pool("192.0.2.0/28").take("192.0.2.7")
    with pytest.raises(ParameterError, match="in use by an instance already"):
        pool.take("192.0.2.7")
    with pytest.raises(ParameterError, match="is not in the network"):
        pool.take("192.0.3.7")
    with pytest.raises(ParameterError, match="is not kept back"):
        pool.no_longer_keep("192.0.2.7")


ADDRESSES = st.integers(0, 15).map(lambda position: f"192.0.2.{position}")


@given(st.lists(st.tuples(st.sampled_from(["take", "give_back", "keep", "no_longer_keep"]), ADDRESSES)))
def test_what_is_written_is_read_again(steps: list[tuple[str, str]]) -> None:
    pool = new_pool("192.0.2.0/28")
    for name, address in steps:
        try:
            pool = getattr(pool, name)(address)
        except ParameterError:
            continue
        assert pool.is_free(address) == (
            "1" not in (pool.taken[pool.position(address)], pool.kept[pool.position(address)])
        )
    written = pool.put_into(network())
    assert pool_of(written) == pool
    assert len(written.reservations or "") == len(written.ext_reservations or "") == 16


def test_a_pool_with_very_many_addresses_is_changed_without_going_through_them() -> None:
    """Each of 100 changes takes what copying the text takes."""
    bits = "1" * 60_000 + "0" * 5_536
    pool = pool_of(replace(network(), network="10.0.0.0/16", reservations=bits))
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return count

    sys.settrace(count)
    try:
        for _ in range(100):
            pool = pool.take(pool.first_free())
        pool.put_into(network())
    finally:
        sys.settrace(None)
    assert pool.first_free() == "10.0.234.196"
    assert steps < 20_000
