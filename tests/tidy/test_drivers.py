# SPDX-License-Identifier: BSD-2-Clause
"""No driver's name is compared, or a key or item of data, outside the drivers' folders: ask for a trait (D1)."""

import ast
from collections.abc import Iterable, Iterator

from parsed_tree import told

HYPERVISORS = {"kvm", "fake", "xen-pvm", "xen-hvm", "lxc", "chroot"}
TEMPLATES = {"diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "drbd8", "rbd", "ext", "gluster", "mirror"}
OWN_FOLDERS = ("src/ganeti/node/hypervisors/", "src/ganeti/node/storage/")
MAY_NAME = (
    *OWN_FOLDERS,
    *("src/ganeti/model/templates.py", "src/ganeti/model/hypervisors.py"),
    "src/ganeti/cli/tables/",
    *("src/ganeti/tools/testbed/", "src/ganeti_simulation/"),
)
"""Besides the drivers: the two tables of names, generated tables, and what sets up clusters to try things on."""
OTHER_WORDS = {"file"}
"""Names that are words of many other things as well: these are found in comparisons alone."""


def test_driver_names_are_not_compared_elsewhere(modules, exemptions):
    faults = {}
    for module in modules:
        if module.place.startswith(OWN_FOLDERS):
            continue
        for line, name in compared_words(module.nodes):
            if name in HYPERVISORS | TEMPLATES:
                faults[module.place, name] = f"{module.place}:{line} compares with '{name}'; ask for a trait"
    left = exemptions.sift("driver", faults)
    assert not left, told(left)


def test_driver_names_are_no_data_elsewhere(modules, exemptions):
    faults = {}
    for module in modules:
        if module.place.startswith(MAY_NAME):
            continue
        for line, name in words_of_data(module.nodes):
            if name in (HYPERVISORS | TEMPLATES) - OTHER_WORDS:
                faults[module.place, ""] = f"{module.place}:{line} has a table with '{name}'; ask for a trait"
    left = exemptions.sift("driver-data", faults)
    assert not left, told(left)


def words_of_data(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the string constants that are keys of dictionaries or items of tuples, lists, sets and `Literal`."""
    for node in nodes:
        if isinstance(node, ast.Dict):
            items = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            items = node.elts
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
            items = [node.slice]
        else:
            continue
        for item in items:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item.lineno, item.value


def compared_words(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the string constants that stand in comparisons, also inside a set or tuple, and in match cases."""
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            sides += [item for side in sides if isinstance(side, ast.Set | ast.Tuple | ast.List) for item in side.elts]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        else:
            continue
        for side in sides:
            if isinstance(side, ast.Constant) and isinstance(side.value, str):
                yield side.lineno, side.value


def test_the_rule_sees_every_form():
    source = 'if a == "kvm" or "file" in b or c in ("drbd", x): pass\nmatch d:\n  case "lxc": pass\n'
    assert {word for _, word in compared_words(ast.walk(ast.parse(source)))} == {"kvm", "file", "drbd", "lxc"}
    source = 'a = {"kvm": 1}\nb = ("drbd", x)\nc = {"lxc"}\nd: Literal["fake"]\ne: Literal["ext", "rbd"]\n'
    found = {word for _, word in words_of_data(ast.walk(ast.parse(source)))}
    assert found == {"kvm", "drbd", "lxc", "fake", "ext", "rbd"}
