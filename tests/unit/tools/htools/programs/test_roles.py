# SPDX-License-Identifier: BSD-2-Clause
"""One program that is every placement tool: which it is, and that asking for help loads nothing."""

import subprocess
import sys

import pytest

from ganeti.tools.htools.programs import roles


def called(monkeypatch: pytest.MonkeyPatch, name: str, *words: str, role: str | None = None) -> None:
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{name}", *words])
    if role is None:
        monkeypatch.delenv("HTOOLS", raising=False)
    else:
        monkeypatch.setenv("HTOOLS", role)


@pytest.mark.parametrize(
    ("name", "words", "role", "tool"),
    [
        ("hbal", ["--version"], None, "hbal"),
        ("hinfo", ["-V"], None, "hinfo"),
        ("htools", ["hcheck", "--version"], None, "hcheck"),
        ("hbal", ["--version"], "hspace", "hspace"),
        ("htools", ["hbal", "--version"], "hail", "hail"),
        ("hbal", ["--version"], "HInfo", "hinfo"),
        ("HBAL", ["--version"], None, "hbal"),
    ],
)
def test_the_tool_is_chosen_by_environment_name_or_first_word(
    name: str,
    words: list[str],
    role: str | None,
    tool: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    called(monkeypatch, name, *words, role=role)
    with pytest.raises(SystemExit) as left:
        roles.main()
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"{tool} (ganeti) version ")


@pytest.mark.parametrize(
    ("name", "words", "role"),
    [("htools", [], None), ("htools", ["x"], None), ("hbal", [], "foo"), ("x", ["hbal"], None), ("X", [], None)],
)
def test_an_unknown_role_is_told_all_roles(
    name: str, words: list[str], role: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch, name, *words, role=role)
    assert roles.main() == 1
    said = capsys.readouterr().err
    assert said.startswith(f"Unrecognised personality '{(role or name).lower()}'.\n")
    assert all(f" {tool}" in said for tool in roles.TOOLS)
    assert said.endswith("in the environment variable HTOOLS.\n")


def test_help_loads_next_to_nothing() -> None:
    """A command that starts costs the interpreter's start; these would double it."""
    heavy = ["re", "typing", "dataclasses", "enum", "msgspec", "json", "numpy"]
    code = (
        "import sys; from ganeti.tools.htools.programs import roles\n"
        "try: roles.run('hbal', ['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    path = ":".join(entry for entry in sys.path if entry.endswith("src"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert done.stdout.endswith("\n[]\n")
