# SPDX-License-Identifier: BSD-2-Clause
"""A new opcode, query field, collector or placement option is one source file, and a node call two; all else follows.

Each is added to a copy of the package, in as many files, and a process of its own asks everything that must know it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from parsed_tree import PACKAGE

OPCODE = '''# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_GREET: tag a node group with a greeting."""

from typing import Annotated

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange


class SetGreeting(Change, frozen=True, kw_only=True):
    group_uuid: str
    greetings: list[str]

    def apply(self, draft: Draft) -> None:
        group = draft.group(self.group_uuid)
        others = [tag for tag in group.tags if not tag.startswith("hello")]
        draft.put("nodegroups", replace(group, tags=[*others, *self.greetings]))


@operation(
    "OP_GROUP_GREET",
    cli=Command("gnt-group greet", "greet a node group", arguments=("group_name",)),
    rapi="PUT /2/groups/[group_name]/greet",
    examples=(Example("group-greet", {"group_name": "default"}),),
)
class GreetGroup(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Greet a node group; gives its name."""

    group_name: Annotated[Text, Parameter("the group greeted", subject="group", metavar="group")]
    times: Annotated[int, Parameter("how often it is greeted", "--times")] = 1

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[group_lock(view.find_group(self.group_name).uuid)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> NodeGroup:
        return view.find_group(self.group_name)

    async def execute(self, checked: NodeGroup, ctx: OperationContext) -> str:
        undo = SetGreeting(group_uuid=checked.uuid, greetings=[])
        await ctx.undo.push(UndoChange(f"take the greeting from {checked.name}", undo))
        greetings = [f"hello{number}" for number in range(self.times)]
        await ctx.config.commit(SetGreeting(group_uuid=checked.uuid, greetings=greetings), settles=True)
        return checked.name
'''
REQUEST = '''

class StorageGreeting(NodeRequest[StorageUnitState], frozen=True, kw_only=True):
    """What one unit says of itself."""

    answer_within_s = 5.0
    changes_node = False
    unit: StorageUnit
'''
HANDLER = '''

from ganeti.model.node_calls.storage import StorageGreeting


@answers(StorageGreeting)
async def storage_greeting(node: NodeState, asked: StorageGreeting) -> StorageUnitState:
    """What one unit says of itself."""
    return (await storage_list(node, StorageList(units=[asked.unit])))[0]
'''
FIELD = (
    '            Field("greeting", "Greeting", TEXT, "How the group is greeted", lambda r: "hello " + r.group.name),\n'
)
COLLECTOR = '''# SPDX-License-Identifier: BSD-2-Clause
"""How many greetings the node has heard."""

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE
from ganeti.wire.prometheus import GAUGE


@collector(
    *("greetings", None, PERFORMANCE),
    metrics={"ganeti_greetings": (GAUGE, "Greetings heard.")},
    samples=lambda data: iter([Sample("ganeti_greetings", {}, data)]),
)
async def _collect(node: Node) -> int:
    return 5
'''
OPTION = """
    greeting: str = option(*("greeting", "TEXT", "hbal"), "greet with this text", default="hello", completion="string")
"""

ASK_OPCODE = """
import json
from ganeti.master import operation, operations
from ganeti.cli import generate
operations.load()
generate.main()
import importlib
from ganeti.master import declaring_modules
importlib.reload(declaring_modules)
from ganeti.master.schema import opcode_schemas
from ganeti.rapi.routes import routes
from ganeti.rapi.v3.document import document
from ganeti.reference import commands, opcodes, remote_api
from ganeti.ports.config import Change
from ganeti_simulation.crashes.cases import CASES
read = operation.decode({"OP_ID": "OP_GROUP_GREET", "group_name": "default", "times": 2})
try:
    operation.decode({"OP_ID": "OP_GROUP_GREET", "group_name": "default", "times": "often"})
except operation.PrerequisiteError as error:
    refused = str(error)
print(json.dumps({
    "read": read.to_plain()["times"],
    "refused": refused,
    "schema": "OP_GROUP_GREET" in json.dumps(opcode_schemas(operation.REGISTRY.values())),
    "route": any("/2/groups/[group_name]/greet" in str(route) for route in routes(declaring_modules.ROUTES)),
    "document": "greet" in json.dumps(document()),
    "change": "SetGreeting" in Change.registry,
    "crash": any(case.name == "group-greet" for case in CASES),
    "pages": [any(word in page for page in module.pages().values()) for module, word in (
        (commands, "gnt-group greet"), (opcodes, "OP_GROUP_GREET"), (remote_api, "/greet"))],
}))
"""
ASK_HELP = "import sys; from ganeti.cli.main import run; sys.exit(run('gnt-group'))"
ASK_CALL = """
import json
from pathlib import Path
from ganeti.base.registry import import_all
from ganeti.model.node_calls.storage import StorageGreeting, StorageUnit
from ganeti.node import actions
from ganeti.node.actions.registry import REGISTRY
import_all(actions)
call = REGISTRY["storage_greeting"]
asked = StorageGreeting(unit=StorageUnit(template="file", setting="/srv"))
import msgspec
given = call.decode(msgspec.to_builtins(asked))
answer = StorageGreeting.read({"template": "file", "name": "/srv", "size_mib": 5, "free_mib": 3})
print(json.dumps({"unit": given["unit"].setting, "used": answer.used_mib}))
"""
ASK_FIELD = """
import json
from ganeti.master.query.resources import declared
from ganeti.reference import fields
print(json.dumps({
    "field": "greeting" in str(declared()["group"].fields),
    "page": any("How the group is greeted" in page for page in fields.pages().values()),
}))
"""
ASK_COLLECTOR = """
import json
from ganeti.mond.metrics import metrics
from ganeti.mond.monitor import collectors
from ganeti.node.catalogue import build_catalogue
found = collectors([])
print(json.dumps({
    "collected": "greetings" in [each.name for each in found],
    "switched": "greetings" in build_catalogue().collectors,
    "metric": "ganeti_greetings 5" in metrics(found, [{"name": "greetings", "data": 5}], {}),
}))
"""
ASK_OPTION = """
import json
from ganeti.reference import htools
from ganeti.tools.htools.command_line import help, parsing
print(json.dumps({
    "read": parsing.parse("hbal", ["--greeting=good day"]).greeting,
    "default": parsing.parse("hbal", []).greeting,
    "help": "greet with this text" in help.help_text("hbal"),
    "completion": "--greeting" in help.completion("hbal"),
    "others": "--greeting" in help.help_text("hspace"),
    "page": any("greet with this text" in page for page in htools.pages().values()),
}))
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package, compiled files included, which keep their times."""
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "ganeti"))
    yield copy
    shutil.rmtree(copy)


def ask(package: Path, program: str, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    asked = [sys.executable, "-c", program, *words]
    done = subprocess.run(
        asked, cwd=package.parent, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def add(package: Path, place: str, text: str, after: str = "") -> None:
    """Put *text* into a file behind *after*, which stands there, or at its end."""
    path = package / place
    before, mark, rest = path.read_text().partition(after) if after else (path.read_text(), "", "")
    assert mark == after
    path.write_text(before + mark + text + rest)


def test_an_opcode_with_its_command_and_route_is_one_file(package):
    (package / "master/operations/group/greet.py").write_text(OPCODE)
    told = json.loads(ask(package, ASK_OPCODE).splitlines()[-1])
    refused = told.pop("refused")
    assert "OP_GROUP_GREET" in refused and "'times'" in refused and "a whole number" in refused
    assert (told.pop("read"), told.pop("pages")) == (2, [True, True, True])
    assert told == dict.fromkeys(["schema", "route", "document", "change", "crash"], True)
    shown = ask(package, ASK_HELP, "greet", "--help")
    assert "Greet a node group" in shown and "--times" in shown and "how often it is greeted" in shown


def test_a_node_call_with_a_typed_answer_is_its_declaration_and_its_handler(package):
    add(package, "model/node_calls/storage.py", REQUEST)
    add(package, "node/actions/storage.py", HANDLER)
    assert json.loads(ask(package, ASK_CALL)) == {"unit": "/srv", "used": 2}


def test_a_query_field_is_one_row(package):
    add(package, "master/query/groups.py", FIELD, after="    table(\n        [\n")
    assert json.loads(ask(package, ASK_FIELD)) == {"field": True, "page": True}


def test_a_collector_is_one_file(package):
    (package / "node/collectors/greetings.py").write_text(COLLECTOR)
    assert json.loads(ask(package, ASK_COLLECTOR)) == {"collected": True, "switched": True, "metric": True}


def test_a_placement_option_is_one_row(package):
    add(package, "tools/htools/command_line/options.py", OPTION, after='(Group, title="What is assumed of it"):\n')
    told = json.loads(ask(package, ASK_OPTION))
    assert (told.pop("read"), told.pop("default"), told.pop("others")) == ("good day", "hello", False)
    assert told == {"help": True, "completion": True, "page": True}
