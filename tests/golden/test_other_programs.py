# SPDX-License-Identifier: BSD-2-Clause
"""Programs of 3.1 beside the commands (`docs/spec/cli.md`, section 3) are here with all their options and words, or
`docs/reference/other-programs.md` says why not, and what to do instead."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAMS = Path(sys.executable).parent
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]*) \|[^|]*\|$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_OPTION = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*[a-z]|-[A-Za-z])(?![\w-])")
_VERB = re.compile(r"[a-z]+(?:-[a-z]+)*")


@functools.cache
def wanted() -> dict[str, set[str]]:
    """Options, and words such as `create`, of each program of the specification."""
    section = (DOCS / "spec/cli.md").read_text().partition("\n## 3. ")[2].partition("\n## 4. ")[0]
    found: dict[str, set[str]] = {}
    for names, arguments in _ROW.findall(section):
        words: set[str] = set()
        own: dict[str, set[str]] = {}
        for program, quoted in re.findall(r"(?:([a-z-]+) also )?`([^`]+)`", arguments):
            there = own.setdefault(program, set()) if program else words
            options = set(_OPTION.findall(quoted.replace("--dest-…", "")))
            options |= {each.replace("--src-", "--dest-") for each in options if "--dest-…" in quoted}
            there |= options | ({quoted} if _VERB.fullmatch(quoted) else set())
        for name in re.sub(r"\(.*?\)", "", names).split(","):
            if name.strip() not in ("Program", "---"):
                found[name.strip()] = words | own.get(name.strip(), set())
    return found


@functools.cache
def page() -> tuple[dict[str, tuple[str, str]], dict[tuple[str, str], str]]:
    """What the page says of programs (here, instead), and why an option or word is missing."""
    programs: dict[str, tuple[str, str]] = {}
    missing: dict[tuple[str, str], str] = {}
    text, _, options = (DOCS / "reference/other-programs.md").read_text().partition("\n## Options")
    for row in re.findall(r"^\| (`.*|a tool.*) \|$", text, re.MULTILINE):
        names, here, instead = (each.strip() for each in row.split(" | ")) if row.count(" | ") == 2 else (row, "", "")
        programs |= {name: (here, instead) for name in _QUOTED.findall(names)}
    for name, word, why in re.findall(r"^\| `(\S+) (\S+)` \| (.+) \|$", options, re.MULTILINE):
        missing[name, word] = why
    return programs, missing


def helped(name: str) -> str | None:
    """What the program says of itself; None where there is none."""
    if not (program := PROGRAMS / name).exists():
        return None
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@functools.cache
def offered() -> dict[str, str | None]:
    with ThreadPoolExecutor(4) as threads:
        return dict(zip(wanted(), threads.map(helped, wanted()), strict=True))


def lacks() -> set[tuple[str, str]]:
    """Options and words that a program which is here does not tell of."""
    return {
        (name, word)
        for name, words in wanted().items()
        if (told := offered()[name]) is not None
        for word in words
        if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", told)
    }


def test_the_section_is_read() -> None:
    assert len(wanted()) > 40
    assert {"--readd", "--restart"} <= wanted()["cluster-merge"]
    assert {"-p", "--parallel", "--dest-disk-template"} <= wanted()["move-instance"]
    assert {"create", "diskinfo", "--use-sfdisk"} <= wanted()["lvmstrap"]
    assert "rotate-all-logs" in wanted()["daemon-util"]


def test_each_program_is_here_or_the_page_says_what_to_do_instead() -> None:
    programs, _ = page()
    for name, told in offered().items():
        if told is not None:
            assert not programs.get(name, ("", ""))[0].startswith("no"), f"{name} is here: change the page"
            continue
        here, instead = programs.get(name, ("", ""))
        assert here.startswith("no") and instead, f"{name} is not here: say in the page why, and what to do instead"


def test_each_option_is_offered_or_the_page_says_why_not() -> None:
    _, missing = page()
    assert lacks() == set(missing), f"not offered: {lacks() - set(missing)}; offered: {set(missing) - lacks()}"
