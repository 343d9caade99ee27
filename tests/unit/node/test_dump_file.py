# SPDX-License-Identifier: BSD-2-Clause
"""A dump as it is written and read: what its checksum is of, and what is left where the script or the disk fails."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.node import dump_file
from ganeti.node.runs import Progress

MIB = 1024 * 1024
DATA = os.urandom(MIB) + bytes(3 * MIB) + b"end"


def script(data: bytes, after: BaseException | None = None) -> Any:
    """What writes *data* into a descriptor, as another process does."""

    async def run(into: int) -> None:
        def write() -> None:
            left = memoryview(data)
            while left:
                left = left[os.write(into, left) :]

        await asyncio.to_thread(write)
        if after is not None:
            raise after

    return run


def test_a_dump_is_what_the_script_wrote_and_zeros_take_no_room(tmp_path: Path) -> None:
    path, progress = tmp_path / "disk0.dump", Progress()
    found = asyncio.run(dump_file.write(str(path), script(DATA), progress))
    assert path.read_bytes() == DATA
    assert found == hashlib.sha256(DATA).hexdigest()
    assert progress.bytes == len(DATA)
    assert path.stat().st_blocks * 512 < 2 * MIB
    assert path.stat().st_mode & 0o777 == 0o600
    again = Progress()
    assert asyncio.run(dump_file.sha256(str(path), again)) == found
    assert again.bytes == len(DATA)


def test_a_script_that_says_nothing_has_an_empty_dump(tmp_path: Path) -> None:
    found = asyncio.run(dump_file.write(str(tmp_path / "dump"), script(b""), Progress()))
    assert found == hashlib.sha256().hexdigest()
    assert (tmp_path / "dump").read_bytes() == b""


def test_a_script_that_fails_is_what_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="export ended with status 3"):
        asyncio.run(
            dump_file.write(
                str(tmp_path / "dump"), script(DATA, CommandError("export ended with status 3")), Progress()
            )
        )


def test_a_disk_that_fails_ends_the_script_and_is_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    async def endless(into: int) -> None:
        os.write(into, b"data")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    def fails(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pwrite", fails)
    with pytest.raises(CommandError, match="dump cannot be written: Input/output error"):
        asyncio.run(dump_file.write(str(tmp_path / "dump"), endless, Progress()))
    assert ended == [True]


@pytest.mark.parametrize("way", ["write", "read"])
def test_who_ends_it_waits_until_nothing_is_at_work(tmp_path: Path, way: str) -> None:
    open_before = os.listdir("/proc/self/fd")
    path, begun, ended = tmp_path / "dump", asyncio.Event(), []
    path.write_bytes(DATA)

    async def endless(into: int) -> None:
        os.write(into, b"data")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def story() -> None:
        progress = Progress()
        if way == "write":
            work = asyncio.ensure_future(dump_file.write(str(path), endless, progress))
            await begun.wait()
        else:
            work = asyncio.ensure_future(dump_file.sha256(str(path), progress))
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (way, ended, progress.stopped) in (("write", [True], False), ("read", [], True))

    asyncio.run(story())
    assert len(os.listdir("/proc/self/fd")) == len(open_before)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("link", "gone"):
        with pytest.raises(BlockDeviceError, match=f"The dump .*{name} cannot be read: "):
            asyncio.run(dump_file.sha256(str(tmp_path / name), Progress()))
