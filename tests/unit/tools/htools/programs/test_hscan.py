# SPDX-License-Identifier: BSD-2-Clause
"""Lines and files about several clusters; what is wanted was printed by Debian's hscan for the same input."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import GROUP, INFO, fake_master, instance, node

from ganeti.tools.htools.loading import rapi
from ganeti.tools.htools.programs import hscan

HEADER = "Nodes  Inst BNode BInst  t_mem  f_mem t_disk f_disk      Score"
ROW = "    4     6     0     0  65536  56000   1600   1171 11.38139798"
FILE = """\
default|u1|preferred||

n1.x|16384|1024|14000|409600|300000|8|M|u1|1||N|0|1|1.0
n2.x|16384|1024|14000|409600|300000|8|N|u1|1||N|0|1|1.0
n3.x|16384|1024|14000|409600|300000|8|N|u1|1||N|0|1|1.0
n4.x|16384|1024|14000|409600|300000|8|N|u1|1||N|0|1|1.0

i1.x|512|10240|1|running|Y|n1.x|n2.x|drbd||1|-|N
"""
TABLE = "".join(
    f" {row}\n"
    for row in (
        "F Name t_mem n_mem i_mem x_mem f_mem u_mem r_mem t_dsk f_dsk "
        "pcpu vcpu pcnt scnt p_fmem p_fdsk r_cpu  lCpu  lMem  lDsk  lNet",
        "  n1   16384  4096  9006  3282     0     0     0   401   292 "
        "   8    6    6    0 0.0000 0.7315  0.75 6.000 6.000 6.000 6.000",
        "* n2   16384  4096     0  9288  3000  3000 15012   801   293 "
        "   8    1    0    6 0.1831 0.3666  0.12 0.000 0.000 6.000 0.000",
        "  n3   16384  4096     0  6288  6000  6000     0  1201   293 "
        "   8    1    0    0 0.3662 0.2449  0.12 0.000 0.000 0.000 0.000",
        "  n4   16384  4096     0  3288  9000  9000     0  1601   294 "
        "   8    1    0    0 0.5493 0.1840  0.12 0.000 0.000 0.000 0.000",
    )
)


def nested(item: dict[str, Any]) -> dict[str, Any]:
    """What queries tell, as RAPI has it."""
    outer = {"be": "beparams", "ndp": "ndparams"}
    found: dict[str, Any] = {}
    for key, value in item.items():
        prefix, slash, inner = key.partition("/")
        if slash:
            found.setdefault(outer[prefix], {})[inner] = value
        else:
            found[key] = value
    return found


def files(place: Path, nodes: list[dict[str, Any]] | None = None, instances: Any = None) -> str:
    """Write a cluster as RAPI shows it; gives its address."""
    place.mkdir()
    shown = [item | {"oper_ram": item["be/memory"]} for item in instances or guests()]
    parts = {
        "groups": [GROUP],
        "nodes": [nested(item) for item in nodes or machines()],
        "instances": [nested(item) for item in shown],
        "info": INFO | {"default_hypervisor": "kvm"},
    }
    for name, content in parts.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return f"file://{place}"


def machines() -> list[dict[str, Any]]:
    return [node(f"n{number}.x") for number in range(1, 5)]


def guests() -> list[dict[str, Any]]:
    return [instance(f"i{number}.x", "n1.x", "n2.x") for number in range(1, 7)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_lines_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = files(tmp_path / "a")
    (tmp_path / "out").mkdir()
    assert hscan.main(["-d", "out", good, "file:///nowhere"]) == 2
    width = max(len(good), len("file:///nowhere"))
    assert capsys.readouterr().out == (
        f"{'Name':{width}} {HEADER}\n{good:{width}} {ROW}\n"
        "\nError for file:///nowhere: failed to load data. Details:\n"
        "/nowhere/groups.json: openFile: does not exist (No such file or directory)\n"
    )
    written = (tmp_path / "out" / f"{good.replace('/', '_')}.data").read_text()
    assert written.startswith(FILE)
    assert written.endswith("drbd,plain|4.0|32.0\n")
    assert written.count("|drbd||1|-|N\n") == 6


def test_the_node_table_and_no_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = [{"dtotal": 409600.5 * k + 512, "dfree": 299489 + k * 511, "mfree": 3000 * (k - 1)} for k in range(1, 5)]
    nodes = [item | change for item, change in zip(machines(), changes, strict=True)]
    statuses = ["running", "ADMIN_down", "ERROR_up", "ADMIN_offline"]
    instances = [
        item | {"be/memory": 3000 + number, "status": statuses[number % 4]} for number, item in enumerate(guests())
    ]
    address = files(tmp_path / "a", nodes, instances)
    assert hscan.main(["--no-headers", "-p", address]) == 0
    row = "    4     6     1     6  65536  18000   4002   1174 18.30779364"
    assert capsys.readouterr().out == f"{address} {row}\n{TABLE}"


def test_this_machines_own_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_master(tmp_path / "socket", machines(), guests()) as master:
        master.info["default_hypervisor"] = "kvm"
        assert hscan.main([f"-L{tmp_path}/socket"]) == 0
    assert capsys.readouterr().out == f"Name  {HEADER}\nLOCAL {ROW}\n"
    assert (tmp_path / "LOCAL.data").read_text().startswith(FILE)
    assert hscan.main([f"-L{tmp_path}/missing"]) == 2
    assert "\nError for LOCAL: failed to load data. Details:\nCannot connect to" in capsys.readouterr().out


def test_a_directory_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hscan.main(["-d", "nodir", files(tmp_path / "a")]) == 1
    assert capsys.readouterr().err.startswith("hscan: nodir/file:")


class Server(http.server.BaseHTTPRequestHandler):
    """Refuses, says nonsense, or says nothing, by its port's wish."""

    body = b""
    status = 200
    hang: threading.Event | None = None

    def do_GET(self) -> None:
        if self.hang is not None:
            self.hang.wait(30)
            return
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[type[Server], str]]:
    class Own(Server):
        pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield Own, f"http://127.0.0.1:{listening.server_port}"
    if Own.hang is not None:
        Own.hang.set()
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (401, b"", "error CurlHttpReturnedError"),
        (500, b"[]", "error CurlHttpReturnedError"),
        (200, b"<html>", "Parsing group data: "),
        (200, b"\xff\xfe", "Parsing group data: "),
        (200, b"[1]", "Parsing cluster info: Unable to read JSObject"),
        (200, b"null", "Parsing group data: "),
    ],
)
def test_a_server_that_is_no_help(
    server: tuple[type[Server], str], status: int, body: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own, address = server
    own.status, own.body = status, body
    assert hscan.main(["--no-headers", address]) == 2
    said = capsys.readouterr()
    assert said.out.startswith(f"\nError for {address}: failed to load data. Details:\n")
    assert sentence in said.out
    assert (said.out.count("\n"), said.err) == (3, "")


def test_a_server_that_hangs(
    server: tuple[type[Server], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, address = server
    own.hang = threading.Event()
    monkeypatch.setattr(rapi, "_TIMEOUT_S", 0.05)
    assert hscan.main(["--no-headers", address]) == 2
    assert capsys.readouterr().out.endswith("error CurlOperationTimeout\n")


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert hscan.main(["--no-headers", f"http://127.0.0.1:{free.getsockname()[1]}"]) == 2
    assert capsys.readouterr().out.endswith("error CurlCouldntConnect\n")
