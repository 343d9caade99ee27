# SPDX-License-Identifier: BSD-2-Clause
"""The OS definitions of the tree: complete, and right on raw files, qcow2 images and disks known by URI only."""

import os
import subprocess

import pytest

from ganeti.tools.testbed import guest

DEFINITIONS = guest.tree() / "os"
SCRIPTS = ("create", "import", "export", "rename", "verify")
SIZE_BYTES = 2 << 20
CONFIG = slice(guest.CONFIG_SECTOR * 512, (guest.CONFIG_SECTOR + guest.CONFIG_SECTORS) * 512)


def run(script, definition="heartbeat", arguments=(), **environment):
    settings = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "INSTANCE_NAME": "web1", "DISK_COUNT": "1"} | environment
    return subprocess.run(
        [f"./{script}", *arguments],
        cwd=DEFINITIONS / definition,
        env=settings,
        input=settings.pop("input", None),
        capture_output=True,
        check=False,
    )


@pytest.fixture(params=["raw", "qcow2", "uri"])
def disk(request, tmp_path):
    """The environment that names a disk, and its content."""
    path = tmp_path / "disk"
    image_format = "raw" if request.param == "uri" else request.param
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, str(path), str(SIZE_BYTES)], check=True)

    def content():
        raw = tmp_path / "raw"
        subprocess.run(["qemu-img", "convert", "-f", image_format, "-O", "raw", str(path), str(raw)], check=True)
        return raw.read_bytes()

    kind = "URI" if request.param == "uri" else "PATH"
    name = f"file:{path}" if request.param == "uri" else str(path)
    return kind, name, content


@pytest.mark.parametrize("definition", ["heartbeat", "noop"])
def test_definitions_are_whole(definition):
    place = DEFINITIONS / definition
    assert (place / "ganeti_api_version").read_text().split() == ["20", "15", "10"]
    assert (place / "variants.list").read_text().split() == ["default"]
    for script in SCRIPTS:
        assert os.access(place / script, os.X_OK)
        interpreter = (place / script).read_text().splitlines()[0].removeprefix("#!")
        subprocess.run([interpreter, "-n", str(place / script)], check=True)


def test_parameters_are_those_the_scripts_read():
    listed = {line.split()[0] for line in (DEFINITIONS / "heartbeat/parameters.list").read_text().splitlines()}
    read = "".join((DEFINITIONS / "heartbeat" / name).read_text() for name in ("disk", "verify"))
    assert listed == {"rate", "address", "gateway", "ack"}
    assert all(f"OSP_{name.upper()}" in read for name in listed)


def test_create_writes_who_the_guest_is_and_no_beat(disk):
    kind, name, content = disk
    done = run("create", **{f"DISK_0_{kind}": name, "NIC_0_IP": "10.78.0.7", "OSP_RATE": "2"})
    assert done.returncode == 0, done.stderr
    written = content()
    assert written[:512] == bytes(512)
    assert written[CONFIG].rstrip(b"\0").decode().splitlines() == [
        guest.MAGIC,
        "hostname=web1",
        "addr=10.78.0.7",
        "gw=",
        "hb=2",
        "ack=",
        "end",
    ]


@pytest.mark.parametrize(("known", "found"), [("v4", "10.78.0.7"), ("v6", "fd78::7"), ("neither", "")])
def test_the_address_is_what_the_resolver_says_of_the_name(tmp_path, known, found):
    """A node without an IPv4 address finds none in ahostsv4 (AI_ADDRCONFIG), whatever its files say."""
    resolver = tmp_path / "getent"
    resolver.write_text(
        '#!/bin/sh\ncase "$1 $KNOWN" in\n"ahostsv4 v4") echo "10.78.0.7 STREAM $2" ;;\n'
        '"hosts v6") echo "fd78::7  $2" ;;\n*) exit 2 ;;\nesac\n'
    )
    resolver.chmod(0o755)
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(SIZE_BYTES))
    path = f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin"
    assert run("create", DISK_0_PATH=str(disk), KNOWN=known, PATH=path).returncode == 0
    assert f"\naddr={found}\n".encode() in disk.read_bytes()[CONFIG]


def test_create_clears_the_beats_of_an_earlier_life_and_rename_keeps_them(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"00000042 1.0 web1".ljust(SIZE_BYTES, b"\0"))
    assert run("rename", DISK_0_PATH=str(disk), INSTANCE_NAME="web2", NIC_0_IP="10.78.0.8").returncode == 0
    assert disk.read_bytes().startswith(b"00000042 ")
    assert b"hostname=web2\naddr=10.78.0.8\n" in disk.read_bytes()[CONFIG]
    assert run("create", DISK_0_PATH=str(disk)).returncode == 0
    assert disk.read_bytes()[:512] == bytes(512)
    assert len(disk.read_bytes()) == SIZE_BYTES


def test_what_is_exported_can_be_imported(disk, tmp_path):
    kind, name, content = disk
    assert run("create", **{f"DISK_0_{kind}": name, "NIC_0_IP": "10.78.0.7"}).returncode == 0
    before = content()
    with (tmp_path / "size").open("w+b") as size:
        done = subprocess.run(
            ["./export"],
            cwd=DEFINITIONS / "heartbeat",
            env={"PATH": "/usr/sbin:/usr/bin", f"EXPORT_DISK_{kind}": name, "EXP_SIZE_FD": str(size.fileno())},
            pass_fds=[size.fileno()],
            capture_output=True,
            check=True,
        )
        size.seek(0)
        assert int(size.read()) == SIZE_BYTES
    assert done.stdout == before
    assert run("create", **{f"DISK_0_{kind}": name, "NIC_0_IP": "10.78.0.99"}).returncode == 0
    taken = run("import", **{f"IMPORT_DISK_{kind}": name, "input": done.stdout})
    assert taken.returncode == 0, taken.stderr
    assert content() == before


def test_a_disk_that_is_not_there_fails():
    assert run("create", DISK_0_PATH="/nonexistent/disk").returncode != 0


@pytest.mark.parametrize(
    ("parameter", "value", "right"),
    [
        ("OSP_RATE", "2.5", True),
        ("OSP_RATE", "fast", False),
        ("OSP_ADDRESS", "10.78.0.1/16", True),
        ("OSP_ADDRESS", "fd78::1/64", True),
        ("OSP_ADDRESS", "host", False),
        ("OSP_ADDRESS", "10.78.0.1/x", False),
        ("OSP_GATEWAY", "10.78.0.254", True),
        ("OSP_GATEWAY", "fd78::fe", True),
        ("OSP_GATEWAY", "10.78.0.254;reboot", False),
        ("OSP_ACK", "10.78.0.254:4077", True),
        ("OSP_ACK", "[fd78::fe]:4077", True),
        ("OSP_ACK", "10.78.0.254", False),
        ("OSP_ACK", "10.78.0.254:", False),
        ("OSP_ACK", "fd78::fe:4077", False),
        ("OSP_ACK", "[fd78::fe]", False),
    ],
)
def test_verify_tells_what_is_wrong(parameter, value, right):
    done = run("verify", arguments=["parameters"], **{parameter: value})
    assert (done.returncode == 0) is right
    assert (value in done.stderr.decode()) is not right


def test_noop_touches_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"mine")
    for script in ("create", "rename", "export"):
        assert run(script, "noop", DISK_0_PATH=str(disk), EXPORT_DISK_PATH=str(disk)).stdout == b""
    assert run("import", "noop", IMPORT_DISK_PATH=str(disk), input=b"dump").returncode == 0
    assert disk.read_bytes() == b"mine"
