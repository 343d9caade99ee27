# SPDX-License-Identifier: BSD-2-Clause
"""What an operation says of each of its parameters, and what follows from it and from the parameter's type (D1). Pure.

An operation writes it once, beside the type:

    force: Annotated[bool, Parameter("stop an instance that is marked offline, too", "-f", "--force")] = False

The help of commands, the reference, the JSON schema, the rule of names and the walk of bad input read it from there.
Types that several operations share stand in `ganeti.master.operations.parameters`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from ganeti.base import addresses, names
from ganeti.base.command import ASSUME_YES, Argument, Command, Option

SUBJECTS: Final[Mapping[str, names.Rule]] = {
    "": names.line_fault,
    "instance": names.reference_fault,
    "node": names.reference_fault,
    "group": names.reference_fault,
    "network": names.reference_fault,
    "filter": names.reference_fault,
    "object": names.reference_fault,
    "new name": names.reference_fault,
    "disk template": names.reference_fault,
    "hypervisor": names.reference_fault,
    "allocator": names.program_name_fault,
    "os": names.os_name_fault,
    "file name": names.file_name_fault,
    "path": names.path_fault,
    "text": names.text_fault,
    "IPv4 address": addresses.ipv4_fault,
    "IPv4 network": addresses.ipv4_network_fault,
    "IPv4 router": addresses.ipv4_router_fault,
    "IPv6 network": addresses.ipv6_network_fault,
    "IPv6 router": addresses.ipv6_router_fault,
}
"""What a parameter's text can name, and the rule that it follows, whatever it is nested in. Without a subject it is one
line without control characters; `text` may have several lines. What makes a new name checks it by itself."""


class Parameter:
    """Metadata of one parameter, for `Annotated`.

    *help* is half a sentence that says what it means. *flags* are the options of its command, none where no option
    gives it; *option_help* is what they do, where that is another thing, such as the opposite; *options* stand in
    their place where a dictionary is given in parts. *value* is what a flag sends, the opposite of the default without
    it. *subject* is one of `SUBJECTS`; *kind* one of `base.command.OPTION_KINDS`, where the type leaves it open.
    *refused* is the error message where nothing acts on it yet, with ``{name}`` for the parameter; what is *emptied*
    may still be taken away by an empty text, or false. What is not *remote* is for root on the master alone, such as
    the names of programs that nodes run: the remote API refuses it.
    """

    __slots__ = (
        *("emptied", "flags", "help", "kind", "metavar", "option_help", "options", "refused", "remote", "repeatable"),
        *("subject", "value"),
    )

    def __init__(
        self,
        help: str,
        *flags: str,
        subject: str = "",
        kind: str = "",
        metavar: str = "",
        repeatable: bool = False,
        refused: str = "",
        emptied: bool = False,
        value: bool | None = None,
        option_help: str = "",
        options: tuple[Option, ...] = (),
        remote: bool = True,
    ) -> None:
        if subject not in SUBJECTS:
            raise ValueError(f"'{subject}' is no subject: use one of {', '.join(SUBJECTS)}")
        self.help = help
        self.option_help = option_help or help
        self.flags = flags
        self.subject = subject
        self.kind = kind
        self.metavar = metavar
        self.repeatable = repeatable
        self.refused = refused
        self.emptied = emptied
        self.value = value
        self.options = options
        self.remote = remote


class Refused:
    """Metadata beside that of a shared type: nothing acts on the parameter here; *sentence* is as in `Parameter`."""

    __slots__ = ("emptied", "sentence")

    def __init__(self, sentence: str, *, emptied: bool = False) -> None:
        self.sentence = sentence
        self.emptied = emptied


def refused(operation: type[msgspec.Struct]) -> dict[str, str]:
    """Parameters that nothing acts on yet, with the error message of each."""
    return {name: each.refusal.sentence.format(name=name) for name, each in declared(operation).items() if each.refusal}


def local(operation: type[msgspec.Struct]) -> frozenset[str]:
    """Parameters that are not given over the remote API."""
    return frozenset(name for name, each in declared(operation).items() if not each.given.remote)


_UNDESCRIBED: Final = Parameter("")


@dataclass(frozen=True)
class Declared:
    """One parameter of an operation, with all that its declaration and its type say."""

    name: str
    type: Any
    """Without `Annotated` and without null."""
    nullable: bool
    required: bool
    default: Any
    given: Parameter

    refusal: Refused | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The values there are, where the type lists them."""
        return tuple(get_args(self._entry)) if get_origin(self._entry) is Literal else ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of what is in it, or in each entry of it, where the type lists them."""
        return getattr(self._entry, "__struct_fields__", ())

    @property
    def _entry(self) -> Any:
        return _bare(get_args(self.type)[0]) if get_origin(self.type) is list else self.type

    @property
    def kind(self) -> str:
        """How its option is read: one of `base.command.OPTION_KINDS`."""
        if self.given.kind:
            return self.given.kind
        if self.type is bool:
            return "yesno" if self.nullable else "flag"
        if self.type in (int, float):
            return str(self.type.__name__)
        if get_origin(self.type) is dict:
            nested = get_origin(_bare(get_args(self.type)[1])) is dict
            return "ident-keyvalues" if nested else "keyvalues"
        if get_origin(self.type) is list and not self.given.repeatable:
            return "list"
        return "string"

    def options(self, *, offered: bool = True) -> tuple[Option, ...]:
        """The options of its command: none, one, or several that give parts of it.

        Those that are not *offered* have no help: they are known, and refused.
        """
        options = self.given.options or ((self._option(),) if self.given.flags else ())
        return options if offered else tuple(replace(option, help="") for option in options)

    def _option(self) -> Option:
        choices = self.choices
        return Option(
            self.given.flags,
            self.name,
            self.kind,
            self.given.option_help + self._default_words(),
            value=self.default is not True if self.given.value is None else self.given.value,
            choices=choices,
            metavar=self.given.metavar,
            repeatable=self.given.repeatable or self.kind in ("ident-keyvalues", "disks", "nics", "disk-state"),
        )

    def _default_words(self) -> str:
        if self.required or isinstance(self.default, bool) or self.default in (None, "", [], {}):
            return ""
        return f" [{self.default}]"

    def argument(self) -> Argument:
        """The words of its command that give it."""
        several = get_origin(self.type) is list
        return Argument(
            self.name,
            self.given.metavar or self.name.replace("_", "-"),
            1 if self.required else 0,
            None if several else 1,
            kind="string" if several else self.kind,
            subject=self.given.subject,
        )


@cache
def declared(operation: type[msgspec.Struct]) -> Mapping[str, Declared]:
    """All parameters of an operation by name, in the order in which they are written."""
    hints = get_type_hints(operation, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(operation):
        kind, given, nullable, refusal = _taken_apart(hints[field.name])
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        default = None if field.required else default
        found[field.name] = Declared(field.name, kind, nullable, field.required, default, given, refusal)
    return found


def _taken_apart(hint: Any) -> tuple[Any, Parameter, bool, Refused | None]:
    """Type without null, what `Annotated` says, and whether null is possible; the outermost description counts."""
    given: Parameter | None = None
    refusal: Refused | None = None
    nullable = False
    while True:
        if get_origin(hint) is Annotated:
            hint, *metadata = get_args(hint)
            given = given or next((each for each in metadata if isinstance(each, Parameter)), None)
            refusal = refusal or next((each for each in metadata if isinstance(each, Refused)), None)
            if refusal is None and given is not None and given.refused:
                refusal = Refused(given.refused, emptied=given.emptied)
        elif get_origin(hint) in (Union, UnionType):
            kinds = [kind for kind in get_args(hint) if kind is not NoneType]
            nullable = nullable or len(kinds) < len(get_args(hint))
            if len(kinds) > 1:
                return Union[tuple(kinds)], given or _UNDESCRIBED, nullable, refusal  # noqa: UP007
            [hint] = kinds
        else:
            return hint, given or _UNDESCRIBED, nullable, refusal


def _bare(hint: Any) -> Any:
    return _taken_apart(hint)[0]


def name_fault(operation: type[msgspec.Struct], parameters: Mapping[str, Any]) -> str | None:
    """Say of the first wrong text which parameter it is in and what would be right; None if all are fine."""
    known = declared(operation)
    for parameter, value in parameters.items():
        given = known[parameter].given if parameter in known else _UNDESCRIBED
        rule = SUBJECTS[given.subject]
        for text in _texts(value):
            if text and (found := rule(text)) is not None:
                return f"Parameter '{names.shown(parameter)}' cannot be '{names.shown(text)}': {found}"
    return None


_PLAIN = int | float | None
"""Not asked whether they are mappings: the first such question of a process costs half a millisecond of a job."""


def _texts(value: Any) -> Iterator[str]:
    """All texts in a parameter, the keys of dictionaries too."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list | tuple):
            pending += item
        elif not isinstance(item, _PLAIN) and isinstance(item, Mapping):
            pending += [*item.keys(), *item.values()]


def options_of(operation: type[msgspec.Struct], *names: str) -> tuple[Option, ...]:
    """Options of an operation's parameters for a command that is not its own; refused ones are offered as well."""
    known = declared(operation)
    return tuple(
        replace(option, help=option.help or known[name].given.help)
        for name in names
        for option in known[name].options()
    )


def full_command(command: Command, operation: type[msgspec.Struct], op_id: str) -> Command:
    """Give a command of an operation the arguments and options that its parameters declare.

    Its arguments may be names of parameters. Options of its own come before those of the parameters, and stand for a
    parameter of the same name; `Command.parameters` limits which of them are offered. One with a question also takes
    ``--force`` against it.
    """
    known = declared(operation)
    arguments = tuple(known[each].argument() if isinstance(each, str) else each for each in command.arguments)
    taken = {argument.field for argument in arguments} | {option.field for option in command.options}
    offered = known if command.parameters is None else command.parameters
    options = tuple(
        option
        for name in offered
        if name not in taken
        for option in known[name].options(offered=known[name].refusal is None)
    )
    forced = any("--force" in option.flags for option in options)
    unasked = (ASSUME_YES,) if command.confirm and not forced else ()
    return replace(command, op_id=op_id, arguments=arguments, options=unasked + command.options + options)
