# SPDX-License-Identifier: BSD-2-Clause
"""Typed node calls, one file a subject: a struct is the call's name, its arguments, and the type of its answer.

    class StorageList(NodeRequest[list[StorageUnitState]]):     # the call storage_list
        answer_within_s = URGENT_S
        changes_node = False
        units: list[StorageUnit]

Who asks writes ``await ask(ctx.nodes, node_uuid, StorageList(units=…))`` (`ganeti.ports.nodes`) and gets what the
struct says; who answers writes ``@answers(StorageList)`` (`ganeti.node.actions.registry`).
"""

import re
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, get_args

import msgspec

URGENT_S = 60.0
FAST_S = 300.0
NORMAL_S = 900.0
SLOW_S = 3600.0
DAY_S = 86400.0

Answer = TypeVar("Answer")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@cache
def _usual(kind: type["NodeRequest[Any]"]) -> dict[str, Any]:
    """The arguments that may be left out, each with its default."""
    defaults = kind.__struct_defaults__
    return dict(zip(kind.__struct_fields__[-len(defaults) :], defaults, strict=True)) if defaults else {}


class NodeRequest(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node is asked; a subclass names the type of its answer in brackets, and the call by its own name."""

    registry: ClassVar[dict[str, type["NodeRequest[Any]"]]] = {}
    """All calls whose modules have been imported, by name: a process asks by the structs that it has."""
    call: ClassVar[str]
    answer: ClassVar[Any]
    answer_within_s: ClassVar[float] = NORMAL_S
    changes_node: ClassVar[bool] = True
    """Then it is refused from a superseded epoch or attempt, and answered by number."""
    ends_with_caller: ClassVar[bool] = False
    """Set where a program that changes nothing runs for its caller alone: it is ended when that has gone."""
    reaches_offline: ClassVar[bool] = False
    """Whether nodes that are marked offline are called, too."""
    takes_slot: ClassVar[bool] = True
    """Whether it waits while the node carries out as many calls as it may (those that end others do not)."""
    asked_by_plans: ClassVar[bool] = False
    """Set where the call changes nothing and its answer does not depend on what a plan would have made: `--plan` asks
    the node. Any other call is only written into the plan."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.call = _WORD.sub("_", cls.__name__).lower()
        cls.answer = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]
        NodeRequest.registry[cls.call] = cls

    def arguments(self) -> dict[str, Any]:
        """As they travel: what is left as it is by default is left out."""
        usual = _usual(type(self))
        return {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not usual.get(name, self)
        }

    @classmethod
    def read(cls, value: Any) -> Answer:
        """Type an answer; raises `msgspec.ValidationError` for one of another form."""
        answer: Answer = msgspec.convert(value, cls.answer)
        return answer

    def compare(self, answer: Answer) -> None:
        """Raise `msgspec.ValidationError` where an answer of the right form does not fit what was asked."""
