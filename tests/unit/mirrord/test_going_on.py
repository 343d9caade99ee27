# SPDX-License-Identifier: BSD-2-Clause
"""A restarted ganeti-mirrord goes on with all disks at once: one whose storage daemon hangs delays no other."""

import asyncio
import logging
import os
import ssl
from pathlib import Path

import pytest
from tests.fakes.equal_copies import EqualPeers

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.server import Server
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import SECONDARY, Opened


@pytest.mark.parametrize("error", [BlockDeviceError("it hangs"), RuntimeError("it hangs")])
def test_a_disk_that_hangs_or_fails_delays_no_other(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    places = Places(Paths(str(tmp_path)))
    os.makedirs(places.directory)
    for uuid in ("first", "second"):
        places.write_opened(Opened(uuid=uuid, image=uuid, role=SECONDARY, peer="node2", address="here"))

    async def play() -> None:
        has_gone_on = asyncio.Event()

        async def go_on(disk: Disk) -> None:
            if disk.opened.uuid == "second":
                has_gone_on.set()
                return
            await has_gone_on.wait()
            raise error

        monkeypatch.setattr(Disk, "go_on", go_on)
        server = Server(Surroundings(places, EqualPeers()))
        await server.start("127.0.0.1", 0, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        server.close()
        assert not server.is_idle

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(play(), 10))
    assert [line.getMessage() for line in caplog.records] == ["disk first (): it hangs"]
