# SPDX-License-Identifier: BSD-2-Clause
"""CPU load from reports of monitoring daemons: shared among instances, or dropped whole; as 3.0.2 was seen to do."""

import json
from pathlib import Path
from typing import Any

import pytest

from ganeti.placement.cluster import Instance, Node, Status
from ganeti.tools.htools.failures import ToolError
from ganeti.tools.htools.mond import CPU, XEN_CPU, cpu_loads
from ganeti.tools.htools.options import Options

NODES = [Node("n1.x", "g", node_cpus=1), Node("n2.x", "g", node_cpus=1)]
INSTANCES = [
    Instance("i1.x", 0, 0, 1, "plain", "n1.x"),
    Instance("i2.x", 0, 0, 3, "plain", "n2.x"),
    Instance("i3.x", 0, 0, 3, "plain", "n1.x", status=Status.ADMIN_DOWN),
]
IGNORED = "Didn't receive an answer by all MonDs, {}'s data will be ignored.\n"


def report(node: str, data: Any, name: str = CPU) -> dict[str, Any]:
    fields = {"version": "B", "format_version": 1, "timestamp": 1, "category": None, "kind": 0}
    return {"node": node, "reports": [{"name": name, **fields, "data": data}]}


def cpus(total: float) -> dict[str, Any]:
    return {"cpu_number": 2, "cpus": [total / 2] * 2, "cpu_total": total}


def loads(reports: Any, place: Path, **wishes: bool) -> list[float] | None:
    path = place / "reports"
    path.write_text(reports if isinstance(reports, str) else json.dumps(reports))
    options = Options()
    options.mond_data = str(path)
    options.mond_xen = wishes.get("xen", False)
    options.exit_on_missing_mond_data = wishes.get("strict", False)
    return cpu_loads(NODES, INSTANCES, options)


def test_a_node_s_load_is_shared_by_vcpus(tmp_path: Path) -> None:
    shared = loads([report("n1.x", cpus(4.0)), report("n2.x", cpus(2.0)), report("unknown", cpus(1.0))], tmp_path)
    assert shared == pytest.approx([0.8, 1.5, 2.4])


@pytest.mark.parametrize(
    "second",
    [
        [],
        [report("n2.x", 5)],
        [report("n2.x", {"cpu_total": 9.0})],
        [report("n2.x", cpus(2.0), "foo")],
        [{"node": "n2.x", "reports": []}],
        [report("n2", cpus(2.0))],
    ],
)
def test_all_or_nothing(second: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [report("n1.x", cpus(4.0)), *second]
    assert loads(reports, tmp_path) is None
    assert capsys.readouterr().err == IGNORED.format(CPU)
    with pytest.raises(ToolError, match="Not all required data available"):
        loads(reports, tmp_path, strict=True)


def test_loads_of_domains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = report("n1.x", {"i1.x": 0.5, "i3.x": 0.75, "Domain-0": 2.0}, XEN_CPU)
    second = report("n2.x", {"i2.x": 0.25, "i1.x": 7.0}, XEN_CPU)
    assert loads([first, second], tmp_path, xen=True) == [0.5, 0.25, 0.75]
    assert loads([first, report("n2.x", {}, XEN_CPU)], tmp_path, xen=True) is None
    assert capsys.readouterr().err == 'No CPU information available for ["i2.x"]\n'
    assert loads([first, report("n2.x", {"i2.x": "a"}, XEN_CPU)], tmp_path, xen=True) is None
    assert capsys.readouterr().err == IGNORED.format(XEN_CPU)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Parsing MonD's answer: Malformed JSON: expecting string: "),
        ("{}", "Parsing MonD's answer: Unable to read list"),
        ("[5]", "Parsing MonD's answer: Unable to read JSObject"),
        ("[{}]", "Parsing node's name: key 'node' not found, object contains only []"),
        ('[{"node":5,"reports":[]}]', "Parsing node's name: key 'node': Unable to read String"),
        ('[{"node":"a","reports":5}]', "Parsing node's reports: key 'reports': Unable to read list"),
        ('[{"node":"a","reports":[5]}]', "Parsing node's reports: key 'reports': Unable to read JSObject"),
        (
            '[{"node":"a","reports":[{"name":"x"}]}]',
            "Parsing node's reports: key 'reports': key 'version' not found, object contains only [\"name\"]",
        ),
    ],
)
def test_mistakes_in_the_file(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        loads(text, tmp_path)
    assert str(caught.value) == f"can't parse MonD data: {sentence}"
