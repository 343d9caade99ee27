# SPDX-License-Identifier: BSD-2-Clause
"""What an operation is: one opcode, declared once, with its phases as types (D1, D3, D4).

    locks(view)            which locks to hold, from what is known without asking anybody
    gather(ctx, view)      ask nodes, names, the allocator; read only; may want more locks (`MoreLocks`)
    check(view, facts)     decide; pure; raises `PrerequisiteError`; nothing has changed so far
    hooks(checked)         which hook scripts run around it
    execute(checked, ctx)  act; every step that creates something has pushed its undo first

The operation object is frozen. The engine holds the locks of `locks` while it gathers; if `gather` returns
`MoreLocks`, it takes those and starts again with a new view.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, OpCodeUnknown, PrerequisiteError
from ganeti.master import parameter_rules
from ganeti.model.locks import LockPlan
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

Result = TypeVar("Result")


@dataclass(frozen=True)
class MoreLocks:
    """Answer of `gather`: hold this larger plan, then gather again."""

    plan: LockPlan


class Defer(Exception):
    """Raised by `gather`: not now; queue the job again, optionally with another priority (S1.89, S1.90).

    The current priority is ``ctx.job.priority``. What is held is given up; nothing has been done yet.
    """

    def __init__(self, priority: int | None = None) -> None:
        super().__init__(priority)
        self.priority = priority


@dataclass(frozen=True)
class Hooks:
    """Hook scripts around an operation: ``PATH-pre.d`` and ``PATH-post.d`` on these nodes (protocols, section 10)."""

    path: str
    object_type: str
    target: str
    env: Mapping[str, str] = field(default_factory=dict)
    pre_nodes: Sequence[str] = ()
    """Node uuids; the engine does not add the master by itself."""
    post_nodes: Sequence[str] = ()
    env_after: Callable[[ConfigView, Catalogue], Mapping[str, str]] | None = None
    """Makes *env* anew from the configuration after the operation; None where nothing of it can have changed."""


@dataclass(frozen=True)
class SubmitJobs:
    """Result of an operation that makes jobs: lists of operations, one list per job.

    The engine submits them and the opcode's result becomes ``{"jobs": [[ok, id or error], …], **other}``.
    """

    jobs: Sequence[Sequence["Operation[Any]"]]
    other: Mapping[str, Any] = field(default_factory=dict)


class Operation(msgspec.Struct, Generic[Result], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all operations; the fields below are common to all (opcodes, section 1)."""

    op_id: ClassVar[str] = ""
    command: ClassVar[Command | None] = None
    summary_field: ClassVar[str] = ""
    hooks_path: ClassVar[str] = ""
    refusals: ClassVar[Mapping[str, str]] = {}
    """Parameters that nothing acts on yet: for each, the error message, with the remedy. Null, the default, an empty
    list and an empty dictionary are accepted: clients send them where nothing is wanted."""
    emptied: ClassVar[frozenset[str]] = frozenset()
    """Those of `refusals` that may be given an empty text, or false: that takes away a value that was imported."""

    dry_run: bool | None = None
    debug_level: int | None = None
    priority: int = 0
    depends: list[Any] | None = None
    comment: str | None = None
    reason: list[Any] = []

    def refuse_unsupported(self) -> None:
        """Raise `PrerequisiteError` for the first parameter of `refusals` that asks for something."""
        for struct_field in msgspec.structs.fields(self):
            name, value = struct_field.name, getattr(self, struct_field.name)
            if name not in self.refusals or value in (None, [], {}, struct_field.default):
                continue
            if value or name not in self.emptied:
                raise PrerequisiteError(self.refusals[name], WRONG_INPUT)

    def locks(self, view: ConfigView) -> LockPlan:
        return LockPlan()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Any:
        return None

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Any:
        """Decide. *ctx* is for its catalogue, entropy and log; nothing may be awaited or changed here."""
        return None

    def hooks(self, view: ConfigView, checked: Any) -> Hooks | None:
        return None

    async def execute(self, checked: Any, ctx: OperationContext) -> Result | SubmitJobs:
        raise NotImplementedError

    def summary(self) -> str:
        """Short form shown in job lists, such as ``INSTANCE_CREATE(web1)``."""
        name = self.op_id.removeprefix("OP_")
        value = getattr(self, self.summary_field) if self.summary_field else None
        return f"{name}({value})" if value is not None else name

    def to_plain(self) -> dict[str, Any]:
        """The serialised opcode: parameters plus `OP_ID`."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["OP_ID"] = self.op_id
        return plain


REGISTRY: dict[str, type[Operation[Any]]] = {}
"""All operations by `OP_ID`; filled by importing `ganeti.master.operations`."""

OperationClass = TypeVar("OperationClass", bound=type[Operation[Any]])


def operation(
    op_id: str, *, cli: Command | None = None, summary_field: str = "", hooks: str = ""
) -> Callable[[OperationClass], OperationClass]:
    """Register an operation under its `OP_ID`, with its command line and the directory of its hooks."""

    def register(cls: OperationClass) -> OperationClass:
        cls.op_id = op_id
        cls.command = replace(cli, op_id=op_id) if cli is not None else None
        cls.summary_field = summary_field
        cls.hooks_path = hooks
        REGISTRY[op_id] = cls
        return cls

    return register


def decode(data: Any) -> Operation[Any]:
    """Read one serialised opcode, strictly.

    Raises `OpCodeUnknown`, or `PrerequisiteError` naming the parameter that is unknown, missing, of the wrong type, or
    holds a text that cannot be the name or path it stands for.
    """
    if not isinstance(data, dict) or not isinstance(data.get("OP_ID"), str):
        raise PrerequisiteError("An opcode must be a JSON object with the key 'OP_ID'", WRONG_INPUT)
    op_id = data["OP_ID"]
    cls = REGISTRY.get(op_id)
    if cls is None:
        raise OpCodeUnknown(f"Opcode {op_id} is not known here")
    given = {key: value for key, value in data.items() if key != "OP_ID" and not _absent(cls, key, value)}
    if (fault := parameter_rules.fault(given.items())) is not None:
        raise PrerequisiteError(fault, WRONG_INPUT)
    try:
        return cast("Operation[Any]", msgspec.convert(given, cls))
    except msgspec.ValidationError as err:
        raise PrerequisiteError(f"{op_id}: {_explain(str(err))}", WRONG_INPUT) from err


def _absent(cls: type[Operation[Any]], key: str, value: Any) -> bool:
    """A null for a parameter that has a default other than null means "not given" (opcodes, section 1)."""
    if value is not None:
        return False
    for struct_field in msgspec.structs.fields(cls):
        if struct_field.name == key:
            return not struct_field.required and struct_field.default is not None
    return False


_TYPE_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a dictionary",
    "null": "null",
}


def _explain(message: str) -> str:
    """Say in the words of a user what the decoder found wrong."""
    text, _, path = message.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        wanted, got = (
            " or ".join(_TYPE_WORDS.get(part, part) for part in kinds.split(" | ")) for kinds in found.groups()
        )
        text = f"it must be {wanted}, not {got}"
    elif found := re.fullmatch(r"Expected `(?:int|float)` ([<>])= (.+)", text):
        text = f"it must be {found[2]} or {'more' if found[1] == '>' else 'less'}"
    elif text == "Expected `str` of length >= 1":
        text = "it must not be empty"
    elif found := re.fullmatch(r"Object missing required field `(.+)`", text):
        text = f"the parameter '{found[1]}' is missing"
    elif found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        text = f"there is no parameter '{found[1]}'"
    return f"parameter '{where}': {text}" if where else text
