# SPDX-License-Identifier: BSD-2-Clause
"""hbal, hinfo, hcheck and hail print what 3.1 prints, byte for byte.

Each file of ``tests/golden/htools/outputs`` is one command with what Debian's tools answered on the clusters beside
it: after the command parts that begin with ``---``: the exit status, both streams, files that were written.
"""

import importlib
import re
import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "htools"
OUTPUTS = sorted((GOLDEN / "outputs").glob("*.txt"))


def _parts(text: str) -> dict[str, str]:
    found = re.split(r"^--- (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True)) | {"command": found[0]}


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: path.stem)
def test_output(path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(GOLDEN / "clusters", tmp_path, dirs_exist_ok=True)
    given = {file.name for file in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    expected = _parts(path.read_text())
    tool, *arguments = expected.pop("command").split()[1:]
    status = importlib.import_module(f"ganeti.tools.htools.programs.{tool}").main(arguments)
    stdout, stderr = capfd.readouterr()
    written = {f"file {file.name}": file.read_text() for file in tmp_path.iterdir() if file.name not in given}
    parts = {f"exit {status}": "", "stdout": stdout, "stderr": stderr, **written}
    assert {name: text for name, text in parts.items() if text or name.startswith("exit")} == expected


def test_there_are_outputs_to_compare() -> None:
    assert len(OUTPUTS) > 50
