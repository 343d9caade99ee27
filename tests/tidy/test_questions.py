# SPDX-License-Identifier: BSD-2-Clause
"""From a job's question to LuxiD's answer it is two files: the one that declares it and the one that answers it."""

import ast
from collections import defaultdict

from ganeti.ports import luxid

QUESTIONS = {name for name, found in vars(luxid).items() if luxid.Question in getattr(found, "__mro__", [])[1:]}


def test_two_files_know_a_question_beside_those_that_ask_it(modules):
    knowing: dict[str, set[str]] = defaultdict(set)
    answering: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and node.name in QUESTIONS:
                knowing[node.name].add(module.place)
            if not isinstance(node, ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "serves" and mark.args:
                    answering[ast.unparse(mark.args[0])].add(module.place)
    assert QUESTIONS and all(len(answering[name]) == 1 for name in QUESTIONS), dict(answering)
    assert all(len(knowing[name] | answering[name]) == 2 for name in QUESTIONS), dict(knowing)
