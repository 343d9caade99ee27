# SPDX-License-Identifier: BSD-2-Clause
"""The tree as parsed modules, and the one list of exemptions every rule here goes by."""

import ast
import dataclasses
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PACKAGE = TREE / "src" / "ganeti"
SIMULATOR = TREE / "src" / "ganeti_simulation"
EXEMPTIONS = Path(__file__).with_name("exemptions.txt")


@dataclasses.dataclass(frozen=True)
class Module:
    """One Python file; *name* is dotted, *layer* the first part below ``ganeti`` ("" for the package itself)."""

    path: Path
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def place(self) -> str:
        return str(self.path.relative_to(TREE))

    @property
    def name(self) -> str:
        parts = self.path.relative_to(TREE / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def layer(self) -> str:
        parts = self.name.split(".")
        if parts[0] == SIMULATOR.name:
            return "simulation"
        return parts[1] if len(parts) > 1 else ""

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the syntax tree."""
        return list(ast.walk(self.tree))

    @functools.cached_property
    def attributes(self) -> frozenset[str]:
        """The names read or set after a dot."""
        return frozenset(node.attr for node in self.nodes if isinstance(node, ast.Attribute))

    @functools.cached_property
    def texts(self) -> frozenset[str]:
        """The constants that are text."""
        constants = (node.value for node in self.nodes if isinstance(node, ast.Constant))
        return frozenset(value for value in constants if isinstance(value, str))

    @functools.cached_property
    def arguments(self) -> frozenset[str]:
        """The names of arguments, given or taken."""
        return frozenset(node.arg for node in self.nodes if isinstance(node, ast.keyword | ast.arg) and node.arg)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Yield line and dotted name of everything imported, wherever in the file it stands."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)

    @functools.cached_property
    def bound_names(self) -> dict[str, str]:
        """What the file's imported names stand for: ``{"sleep": "time.sleep", "os": "os"}``."""
        bound = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return bound

    def dotted(self, node: ast.expr) -> str:
        """Give the full name an expression like ``os.path.join`` stands for, or "" for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.bound_names.get(node.id, node.id), *reversed(parts)])

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Yield every call whose function has a plain name, with that name in full."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                name = self.dotted(node.func)
                if name:
                    yield node, name


def read(paths: Iterable[Path]) -> list[Module]:
    return [Module(path, path.read_text()) for path in sorted(paths) if "__pycache__" not in path.parts]


class Exemptions:
    """Lines ``RULE PLACE [WHAT]: reason``; one that is not needed any more is itself a fault."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, ...], str] = {}
        for line in EXEMPTIONS.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                key, colon, reason = line.partition(": ")
                assert colon and reason.strip(), f"{EXEMPTIONS.name}: '{line}' gives no reason"
                self._reasons[tuple(key.split())] = reason

    def sift(self, rule: str, faults: dict[tuple[str, ...], str]) -> list[str]:
        """Give the faults (place or place and thing → sentence) that nobody excused, and the excuses nobody needs."""
        excused = {key[1:] for key in self._reasons if key[0] == rule}

        def covers(key: tuple[str, ...]) -> bool:
            return key in excused or key[:1] in excused

        left = [sentence for key, sentence in sorted(faults.items()) if not covers(key)]
        needed = {key for key in excused for fault in faults if fault[: len(key)] == key}
        left += [
            f"{EXEMPTIONS.name}: '{rule} {' '.join(key)}' is not needed any more" for key in sorted(excused - needed)
        ]
        return left


def told(faults: list[str]) -> str:
    """Give the message of a failed rule: one fault a line."""
    return "\n" + "\n".join(faults)
