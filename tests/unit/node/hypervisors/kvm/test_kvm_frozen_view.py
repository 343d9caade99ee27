# SPDX-License-Identifier: BSD-2-Clause
"""Backups of running guests: the scratch space has room left; and what a guest shows when it is up."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import frozen_view
from ganeti.node.hypervisors.kvm.frozen_view import KvmFrozenViews
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.running_devices import KvmDevices


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(Paths(str(tmp_path)))


def sign(places: Places, monkeypatch: pytest.MonkeyPatch, console: str, words: str = "") -> str:
    nothing: Any = None
    devices = KvmDevices(nothing, places)
    known: Any = (None, SimpleNamespace(hvparams={"use_guest_agent": False}))
    monkeypatch.setattr(devices, "_running", lambda name: known)
    log = Path(places.serial_log("web1"))
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(console)
    return asyncio.run(devices.sign_of_life("web1", words))


@pytest.mark.parametrize(
    ("console", "shows"),
    [
        ("Debian GNU/Linux 13 web1 ttyS0\r\n\r\nweb1 login: ", "its console shows 'login:'"),
        ("boot\r\nHB 7\r\n", "its console shows 'HB 7'"),
        ("Welcome to Debian GNU/Linux 13 (initramfs)!\n", ""),
        ("[  OK  ] Reached target initrd-fs.target\nYou are in emergency mode.\n", ""),
        ("xHB 7\n", ""),
    ],
)
def test_only_a_guest_that_is_up_shows_it(
    places: Places, monkeypatch: pytest.MonkeyPatch, console: str, shows: str
) -> None:
    assert sign(places, monkeypatch, console) == shows


def test_words_are_looked_for_as_they_are_and_at_once(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sign(places, monkeypatch, "up (a+)+$ now\n", "(a+)+$") == "its console shows '(a+)+$'"
    began_s = time.monotonic()
    assert sign(places, monkeypatch, "a" * 40 + "b\n", "(a+)+$") == ""
    assert time.monotonic() - began_s < 5
    assert sign(places, monkeypatch, "web1 login:\n", "database ready") == ""


def test_a_moment_is_given_up_while_there_is_space_left(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None
    held = KvmFrozenViews(nothing, places, nothing)
    directory = places.paths.backup_scratch_dir
    assert not directory.startswith(places.paths.data_dir)

    async def read() -> None:
        async with held.reading("web1", 0):
            raise AssertionError("there is no guest")

    with pytest.raises(HypervisorError, match="There is no frozen view of the disks of web1"):
        asyncio.run(read())
    whole = SimpleNamespace(f_blocks=1000, f_frsize=2**20, f_bavail=49)
    monkeypatch.setattr(frozen_view.os, "statvfs", lambda path: whole)
    with pytest.raises(HypervisorError, match=r"is given up: .*backup-scratch.* has less than 50 MiB left"):
        asyncio.run(read())
    assert os.stat(directory).st_mode & 0o777 == 0o700
