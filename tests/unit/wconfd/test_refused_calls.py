# SPDX-License-Identifier: BSD-2-Clause
"""Every call of 3.1's WConfD is served, or refused by name; every change of the configuration is one call."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fakes.wconfd import AddDisk, TagCluster, fast_directory, running_wconfd

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.master import operations
from ganeti.ports.config import Change
from ganeti.wconfd.arguments import read_change
from ganeti.wconfd.calls import calls_of
from ganeti.wconfd.refused_calls import REASONS

SPEC = (Path(__file__).parents[3] / "docs" / "spec" / "protocols.md").read_text()
REFUSED = {name for names in REASONS.values() for name in names}


class Anything(SimpleNamespace):
    """Stands for the parts of a daemon while only the names of calls are wanted."""

    def __getattr__(self, name: str) -> Anything:
        return Anything()


def calls_of_3_1() -> set[str]:
    table = SPEC.partition("\n## 3. WConfD")[2].partition("\n3.1 total")[0]
    rows = re.findall(r"^\| ([a-zA-Z, ]+) \| ", table, re.MULTILINE)
    return {name for row in rows[1:] for name in row.split(", ")}


def test_every_call_of_3_1_is_known() -> None:
    known = set(calls_of(Anything()))  # type: ignore[arg-type]
    assert len(calls_of_3_1()) == 54
    assert calls_of_3_1() <= known
    assert calls_of_3_1() >= REFUSED


@pytest.mark.requirement("S2.48")
def test_what_writes_past_a_commit_is_refused_with_what_to_do() -> None:
    async def scenario() -> None:
        with fast_directory() as root:
            async with running_wconfd(root) as daemon:
                before = await daemon.client.call("position")
                for name in sorted(REFUSED):
                    with pytest.raises(PrerequisiteError, match=f"The call {name} is refused: "):
                        await daemon.client.call(name, "client", {})
                with pytest.raises(PrerequisiteError, match="has no lock and is never replaced as a whole"):
                    await daemon.client.call("lockConfig", [1, "/x", 1], False)
                assert await daemon.client.call("position") == before
                assert await daemon.client.call("flushConfigGroup", "uuid-group") == []
                owner = daemon.job(1)
                assert await daemon.client.call("dropAllReservations", [1, owner.lock_file, owner.pid]) == []

    asyncio.run(scenario())


@pytest.mark.requirement("S2.47")
def test_every_change_is_one_call_by_its_name() -> None:
    operations.load()
    names = [name for name in Change.registry if name not in (AddDisk.__name__, TagCluster.__name__)]
    assert len(names) > 40
    for name in names:
        cls = Change.registry[name]
        needed = [field for field in cls.__struct_fields__ if field in cls.__annotations__]
        with pytest.raises(GanetiError, match=f"The change {name} has no field 'moon'"):
            read_change(name, dict.fromkeys([*needed, "moon"]))
        assert callable(cls.apply)
