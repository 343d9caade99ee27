# SPDX-License-Identifier: BSD-2-Clause
"""What cannot be decoded is met whole: a text that is no UTF-8 raises what `msgspec.DecodeError` does not cover."""

import ast

import msgspec
import pytest
from parsed_tree import Module

from ganeti.base.errors import UNREADABLE_JSON

NOT_ALL = {"DecodeError", "MsgspecError"}
REST = {"UnicodeDecodeError", "UnicodeError", "ValueError"}


def caught(handler: ast.ExceptHandler) -> set[str]:
    """The last part of each name in an ``except`` line."""
    if handler.type is None:
        return set()
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(handler.type) if is_name(node)
    }


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name)


def test_no_handler_catches_half_of_it(modules: list[Module]) -> None:
    handlers = [
        (module, node) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ExceptHandler)
    ]
    half = [
        f"{module.place}:{node.lineno}"
        for module, node in handlers
        if caught(node) & NOT_ALL and not caught(node) & REST
    ]
    assert half == [], "catch UNREADABLE_JSON"


@pytest.mark.parametrize("text", [b'{"a": "\xff"}', b'{"\xe2": 1}', b"{", b"", b"[" * 5000])
def test_what_it_covers(text: bytes) -> None:
    with pytest.raises(UNREADABLE_JSON):
        msgspec.json.decode(text)
