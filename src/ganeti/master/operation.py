# SPDX-License-Identifier: BSD-2-Clause
"""What an operation is: one opcode, declared once, with its phases as types (D1, D3, D4).

    locks(view)            which locks to hold, from what is known without asking anybody
    gather(ctx, view)      ask nodes, names, the allocator; read only; may want more locks (`MoreLocks`)
    check(view, facts)     decide; pure; raises `PrerequisiteError`
    check_on_nodes(checked, ctx)  ask nodes what they have against it; nothing has changed so far, no hook has run
    hooks(checked)         which hook scripts run around it
    execute(checked, ctx)  act; every step that creates something has pushed its undo first

The operation object is frozen. The engine holds the locks of `locks` while it gathers; if `gather` returns
`MoreLocks`, it takes those and starts again with a new view.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast

import msgspec

from ganeti.base import names, registry
from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, OpCodeUnknown, PrerequisiteError
from ganeti.master.declaring_modules import OPERATIONS
from ganeti.master.parameter import Parameter, declared, full_command, name_fault
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


@dataclass(frozen=True)
class Example:
    """One use of an operation on the cluster that examples share: shown in the reference, played at each crash point.

    That cluster has the nodes ``node1`` (the master) to ``node3.example.com`` in the group ``default``, and the OS
    ``noop``. *before* are opcodes, or names of examples, that make what the operation needs; ``cluster-mirroring`` lets
    disks be mirrored.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    before: tuple["str | Mapping[str, Any]", ...] = ()
    stops_first: bool = False
    """The instance is stopped, and said to be, before anything else; that stays so where the rest does not happen."""


class Operation(msgspec.Struct, Generic[Result], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all operations; the fields below are common to all (opcodes, section 1)."""

    op_id: ClassVar[str] = ""
    commands: ClassVar[tuple[Command, ...]] = ()
    routes: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Example, ...]] = ()
    not_played: ClassVar[str] = ""
    summary_field: ClassVar[str] = ""
    hooks_path: ClassVar[str] = ""

    dry_run: Annotated[bool | None, Parameter("check only, change nothing")] = None
    debug_level: Annotated[int | None, Parameter("how much the job says of what it does")] = None
    priority: Annotated[int, Parameter("priority of the job, from -20 (first) to 19 (last)")] = 0
    depends: Annotated[
        list[Any] | None, Parameter("jobs that must have ended before, each with the states they may end in")
    ] = None
    comment: Annotated[str | None, Parameter("free text, kept with the job", subject="text")] = None
    reason: Annotated[
        list[Any], Parameter("who asked for it and why: entries of source, text and time in ns", subject="text")
    ] = []

    def refuse_unsupported(self) -> None:
        """Raise `PrerequisiteError` for the first parameter that asks for what nothing acts on yet.

        Null, the default, an empty list and an empty dictionary are accepted: clients send them where nothing is
        wanted.
        """
        for name, parameter in declared(type(self)).items():
            refusal, value = parameter.refusal, getattr(self, name)
            if refusal is None or value in (None, [], {}, parameter.default):
                continue
            if value or not refusal.emptied:
                raise PrerequisiteError(refusal.sentence.format(name=name), WRONG_INPUT)

    def locks(self, view: ConfigView) -> LockPlan:
        return LockPlan()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Any:
        return None

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Any:
        """Decide. *ctx* is for its catalogue, entropy and log; nothing may be awaited or changed here."""
        return None

    async def check_on_nodes(self, checked: Any, ctx: OperationContext) -> Any:
        """Raise `PrerequisiteError` for what nodes have against it, and change nothing; the end of a dry run.

        Gives what `hooks` and `execute` get in place of *checked*: the same, or with what nodes have told.
        """
        return checked

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
"""All operations by `OP_ID` that have been imported: `find` imports one, `ganeti.master.operations.load` all."""

OperationClass = TypeVar("OperationClass", bound=type[Operation[Any]])


def operation(
    op_id: str,
    *,
    cli: Command | tuple[Command, ...] = (),
    rapi: str | tuple[str, ...] = (),
    summary_field: str = "",
    hooks: str = "",
    examples: tuple[Example, ...] = (),
    not_played: str = "",
) -> Callable[[OperationClass], OperationClass]:
    """Register an operation under its `OP_ID`, with all that is known of it besides its parameters.

    *cli* are its commands, *rapi* its routes (such as ``PUT /2/groups/[group_name]/rename``), *hooks* the directory of
    its hooks, *examples* its uses that are played at each crash point, *not_played* why there are none.
    """

    def register(cls: OperationClass) -> OperationClass:
        cls.op_id = op_id
        cls.commands = (cli,) if isinstance(cli, Command) else cli
        cls.routes = (rapi,) if isinstance(rapi, str) else rapi
        cls.examples = examples
        cls.not_played = not_played
        cls.summary_field = summary_field
        cls.hooks_path = hooks
        REGISTRY[op_id] = cls
        return cls

    return register


def find(op_id: str) -> type[Operation[Any]] | None:
    """Give an operation by its `OP_ID`; None where there is none."""
    return registry.find(REGISTRY, OPERATIONS, op_id)


def commands() -> list[Command]:
    """The commands of all operations, with the options that their parameters declare."""
    return [
        full_command(command, REGISTRY[op_id], op_id)
        for op_id in sorted(REGISTRY)
        for command in REGISTRY[op_id].commands
    ]


def decode(data: Any) -> Operation[Any]:
    """Read one serialised opcode, strictly.

    Raises `OpCodeUnknown`, or `PrerequisiteError` naming the parameter that is unknown, missing, of the wrong type, or
    holds a text that cannot be the name or path it stands for.
    """
    if not isinstance(data, dict) or not isinstance(data.get("OP_ID"), str):
        raise PrerequisiteError("An opcode must be a JSON object with the key 'OP_ID'", WRONG_INPUT)
    op_id = data["OP_ID"]
    cls = find(op_id)
    if cls is None:
        raise OpCodeUnknown(f"Opcode {op_id} is not known here")
    given = {key: value for key, value in data.items() if key != "OP_ID" and not _absent(cls, key, value)}
    if (fault := name_fault(cls, given)) is not None:
        raise PrerequisiteError(fault, WRONG_INPUT)
    try:
        return cast("Operation[Any]", msgspec.convert(given, cls))
    except msgspec.ValidationError as err:
        raise PrerequisiteError(f"{op_id}: {_explain(str(err), cls)}", WRONG_INPUT) from err


def _absent(cls: type[Operation[Any]], key: str, value: Any) -> bool:
    """A null for a parameter that has a default other than null means "not given" (opcodes, section 1)."""
    if value is not None:
        return False
    for struct_field in msgspec.structs.fields(cls):
        if struct_field.name == key:
            return not struct_field.required and struct_field.default is not None
    return False


_TYPE_WORDS = {
    "bool | int | float | str": "text, a number, true or false",
    "bool | int | float | str | null": "text, a number, true, false or null",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a dictionary",
    "null": "null",
}


def _explain(message: str, cls: type[Operation[Any]]) -> str:
    """Say in the words of a user what the decoder found wrong."""
    text, _, path = message.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    it = "each value in it" if "[...]" in where else "it"
    known = declared(cls).get(re.split(r"[.\[]", where)[0])
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        whole = found[2] == "float" and "int" in found[1].split(" | ")
        text = f"{it} must be {_type_words(found[1])}, not {'one with a fraction' if whole else _type_words(found[2])}"
    elif found := re.fullmatch(r"Expected `(?:int|float)` ([<>])(=?) (.+)", text):
        bound, side = found[3].removesuffix(".0"), "more" if found[1] == ">" else "less"
        text = f"{it} must be {bound} or {side}" if found[2] else f"{it} must be {side} than {bound}"
    elif found := re.fullmatch(r"Expected `(?:str|array|object)` of length >= 1", text):
        text = f"{it} must not be empty"
    elif found := re.fullmatch(r"Expected `array` of length (\d+), got (\d+)", text):
        text = f"{it} must have {found[1]} entries, not {found[2]}"
    elif found := re.fullmatch(r"Invalid enum value '(.*)'", text, re.DOTALL):
        remedy = f": use {', '.join(known.choices)}" if known and known.choices else ""
        text = f"{it} cannot be '{names.shown(found[1])}'{remedy}"
    elif text == "Number out of range":
        text = f"{it} is too large"
    elif found := re.fullmatch(r"Object missing required field `(.+)`", text):
        text = f"'{found[1]}' is missing in it" if where else f"the parameter '{found[1]}' is missing"
        missing = None if where else declared(cls).get(found[1])
        if missing is not None and missing.given.flags:
            text += f" (option {missing.given.flags[0]})"
    elif found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        keys = f" in it: there are {', '.join(sorted(known.keys))}" if known else ""
        text = f"there is no '{found[1]}'{keys}" if where else f"there is no parameter '{found[1]}'"
    return f"parameter '{where.replace('[...]', '')}': {text}" if where else text


def _type_words(kinds: str) -> str:
    return _TYPE_WORDS.get(kinds) or " or ".join(_TYPE_WORDS.get(kind, kind) for kind in kinds.split(" | "))
