# SPDX-License-Identifier: BSD-2-Clause
"""Every number that code, tests, benchmarks and documents name (S1.42, X9, D13, "protocols, 10") stands in `docs`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from parsed_tree import TREE, told
from tests import decisions_page
from tests.requirements_page import parts, requirements

SPEC = TREE / "docs" / "spec"
DESIGN = TREE / "docs" / "design"
ROOTS = ("src", "tests", "bench", "docs", "setup", "os")
SUFFIXES = {".py", ".md", ".c", ".h", ".txt", ".toml", ".service", ""}
GENERATED = SPEC.parent / "reference"

_NUMBER = re.compile(r"\b(S\d+\.\d+|X\d{1,2}|D\d{1,2})\b")
_PART = re.compile(r"\((S\d+)(?=[;,)])")
_NAMES = {
    name: name
    for name in ("protocols", "opcodes", "rapi", "htools", "cli", "compat", "requirements", "design", "style")
}
_NAMES["command line"] = "cli"
_COUNT = r"\d{1,2}(?:\.\d{1,2})?(?![\d.]*\d)"
_SECTIONS = re.compile(
    rf"\b(?P<name>{'|'.join(_NAMES)})(?:\.md)?`?,? (?:sections? )?"
    rf"(?P<numbers>{_COUNT}(?:(?:,| to| and) {_COUNT})*)(?! ?[%×a-zA-Z(])"
    rf"|\bsections? (?P<first>{_COUNT}) of `?(?:docs/spec/)?(?P<later>{'|'.join(_NAMES)})\b",
    re.IGNORECASE,
)
_TYPE = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b")
_PAGE = re.compile(r"\bdocs/[\w./-]+\.md\b")


def resolvable() -> set[str]:
    """Give every S, X and D number there is."""
    contradictions = re.findall(r"^\| (X\d+) \|", (SPEC / "requirements.md").read_text(), re.MULTILINE)
    decided = re.findall(r"^\| (X\d+) \|", (DESIGN / "README.md").read_text(), re.MULTILINE)
    assert contradictions == decided, "docs/design/README.md decides other contradictions than there are"
    decisions = re.findall(r"\.md\) = (D\d+) \|", decisions_page.page())
    return {*requirements(), *contradictions, *decisions}


def test_the_index_names_each_page_of_design_that_is_no_decision_once() -> None:
    named = re.findall(r"^\| \[[^\]]+\]\(([\w.-]+\.md)\)", (DESIGN / "README.md").read_text(), re.MULTILINE)
    decisions = {path.name for path in DESIGN.glob("[0-9]*.md")}
    assert sorted(named) == sorted({path.name for path in DESIGN.glob("*.md")} - decisions - {"README.md"})


def test_the_page_of_decisions_is_current() -> None:
    assert decisions_page.PAGE.read_text() == decisions_page.page(), "run `python -m tests.decisions_page`"


def sections() -> dict[str, set[str]]:
    """Give the numbers of the headings of each document of the specification; documents without any have none."""
    found: dict[str, set[str]] = {name: set() for name in _NAMES.values()}
    for path in SPEC.glob("*.md"):
        found[path.stem] = set(re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", path.read_text(), re.MULTILINE))
    return found


def files() -> Iterator[Path]:
    tops = (path for path in TREE.iterdir() if path.suffix in {".md", ".toml"} or path.name == "Makefile")
    for path in sorted([*tops, *(path for root in ROOTS for path in (TREE / root).rglob("*"))]):
        if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
            yield path


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    read = []
    for path in files():
        try:
            read.append((str(path.relative_to(TREE)), path.read_text()))
        except UnicodeDecodeError:
            continue
    return [(place, text) for place, text in read if place != "tests/tidy/test_references.py"]


def test_requirements_contradictions_and_decisions_exist(texts):
    known = resolvable() | parts().keys()
    faults = [
        f"{place}: there is no {number}"
        for place, text in texts
        for number in sorted({*_NUMBER.findall(text), *_PART.findall(text)} - known)
    ]
    assert not faults, told(faults)


def test_sections_exist(texts):
    known = sections()
    faults = []
    for place, text in texts:
        for match in _SECTIONS.finditer(text):
            name = _NAMES[(match["name"] or match["later"]).lower()]
            for number in re.findall(_COUNT, match["numbers"] or match["first"]):
                if number not in known[name]:
                    faults.append(f"{place}: '{match[0]}', but docs/spec/{name}.md has no section {number}")
    assert not faults, told(faults)


def test_pages_exist(texts):
    faults = [
        f"{place}: there is no {page}"
        for place, text in texts
        for page in sorted(set(_PAGE.findall(text)))
        if not (TREE / page).exists()
    ]
    assert not faults, told(faults)


def test_links_between_documents_lead_somewhere():
    faults = []
    for path in sorted((TREE / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", path.read_text()):
            if not (path.parent / target).exists():
                faults.append(f"{path.relative_to(TREE)}: there is no {target}")
    assert not faults, told(faults)


def test_files_of_the_tree_that_documents_name_exist():
    """`placement/kernel/pairs.c` in a document is a place below the tree, `src/ganeti`, `src`, `docs` or `tests`."""
    bases = [TREE, *(TREE / name for name in ("src/ganeti", "src", "docs", "tests"))]
    first_words = {path.name for base in bases for path in base.iterdir() if path.is_dir()}
    faults = []
    for page in (TREE / "docs" / "architecture.md", *sorted(DESIGN.glob("*.md"))):
        for named in re.findall(r"`([a-z_]+/[\w./-]+)`", page.read_text()):
            if named.partition("/")[0] in first_words and not any((base / named).exists() for base in bases):
                faults.append(f"{page.relative_to(TREE)}: there is no {named}")
            if named.endswith((".py", ".c", ".h")) and named.partition("/")[0] not in first_words:
                faults.append(f"{page.relative_to(TREE)}: {named} begins with no directory of the tree")
    assert not faults, told(faults)


def test_names_of_files_and_types_in_pages_of_design_exist():
    """A bare `writes.py`, and a word like `ConfigView`, in backticks: the tree has that file, and knows that type."""
    tree = [path for root in ("src", "tests", "bench") for path in (TREE / root).rglob("*.[pch]*") if path.is_file()]
    names = {path.name for path in tree}
    known = {word for path in tree if path.suffix == ".py" for word in re.findall(r"[A-Za-z_]\w*", path.read_text())}
    faults = []
    for page in (TREE / "docs" / "architecture.md", *sorted(DESIGN.glob("*.md"))):
        for named in re.findall(r"`([^`\n]+)`", page.read_text()):
            if re.fullmatch(r"[\w-]+\.(?:py|c|h)", named) and named not in names:
                faults.append(f"{page.relative_to(TREE)}: no file of the tree is called {named}")
            for word in set(_TYPE.findall(named)) - known:
                faults.append(f"{page.relative_to(TREE)}: nothing in the tree is called {word}")
    assert not faults, told(faults)
