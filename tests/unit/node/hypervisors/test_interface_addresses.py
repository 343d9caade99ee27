# SPDX-License-Identifier: BSD-2-Clause
"""A display at the name of an interface: it gets the address of the kind that the cluster speaks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors import connections

GLOBAL, LINK = 0, 253
TENTATIVE = 0x40


class Address(dict[str, Any]):
    """One as the kernel lists it."""

    def __init__(self, text: str, scope: int = GLOBAL, flags: int = 0) -> None:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        super().__init__(family=family, scope=scope, flags=flags)
        self._text = text

    def get_attr(self, name: str) -> str:
        assert name == "IFA_ADDRESS"
        return self._text


class Links:
    def __init__(self, addresses: list[Address]) -> None:
        self._addresses = addresses

    async def __aenter__(self) -> Links:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def link_lookup(self, ifname: str) -> list[int]:
        return [7] if ifname == "eth0" else []

    async def get_addr(self, family: int, index: int) -> AsyncIterator[Address]:
        async def listed() -> AsyncIterator[Address]:
            for address in self._addresses:
                if address["family"] == family and index == 7:
                    yield address

        return listed()


CLUSTERS = Address("fd00::100")
LOCAL, WIDE, OLD = Address("fe80::1", LINK), Address("fd00::1"), Address("192.0.2.1")
UNSURE = Address("fd00::9", flags=TENTATIVE)


@pytest.mark.parametrize(
    ("family", "addresses", "version", "wanted"),
    [
        ("10", [LOCAL, UNSURE, WIDE, OLD], 0, "fd00::1"),
        ("10", [CLUSTERS, WIDE, OLD, LOCAL], 0, "fd00::1"),
        ("2", [LOCAL, WIDE, OLD], 0, "192.0.2.1"),
        ("10", [LOCAL, OLD], 0, "192.0.2.1"),
        ("2", [LOCAL, WIDE], 0, "fd00::1"),
        ("10", [WIDE, OLD], 4, "192.0.2.1"),
        ("2", [WIDE, OLD], 6, "fd00::1"),
        ("10", [LOCAL], 0, "The interface 'eth0' of this node has no address that others reach"),
        ("10", [OLD, LOCAL], 6, "The interface 'eth0' of this node has no IPv6 address that others reach"),
    ],
)
def test_the_address_of_an_interface(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    addresses: list[Address],
    version: int,
    wanted: str,
) -> None:
    paths = Paths(str(tmp_path))
    Path(paths.data_dir).mkdir(parents=True)
    Path(paths.ssconf_file("primary_ip_family")).write_text(f"{family}\n")
    Path(paths.ssconf_file("master_ip")).write_text("fd00::100\n")
    monkeypatch.setattr(connections, "_open_links", lambda: Links(addresses))
    try:
        found = asyncio.run(connections.address_of("eth0", paths, version))
    except HypervisorError as err:
        found = str(err).partition(":")[0]
    assert found == wanted


def test_what_is_no_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_open_links", lambda: Links([]))
    with pytest.raises(HypervisorError, match="'eth9' is neither an IP address nor an interface"):
        asyncio.run(connections.address_of("eth9", Paths(str(tmp_path))))
