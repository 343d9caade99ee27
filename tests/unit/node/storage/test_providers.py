# SPDX-License-Identifier: BSD-2-Clause
"""Providers of external storage as a node finds them."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti.node.storage.providers import REQUIRED

PLACE = "/srv/ganeti/extstorage/san"


@pytest.fixture
def provider(node: Any) -> Any:
    """The directory of a provider that can be used."""
    for script in REQUIRED:
        directory = node.program(f"{PLACE}/{script}", "exit 0").parent
    (directory / "parameters.list").write_text("pool where disks lie\nfast\n\n")
    return directory


def test_one_that_can_be_used(node: Any, provider: Any) -> None:
    [found] = node.call("extstorage_diagnose")
    assert (found.name, found.path, found.fault) == ("san", str(provider), "")
    assert found.parameters == [("pool", "where disks lie"), ("fast", "")]


@pytest.mark.parametrize(
    ("name", "mode", "fault"),
    [
        ("grow", 0o644, "the script grow is not executable"),
        ("verify", None, "the script verify is missing"),
        ("parameters.list", None, "parameters.list cannot be read"),
    ],
)
def test_what_is_wrong_is_said(node: Any, provider: Any, name: str, mode: int | None, fault: str) -> None:
    if mode is None:
        (provider / name).unlink()
    else:
        (provider / name).chmod(mode)
    [found] = node.call("extstorage_diagnose")
    assert fault in found.fault


def test_without_any(node: Any) -> None:
    assert node.call("extstorage_diagnose") == []
