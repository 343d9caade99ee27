# SPDX-License-Identifier: BSD-2-Clause
"""Hosts beside ports: those of IPv6 have colons themselves."""

import pytest

from ganeti.base.addresses import bracketed, host_and_port, split_host_and_port


@pytest.mark.requirement("S1.97")
def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert host_and_port("node1", 5080) == "node1:5080"
    assert host_and_port("10.77.0.1", "5080") == "10.77.0.1:5080"
    assert host_and_port("fd77::1", 5080) == "[fd77::1]:5080"
    assert bracketed("[fd77::1]") == "[fd77::1]"


@pytest.mark.requirement("S1.97")
@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("node1", ("node1", 1817)),
        ("node1:7", ("node1", 7)),
        ("10.77.0.1:7", ("10.77.0.1", 7)),
        ("fd77::1", ("fd77::1", 1817)),
        ("fe80::1%eth0", ("fe80::1%eth0", 1817)),
        ("[fd77::1]", ("fd77::1", 1817)),
        ("[fd77::1]:7", ("fd77::1", 7)),
    ],
)
def test_they_are_taken_apart(text: str, taken: tuple[str, int]) -> None:
    assert split_host_and_port(text, 1817) == taken


@pytest.mark.parametrize("text", ["node1:", "node1:x", "node1:0", "node1:65536", "[fd77::1]:x"])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no port"):
        split_host_and_port(text, 1817)


def test_what_has_colons_and_is_no_address_is_refused() -> None:
    for text in ("fd77::1::2", "node1:7:8", "[fd77::1:7"):
        with pytest.raises(ValueError, match="stands in brackets"):
            split_host_and_port(text, 1817)
