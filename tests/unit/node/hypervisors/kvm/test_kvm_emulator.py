# SPDX-License-Identifier: BSD-2-Clause
"""What a QEMU binary can do is asked of itself, once, and never read by halves."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import emulator
from ganeti.node.hypervisors.kvm.places import Places

MANY = 20_000
ANSWERS: list[Any] = [
    {},
    {"qemu": {"major": 7, "minor": 2, "micro": 22}},
    [{"name": "pc-q35-7.2", "alias": "q35"}],
    [{"capability": "xbzrle"}],
    [{"name": "qemu64"}],
    [{"name": f"device-{number}"} for number in range(MANY)],
    [{"name": "query-spice"}],
    {},
]
# Like QEMU it writes without waiting, and what it could not write is lost when it quits.
PROGRAM = """#!{python}
import os, sys
sys.stdin.read()
if os.path.exists({silent!r}):
    print('{{"return": {{')
    sys.exit(0)
os.set_blocking(1, False)
with open({counter!r}, "a") as counter:
    counter.write("asked ")
with open({answers!r}, "rb") as source:
    rest = source.read()
try:
    while rest:
        rest = rest[os.write(1, rest):]
except BlockingIOError:
    pass
"""


@pytest.fixture
def node(tmp_path: Path) -> NodeOnDisk:
    (tmp_path / "answers").write_text("".join(json.dumps({"return": answer}) + "\n" for answer in ANSWERS))
    names = {name: str(tmp_path / name) for name in ("answers", "silent", "counter")}
    program = tmp_path / "qemu"
    program.write_text(PROGRAM.format(python=sys.executable, **names))
    program.chmod(0o755)
    return NodeOnDisk(tmp_path)


def describe(node: NodeOnDisk) -> emulator.Emulator:
    hvparams = {"kvm_path": f"{node.paths.root}/qemu"}
    return asyncio.run(emulator.describe(node, Places(node.paths), hvparams))


def test_long_answers_are_read_whole_and_once(node: NodeOnDisk, tmp_path: Path) -> None:
    found = describe(node)
    assert len(found.devices) == MANY and found.machines["q35"] == "pc-q35-7.2" and found.spice
    assert describe(node) == found
    assert (tmp_path / "counter").read_text() == "asked "
    os.utime(tmp_path / "qemu", (1, 1))
    assert describe(node).devices == found.devices
    assert (tmp_path / "counter").read_text() == "asked asked "


def test_half_an_answer_is_none(node: NodeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "silent").touch()
    with pytest.raises(HypervisorError, match="qemu does not answer"):
        describe(node)
    assert not list(Path(Places(node.paths).base).glob("emulator-*"))
