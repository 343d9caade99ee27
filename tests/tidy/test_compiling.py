# SPDX-License-Identifier: BSD-2-Clause
"""The C of the product compiles without a warning, and ``setup/compile`` names the package that is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from parsed_tree import TREE

SOURCES = sorted({path.parent for path in (TREE / "src/ganeti").rglob("*.c")})
WARNINGS = ("-Wall", "-Wextra", "-Werror")
LACKING = """#!/bin/sh
[ "$*" != "-E -x c -" ] || ! grep -q '{header}'
"""


@pytest.mark.parametrize("place", SOURCES, ids=lambda place: str(place.relative_to(TREE)))
def test_c_compiles_without_a_warning(place: Path) -> None:
    files = sorted(str(path) for path in place.glob("*.c"))
    done = subprocess.run(["cc", "-std=c11", *WARNINGS, "-fsyntax-only", *files], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("header", "package"), [("stdio.h", "libc6-dev"), ("openssl/ssl.h", "libssl-dev")])
def test_a_missing_header_names_its_package(tmp_path: Path, header: str, package: str) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(LACKING.format(header=header))
    compiler.chmod(0o755)
    said = f"compile: {compiler} finds no header {header}: install the package {package}\n"
    assert refusal(tmp_path, str(compiler)) == said


def test_a_missing_compiler_names_its_package(tmp_path: Path) -> None:
    assert refusal(tmp_path, "nowhere-cc") == "compile: there is no C compiler nowhere-cc: install the package gcc\n"


def refusal(tree: Path, compiler: str) -> str:
    """What ``setup/compile`` says in a tree where only the storage daemon is left to compile."""
    for name in ("placement/kernel", "mirrord/data_path"):
        (tree / "src/ganeti" / name).mkdir(parents=True)
        (tree / "src/ganeti" / name / "main.c").touch()
    (tree / "setup").mkdir()
    script = shutil.copy(TREE / "setup/compile", tree / "setup/compile")
    (tree / "src/ganeti/placement/kernel/kernel.so").touch()
    done = subprocess.run([script], env={**os.environ, "CC": compiler}, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr
