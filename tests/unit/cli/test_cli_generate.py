# SPDX-License-Identifier: BSD-2-Clause
"""From declarations to tables."""

import pytest
from fake_master import load

from ganeti.base.command import Argument, Command, Option
from ganeti.cli import generate
from ganeti.cli.table import CommandRow


def test_a_table_says_what_was_declared():
    declared = Command(
        "gnt-x act",
        "do it",
        arguments=(Argument("names", "name", 0, None),),
        options=(Option(("-n", "--number"), "number", "int", "how many", default=3),),
        aliases=("do",),
        op_id="OP_X",
        is_job=False,
        environment=True,
    )
    table = load(generate.table_text("gnt-x", [declared]))
    row = CommandRow("gnt-x", table[0])
    assert (row.line, row.summary, row.aliases, row.op_id) == ("gnt-x act", "do it", ("do",), "OP_X")
    assert (row.is_job, row.environment, row.needs_root, row.needs_master) == (False, True, False, True)
    assert [(argument.field, argument.minimum, argument.maximum) for argument in row.arguments] == [("names", 0, None)]
    option = row.options[0]
    assert (option.flags, option.field, option.kind, option.default) == (("-n", "--number"), "number", "int", 3)
    assert "--submit" not in {flag for option in row.options for flag in option.flags}


def test_a_table_is_one_constant():
    code = compile((generate.TABLES / "gnt_instance.py").read_text(), "table", "exec")
    assert any(isinstance(constant, tuple) and len(constant) > 5 for constant in code.co_consts)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Command("gnt-x a", "", op_id="O", options=(Option(("-a",), "a", "colour"),)), "unknown kind 'colour'"),
        (Command("gnt-x a", "", op_id="O", options=(Option(("-a",), "a"), Option(("-a",), "b"))), "declared twice"),
        (
            Command("gnt-x a", "", op_id="O", excludes=(("-a", "-b", "no"),)),
            "excludes -a and -b, of which it has not both",
        ),
        (Command("gnt-x a", ""), "neither a handler nor an operation"),
    ],
)
def test_wrong_declarations_are_refused(command, message):
    with pytest.raises(ValueError, match=message):
        generate._check(command)


def test_stale_tables_are_named(tmp_path, monkeypatch):
    one = Command("gnt-x act", "do it", op_id="OP_X")
    monkeypatch.setattr(generate, "TABLES", tmp_path)
    monkeypatch.setattr(generate, "_of_modules", lambda: iter([one]))
    monkeypatch.setattr(generate, "_of_operations", lambda: iter([]))
    monkeypatch.setattr(generate.field_tables, "commands", list)
    monkeypatch.setattr(generate.declaration_tables, "files", dict)  # other tests declare operations of their own
    (tmp_path / "gnt_old.py").write_text("")
    assert generate.stale() == ["gnt_old.py", "gnt_x.py"]
    assert generate.main() == 0
    assert generate.stale() == []
    assert [path.name for path in tmp_path.iterdir()] == ["gnt_x.py"]


def test_a_command_is_declared_once(monkeypatch):
    own, other = Command("gnt-x act", "own", handler="m:f"), Command("gnt-x act", "other", op_id="OP_X")
    monkeypatch.setattr(generate, "_of_modules", lambda: iter([own]))
    monkeypatch.setattr(generate, "_of_operations", lambda: [other])
    with pytest.raises(ValueError, match="'gnt-x act' is declared twice"):
        generate.declared()
