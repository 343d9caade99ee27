# SPDX-License-Identifier: BSD-2-Clause
"""What the placement tools say of themselves: every option once, with its default, on lines that fit a screen."""

import re

import pytest

from ganeti.tools.htools.command_line.help import completion, help_text
from ganeti.tools.htools.command_line.options import Options, options_of
from ganeti.tools.htools.command_line.tools import TOOLS


@pytest.mark.parametrize("tool", TOOLS)
def test_help_shows_every_option_once(tool: str) -> None:
    shown = re.findall(r"^  (?:-., |    )--([a-z-]+)", help_text(tool), re.MULTILINE)
    assert sorted(shown) == sorted(option.long for option in options_of(tool))
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("tool", TOOLS)
def test_lines_of_help_fit_a_screen(tool: str) -> None:
    assert max(map(len, help_text(tool).splitlines())) <= 100


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_of_3_1_is_declared_for_its_tool(tool: str) -> None:
    assert set(TOOLS[tool].of_3_1) <= {option.long for option in options_of(tool)}


def test_help_shows_defaults() -> None:
    text = " ".join(help_text("hbal").split())
    assert "[4096]" in text
    assert "[1e-9]" in text
    assert "--link-speed=MBIT" in text


def test_completion_tells_added_options_before_those_about_the_program() -> None:
    names = [line.split()[0] for line in completion("hail").splitlines()]
    assert names[-5:] == ["--why", "-V,--version", "-h,--help", "--help-completion", "file"]


def test_settings_begin_with_the_defaults_of_their_rows() -> None:
    first, second = Options(), Options()
    first.offline.append("node1")
    assert (second.offline, second.disk_moves, second.evacuation, second.min_gain) == ([], True, False, 0.01)
