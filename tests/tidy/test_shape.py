# SPDX-License-Identifier: BSD-2-Clause
"""Size and shape: heads of files, lengths, names, and nothing in the tree about the place it was written at."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from parsed_tree import TREE, Module, told

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
CLASS_METHODS_MAX = 25
MODULE_LINES_MIN = 30
HEAD_WORDS_MIN = 3
SPDX = "# SPDX-License-Identifier: BSD-2-Clause"
GRAB_BAGS = {"utils", "util", "common", "helpers", "misc", "manager"}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
GENERATED = "src/ganeti/cli/tables/"
ONE_FILE_EACH = re.compile(
    r"src/ganeti/(master/operations/\w+(/\w+)?|model/node_calls|node/(actions|collectors|storage|hypervisors/\w+)|cli/commands(/\w+)?|tools)/\w+\.py"
)
"""Where an opcode, a node call, a collector, a driver, a command or a program has a file of its own, however short."""


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
                size, limit, unit = methods_of(node), CLASS_METHODS_MAX, "methods"
            if size > limit:
                where = f"{module.place}:{node.lineno} {node.name}"
                faults[module.place, node.name] = f"{where} has {size} {unit}; the limit is {limit}"
    left = exemptions.sift("size", faults)
    assert not left, told(left)


def methods_of(node: ast.ClassDef) -> int:
    """All that can be called or read of it and is written there: properties, promises of a protocol, nested classes."""
    nested = sum(methods_of(item) for item in node.body if isinstance(item, ast.ClassDef))
    return nested + sum(isinstance(item, FUNCTION) and item.name != "__init__" for item in node.body)


def test_methods_are_counted_whole():
    text = """
class Whole:
    def __init__(self): self.field = 1
    def returns(self): return 1
    def tells(self): print(1)
    @property
    def field(self): return 1
    @field.setter
    def field(self, value): self.other = value
    async def promised(self): ...
    class Nested:
        def own(self): return 1
    def with_a_function(self):
        def inner(): return 1
        return inner
"""
    assert methods_of(ast.parse(text).body[0]) == 7


def test_short_modules_have_a_reason(modules, exemptions):
    """What has hardly more than a head is a file to open and a name to know for nothing."""
    faults = {}
    for module in modules:
        lines = module.text.count("\n")
        if lines < MODULE_LINES_MIN and not has_a_place_of_its_own(module):
            faults[(module.place,)] = f"{module.place} has {lines} lines: does it read better in a module beside it?"
    left = exemptions.sift("short", faults)
    assert not left, told(left)


def has_a_place_of_its_own(module: Module) -> bool:
    """The face of a package or of a program, a generated table, or what is a file of its own by rule."""
    is_face = module.path.name in ("__init__.py", "__main__.py") or 'if __name__ == "__main__":' in module.text
    return is_face or module.place.startswith(GENERATED) or bool(ONE_FILE_EACH.fullmatch(module.place))


def test_every_package_says_what_is_there(modules):
    places = {module.path: module for module in modules}
    faults = []
    for package in sorted({module.path.parent for module in modules}):
        face = places.get(package / "__init__.py")
        head = ast.get_docstring(face.tree) if face is not None else None
        if not head or len(head.split()) < HEAD_WORDS_MIN:
            faults.append(f"{package.relative_to(TREE)}/__init__.py: say in a docstring what is in this package")
    assert not faults, told(faults)


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
