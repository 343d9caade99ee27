# SPDX-License-Identifier: BSD-2-Clause
"""Very many objects that stay are made without the collector, and are not looked through afterwards."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from ganeti.base.errors import ConfigurationError
from ganeti.base.paths import Paths
from ganeti.daemons import wconfd
from ganeti.system.event_loop import uncollected


@pytest.fixture(autouse=True)
def thawed() -> Any:
    yield
    gc.unfreeze()


def test_nothing_is_looked_through_meanwhile_and_what_is_there_then_never() -> None:
    looks: list[str] = []

    def look(phase: str, info: Any) -> None:
        looks.append(phase)

    gc.callbacks.append(look)
    try:
        with uncollected():
            with uncollected():
                many = [[number] for number in range(100_000)]
            assert not looks and not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > len(many)
    finally:
        gc.callbacks.remove(look)


def test_the_configuration_is_read_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    enabled: list[bool] = []

    def read(paths: Paths) -> Any:
        enabled.append(gc.isenabled())
        raise ConfigurationError("enough")

    monkeypatch.setattr(wconfd, "open_configuration", read)
    daemon: Any = SimpleNamespace(environment=SimpleNamespace(paths=Paths(str(tmp_path))))
    term: Any = None
    with pytest.raises(Exception, match="enough"):
        asyncio.run(wconfd._Serving(daemon).run(term))
    assert enabled == [False] and gc.isenabled()
