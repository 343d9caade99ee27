# SPDX-License-Identifier: BSD-2-Clause
"""``hail`` as a program: arguments, exit status, texts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti.tools.htools import hail

GOLDEN = Path(__file__).parents[3] / "golden" / "iallocator" / "answers.jsonl"


@pytest.fixture
def case(tmp_path: Path) -> tuple[Path, str]:
    found = json.loads(GOLDEN.read_text().splitlines()[0])
    path = tmp_path / "request.json"
    path.write_text(json.dumps(found["message"]))
    return path, json.dumps(found["answer"], separators=(",", ":")) + "\n"


def test_answers_on_standard_output(case: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, expected = case
    assert hail.main(["--no-capacity-checks", str(path)]) == 0
    assert capsys.readouterr().out == expected


def test_why_goes_to_standard_error(case: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, expected = case
    assert hail.main(["--no-capacity-checks", "--why", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == expected
    chosen = json.loads(expected)["result"]
    others = [name for name in json.loads(path.read_text())["nodes"] if name not in chosen]
    assert others[0] in captured.err


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 1, "Error: This program needs an input file.\n"),
        (["a", "b"], 1, "Error: Only one argument is accepted (the input file)\n"),
        (
            ["/nonexistent/request"],
            1,
            "hail: /nonexistent/request: openFile: does not exist (No such file or directory)\n",
        ),
    ],
)
def test_bad_arguments(arguments: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hail.main(arguments) == status
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"nodes": 5}', '{"nodes": {"a": {}}, "request": {}}'])
def test_unreadable_input_is_an_error_without_json(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    path.write_text(content)
    assert hail.main([str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1


def test_unknown_option_is_a_command_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        hail.main(["--nonsense"])
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("Command line error: ")


def test_asking_needs_no_arrays_until_it_asks() -> None:
    """Job processes import the request module, and must not carry NumPy."""
    code = "import sys, ganeti.placement.request, ganeti.tools.htools.hail; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_states_before_and_after_are_written(case: tuple[Path, str], tmp_path: Path) -> None:
    path, expected = case
    assert hail.main(["--no-capacity-checks", "-S", str(tmp_path / "state"), str(path)]) == 0
    before = (tmp_path / "state.pre-ialloc").read_text().splitlines()
    after = (tmp_path / "state.post-ialloc").read_text().splitlines()
    name = json.loads(path.read_text())["request"]["name"]
    new = [line.split("|") for line in after if line.startswith(f"{name}|")]
    assert [fields[6] for fields in new] == json.loads(expected)["result"][:1]
    assert len(after) == len(before) + 1


def test_the_cluster_may_come_from_elsewhere(case: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = case
    assert hail.main(["--simulate=p,3,1t,32g,16", str(path)]) == 0
    assert "node-01-00" in capsys.readouterr().out


@pytest.mark.parametrize(("state", "memory"), [("drained", "8192"), ("offline", "0")])
def test_nodes_that_take_nothing_are_written_as_offline(state: str, memory: str, tmp_path: Path) -> None:
    node = {"group": "g", "total_memory": 8192, "free_memory": 1, "total_disk": 2, "free_disk": 1, "total_cpus": 4}
    message = {
        "nodegroups": {"g": {"name": "g", "alloc_policy": "preferred"}},
        "nodes": {"a": node | {state: True}},
        "request": {"type": "multi-allocate", "instances": []},
    }
    path = tmp_path / "request.json"
    path.write_text(json.dumps(message))
    assert hail.main(["-S", str(tmp_path / "state"), str(path)]) == 0
    fields = (tmp_path / "state.pre-ialloc").read_text().splitlines()[2].split("|")
    assert (fields[1], fields[7]) == (memory, "Y")
