# SPDX-License-Identifier: BSD-2-Clause
"""Imports point one way (CONTRIBUTING.md), and commands start without any library but the standard one."""

import ast
import subprocess
import sys

import pytest
from parsed_tree import PACKAGE, TREE, told

CORE = {"base", "model", "ports"}
DECIDING = CORE | {"wire", "placement", "master"}
BELOW_ROOMS = DECIDING | {"system", "node", "stores", "calls", "bootstrap"}
ROOMS = {"wconfd", "luxid", "job", "noded", "confd", "mond", "rapi", "mirrord", "metad", "maintd"}
MAY_IMPORT = {
    "base": set(),
    "model": {"base"},
    "ports": {"base", "model"},
    "wire": CORE,
    "placement": CORE,
    "master": CORE | {"wire", "placement"},
    "system": {"base", "wire"},
    "node": CORE | {"wire", "placement", "system"},
    "stores": DECIDING | {"system", "node"},
    "calls": DECIDING | {"system", "node"},
    "bootstrap": DECIDING | {"system", "node"},
    "wconfd": BELOW_ROOMS,
    "luxid": BELOW_ROOMS,
    "job": BELOW_ROOMS,
    "noded": BELOW_ROOMS,
    "daemons": BELOW_ROOMS | ROOMS,
    "rapi": BELOW_ROOMS,
    "maintd": BELOW_ROOMS,
    "mond": BELOW_ROOMS,
    "mirrord": BELOW_ROOMS,
    "metad": BELOW_ROOMS,
    "confd": BELOW_ROOMS,
    "tools": BELOW_ROOMS | ROOMS,
    "simulation": BELOW_ROOMS | ROOMS | {"daemons", "tools", "cli"},
    "cli": {"base", "wire"},
    "reference": BELOW_ROOMS | ROOMS | {"cli", "tools"},
}


def test_imports_point_one_way(modules, exemptions):
    faults = {}
    for module in modules:
        for line, name in module.imports():
            parts = name.split(".")
            if parts[0] != "ganeti" or len(parts) < 2 or not module.layer or not (PACKAGE / parts[1]).is_dir():
                continue
            target = parts[1]
            if target != module.layer and target not in MAY_IMPORT[module.layer]:
                faults[module.place, target] = f"{module.place}:{line} {module.layer} may not import {target} ({name})"
    left = exemptions.sift("layer", faults)
    assert not left, told(left)


def test_every_package_has_its_place_in_the_order(modules):
    layers = {module.layer for module in modules} - {""}
    unknown = ", ".join(sorted(layers ^ MAY_IMPORT.keys()))
    assert not unknown, f"say in CONTRIBUTING.md and here what {unknown} may import, of the packages that there are"


def test_commands_import_the_standard_library_only(modules):
    built_by = "ganeti.cli.generate"  # makes the tables when the product is built; no command imports it
    names = [module.name for module in modules if module.layer == "cli" and module.name != built_by]
    names = [name for name in names if ".cli.commands" not in name]  # declarations, read by the generator
    program = f"import sys; sys.path.insert(0, {str(TREE / 'src')!r})\n" + "".join(f"import {name}\n" for name in names)
    done = subprocess.run([sys.executable, "-ISc", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_simulator_is_imported_by_itself_and_by_tests_only(modules):
    own = ("simulation",)
    theirs = [
        f"{module.place}:{line} imports {name}"
        for module in modules
        for line, name in module.imports()
        if name.startswith("ganeti_simulation") and module.layer not in own
    ]
    assert theirs == []


@pytest.mark.requirement("S1.106")
def test_the_core_runs_no_ssh(modules):
    """Commands of an administrator do; what sets a machine up is a program that runs there (`prepare-node-join`)."""
    runs = {
        module.layer
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.List) and node.elts and isinstance(node.elts[0], ast.Constant)
        if node.elts[0].value in ("ssh", "scp", "sftp")
    }
    assert runs == {"cli", "bootstrap"}
    assert (PACKAGE / "tools/prepare_node_join.py").exists()
