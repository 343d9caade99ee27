# SPDX-License-Identifier: BSD-2-Clause
"""CPU load from reports of monitoring daemons: shared among instances, or dropped whole; as 3.0.2 was seen to do."""

import json
import math
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node, Status
from ganeti.placement.definition.moves import read_plain
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.loading import mond
from ganeti.tools.htools.loading.mond import CPU, XEN_CPU, CpuLoads, cpu_loads

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


def loads(reports: Any, place: Path, **wishes: bool) -> CpuLoads | None:
    path = place / "reports"
    path.write_text(reports if isinstance(reports, str) else json.dumps(reports))
    options = Options()
    options.mond_data = str(path)
    options.mond_xen = wishes.get("xen", False)
    options.exit_on_missing_mond_data = wishes.get("strict", False)
    options.ignore_utilization = wishes.get("ignored", False)
    return cpu_loads(NODES, INSTANCES, options)


def test_a_node_s_load_is_shared_by_vcpus(tmp_path: Path) -> None:
    shared = loads([report("n1.x", cpus(4.0)), report("n2.x", cpus(2.0)), report("unknown", cpus(1.0))], tmp_path)
    assert shared is not None
    assert list(shared.instances) == pytest.approx([0.8, 1.5, 2.4])
    assert shared.nodes == [4.0, 2.0]


def test_a_node_has_what_was_measured_on_it() -> None:
    """Its own share stays when instances leave, as 3.0.2 has it."""
    nodes = [
        replace(node, cpu_load=load, total_memory_mib=1, total_cpus=1)
        for node, load in zip(NODES, (4.0, 2.0), strict=True)
    ]
    instances = [replace(one, load=(load, 1, 1, 1)) for one, load in zip(INSTANCES, (0.8, 1.5, 2.4), strict=True)]
    cluster = Cluster(nodes, instances, [Group("g", "g")])
    state, plain = ClusterState(cluster), read_plain(cluster)
    assert [state.view(node).load()[0] for node in (0, 1)] == [4.0, 2.0]
    state.move(2, 1)
    assert [state.view(node).load()[0] for node in (0, 1)] == pytest.approx([1.6, 4.4])
    assert [view.load()[0] for view in plain.moved(2, 1, NOWHERE).views] == pytest.approx([1.6, 4.4])


def test_loads_nobody_looks_at_are_not_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert loads([], tmp_path, strict=True, ignored=True) is None
    assert capsys.readouterr().err == ""
    with pytest.raises(ToolError, match="can't parse MonD data"):
        loads("x", tmp_path, ignored=True)


def test_without_counted_cpus_there_is_no_number(tmp_path: Path) -> None:
    nodes = [replace(node, node_cpus=0) for node in NODES]
    idle = [replace(one, status=Status.ADMIN_OFFLINE) for one in INSTANCES]
    options = Options()
    options.mond_data = str(tmp_path / "reports")
    (tmp_path / "reports").write_text(json.dumps([report("n1.x", cpus(4.0)), report("n2.x", cpus(0.0))]))
    found = cpu_loads(nodes, idle, options)
    assert found is not None and found.instances[0] == math.inf and math.isnan(found.instances[1])


def test_the_first_of_two_reports_counts_and_the_last_of_two_nodes(tmp_path: Path) -> None:
    twice = report("n1.x", cpus(9.0))
    twice["reports"] += report("n1.x", cpus(4.0))["reports"]
    found = loads([report("n2.x", cpus(1.0)), twice, report("n2.x", cpus(2.0))], tmp_path)
    assert found is not None and found.nodes == [9.0, 2.0]


def test_numbers_too_great_are_infinite(tmp_path: Path) -> None:
    found = loads([report("n1.x", cpus(1.0) | {"cpu_total": 10**400}), report("n2.x", cpus(1.0))], tmp_path)
    assert found is not None and found.nodes == [math.inf, 1.0]


@pytest.mark.parametrize(
    "second",
    [
        [],
        [report("n2.x", 5)],
        [report("n2.x", {"cpu_total": 9.0})],
        [report("n2.x", cpus(2.0) | {"cpus": ["a"]})],
        [report("n2.x", cpus(2.0) | {"cpu_number": True})],
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
    assert loads([first, second], tmp_path, xen=True) == ([0.5, 0.25, 0.75], [None, None])
    assert loads([first, report("n2.x", {}, XEN_CPU)], tmp_path, xen=True) is None
    assert capsys.readouterr().err == 'No CPU information available for ["i2.x"]\n'
    with pytest.raises(ToolError, match="Not all required data available"):
        loads([first, report("n2.x", {}, XEN_CPU)], tmp_path, xen=True, strict=True)
    capsys.readouterr()
    assert loads([first, report("n2.x", {"i2.x": "a"}, XEN_CPU)], tmp_path, xen=True) is None
    assert capsys.readouterr().err == IGNORED.format(XEN_CPU)


NO_JSON = "Invalid JSON: a JSON text a serialized object or array at the top level."
STRANGE = {"a": [1.5, {"b": True}], "c": 'é1"\n'}
STRANGE_SHOWN = (
    'JSObject (JSONObject {fromJSObject = [("a",JSArray [JSRational False (3 % 2),JSObject (JSONObject {fromJSObject = '
    '[("b",JSBool True)]})]),("c",JSString (JSONString {fromJSString = "\\233\\&1\\"\\n"}))]})'
)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("name", None, "Unable to read String"),
        ("version", None, "Invalid JSON value JSNull for type DCVersion"),
        ("version", -1, "Invalid JSON value JSRational False ((-1) % 1) for type DCVersion"),
        ("format_version", "1", "Unable to read Int"),
        ("timestamp", True, "Unable to read Integer"),
        ("category", "", "Invalid category name  for type DCCategory"),
        ("category", STRANGE, f"Invalid JSON value {STRANGE_SHOWN} for type DCCategory"),
        ("kind", 2, "Invalid JSON value 2 for type DCKind"),
        ("kind", 0.1, "Invalid JSON value 1 % 10 for type DCKind"),
        ("kind", 1e30, "Invalid JSON value 5076944270305263616 for type DCKind"),
        ("kind", False, "Invalid JSON value JSBool False for type DCKind"),
    ],
)
def test_mistakes_in_a_report(key: str, value: Any, sentence: str, tmp_path: Path) -> None:
    wrong = report("n1.x", cpus(1.0))
    wrong["reports"][0][key] = value
    with pytest.raises(ToolError) as caught:
        loads([wrong], tmp_path)
    assert str(caught.value).endswith(f"key 'reports': Can't parse value for '{key}': {sentence}")


@pytest.mark.parametrize("category", [None, "storage", "node"])
def test_reports_of_every_category(category: str | None, tmp_path: Path) -> None:
    both = [report("n1.x", cpus(1.0)), report("n2.x", cpus(1.0))]
    both[0]["reports"][0] |= {"category": category, "format_version": 1.5, "version": ""}
    del both[1]["reports"][0]["category"]
    assert loads(both, tmp_path) is not None


ANSWERS = {
    "whole": (200, json.dumps(report("n2.x", cpus(2.0))["reports"][0]), [1.0, 2.0], ""),
    "created": (201, json.dumps(report("n2.x", cpus(2.0))["reports"][0]), [1.0, 2.0], ""),
    "none": (404, "Unable to produce a report", None, "Failed to contact node's 127.0.0.2 MonD for DC cpu-avg-load\n"),
    "nonsense": (200, "hello", None, ""),
    "list": (200, "[]", None, ""),
    "blank": (200, " {}", None, ""),
    "unread": (200, json.dumps(report("n2.x", cpus(2.0))["reports"][0] | {"kind": 5}), None, ""),
}


@pytest.mark.parametrize(("status", "body", "total", "complaint"), ANSWERS.values(), ids=ANSWERS)
def test_answers_of_daemons(
    status: int,
    body: str,
    total: list[float] | None,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Daemon(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            second = self.connection.getsockname()[0] == "127.0.0.2"
            assert self.path == "/1/report/default/cpu-avg-load"
            self.send_response(status if second else 200)
            self.end_headers()
            self.wfile.write((body if second else json.dumps(report("", cpus(1.0))["reports"][0])).encode())

        def log_message(self, *what: Any) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Daemon)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(mond, "PORT", server.server_address[1])
    try:
        found = cpu_loads([Node("127.0.0.1", "g"), Node("127.0.0.2", "g")], [], Options())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (None if found is None else found.nodes) == total
    assert capsys.readouterr().err == complaint + ("" if total else IGNORED.format(CPU))


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
        ("\n[]", f"Parsing MonD's answer: {NO_JSON}"),
        ('[NaN, "NaN"]', "Parsing MonD's answer: Malformed JSON: invalid token in this context NaN, \"Na"),
        ('["NaN", -Infinity]', "Parsing MonD's answer: Unable to parse JSON Rational: nfinity]"),
        ("[-x]", "Parsing MonD's answer: Unable to parse JSON Rational: ]"),
    ],
)
def test_mistakes_in_the_file(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        loads(text, tmp_path)
    assert str(caught.value) == f"can't parse MonD data: {sentence}"
