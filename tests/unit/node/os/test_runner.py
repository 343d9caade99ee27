# SPDX-License-Identifier: BSD-2-Clause
"""Scripts of OS definitions: what they see, what is said when they fail or hang."""

import hashlib
import os
import time
from pathlib import Path

import pytest
from tests.fakes.one_node import disk_spec, instance_spec

from ganeti.base.errors import ExecutionError, ParameterError, PrerequisiteError
from ganeti.model.node_requests import NicSpec
from ganeti.node.os import runner

NIC = NicSpec(
    index=0,
    uuid="nic",
    mac="aa:00:00:00:00:01",
    mode="bridged",
    link="br0",
    ip="192.0.2.7",
    network={
        "name": "net",
        "uuid": "net-uuid",
        "network": "192.0.2.0/24",
        "gateway": "192.0.2.1",
        "mac_prefix": None,
        "tags": ["a", "b"],
    },
)


def installed(node, **changes):
    node.call("blockdev_create", disk=disk_spec())
    return instance_spec(disks=[disk_spec()], **changes)


def test_the_environment_is_exactly_that_of_the_interface(node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "x")
    place = node.definition(create="env; pwd; echo to standard error >&2")
    (place / "variants.list").write_text("small\n")
    spec = installed(
        node,
        os="test+small",
        osparams={"rate": 2},
        osparams_private={"key": "k"},
        hvparams={"disk_type": "paravirtual", "nic_type": "e1000", "acpi": True},
        nics=[NIC],
        ctime=1.5,
    )
    node.call("instance_os_add", instance=spec, reinstall=True, debug=1)
    (log,) = Path(node.paths.os_log_dir).iterdir()
    assert log.name.startswith("add-test+small-web1-")
    said = log.read_text().splitlines()
    seen = dict(line.split("=", 1) for line in said if "=" in line)
    for shell_made in ("PWD", "SHLVL", "_", "OLDPWD"):
        seen.pop(shell_made, None)
    image = f"{node.paths.root}/srv/disks/web1/d0.file.disk0"
    assert seen == {
        "PATH": "/sbin:/bin:/usr/sbin:/usr/bin",
        "OS_API_VERSION": "20",
        "OS_NAME": "test",
        "OS_VARIANT": "small",
        "DEBUG_LEVEL": "1",
        "INSTANCE_REINSTALL": "1",
        "INSTANCE_NAME": "web1",
        "INSTANCE_OS": "test+small",
        "INSTANCE_UUID": "i1",
        "INSTANCE_CTIME": "1.500000",
        "INSTANCE_MTIME": "0.000000",
        "INSTANCE_PRIMARY_NODE": "n1",
        "INSTANCE_SECONDARY_NODES": "",
        "HYPERVISOR": "fake",
        "INSTANCE_BE_maxmem": "128",
        "INSTANCE_BE_minmem": "128",
        "INSTANCE_BE_vcpus": "1",
        "INSTANCE_HV_disk_type": "paravirtual",
        "INSTANCE_HV_nic_type": "e1000",
        "INSTANCE_HV_acpi": "True",
        "DISK_COUNT": "1",
        "DISK_0_PATH": image,
        "DISK_0_SIZE": "1",
        "DISK_0_URI": "",
        "DISK_0_ACCESS": "rw",
        "DISK_0_UUID": "d0",
        "DISK_0_BACKEND_TYPE": "file:loop",
        "DISK_0_FRONTEND_TYPE": "paravirtual",
        "NIC_COUNT": "1",
        "NIC_0_MAC": "aa:00:00:00:00:01",
        "NIC_0_UUID": "nic",
        "NIC_0_IP": "192.0.2.7",
        "NIC_0_MODE": "bridged",
        "NIC_0_LINK": "br0",
        "NIC_0_BRIDGE": "br0",
        "NIC_0_FRONTEND_TYPE": "e1000",
        "NIC_0_NETWORK_NAME": "net",
        "NIC_0_NETWORK_FAMILY": "4",
        "NIC_0_NETWORK_UUID": "net-uuid",
        "NIC_0_NETWORK_SUBNET": "192.0.2.0/24",
        "NIC_0_NETWORK_GATEWAY": "192.0.2.1",
        "NIC_0_NETWORK_TAGS": "a b",
        "OSP_RATE": "2",
        "OSP_KEY": "k",
    }
    assert str(place) in said
    assert "to standard error" in said


def test_a_failing_script_is_told_with_its_last_words_and_its_log(node) -> None:
    node.definition(create="echo no room on the disk; exit 3")
    with pytest.raises(ExecutionError, match=r"create script of test failed for web1: .* status 3: no room .*\(log: "):
        node.call("instance_os_add", instance=installed(node))


def test_a_failure_does_not_show_private_parameters(node) -> None:
    node.definition(create="set -x; : word=$OSP_WORD; exit 3")
    with pytest.raises(ExecutionError, match=r"status 3: .*word=<redacted>") as failure:
        node.call("instance_os_add", instance=installed(node, osparams_private={"word": "hunter2"}))
    assert "hunter2" not in str(failure.value)


def test_a_hanging_script_ends_with_all_it_started(node, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    node.definition(create=f"sleep 60 & echo $! >{pids}; sleep 60")
    begun = time.monotonic()
    with pytest.raises(ExecutionError, match=r"did not end within 0.5 seconds"):
        node.call("instance_os_add", instance=installed(node), timeout_s=0.5)
    assert time.monotonic() - begun < 10
    state = Path(f"/proc/{int(pids.read_text())}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_rename_is_told_the_old_name(node) -> None:
    node.definition(rename="echo was $OLD_INSTANCE_NAME")
    node.call("instance_run_rename", instance=installed(node), old_name="old1")
    (log,) = Path(node.paths.os_log_dir).iterdir()
    assert log.name.startswith("rename-test-web1-")
    assert log.read_text() == "was old1\n"


def test_a_dump_goes_out_and_comes_back(node, tmp_path: Path) -> None:
    node.definition(
        versions="15",
        **{
            "export": 'echo 1048576 >&$EXP_SIZE_FD; echo words >&2; cat "$EXPORT_DEVICE"',
            "import": '[ $IMPORT_INDEX = 0 ] && cat >"$IMPORT_DISK_PATH"',
        },
    )
    spec = installed(node)
    disks = node.call("instance_disks_assemble", instance=spec)
    image = Path(disks[0].path)
    image.write_bytes(b"data".ljust(1024 * 1024, b"."))
    dump = tmp_path / "dump"
    world = node.state.world
    found = node.run(runner.export_disk(world, spec, disks, 0, dump_path=str(dump), debug=0, timeout_s=30))
    assert found == hashlib.sha256(image.read_bytes()).hexdigest()
    assert dump.read_bytes() == image.read_bytes()
    assert dump.stat().st_mode & 0o777 == 0o600
    assert [log.read_text() for log in Path(node.paths.os_log_dir).glob("export-*")] == ["words\n"]
    image.write_bytes(bytes(1024 * 1024))
    node.run(runner.import_disk(world, spec, disks, 0, dump_path=str(dump), debug=0, timeout_s=30))
    assert image.read_bytes().startswith(b"data...")
    with pytest.raises(ExecutionError, match="No such file"):
        node.run(runner.import_disk(world, spec, disks, 0, dump_path="/nowhere/dump", debug=0, timeout_s=30))


def test_parameters_are_checked_by_name_and_by_the_verify_script(node) -> None:
    place = node.definition(
        verify='[ "$1" = parameters ] || exit 9; [ "$OSP_RATE" -gt 0 ] || { echo rate too low; exit 1; }'
    )
    (place / "parameters.list").write_text("rate Beats\n")
    assert node.call("os_validate", name="test", params={"rate": "1"})
    with pytest.raises(ParameterError, match="Parameters of OS 'test' are wrong: rate too low"):
        node.call("os_validate", name="test", params={"rate": "0"})
    with pytest.raises(ParameterError, match="Unknown parameter of OS 'test': colour; there are rate"):
        node.call("os_validate", name="test", params={"colour": "red"})


def test_an_os_that_is_missing_is_named(node) -> None:
    with pytest.raises(PrerequisiteError, match="OS 'test' not known"):
        node.call("os_validate", name="test", params={})


def test_the_os_definitions_of_the_tree_are_valid(node) -> None:
    tree = Path(__file__).resolve().parents[4] / "os"
    for name in ("heartbeat", "noop"):
        target = Path(node.paths.under("/srv/ganeti/os"), name)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(tree / name, target)
    found = {status["name"]: status for status in map(vars_of, node.call("os_diagnose"))}
    assert [(name, found[name]["valid"], found[name]["message"]) for name in sorted(found)] == [
        ("heartbeat", True, ""),
        ("noop", True, ""),
    ]


def vars_of(struct):
    return {field: getattr(struct, field) for field in struct.__struct_fields__}
