# SPDX-License-Identifier: BSD-2-Clause
"""No driver's name is compared outside the drivers' folders: whoever must know asks for a trait (D1)."""

import ast
from collections.abc import Iterable, Iterator

from parsed_tree import told

HYPERVISORS = {"kvm", "fake", "xen-pvm", "xen-hvm", "lxc", "chroot"}
TEMPLATES = {"diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "drbd8", "rbd", "ext", "gluster", "mirror"}
OWN_FOLDERS = ("src/ganeti/node/hypervisors/", "src/ganeti/node/storage/")


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
