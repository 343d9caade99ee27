# SPDX-License-Identifier: BSD-2-Clause
"""Reports of the collectors: those in ``golden/collectors`` were made by Debian's mon-collector from the same files."""

import functools
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.confd import KEY_FILE, FakeConfd

from ganeti.node.collectors import diskstats, drbd, lv
from ganeti.node.collectors.report import UnreadableError
from ganeti.tools import mon_collector
from ganeti.wire.confd import Kind

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "collectors"
TEXTS = {name: (GOLDEN / f"{name}.status").read_text() for name in ("drbd83", "drbd84", "diskstats", "lv")}
NO_PORT = "Error while parsing command line arguments:\nreading port: cannot parse string"
DEVICE = """\
version: 8.3.11 (api:88/proto:86-96)
srcversion: 2D
 7: cs:{} ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    ns:0 nr:0 dw:0 dr:0 al:0 bm:64 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
"""


def collected(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert mon_collector.main(words) == 0
    return re.sub(r'"timestamp":\d{19}', '"timestamp":0', capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["drbd", "-s", f"{GOLDEN}/drbd83.status", "-p", f"{GOLDEN}/drbd.pairing"], "drbd83"),
        (["drbd", f"--drbd-status={GOLDEN}/drbd84.status", "-p", f"{GOLDEN}/drbd.pairing"], "drbd84"),
        (["diskstats", "--file", f"{GOLDEN}/diskstats.status"], "diskstats"),
        (["lv", "-f", f"{GOLDEN}/lv.status"], "lv"),
    ],
)
def test_reports(words: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert collected(capsys, *words).strip() == (GOLDEN / f"{name}.report").read_text().strip()


@pytest.mark.parametrize(
    ("state", "code", "message"),
    [
        ("Connected", 0, ""),
        ("VerifyT", 0, ""),
        ("Unconnected", 1, "\n7: Trying to establish a network connection"),
        ("BrokenPipe", 1, "\n7: Communication problems between the peers"),
        ("TearDown", 4, "\n7: The peer is closing the connection"),
        ("StandAlone", 4, "\n7: No network config available"),
        ("Strange", 2, "\n7: The connection state Strange is not known"),
    ],
)
def test_states_of_a_device(state: str, code: int, message: str) -> None:
    assert drbd.read(DEVICE.format(state), {})["status"] == {"code": code, "message": message}


@pytest.mark.parametrize(
    ("columns", "protocol", "flags"),
    [
        ("ro:Secondary/Unknown ds:UpToDate/DUnknown   r----", " ", "r----"),
        ("ro:Secondary/Unknown ds:UpToDate/DUnknown   r-----", " ", "r-----"),
        ("ro:Secondary/Unknown ds:UpToDate/DUnknown C r---", "C", "r---"),
        ("st:Secondary/Unknown ds:UpToDate/DUnknown C r---", "C", "r---"),
        ("ro:Secondary/Unknown ds:UpToDate/DUnknown C r---- ", "C", "r---- "),
        ("ro:Secondary/Unknown ds:UpToDate/DUnknown C", "C", ""),
        ("ro:Secondary/Unknown ds:UpToDate/DUnknown C ", "C", ""),
        ("ro:Secondary/Unknown  ds:UpToDate/DUnknown  C r---", " ", "C r---"),
    ],
)
def test_flags_are_few_or_many(columns: str, protocol: str, flags: str) -> None:
    """What Debian's collector makes of the same lines, which releases from 8.0 to 8.4 write."""
    text = DEVICE.replace("ro:Primary/Secondary ds:UpToDate/UpToDate C r-----", columns).format("StandAlone")
    (device,) = drbd.read(text, {})["deviceInfos"]
    assert (device["localRole"], device["remoteState"]) == ("Secondary", "DUnknown")
    assert (device["replicationProtocol"], device["ioFlags"]) == (protocol, flags)


def test_the_version_of_the_source_is_the_rest_of_its_line() -> None:
    text = DEVICE.format("Connected").replace("srcversion: 2D", "srcversion: 2D ")
    assert drbd.read(text, {})["versionInfo"]["srcversion"] == "2D "


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["drbd"], ["-s"]),
        (["drbd", "-s", f"{GOLDEN}/drbd84.status"], ["-p"]),
        (["diskstats"], ["-f"]),
        (["lv"], ["-f"]),
        (["lv", "-f", f"{GOLDEN}/lv.status"], ["-i"]),
    ],
    ids=["status", "pairing", "diskstats", "volumes", "instances"],
)
def test_an_input_without_end(words: list[str], options: list[str]) -> None:
    """It is refused long before it fills the memory of the node."""
    command = [sys.executable, "-m", "ganeti.tools.mon_collector", *words, *options, "/dev/zero"]
    memory_bytes = 512 << 20
    limited = functools.partial(resource.setrlimit, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limited)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("/dev/zero: it has no end within 64 MiB: name a file that has one\n")
    assert done.stderr.count("\n") == 1


def test_an_input_that_comes_too_slowly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(mon_collector, "_PATIENCE_S", 0.05)
    reading, writing = os.pipe()
    try:
        os.write(writing, b"version: 8.4\n")
        assert mon_collector.main(["drbd", "-s", f"/proc/self/fd/{reading}"]) == 1
    finally:
        os.close(reading)
        os.close(writing)
    sentence = "its end did not come within 0.05 s: name a file that has one"
    assert capsys.readouterr().err == f"Error: reading from file: /proc/self/fd/{reading}: {sentence}\n"


def test_lvm_that_never_stops_talking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "lvs"
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert mon_collector.main(["lv"]) == 1
    said = "running command: lvs: its answer has no end within 64 MiB: see what 'lvs' prints"
    assert capsys.readouterr().err == f"Error: {said}\n"
    program.write_text("#!/bin/sh\nexec sleep 100\n")
    monkeypatch.setattr(mon_collector, "_LVS_TIMEOUT_S", 0.05)
    assert mon_collector.main(["lv"]) == 1
    assert capsys.readouterr().err == "Error: running command: lvs: no answer within 0.05 s\n"


def test_newer_kernels_count_more() -> None:
    (disk,) = diskstats.read("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n")
    assert (disk["readsNum"], disk["wIOmillis"], len(disk)) == (1, 11, 14)


def test_this_nodes_disks(capsys: pytest.CaptureFixture[str]) -> None:
    disks = json.loads(collected(capsys, "diskstats"))["data"]
    assert len(disks) == sum(1 for line in Path(diskstats.PLACE).read_text().splitlines() if line.strip())


def test_volumes_have_owners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume = "df9ff3f6-a833-48ff-8bd5-bff2eaeab759.disk0_"
    data, meta = ({"dev_type": "plain", "logical_id": ["xenvg", f"{volume}{end}"]} for end in ("data", "meta"))
    mirrored = {"dev_type": "drbd", "logical_id": ["a", "b", 1, 2, 3, "secret"], "children": [data, meta]}
    (tmp_path / "owners").write_text(json.dumps([[{"name": "web.x"}, [mirrored]]]))
    report = json.loads(collected(capsys, "lv", "-f", f"{GOLDEN}/lv.status", "-i", f"{tmp_path}/owners"))
    assert [entry["instance"] for entry in report["data"]] == ["web.x", "web.x"]
    filed = {"dev_type": "file", "logical_id": ["xenvg", f"{volume}data"]}
    (tmp_path / "owners").write_text(json.dumps([[{"name": "web.x"}, [filed]]]))
    report = json.loads(collected(capsys, "lv", "-f", f"{GOLDEN}/lv.status", "-i", f"{tmp_path}/owners"))
    assert [entry["instance"] for entry in report["data"]] == [None, None], "a file is no volume"


def test_volumes_are_asked_of_lvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    program = tmp_path / "lvs"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\ncat {GOLDEN}/lv.status\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    nobody = (GOLDEN / "lv.report").read_text().strip()
    by_tags = nobody.replace('"instance":null', '"instance":"instance1.example.com"')
    assert collected(capfd, "lv").strip() == by_tags != nobody
    assert (tmp_path / "asked").read_text() == (
        "--noheadings --units B --separator ; -o lv_uuid,lv_name,lv_attr,lv_major,lv_minor,lv_kernel_major,"
        "lv_kernel_minor,lv_size,seg_count,lv_tags,modules,vg_uuid,vg_name,segtype,seg_start,seg_start_pe,seg_size,"
        "seg_tags,seg_pe_ranges,devices\n"
    )
    program.write_text("#!/bin/sh\necho 'no permission' >&2; exit 5\n")
    assert mon_collector.main(["lv"]) == 1
    said = capfd.readouterr().err
    assert said.startswith('no permission\nError: running command: readCreateProcess: lvs "--noheadings" "--units" "B"')
    assert said.endswith('segtype,seg_start,seg_start_pe,seg_size,seg_tags,seg_pe_ranges,devices" (exit 5): failed\n')
    program.write_text("#!/bin/sh\nprintf 'a;\\377;b'\n")
    assert mon_collector.main(["lv"]) == 1
    assert (
        capfd.readouterr().err
        == "Error: running command: lvs: what it prints is not text: rename what has an odd name\n"
    )
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert mon_collector.main(["lv"]) == 1
    reason = "readCreateProcess: posix_spawnp: does not exist (No such file or directory)"
    assert capfd.readouterr().err == f"Error: running command: lvs: {reason}\n"


@pytest.mark.parametrize(
    ("words", "text", "sentence"),
    [
        (["drbd", "-s"], "", "it does not begin with the version of the kernel module"),
        (["drbd", "-s"], "version: 1\n 0: cs:Connected foo\n", "the states of device 0 cannot be read: 'foo'"),
        (["diskstats", "-f"], "1 2 sda 3\n", "line 1 has 4 columns, not 14 or more"),
        (["diskstats", "-f"], f"1 2 sda {'x ' * 11}", "line 1: 'x' is not a whole number"),
        (["lv", "-f"], "a;b\n", "line 1 has 2 columns, not 20"),
    ],
)
def test_nonsense_is_one_sentence(
    words: list[str], text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text(text)
    assert mon_collector.main([*words, f"{tmp_path}/file"]) == 1
    assert capsys.readouterr().err == f"Error: {sentence}\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Malformed JSON: invalid token in this context "),
        ("x", "Malformed JSON: invalid token in this context x"),
        ("{}", "Unable to read list"),
        ("[5]", "it is not a list of pairs, each of an instance and a list of its disks"),
    ],
)
def test_a_bad_list_of_instances(text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list").write_text(text)
    assert mon_collector.main(["lv", "-f", f"{GOLDEN}/lv.status", "-i", f"{tmp_path}/list"]) == 1
    begin = "Error: Unable to obtain the list of instances: Not a list of instances: "
    assert capsys.readouterr().err == f"{begin}{sentence}\n"


def test_files_in_place_of_confd_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "/nope: openFile: does not exist (No such file or directory)"
    assert mon_collector.main(["drbd", "-s", f"{GOLDEN}/drbd84.status", "-p", "/nope"]) == 1
    assert capsys.readouterr() == ("", f"mon-collector: {reason}\n")
    assert mon_collector.main(["lv", "-f", f"{GOLDEN}/lv.status", "-i", "/nope"]) == 1
    assert capsys.readouterr() == ("", f"Error: reading from file: {reason}\n")


def test_guests_of_xen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As Debian's says it on a node of a cluster with ConfD and without Xen."""
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    key = tmp_path / "var/lib/ganeti/hmac.key"
    for words in ([], ["x"], ["-p", "1815"]):
        assert mon_collector.main(["inst-status-xen", *words]) == 1
        reason = f"{key}: openBinaryFile: does not exist (No such file or directory)"
        assert capsys.readouterr().err == f"Error: Can't get instance info from ConfD: {reason}\n"
    key.parent.mkdir(parents=True)
    key.write_text("secret")
    missing = "xm: readCreateProcess: posix_spawnp: does not exist (No such file or directory)"
    message = f"Unable to receive the list of instances: {missing}\\n{missing}"
    assert collected(capsys, "inst-status-xen") == (
        '{"name":"inst-status-xen","version":"B","format_version":1,"timestamp":0,"category":"instance","kind":1,"data":'
        f'{{"instances":[],"status":{{"code":4,"message":"{message}"}}}}}}\n'
    )
    (tmp_path / "xl").write_text("#!/bin/sh\n")
    (tmp_path / "xl").chmod(0o755)
    assert mon_collector.main(["inst-status-xen"]) == 1
    assert "neither Xen nor a ConfD" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[1]", "{}", '[["n1","0","i","d","p","n2"]]', "nonsense"])
def test_a_bad_pairing_leaves_devices_without_names(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairing").write_text(text)
    assert mon_collector.main(["drbd", "-s", f"{GOLDEN}/drbd84.status", "-p", f"{tmp_path}/pairing"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Can't get pairing info: ")
    assert json.loads(said.out)["data"]["deviceInfos"][0]["instance"] is None


def test_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert mon_collector.main(["drbd", "-s", "/nowhere"]) == 1
    assert capsys.readouterr().err == (
        "Error: reading from file: /nowhere: openFile: does not exist (No such file or directory)\n"
    )


@pytest.mark.parametrize(
    ("words", "status", "out", "err"),
    [
        ([], 1, "Usage: mon-collector {command} [options...] [argument...]\n", ""),
        (["cpu"], 1, "Usage: mon-collector ", ""),
        (["--help"], 0, "Usage: mon-collector ", ""),
        (["--version"], 0, "mon-collector (ganeti) version 3.1.0\n", ""),
        (["--help-completion"], 0, "choices=drbd,inst-status-xen,diskstats,lv 1 1\n", ""),
        (
            ["lv", "--help"],
            0,
            "mon-collector (ganeti) version 3.1.0\nUsage: mon-collector [OPTION...]\n  -f, --file=FILE  ",
            "",
        ),
        (["lv", "--help-completion"], 0, "-f,--file file\n-a,--address file\n-p,--port integer\n", ""),
        (["drbd", "x", "y"], 1, "", "Error: This program takes exactly zero arguments, got 'x y'\n"),
        (["drbd", "--foo"], 2, "", "Command line error: unrecognized option `--foo'\n\nmon-collector (ganeti)"),
        (["lv", "-p", "abc"], 1, "", f"{NO_PORT} 'abc'\n"),
        *(
            (["lv", "-p", port], 1, "", f"{NO_PORT} '{port}'\n")
            for port in ("-1", "0", "65536", "70000", "9" * 5000, "+5", " 5", "\u0665", "")
        ),
        (["lv", "-p", "000065535", "--version"], 0, "mon-collector (ganeti) version 3.1.0\n", ""),
        (["inst-status-xen"], 1, "", "Error: Can't get instance info from ConfD: "),
    ],
)
def test_command_lines(words: list[str], status: int, out: str, err: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mon_collector.main(words) == status
    said = capsys.readouterr()
    assert said.out.startswith(out) and bool(said.out) == bool(out)
    assert said.err.startswith(err) and bool(said.err) == bool(err)


@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_damaged_text_is_read_or_refused(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    damaged = text[:start] + data.draw(st.text(max_size=8)) + text[end:]
    try:
        if name.startswith("drbd"):
            drbd.read(damaged, {})
        elif name == "lv":
            lv.read(damaged, {})
        else:
            diskstats.read(damaged)
    except UnreadableError as error:
        assert str(error)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=6), max_leaves=12))
def test_lists_of_owners_are_read_or_refused(content: Any) -> None:
    for read in (drbd.owners, lv.owners):
        try:
            read(content)
        except UnreadableError as error:
            assert str(error)


def test_it_starts_as_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["mon-collector", "--help"])
    assert mon_collector.main() == 0
    assert "diskstats" in capsys.readouterr().out


VOLUME = "df9ff3f6-a833-48ff-8bd5-bff2eaeab759.disk0_data"
CONFIG: dict[str, Any] = {
    "cluster": {"cluster_name": "cluster.x"},
    "nodes": {"u1": {"name": "n1"}, "u2": {"name": "n2"}},
    "instances": {"i1": {"name": "web.x", "primary_node": "u1", "disks": ["d1"]}},
    "disks": {
        "d1": {
            "dev_type": "drbd",
            "nodes": ["u1", "u2"],
            "logical_id": ["u1", "u2", 11000, 1, 0, "secret"],
            "children": [{"dev_type": "plain", "logical_id": ["xenvg", VOLUME]}],
        }
    },
}


@pytest.fixture
def candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a node's own copy, and programs that tell of its devices; gives the directory."""
    data = tmp_path / "var/lib/ganeti"
    data.mkdir(parents=True)
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    monkeypatch.setenv("GANETI_HOSTNAME", "n1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    two = DEVICE.format("Connected").replace(" 7: ", " 1: ")
    (tmp_path / "drbd").write_text(
        two + "".join(DEVICE.format("Connected").replace(" 7: ", " 0: ").splitlines(True)[2:])
    )
    monkeypatch.setattr(drbd, "PLACE", f"{tmp_path}/drbd")
    program = tmp_path / "lvs"
    program.write_text(f"#!/bin/sh\ncat {GOLDEN}/lv.status\n")
    program.chmod(0o755)
    (data / "ssconf_cluster_name").write_text("cluster.x\n")
    (data / "ssconf_master_candidates").write_text("n1\nn2\n")
    (data / "config.data").write_text(json.dumps(CONFIG))
    return data


def owners(capsys: pytest.CaptureFixture[str], *words: str) -> list[str | None]:
    data = json.loads(collected(capsys, *words))["data"]
    devices = data if isinstance(data, list) else [device for device in data["deviceInfos"] if "instance" in device]
    return [device["instance"] for device in devices]


def test_a_candidates_copy_names_the_owners(
    candidate: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert owners(capsys, "drbd") == ["web.x", None]
    assert owners(capsys, "lv") == ["web.x", None], "what the copy does not know is nobody's, whatever its tag says"
    monkeypatch.setenv("GANETI_HOSTNAME", "n2")
    assert owners(capsys, "drbd") == [None, "web.x"]
    monkeypatch.setenv("GANETI_HOSTNAME", "n1")
    for stand_in in (["drbd", "-s", drbd.PLACE], ["lv", "-f", f"{GOLDEN}/lv.status"]):
        assert set(owners(capsys, *stand_in)) == {None}, "a file may be of any node"


def test_a_configuration_is_not_looked_at_where_files_tell(
    candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "owners").write_text("[]")
    assert owners(capsys, "lv", "-i", f"{tmp_path}/owners") == [None, None]
    (tmp_path / "pairing").write_text("[]")
    assert owners(capsys, "drbd", "-p", f"{tmp_path}/pairing") == [None, None]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.data", "{"),
        ("config.data", ""),
        ("config.data", "\x00" * 100),
        ("config.data", "[" * 200000),
        ("config.data", b"\xff\xfe"),
        ("config.data", "[]"),
        ("config.data", json.dumps(CONFIG)[:-40]),
        ("config.data", json.dumps(CONFIG | {"cluster": {"cluster_name": "other.x"}})),
        ("config.data", json.dumps(CONFIG | {"cluster": None})),
        ("config.data", json.dumps(CONFIG | {"nodes": {}})),
        ("config.data", None),
        ("ssconf_cluster_name", "other.x\n"),
        ("ssconf_cluster_name", "\n"),
        ("ssconf_cluster_name", None),
        ("ssconf_master_candidates", "n2\n"),
        ("ssconf_master_candidates", b"\xff"),
        ("ssconf_master_candidates", None),
    ],
    ids=range(17),
)
def test_a_copy_that_does_not_count_names_nobody(
    name: str, content: str | bytes | None, candidate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = candidate / name
    if content is None:
        place.unlink()
        place.mkdir()  # which is not to be read, even by root
    else:
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    assert owners(capsys, "drbd") == [None, None]
    assert owners(capsys, "lv") == ["instance1.example.com"] * 2, "the tags are there still"


def test_the_parts_of_a_copy_may_be_damaged(candidate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damages: tuple[Any, ...] = (None, [], 5, {"i1": None}, {"d1": {"logical_id": "x"}})
    for kind in ("instances", "disks"):
        for damage in damages:
            (candidate / "config.data").write_text(json.dumps(CONFIG | {kind: damage}))
            assert owners(capsys, "drbd") == [None, None]
            assert owners(capsys, "lv") == [None, None]


def test_a_confd_that_is_named_is_asked(candidate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    confd = FakeConfd()
    try:
        confd.answers = {
            (Kind.NODE_INSTANCES, "n1"): [[{"name": "told.x"}], []],
            (Kind.INSTANCE_DISKS, "told.x"): [{"dev_type": "plain", "logical_id": ["xenvg", VOLUME]}],
        }
        words = ("lv", "-f", f"{GOLDEN}/lv.status", "-a", "127.0.0.1", "-p", str(confd.port))
        assert owners(capsys, *words) == [None, None], "there is no key"
        (candidate / "hmac.key").write_bytes(KEY_FILE)
        assert owners(capsys, *words) == ["told.x", None]
        assert owners(capsys, "lv", *words[3:]) == ["told.x", None]
    finally:
        confd.close()
    assert owners(capsys, *words) == [None, None], "nobody answers"
    assert owners(capsys, "lv", *words[3:]) == ["web.x", None], "but the node knows"
