# SPDX-License-Identifier: BSD-2-Clause
"""What daemons do not load as they start: each module costs every start, and every node its memory."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import ganeti

OPERATIONS, HANDLERS = "ganeti.master.operations.", "ganeti.node.actions."
CLIENTS = ("aiohttp.client", "aiohttp.connector", "aiohttp.web_urldispatcher")
EVERYWHERE = ("cryptography", "jwt", "obstore", "opentelemetry", "pyroute2", *CLIENTS)
NO_HTTP_SERVER = ("aiohttp", "attr", "email", "yarl")
OPERATIONS_THAT_MAY = {f"{OPERATIONS}{name}" for name in ("filter_changes", "changes", "cluster", "cluster.master_ip")}
"""Changes that LuxiD and MaintD commit themselves, and the cluster's address, which LuxiD has brought up."""
STARTS = {
    "luxid": NO_HTTP_SERVER,
    "wconfd": (*NO_HTTP_SERVER, "ganeti.noded.world"),
    "maintd": (),
    "rapi": (),
    "noded": ("ganeti.bootstrap.attempt",),
    "mond": ("ganeti.master",),
    "metad": ("ganeti.master",),
    "confd": NO_HTTP_SERVER,
    "mirrord": NO_HTTP_SERVER,
    "kvmd": NO_HTTP_SERVER,
    "watcher": ("aiohttp", "asyncio"),
}
PROGRAM = (
    "import sys, importlib; sys.path[:0] = sys.argv[2:]; importlib.import_module(sys.argv[1]); print(*sys.modules)"
)


@pytest.mark.parametrize("daemon", STARTS)
def test_a_start_loads_no_more_than_it_needs(daemon: str) -> None:
    places = [str(Path(module.__path__[0]).parent) for module in (ganeti, msgspec)]
    done = subprocess.run(
        [sys.executable, "-IS", "-c", PROGRAM, f"ganeti.daemons.{daemon}", *places],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert f"ganeti.daemons.{daemon}" in loaded
    assert not loaded.intersection((*EVERYWHERE, *STARTS[daemon]))
    assert {name for name in loaded if name.startswith(OPERATIONS)} <= OPERATIONS_THAT_MAY
    assert {name for name in loaded if name.startswith(HANDLERS)} <= {f"{HANDLERS}registry"}
