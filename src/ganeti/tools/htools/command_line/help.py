# SPDX-License-Identifier: BSD-2-Clause
"""What a tool says of itself: help, version, what completion is told; all from the rows of options and tools."""

from __future__ import annotations

import sys

from ganeti.base.version import RELEASE
from ganeti.tools.htools.command_line.options import options_of
from ganeti.tools.htools.command_line.tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ganeti.tools.htools.command_line.declaring import Option

_WIDTH = 100


def version_text(tool: str) -> str:
    """Three lines, as 3.1 prints them."""
    major, minor = sys.version_info[:2]
    machine = "linux x86_64" if sys.maxsize > 1 << 32 else "linux"
    return f"{tool} (ganeti) version {RELEASE}\ncompiled with python {major}.{minor}\nrunning on {machine}\n"


def help_text(tool: str) -> str:
    """What `--help` prints: the first two lines are those of 3.1."""
    declared = TOOLS[tool]
    usage = " ".join(word for word in (tool, "[OPTION...]", declared.arguments) if word)
    return f"{tool} (ganeti) version {RELEASE}\nUsage: {usage}\n{declared.purpose}\n{table(options_of(tool))}"


def table(options: Sequence[Option]) -> str:
    """The help of *options* in groups: names, then the explanation with the default, wrapped."""
    width = max((len(spelling(option)) for option in options), default=0)
    lines, group = [], ""
    for option in options:
        if option.group != group:
            group = option.group
            lines += ["", f"{group}:"]
        first, *more = _wrapped(explanation(option), _WIDTH - width - 4)
        lines.append(f"  {spelling(option):{width}}  {first}")
        lines += [f"  {'':{width}}  {line}" for line in more]
    return "".join(f"{line}\n" for line in lines)


def spelling(option: Option) -> str:
    """How an option is written: ``-l N, --max-length=N``."""
    letter = f"-{option.short}" if option.short else "  "
    value = option.metavar
    between = ", " if option.short else "  "
    if not value:
        return f"{letter}{between}--{option.long}"
    if option.optional:
        return f"{letter}{between}--{option.long}[={value}]"
    return f"{letter}{between}--{option.long}={value}"


def explanation(option: Option) -> str:
    """What an option does, and what holds if it is not given."""
    return f"{option.help} [{option.shown_default}]" if option.shown_default else option.help


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}".lstrip()
    yield line


def completion(tool: str) -> str:
    """What `--help-completion` prints: a line for each option, in the order of 3.1, then one for the arguments."""
    order = {name: place for place, name in enumerate(TOOLS[tool].of_3_1[:-3])}
    about = {name: len(order) + 1 + place for place, name in enumerate(TOOLS[tool].of_3_1[-3:])}
    ours = len(order)
    options = sorted(options_of(tool), key=lambda option: (order | about).get(option.long, ours))
    arguments = TOOLS[tool].completion
    return completion_lines(options) + (f"{arguments}\n" if arguments else "")


def completion_lines(options: Sequence[Option]) -> str:
    """A line for each option: its names, and what its value may be."""
    names = (f"-{option.short},--{option.long}" if option.short else f"--{option.long}" for option in options)
    return "".join(f"{name} {option.completion}\n" for name, option in zip(names, options, strict=True))
