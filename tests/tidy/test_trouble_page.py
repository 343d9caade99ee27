# SPDX-License-Identifier: BSD-2-Clause
"""The page for administrators in trouble quotes sentences that the product prints, and has every code of verify."""

import ast
import re
from collections.abc import Iterator

from parsed_tree import TREE, told

from ganeti.master.verify.findings import CODES

PAGE = TREE / "docs/operator/when-something-is-wrong.md"
NOT_SENTENCES = re.compile(
    r"-|queued|ERROR_down|--\S+|gnt-\S.*|[A-Za-z-]+\.(log|md)|correct it|damaged-job-|began is over"
)


def test_every_code_of_verify_has_its_remedy():
    text = PAGE.read_text()
    missing = sorted(code for code in CODES if f"`{code}`" not in text)
    assert not missing, told(missing)


def test_every_code_of_verify_is_found_by_a_test():
    places = ("operations/cluster/test_verify*.py", "verify/test_*.py")
    text = "".join(path.read_text() for place in places for path in (TREE / "tests/unit/master").glob(place))
    missing = sorted(code for code in CODES if code not in text)
    assert not missing, told(missing)


def test_every_code_of_verify_is_found_on_real_daemons():
    text = "".join(path.read_text() for path in (TREE / "tests/system").glob("test_*.py"))
    missing = sorted(code for code in CODES if code not in text)
    assert not missing, told(missing)


def test_what_is_quoted_is_printed_somewhere(modules):
    printed = "\n".join(_sentences(module.nodes) for module in modules)
    missing = [quote for quote in _quotes() if quote not in printed]
    assert not missing, told(missing)


def _quotes() -> Iterator[str]:
    """What stands as code in the first column of the tables that show sentences."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `") and not re.match(r"\| `E[A-Z]", line):
            first = line.split(" | ")[0]
            yield from (
                quote for quote in re.findall(r"`([^`]+)`", first) if not NOT_SENTENCES.fullmatch(quote.strip())
            )


def _sentences(nodes: list[ast.AST]) -> str:
    """The texts of a module, those made of parts joined, with nothing where a value is filled in."""
    texts = []
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return "\n".join(texts)
