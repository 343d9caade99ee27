# SPDX-License-Identifier: BSD-2-Clause
"""Calls to node daemons go by name; here each is held against the signature of its handler in `node/actions/`."""

import ast

from parsed_tree import told
from tests.node_calls_page import PAGE, page

OF_THE_PORT = {"deadline_s"}


def handlers(modules) -> dict[str, ast.AsyncFunctionDef]:
    found = {}
    for module in modules:
        if module.place.startswith("src/ganeti/node/"):
            for node in module.nodes:
                if isinstance(node, ast.AsyncFunctionDef) and any(_declares(item) for item in node.decorator_list):
                    found[node.name] = node
    return found


def _declares(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "node_call"


def calls(modules):
    """Yield module, call and the handler's name for every ``….nodes.call(node, "name", …)`` of the master's code."""
    for module in modules:
        if module.layer not in {"master", "daemons", "tools"}:
            continue
        for node in module.nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in {"call", "call_many", "ask"}
                and isinstance(node.func.value, ast.Attribute | ast.Name)
                and ast.unparse(node.func.value).endswith("nodes")
                and len(node.args) == 2
                and isinstance(node.args[1], ast.Constant)
            ):
                yield module, node, str(node.args[1].value)


def test_every_node_call_fits_its_handler(modules):
    declared = handlers(modules)
    faults = []
    for module, call, name in calls(modules):
        where = f"{module.place}:{call.lineno} {name}"
        if name not in declared:
            faults.append(f"{where}: no handler of this name in node/actions")
            continue
        arguments = declared[name].args
        known = {argument.arg for argument in arguments.kwonlyargs}
        required = {
            argument.arg
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is None
        }
        given = {keyword.arg for keyword in call.keywords if keyword.arg}
        spread = any(keyword.arg is None for keyword in call.keywords)
        unknown = given - known - OF_THE_PORT
        missing = required - given if not spread else set()
        if unknown:
            faults.append(
                f"{where}: the handler knows no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}"
            )
        if missing:
            faults.append(f"{where}: {', '.join(sorted(missing))} is not given")
    assert not faults, told(faults)


def test_no_handler_argument_is_swallowed_by_the_port(modules):
    faults = [
        f"{name}: the port takes {argument.arg} for itself; name it otherwise"
        for name, handler in handlers(modules).items()
        for argument in handler.args.kwonlyargs
        if argument.arg in OF_THE_PORT
    ]
    assert not faults, told(faults)


def test_the_page_of_node_calls_is_current():
    assert PAGE.read_text() == page(), "run `python -m tests.node_calls_page`"
