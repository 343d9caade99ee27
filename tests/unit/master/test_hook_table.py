# SPDX-License-Identifier: BSD-2-Clause
"""The table of hooks in `docs/spec/protocols.md`, 10, beside the operations: directory and variables of each opcode."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.master import operations
from ganeti.master.operation import REGISTRY
from ganeti.master.operations.backup import importing
from ganeti.master.operations.instance.moving import move_target
from ganeti.model import network_variables

operations.load()
PAGE = Path(__file__).resolve().parents[3] / "docs/spec/protocols.md"
OF_NETWORKS = re.compile(r"(GROUP_)?NETWORK_(?!NAME$)")
"""Made from a network by `network_variables`, or from its connection; `test_hook_environment` has them."""
NO_OPERATION = ("OP_CLUSTER_IP_TURNUP", "OP_CLUSTER_TURNDOWN")
"""Run by the master's daemons."""


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """(opcode, directory, variables)."""
    text = PAGE.read_text()
    table = text[text.index("| Directory | Opcode | Env") : text.index("Standard instance env")]
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            continue
        directories, opcodes, env, _ = (cell.strip() for cell in line.strip("|").split("|"))
        env = env.replace("OLD_/NEW_ PRIMARY, SECONDARY", "OLD_PRIMARY, NEW_PRIMARY, OLD_SECONDARY, NEW_SECONDARY")
        variables = re.findall(r"\b[A-Z][A-Z_0-9]{3,}\b", env.partition(";")[0])
        directory, *other_directories = directories.split(" / ")
        opcode, *other_opcodes = opcodes.split(" / ")
        yield opcode, directory, variables
        for ending, other in zip(other_directories, other_opcodes, strict=True):
            noun = "_".join(opcode.split("_")[:2])
            yield f"{noun}{other}", f"{directory.rpartition('-')[0]}{ending}", variables


@pytest.mark.parametrize(("opcode", "directory", "variables"), [row for row in rows() if row[0] not in NO_OPERATION])
def test_an_operation_has_the_hooks_of_3_1(opcode: str, directory: str, variables: list[str]) -> None:
    operation = REGISTRY[opcode]
    assert operation.hooks_path == directory
    modules = (sys.modules[operation.__module__], importing, move_target, network_variables)
    source = "".join(inspect.getsource(module) for module in modules)
    assert [name for name in variables if f'"{name}"' not in source and not OF_NETWORKS.match(name)] == []
