# SPDX-License-Identifier: BSD-2-Clause
"""Where the node daemon listens: as it is told, at an interface, or on all addresses of the cluster's kind."""

from __future__ import annotations

import pytest

from ganeti.base.errors import ParameterError
from ganeti.daemons.noded_options import check, make_parser


@pytest.mark.requirement("S1.101")
@pytest.mark.parametrize(
    ("words", "everything", "address"),
    [
        ("", "0.0.0.0", "0.0.0.0"),
        ("", "::", "::"),
        ("-b ::", "0.0.0.0", "::"),
        ("-b 10.0.0.1", "::", "10.0.0.1"),
        ("-i lo", "0.0.0.0", "127.0.0.1"),
        ("-i lo", "::", "::1"),
        ("--no-ssl -b ::1", "0.0.0.0", "::1"),
    ],
)
def test_the_address(words: str, everything: str, address: str) -> None:
    assert check(make_parser().parse_args(words.split()), everything) == address


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-b here", "'here' is not an IP address"),
        ("-i nothing", "has no address"),
        ("--no-ssl", "Without TLS"),
    ],
)
def test_refusals(words: str, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        check(make_parser().parse_args(words.split()), "0.0.0.0")


def test_an_interface_without_ipv6() -> None:
    with pytest.raises(ParameterError, match="has no IPv6 address"):
        check(make_parser().parse_args(["-i", "nothing"]), "::")
