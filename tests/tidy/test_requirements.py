# SPDX-License-Identifier: BSD-2-Clause
"""Tests name requirements that exist, and the page that says how far we are is what the markers say."""

import ast
import re

from parsed_tree import told
from tests.requirements_page import PAGE, TREE, decided, markers, page, requirements


def test_there_are_270_requirements():
    counts = {
        part: sum(number.startswith(part) for number in requirements()) for part in ("S1.", "S2.", "S3.", "S4.", "S5.")
    }
    assert counts == {"S1.": 110, "S2.": 63, "S3.": 11, "S4.": 42, "S5.": 44}


def test_markers_name_requirements_that_exist():
    unknown = markers().keys() - requirements().keys()
    faults = [f"{test}: there is no requirement {number}" for number in sorted(unknown) for test in markers()[number]]
    assert not faults, told(faults)


def test_decisions_name_requirements_that_exist():
    unknown = decided().keys() - requirements().keys()
    faults = [f"{page}: there is no requirement {number}" for number in sorted(unknown) for page in decided()[number]]
    assert not faults, told(faults)


def test_what_names_a_requirement_runs():
    faults = []
    for place in sorted({test.partition("::")[0] for tests in markers().values() for test in tests}):
        if not place.endswith(".py"):
            continue
        text = (TREE / "tests" / place).read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"mark\.(skip|xfail)\b", text) else ():
            marks = getattr(node, "decorator_list", [])
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                marks = [node.value]
            words = " ".join(ast.unparse(mark) for mark in marks)
            if re.search(r"mark\.(skip|xfail)\b", words):
                faults.append(f"{place}:{node.lineno}: a skipped test shows no requirement")
    assert not faults, told(faults)


def test_the_page_is_fresh():
    assert PAGE.read_text() == page(), "run `python -m tests.requirements_page`"
