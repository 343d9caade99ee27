# SPDX-License-Identifier: BSD-2-Clause
"""Clusters read from RAPI, from files with what RAPI says, and from a master daemon.

The texts and what becomes of each value were seen of 3.0.2 with the same files.
"""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ganeti.placement.cluster.picture import Cluster, Disk
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.loading import rapi
from ganeti.tools.htools.loading.sources import Loaded, load

SPEC = {"memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1, "spindle-use": 1}
POLICY = {
    "std": SPEC,
    "minmax": [{"min": SPEC, "max": SPEC}],
    "disk-templates": ["drbd", "plain"],
    "vcpu-ratio": 3.0,
    "spindle-ratio": 32.0,
}
GROUP = {"name": "default", "uuid": "u1", "alloc_policy": "last_resort", "ipolicy": POLICY, "tags": ["g"]}
NODE = {
    "name": "n1.x",
    "group.uuid": "u1",
    "offline": False,
    "drained": False,
    "vm_capable": True,
    "ndparams": {"spindle_count": 7, "exclusive_storage": False, "cpu_speed": 2.0},
    "mtotal": 16384,
    "mnode": 1024,
    "mfree": 14848,
    "dtotal": 409600,
    "dfree": 368512,
    "ctotal": 8,
    "cnos": 2,
    "tags": ["a"],
}
INSTANCE = {
    "name": "i1.x",
    "disk_usage": 41088,
    "disk.sizes": [40960],
    "disk.spindles": [None],
    "beparams": {"maxmem": 600, "vcpus": 1, "auto_balance": False, "spindle_use": 3},
    "oper_ram": 512,
    "pnode": "n1.x",
    "snodes": [],
    "status": "running",
    "tags": ["b"],
    "disk_template": "plain",
}
INFO = {"master": "n1.x", "tags": ["t"], "ipolicy": POLICY, "default_hypervisor": "kvm"}
NODE_ERROR = "Node 'n1.x', error while parsing data: "
INSTANCE_ERROR = "Instance 'i1.x', error while parsing data: "
KEYS_OF_A_NODE = (
    '["name","group.uuid","offline","drained","vm_capable","ndparams","mtotal","mnode","mfree","dtotal","dfree","ctotal",'
    '"cnos","tags"]'
)


def parts(**changes: Any) -> dict[str, Any]:
    plain = {"groups": [GROUP], "nodes": [NODE], "instances": [INSTANCE], "info": INFO}
    return {**plain, **changes}


def loaded(address: str, *, node_memory_mib: int = 4096) -> Loaded:
    options = Options()
    options.rapi, options.verbosity, options.static_node_memory_mib = address, 0, node_memory_mib
    return load(options)


def from_files(place: Path, **changes: Any) -> Cluster:
    for name, content in parts(**changes).items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return loaded(f"file://{place}").cluster


def test_a_cluster_from_files(tmp_path: Path) -> None:
    cluster = from_files(tmp_path)
    (node,), (instance,), (group,) = cluster.nodes, cluster.instances, cluster.groups
    assert (node.total_memory_mib, node.node_memory_mib, node.free_memory_mib) == (16384.0, 4096, 14848)
    assert (node.total_disk_mib, node.free_disk_mib, node.total_cpus, node.node_cpus) == (409600.0, 368512, 8.0, 2)
    assert (node.spindles, node.free_spindles, node.cpu_speed, node.tags) == (7, 0, 1.0, ("a",))
    assert (instance.memory_mib, instance.disk_mib, instance.disks) == (512, 41088, (Disk(40960, None),))
    assert (instance.auto_balance, instance.spindle_use, instance.primary, instance.secondary) == (False, 3, "n1.x", "")
    assert (group.alloc_policy.value, group.policy.vcpu_ratio, group.tags) == ("last_resort", 3.0, ("g",))
    assert (list(cluster.tags), cluster.policy.vcpu_ratio) == (["t"], 3.0)
    assert loaded(f"file://{tmp_path}").master == "n1.x"
    assert loaded(f"file://{tmp_path}", node_memory_mib=0).cluster.nodes[0].node_memory_mib == 1024


@pytest.mark.parametrize(
    ("changes", "unavailable", "memory", "spindles"),
    [
        ({"offline": True, "mtotal": None, "mnode": None}, "offline", 0.0, 7),
        ({"vm_capable": False}, "not vm_capable", 0.0, 7),
        ({"drained": True}, "drained", 16384.0, 7),
        ({"ndparams": {"exclusive_storage": True}, "sptotal": 5, "spfree": 2}, "", 16384.0, 5),
        ({"dtotal": None, "dfree": None, "vm_capable": None}, "", 16384.0, 7),
    ],
)
def test_nodes(changes: dict[str, Any], unavailable: str, memory: float, spindles: int, tmp_path: Path) -> None:
    (node,) = from_files(tmp_path, nodes=[NODE | changes]).nodes
    assert (node.unavailable, node.total_memory_mib, node.spindles) == (unavailable, memory, spindles)


@pytest.mark.parametrize(("used", "memory"), [(512, 512), (None, 600), ("-", 600)])
def test_memory_of_an_instance(used: Any, memory: int, tmp_path: Path) -> None:
    (instance,) = from_files(tmp_path, instances=[INSTANCE | {"oper_ram": used}]).instances
    assert instance.memory_mib == memory


def without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"groups": [{}]}, "Parsing new group: key 'name' not found, object contains only []"),
        (
            {"groups": [GROUP | {"alloc_policy": "x"}]},
            "Group 'default': key 'alloc_policy': Invalid string value for type AllocPolicy: \"x\"",
        ),
        ({"groups": [GROUP | {"ipolicy": None}]}, "Group 'default': key 'ipolicy': Unable to read JSObject"),
        ({"groups": [GROUP | {"uuid": "u2"}]}, "Unknown group 'u1' for node n1.x"),
        ({"nodes": [NODE | {"name": None}]}, "Parsing new node: key 'name': Unable to read String"),
        ({"nodes": [NODE | {"mtotal": None}]}, f"{NODE_ERROR}key 'mtotal': Unable to read Double"),
        ({"nodes": [NODE | {"mnode": None}]}, f"{NODE_ERROR}key 'mnode': Unable to read Int"),
        (
            {"nodes": [NODE | {"ndparams": {}}]},
            f"{NODE_ERROR}key 'exclusive_storage' not found, object contains only []",
        ),
        (
            {"nodes": [NODE | {"ndparams": {"exclusive_storage": True}}]},
            f"{NODE_ERROR}key 'sptotal' not found, object contains only {KEYS_OF_A_NODE}",
        ),
        ({"instances": [INSTANCE | {"pnode": "zz"}]}, "Unknown node 'zz' for instance i1.x"),
        ({"instances": [INSTANCE | {"snodes": ["zz"]}]}, "Unknown node 'zz' for instance i1.x"),
        (
            {"instances": [INSTANCE | {"status": "foo"}]},
            f"{INSTANCE_ERROR}key 'status': Invalid string value for type InstanceStatus: \"foo\"",
        ),
        ({"instances": [INSTANCE | {"disk.sizes": None}]}, f"{INSTANCE_ERROR}key 'disk.sizes': Unable to read list"),
        (
            {"instances": [INSTANCE | {"beparams": {}}]},
            f"{INSTANCE_ERROR}key 'vcpus' not found, object contains only []",
        ),
        ({"info": INFO | {"master": "zz"}}, "Master node zz unknown"),
        (
            {"info": without(INFO, "master")},
            "Parsing cluster data: key 'master' not found, object contains only"
            ' ["tags","ipolicy","default_hypervisor"]',
        ),
        ({"info": 5}, "Parsing cluster info: Invalid JSON: a JSON text a serialized object or array at the top level."),
        ({"nodes": {}}, "Parsing node data: Unable to read list"),
    ],
)
def test_mistakes(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        from_files(tmp_path, **changes)
    assert str(caught.value) == f"failed to load data, aborting: {sentence}"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"groups\.json: openFile: does not exist \(No such file or directory\)"):
        loaded(f"file://{tmp_path}")


# over HTTP


@contextmanager
def server(answer: Any) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answer(self.path.partition("?")[0].rpartition("/")[2])
            if status:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield listening.server_port, asked
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_a_cluster_over_http() -> None:
    with server(lambda name: (200, json.dumps(parts()[name]).encode())) as (port, asked):
        assert loaded(f"http://127.0.0.1:{port}").master == "n1.x"
        assert loaded(f"127.0.0.1:{port}").cluster.nodes[0].name == "n1.x"
    assert asked[:4] == ["/2/groups?bulk=1", "/2/nodes?bulk=1", "/2/instances?bulk=1", "/2/info"]


@pytest.mark.parametrize(
    ("scheme", "status", "word"),
    [
        ("http", 404, "CurlHttpReturnedError"),
        ("http", 0, "CurlGotNothing"),
        ("https", 200, "CurlSSLConnectError"),
    ],
)
def test_a_server_that_is_no_help(scheme: str, status: int, word: str) -> None:
    with server(lambda name: (status, b"{}")) as (port, _):
        address = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(ToolError) as caught:
            loaded(address)
    assert (
        str(caught.value) == f"failed to load data, aborting: Curl error for '{address}/2/groups?bulk=1', error {word}"
    )


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ToolError, match=f"Curl error for '{address}/2/groups.bulk=1', error CurlCouldntConnect"):
            loaded(address)


# from the master daemon


def luxi_answer(method: str, arguments: list[Any], **changes: Any) -> Any:
    if method == "QueryClusterInfo":
        return INFO
    what, fields, _ = arguments
    item = {"node": NODE, "instance": INSTANCE, "group": GROUP}[what] | changes.get(what, {})
    return {"data": [[_luxi_value(item, field) for field in fields]]}


def _luxi_value(item: dict[str, Any], field: str) -> list[Any]:
    outer, _, inner = field.partition("/")
    if inner:
        return [0, 512 if inner == "memory" else item[{"be": "beparams", "ndp": "ndparams"}[outer]][inner]]
    value = item.get(field)
    return [0, value] if value is not None else [2, None]


@contextmanager
def master_daemon(path: Path, **changes: Any) -> Iterator[None]:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
                while b"\x03" in received:
                    document, _, received = received.partition(b"\x03")
                    asked = json.loads(document)
                    answer = luxi_answer(asked["method"], asked["args"], **changes)
                    connection.sendall(json.dumps({"success": True, "result": answer}).encode() + b"\x03")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(10)
        listening.close()


def luxi_options(path: Path) -> Options:
    options = Options()
    options.luxi, options.verbosity = str(path), 0
    return options


def test_a_cluster_from_the_master_daemon(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with master_daemon(path):
        found = load(luxi_options(path))
    (node,), (instance,) = found.cluster.nodes, found.cluster.instances
    assert found.master == "n1.x"
    assert (node.cpu_speed, node.spindles, node.node_memory_mib) == (2.0, 7, 4096)
    assert (instance.memory_mib, instance.vcpus, instance.auto_balance) == (512, 1, False)


def test_a_silent_node_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with (
        master_daemon(path, node={"mtotal": None}),
        pytest.raises(ToolError, match=r"Node n1\.x did not say .*gnt-node"),
    ):
        load(luxi_options(path))


def test_no_master_daemon(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"failed to load data, aborting: Cannot connect to .*is the daemon running"):
        load(luxi_options(tmp_path / "socket"))


def test_name_and_password_of_an_address_are_a_login() -> None:
    assert rapi._login(urlsplit("https://127.0.0.1:5080")) == {}
    assert rapi._login(urlsplit("https://jack:a%3Ab@h")) == {"Authorization": "Basic amFjazphOmI="}
