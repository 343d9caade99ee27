# SPDX-License-Identifier: BSD-2-Clause
"""Where the remote API listens: as it is told, at an interface, or on all addresses of the cluster's kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.daemons.rapi import address_of, make_parser
from ganeti.system import interface_address
from ganeti.system.daemonize import DaemonRefused


def paths_of(directory: Path, family: str) -> Paths:
    paths = Paths(str(directory))
    file = Path(paths.ssconf_file("primary_ip_family"))
    file.parent.mkdir(parents=True)
    file.write_text(family)
    return paths


@pytest.mark.requirement("S1.100")
@pytest.mark.parametrize(
    ("words", "family", "address"),
    [
        ("", "2", "0.0.0.0"),
        ("", "10", "::"),
        ("-b ::1", "2", "::1"),
        ("-i lo", "2", "127.0.0.1"),
        ("-i lo", "10", "::1"),
    ],
)
def test_the_address(tmp_path: Path, words: str, family: str, address: str) -> None:
    assert address_of(paths_of(tmp_path, family), make_parser().parse_args(words.split())) == address


def test_an_interface_that_has_the_clusters_address_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lists it first; whoever listens there loses it to the next master."""
    table = tmp_path / "if_inet6"
    rows = [("fd77" + "100".rjust(28, "0"), "a2"), ("fd77" + "3".rjust(28, "0"), "82")]
    table.write_text("".join(f"{address} 02 40 00 {flags}     eth0\n" for address, flags in rows))
    monkeypatch.setattr(interface_address, "_IPV6_TABLE", str(table))
    assert address_of(paths_of(tmp_path, "10"), make_parser().parse_args(["-i", "eth0"])) == "fd77::3"


@pytest.mark.parametrize(("family", "said"), [("2", "has no address"), ("10", "has no IPv6 address")])
def test_an_interface_without_address(tmp_path: Path, family: str, said: str) -> None:
    with pytest.raises(DaemonRefused, match=f"Interface nothing {said} to listen on"):
        address_of(paths_of(tmp_path, family), make_parser().parse_args(["-i", "nothing"]))
