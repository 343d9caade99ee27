# SPDX-License-Identifier: BSD-2-Clause
"""The manual pages: every command with its options, every program, in roff that shows the text as it is."""

from __future__ import annotations

import runpy

import pytest

from ganeti.reference.manual import client_page, program_page, tool_page
from ganeti.tools.testbed import guest

LAUNCHERS = runpy.run_path(str(guest.tree() / "setup/launchers"))
REQUESTS = (".TH", ".SH", ".SS", ".TP", ".nf", ".fi")


@pytest.mark.parametrize("program", LAUNCHERS["CLIENTS"])
def test_a_client_has_a_page_with_a_purpose_of_its_own(program: str) -> None:
    page = client_page(program)
    name = program.replace("-", "\\-")
    assert f"{name} \\- part of Ganeti" not in page
    assert "\n.SS " in page
    assert_shown_as_it_is(page)


def test_commands_and_options_are_there() -> None:
    page = client_page("gnt-node")
    assert ".SS evacuate\n" in page
    assert "\\-\\-early\\-release" in page


@pytest.mark.parametrize("program", sorted(set(LAUNCHERS["PROGRAMS"]) - {"gnt-testbed"}))
def test_a_program_has_a_page_with_its_usage(program: str) -> None:
    page = program_page(program, LAUNCHERS["PROGRAMS"][program])
    assert "\\- \n" not in page
    assert "usage: " in page.lower()
    assert_shown_as_it_is(page)


@pytest.mark.parametrize("tool", LAUNCHERS["TOOLS"])
def test_a_placement_tool_has_a_page(tool: str) -> None:
    assert_shown_as_it_is(tool_page(tool))


def assert_shown_as_it_is(page: str) -> None:
    for line in page.splitlines():
        assert not line.startswith("'"), line
        assert not line.startswith(".") or line[:3] in REQUESTS, line
