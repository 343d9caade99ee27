# SPDX-License-Identifier: BSD-2-Clause
"""The calls that a daemon's socket serves: name, types of the arguments and handler stand together, at the handler.

``@serves(RenewGroupState)`` marks the method that gets a job's question (`ports/luxid.py`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.ports.luxid import Question

Handler = Callable[[list[Any]], Awaitable[Any]]
"""Takes the arguments as they came."""
Asked = TypeVar("Asked", bound=Question[Any])
_Method = Callable[[Any, Asked], Awaitable[Any]]
_MARK = "served_call"


def serves(question: type[Asked]) -> Callable[[_Method[Asked]], _Method[Asked]]:
    """Mark the method that answers *question*; `handlers_of` finds it."""

    def mark(method: _Method[Asked]) -> _Method[Asked]:
        setattr(method, _MARK, question)
        return method

    return mark


def handlers_of(*parts: object) -> dict[str, Handler]:
    """The handlers of all calls that methods of *parts* serve, by name."""
    return {
        question.__name__: _handler(question, getattr(part, name))
        for part in parts
        for name, method in vars(type(part)).items()
        if (question := getattr(method, _MARK, None)) is not None
    }


def _handler(question: type[Question[Any]], method: Callable[[Any], Awaitable[Any]]) -> Handler:
    async def handle(arguments: list[Any]) -> Any:
        try:
            asked = msgspec.convert(arguments, question)
        except msgspec.ValidationError as err:
            raise PrerequisiteError(f"{question.__name__} cannot be answered: {err}", WRONG_INPUT) from err
        return await method(asked)

    return handle
