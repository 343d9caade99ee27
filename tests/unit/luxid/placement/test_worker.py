# SPDX-License-Identifier: BSD-2-Clause
"""What the placement worker answers where its own process fails."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from ganeti.base.errors import ExecutionError, from_wire
from ganeti.luxid.placement.worker import Answer, Question, _Answering
from ganeti.model.placement_requests import CountCapacity


class Starved:
    """Stands for what the worker follows and asks; the configuration is more than there is memory for."""

    def take_reports(self, reports: Any) -> None:
        pass

    async def reached(self, position: Any, patience_s: float) -> bool:
        return True

    @property
    def configuration(self) -> Any:
        raise MemoryError


def test_without_memory_it_says_so_in_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    asked = msgspec.json.encode(
        Question(request=CountCapacity(node_groups=[], default_template=""), template="plain", position=(1, 1))
    )
    with caplog.at_level(logging.WARNING):
        answer: Answer = asyncio.run(_Answering(Starved(), Starved()).answer(asked))
    assert answer.error is not None
    told = from_wire(answer.error)
    assert isinstance(told, ExecutionError)
    assert str(told) == "There is no memory left for a cluster of this size: give the machine more, or ask again"
    assert [record.exc_info for record in caplog.records] == []
