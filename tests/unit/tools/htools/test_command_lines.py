# SPDX-License-Identifier: BSD-2-Clause
"""Command lines, input files and the words about them, held to what Debian's binaries were recorded to do.

What hbal does after loading is not asked here: in its place the cluster is written as it was read.
"""

import functools
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.command_line.parsing import parse
from ganeti.tools.htools.loading import sources as loading
from ganeti.tools.htools.programs import hail
from ganeti.tools.htools.programs.program import run

GOLDEN = Path(__file__).parents[3] / "golden" / "htools"
sys.path.insert(0, str(GOLDEN))

import command_lines  # type: ignore[import-not-found]  # noqa: E402
from command_lines import Case  # noqa: E402

PARTS: list[Callable[[], Iterator[Case]]] = [
    command_lines.help_texts,
    command_lines.bad_lines,
    command_lines.values,
    command_lines.back_ends,
    command_lines.text_files,
    command_lines.text_fields,
    command_lines.offline_and_instances,
    command_lines.simulations,
    command_lines.utilizations,
    command_lines.allocator_inputs,
]


@functools.cache
def recorded() -> list[tuple[Case, dict[str, Any]]]:
    data = json.loads((GOLDEN / "command_lines.json").read_text())
    texts = data["texts"]
    outcomes = [
        {key: texts[value] if key != "status" and value is not None else value for key, value in outcome.items()}
        for outcome in data["outcomes"]
    ]
    return list(zip(command_lines.all_cases(), outcomes, strict=True))


def load_and_save(options: Options) -> int:
    loaded = loading.load(options)
    if options.save is not None:
        loading.write_state(f"{options.save}.original", loaded.as_read, loaded.masters)
    return 0


def outcome_of(case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    tool, *arguments = case.arguments
    for name, content in case.files.items():
        Path(name).write_bytes(content.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(case.stdin.encode())))
    status: str | int | None
    try:
        work = hail.answer if tool == "hail" else load_and_save
        status = run(tool, arguments, work, takes_arguments=tool == "hail")
    except SystemExit as left:
        status = left.code
    said = capsys.readouterr()
    written = Path("saved.pre-ialloc" if tool == "hail" else "saved.original")
    found = {
        "status": status,
        "out": without_additions(command_lines.normal(said.out)),
        "err": without_additions(re.sub(f"^{tool}: ", "TOOL: ", command_lines.normal(said.err))),
        "saved": written.read_text() if written.exists() else None,
    }
    for name in Path().iterdir():
        name.unlink()
    return found


def without_additions(words: str) -> str:
    """What is said, without the options 3.1 does not have."""
    added = "why|solver|link-speed|html|offline-nodes|if-added|if-lost|load-threshold|cool-down"
    return re.sub(rf"^ +--({added})\b.*\n|^--({added}) \S+\n", "", words, flags=re.MULTILINE)


def test_several_nodes_are_taken_for_offline_at_once() -> None:
    options = parse("hspace", ["-O", "n1", "--offline-nodes=n2,n3"])
    assert options.offline == ["n1", "n2", "n3"]
    assert parse("hbal", ["--off", "n4"]).offline == ["n4"]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_outcomes_are_the_recorded_ones(
    part: Callable[[], Iterator[Case]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = {repr(case): outcome for case, outcome in recorded()}
    different = []
    for case in part():
        expected = {key: value for key, value in wanted[repr(case)].items() if (key, value) != ("saved", None)}
        found = outcome_of(case, capsys, monkeypatch)
        if case.lenient and expected["status"] == 1:
            assert found["status"] == 0 or found["err"].startswith(("Error: ", "Warning: "))
            continue
        different += [
            f"{case.arguments} {key}\n  wanted {value!r}\n  found  {found[key]!r}"
            for key, value in expected.items()
            if found[key] != value
        ]
    assert not different, f"{len(different)} differ\n" + "\n".join(different[:20])
