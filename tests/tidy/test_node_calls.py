# SPDX-License-Identifier: BSD-2-Clause
"""Each node call is a struct with one handler, and is asked by that struct: no name of a call stands in quotes."""

import ast
import importlib
import inspect
import pkgutil
import re

from parsed_tree import told
from tests.node_calls_page import PAGE, page

import ganeti.model.node_calls as declarations
from ganeti.model.node_calls import NodeRequest
from ganeti.node import actions
from ganeti.node.actions.registry import REGISTRY

OF_THE_PORT = {"deadline_s", "call", "node_uuid"}
ASKING = {"master", "bootstrap", "wconfd", "luxid", "job", "daemons", "tools", "rapi", "maintd", "mond"}
BY_NAME = {
    "src/ganeti/ports/nodes.py",  # where a struct becomes a name and its arguments
    "src/ganeti/ports/context.py",  # undo records, which lie on disk
    "src/ganeti/master/planning/recording.py",  # a `NodesPort` itself, which passes calls on
}


def _declared() -> dict[str, type[NodeRequest]]:
    for package in (declarations, actions):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    kinds, found = [NodeRequest], {}
    while kinds:
        kinds += (below := kinds.pop().__subclasses__())
        found |= {kind.call: kind for kind in below if not kind.__parameters__}
    return found


def test_each_declared_call_has_a_handler():
    assert sorted(_declared()) == sorted(REGISTRY)
    assert all(REGISTRY[name].request is kind for name, kind in _declared().items())


def test_a_handler_takes_the_declaration_and_says_so():
    faults = []
    for name, call in REGISTRY.items():
        if call.handler.__annotations__.get("asked") is not call.request:
            faults.append(f"{name}: the handler's second argument is not asked: {call.request.__name__}")
    assert not faults, told(faults)


def test_every_argument_is_read():
    faults = []
    for name, call in REGISTRY.items():
        body = inspect.getsource(call.handler).partition("\n")[2].partition(":\n")[2]
        if not re.search(r"\basked\b(?!\.)", body):  # a handler that passes it on as a whole is not looked into
            read = set(re.findall(r"\basked\.(\w+)", body))
            faults += [f"{name}: {field} is not read" for field in set(call.request.__struct_fields__) - read]
    assert not faults, told(faults)


def test_plans_ask_only_what_changes_nothing():
    faults = [
        f"{name}: a plan asks it, but it is not declared with changes_node = False"
        for name, kind in _declared().items()
        if kind.asked_by_plans and kind.changes_node
    ]
    assert any(kind.asked_by_plans for kind in _declared().values()) and not faults, told(faults)


def test_each_declaration_says_what_it_is_for():
    faults = [f"{name}: the struct has no docstring" for name, kind in _declared().items() if not kind.__doc__]
    assert not faults, told(faults)


def test_no_argument_is_swallowed_by_the_port():
    faults = [
        f"{name}: the port takes {field} for itself; name it otherwise"
        for name, kind in _declared().items()
        for field in OF_THE_PORT & set(kind.__struct_fields__)
    ]
    assert not faults, told(faults)


def test_calls_are_asked_by_their_declaration(modules):
    faults = []
    for module in modules:
        if module.layer not in ASKING or module.place in BY_NAME:
            continue
        for node in module.nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in {"call", "call_many"}
                and ast.unparse(node.func.value).endswith("nodes")
            ):
                faults.append(f"{module.place}:{node.lineno}: use ask(nodes, node, Struct(…)) of ganeti.ports.nodes")
            reads_disk = module.place == "src/ganeti/master/queue/undo.py"
            if _calls(node, "UndoNodeCall") and not reads_disk:
                faults.append(f"{module.place}:{node.lineno}: use UndoNodeCall.of(sentence, node, Struct(…))")
    assert not faults, told(faults)


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def test_the_page_of_node_calls_is_current():
    assert PAGE.read_text() == page(), "run `python -m tests.node_calls_page`"
