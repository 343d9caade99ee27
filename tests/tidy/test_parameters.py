# SPDX-License-Identifier: BSD-2-Clause
"""Whatever can be asked for is acted on, or refused by name: no parameter, setting or option is taken and forgotten.

The lists are the declarations themselves, and what acts is read in the syntax trees: a parameter that nobody reads is a
fault here on the day it is declared.
"""

import ast
import importlib
from collections.abc import Iterator

import msgspec
import pytest
from parsed_tree import Exemptions, Module, told

from ganeti.base.registry import import_all
from ganeti.bootstrap import init_options
from ganeti.bootstrap.init_command import CLUSTER_INIT
from ganeti.cli.generate import declared
from ganeti.master.operation import REGISTRY, Operation
from ganeti.master.operations.cluster import set_params
from ganeti.master.parameter import refused
from ganeti.model.parameters import BACKEND_PARAMETERS, NIC_PARAMETERS, NODE_PARAMETERS, Parameter
from ganeti.node.catalogue import build_catalogue
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.node.storage.interface import DiskTemplate

import_all(importlib.import_module("ganeti.master.operations"))

import_all(importlib.import_module("ganeti.node.hypervisors"))
import_all(importlib.import_module("ganeti.node.storage"))

OF_THE_MODEL = (BACKEND_PARAMETERS, NODE_PARAMETERS, NIC_PARAMETERS)
NOT_ACTING = ("ganeti.cli.", "ganeti_simulation.", "ganeti.tools.htools.", "ganeti.master.query.")
Function = ast.FunctionDef | ast.AsyncFunctionDef
READERS = tuple(f"ganeti.{room}." for room in ("master", "stores", "calls", "wconfd", "luxid", "job", "noded"))
"""Where what all operations have in common is read."""
COMMON = {field.name for field in msgspec.structs.fields(Operation)}
ONLY_TOLD = {"hooks"}
"""Methods that pass parameters on to scripts: those are told, which is not acting."""
ONLY_KEPT = (
    "src/ganeti/master/operations/cluster/set_params.py",
    "src/ganeti/master/operations/cluster/cluster_parameters.py",
    "src/ganeti/master/query/cluster.py",
    "src/ganeti/master/config/publication.py",
    "src/ganeti/model/objects.py",
    "src/ganeti/model/cluster_values.py",
    "src/ganeti/wire/ssconf.py",
    "src/ganeti/bootstrap/init",
    "src/ganeti/cli/",
    "src/ganeti_simulation/",
)
"""Where settings are taken, kept, shown and handed on."""


def _parameters() -> list[Parameter]:
    found = {parameter.name: parameter for known in OF_THE_MODEL for parameter in known}
    for driver in (*Hypervisor.registry.values(), *DiskTemplate.registry.values()):
        found |= {parameter.name: parameter for parameter in driver.traits.parameters}
    return [found[name] for name in sorted(found)]


def test_every_parameter_is_read_by_its_operation_or_refused(modules: list[Module]) -> None:
    trees = {module.name: module for module in modules}
    faults = {}
    for op_id, operation in sorted(REGISTRY.items()):
        if not operation.__module__.startswith("ganeti."):
            continue  # other tests invent operations
        fields = {field.name for field in msgspec.structs.fields(operation)} - COMMON
        unread = fields - set(refused(operation)) - set(_read_by(operation, trees))
        for name in unread:
            faults[(op_id, name)] = f"{op_id}: {name} is taken, and nothing but a hook reads it"
    left = Exemptions().sift("parameter-unread", faults)
    assert not left, told(left)


def test_every_common_parameter_is_read(modules: list[Module]) -> None:
    readers = [module for module in modules if module.name.startswith(READERS)]
    faults = [f"{name}: nobody reads it" for name in COMMON if not any(_names(module, name) for module in readers)]
    assert not faults, told(faults)


def test_every_setting_of_the_cluster_is_read_by_what_it_is_for(modules: list[Module]) -> None:
    given = {option.field: "x" for option in CLUSTER_INIT.options}
    settable = {
        *set_params.PLAIN,
        *set_params.NAME_LISTS,
        *init_options.plain_values(
            given
            | {"candidate_pool_size": 1, "compression_tools": ["gzip"], "uid_pool": [(1, 2)]}
            | dict.fromkeys(("install_image", "zeroing_image"), "/x")
        ),
    }
    settable -= {*refused(set_params.ModifyCluster)}
    readers = [module for module in modules if not module.place.startswith(ONLY_KEPT)]
    faults = {
        ("cluster", name): f"cluster setting {name}: it is kept and shown, and nobody goes by it"
        for name in settable
        if not any(_names(module, name) for module in readers)
    }
    left = Exemptions().sift("setting-unread", faults)
    assert not left, told(left)


def test_every_option_of_init_is_read(modules: list[Module]) -> None:
    readers = [module for module in modules if module.name.startswith("ganeti.bootstrap.init")]
    fields = {option.field.rpartition(".")[2] for option in CLUSTER_INIT.options}
    faults = [
        f"gnt-cluster init: nobody reads {field}"
        for field in sorted(fields)
        if not any(_names(module, field) for module in readers)
    ]
    assert not faults, told(faults)


def test_every_option_of_a_command_is_read(modules: list[Module]) -> None:
    by_name = {module.name: module for module in modules}
    commands = "ganeti.cli.commands."
    for_all = [
        module
        for module in modules
        if module.name.startswith("ganeti.cli.") and not module.name.startswith((commands, "ganeti.cli.tables."))
    ]
    faults = {}
    for command in declared():
        if command.line == CLUSTER_INIT.line:
            continue  # it is made by the bootstrap: see above
        operation = REGISTRY.get(command.op_id)
        read = {field.name for field in msgspec.structs.fields(operation)} if operation else set()
        readers = list(for_all)
        if handler := by_name.get(commands + (command.handler or "plain").partition(":")[0]):
            near = {dotted.rpartition(".")[0] for _, dotted in handler.imports() if dotted.startswith(commands)}
            readers += [handler, *(by_name[name] for name in near if name in by_name)]
        for field in {option.field.partition(".")[0] for option in command.options} - read:
            if not any(_mentions(module, field) for module in readers):
                faults[(command.line.replace(" ", "-"), field)] = f"{command.line}: nobody reads {field}"
    left = Exemptions().sift("option-unread", faults)
    assert not left, told(left)


@pytest.mark.parametrize("parameter", _parameters(), ids=lambda parameter: parameter.name)
def test_every_parameter_of_an_object_is_read_or_refused(parameter: Parameter, modules: list[Module]) -> None:
    """Those of nodes, NICs, instances, hypervisors and disk templates, by name."""
    if parameter.unused:
        return
    declaring = ("ganeti.model.parameters", "ganeti.node.hypervisors.kvm.parameters", *NOT_ACTING)
    readers = [module for module in modules if not module.name.startswith(declaring)]
    assert any(_names(module, parameter.name) for module in readers), f"{parameter.name}: nobody reads it"


def test_every_option_of_a_program_is_read(modules: list[Module]) -> None:
    faults = []
    for module in modules:
        if not module.name.startswith(("ganeti.daemons.", "ganeti.tools.")):
            continue
        package = module.name.rpartition(".")[0]
        nearby = [other for other in modules if other.name.startswith(package)]
        for line, dest in _argparse_options(module):
            if not any(dest in other.attributes for other in nearby):
                faults.append(f"{module.place}:{line}: nobody reads the option '{dest}'")
    assert not faults, told(faults)


def test_help_offers_nothing_that_is_always_refused() -> None:
    faults = []
    for command in declared():
        operation = REGISTRY.get(command.op_id)
        unwanted = set(refused(operation)) if operation else set()
        if command.line == CLUSTER_INIT.line:
            unwanted = init_options.not_offered(build_catalogue())
        faults += [
            f"{command.line}: --help offers {option.flags[-1]}, which is refused"
            for option in command.options
            if option.help and (option.field.partition(".")[0] in unwanted)
        ]
    assert not faults, told(faults)


def _read_by(operation: type[Operation], trees: dict[str, Module]) -> Iterator[str]:
    for base in operation.__mro__:
        module = trees.get(base.__module__)
        if module is None or not base.__module__.startswith("ganeti.master.operations"):
            continue
        [definition] = [node for node in module.nodes if isinstance(node, ast.ClassDef) and node.name == base.__name__]
        for method in definition.body:
            if isinstance(method, Function) and method.name not in ONLY_TOLD:
                yield from _read_of("self", method, module, trees, frozenset())


def _read_of(
    name: str, function: Function, module: Module, trees: dict[str, Module], seen: frozenset[str]
) -> Iterator[str]:
    """Attributes that *function* reads of what it calls *name*, and what the functions do that it hands it to."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            yield node.attr
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and ast.unparse(node.args[0]) == name:
            yield from _gone_through(function, module)
        for position, argument in enumerate(node.args):
            if isinstance(argument, ast.Name) and argument.id == name and module.dotted(node.func) not in seen:
                yield from _handed_on(module.dotted(node.func), position, module, trees, seen)


def _handed_on(
    dotted: str, position: int, module: Module, trees: dict[str, Module], seen: frozenset[str]
) -> Iterator[str]:
    place, _, wanted = dotted.rpartition(".")
    callee = trees.get(place) if place else module
    for node in callee.nodes if callee else ():
        if isinstance(node, Function) and node.name == wanted and position < len(node.args.args):
            yield from _read_of(node.args.args[position].arg, node, callee, trees, seen | {dotted})


def _gone_through(function: Function, module: Module) -> Iterator[str]:
    """The names that a function goes through with `getattr`: those of the constants it mentions."""
    known = vars(importlib.import_module(module.name))
    for node in ast.walk(function):
        value = known.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(value, tuple):
            yield from (each for each in value if isinstance(each, str))


def _names(module: Module, name: str) -> bool:
    return name in module.attributes or name in module.texts


def _mentions(module: Module, name: str) -> bool:
    return _names(module, name) or name in module.arguments


def _argparse_options(module: Module) -> Iterator[tuple[int, str]]:
    for node in module.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        flags = [part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if node.func.attr != "add_argument" or not flags:
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if isinstance(action := given.get("action"), ast.Constant) and action.value in ("version", "help"):
            continue
        dest = given.get("dest")
        long = next((flag for flag in flags if flag.startswith("--")), flags[0])
        yield node.lineno, str(dest.value) if isinstance(dest, ast.Constant) else long.lstrip("-").replace("-", "_")
