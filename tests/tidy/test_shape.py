# SPDX-License-Identifier: BSD-2-Clause
"""Size and shape: heads of files, lengths, names, and nothing in the tree about the place it was written at."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from parsed_tree import TREE, told

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
CLASS_METHODS_MAX = 25
SPDX = "# SPDX-License-Identifier: BSD-2-Clause"
GRAB_BAGS = {"utils", "util", "common", "helpers", "misc", "manager"}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
GENERATED = "src/ganeti/cli/tables/"


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Every file git knows of or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=TREE,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := TREE / name).is_file()]


def test_every_file_begins_with_licence_and_purpose(all_files, exemptions):
    faults = {}
    for module in all_files:
        if module.place.startswith(GENERATED):
            continue
        lines = module.text.splitlines()
        head = lines[1:] if lines and lines[0].startswith("#!") else lines
        if not head or head[0] != SPDX:
            faults[(module.place,)] = f"{module.place}: begin with '{SPDX}'"
        elif len(lines) > 2 and not begins_with_words(head):
            faults[(module.place,)] = f"{module.place}: say in a docstring what the module is for"
    left = exemptions.sift("head", faults)
    assert not left, told(left)


def begins_with_words(lines: list[str]) -> bool:
    """Whether the first statement is a docstring with something in it: told from the text, not every test is parsed."""
    said = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return bool(re.match(r'r?"""\s*\S|r?"""\s*$', said)) and not re.match(r'r?"""\s*"""', said)


def test_what_begins_with_words():
    assert begins_with_words(["# a", "", '"""What it is for."""'])
    assert begins_with_words(['"""', "What it is for.", '"""'])
    assert not begins_with_words(["# a", "import os", '"""Too late."""'])
    assert not begins_with_words(['""" """'])
    assert not begins_with_words([])


def test_modules_functions_and_classes_stay_small(modules, exemptions):
    faults = {}
    for module in modules:
        if module.place.startswith(GENERATED):
            continue
        lines = module.text.count("\n")
        if lines > MODULE_LINES_MAX:
            faults[(module.place,)] = f"{module.place} has {lines} lines; split it by subject below {MODULE_LINES_MAX}"
        for node in module.nodes:
            size, limit, unit = 0, 0, ""
            if isinstance(node, FUNCTION):
                size, limit, unit = (node.end_lineno or 0) - node.lineno + 1, FUNCTION_LINES_MAX, "lines"
            elif isinstance(node, ast.ClassDef):
                size, limit, unit = sum(map(acts, node.body)), CLASS_METHODS_MAX, "methods"
            if size > limit:
                where = f"{module.place}:{node.lineno} {node.name}"
                faults[module.place, node.name] = f"{where} has {size} {unit}; the limit is {limit}"
    left = exemptions.sift("size", faults)
    assert not left, told(left)


def acts(node: ast.stmt) -> bool:
    """Whether it is a method with a body of its own: properties are fields, and a protocol's methods are promises."""
    if not isinstance(node, FUNCTION) or isinstance(node.body[-1], ast.Expr):
        return False
    return not any(isinstance(item, ast.Name) and "property" in item.id for item in node.decorator_list)


def test_modules_are_named_for_a_subject(modules, exemptions):
    faults = {
        (module.place,): f"{module.place}: a name like this gathers everything; name the subject"
        for module in modules
        if GRAB_BAGS & set(module.name.split("."))
    }
    left = exemptions.sift("name", faults)
    assert not left, told(left)


def test_no_file_names_the_place_of_this_checkout(tracked):
    here = re.compile(re.escape(str(TREE)) + r"\b")
    faults = [f"{path.relative_to(TREE)} names {TREE}" for path in tracked if here.search(_text(path))]
    assert not faults, told(faults)


def test_set_up_names_no_host(tracked):
    """Where packages come from is the machine's affair: a mirror or a cache may stand there."""
    url = re.compile(r"\b(?:https?|ftp)://[\w.-]+|--(?:extra-)?index-url")
    setting_up = [path for path in tracked if path.parent.name in {"setup", ".ci"} or path.parent == TREE]
    faults = [
        f"{path.relative_to(TREE)} names {found.group()}"
        for path in setting_up
        if path.suffix != ".md"
        for found in url.finditer(_text(path))
    ]
    assert not faults, told(faults)


def test_packages_are_sorted_and_explained(tracked):
    lines = [line for line in (TREE / "setup/packages.txt").read_text().splitlines() if not line.startswith("#")]
    names = [line.split()[0] for line in lines]
    assert names == sorted(set(names))
    unexplained = [line for line in lines if not re.fullmatch(r"\S+  # \S.*", line)]
    assert not unexplained, told(unexplained)


def _text(path: Path) -> str:
    return path.read_text(errors="replace")
