# SPDX-License-Identifier: BSD-2-Clause
"""Hooks, allocators, files, daemons, addresses: what each does with good and with bad input."""

import datetime
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.one_node import OneNode, instance_spec

from ganeti.base.errors import BlockDeviceError, CommandError, ExecutionError, ParameterError
from ganeti.base.paths import Paths
from ganeti.model.node_calls.verify import ConfigCopy, Failure, NodeFindings, NodeVerify, SshKeys
from ganeti.node.actions import daemons, files, verify
from ganeti.node.certificates import VALIDITY, create_authority, issue_node_certificate
from ganeti.system import accounts


def test_hooks_run_in_order_with_their_environment_alone(node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_DAEMON", "x")
    base = "/etc/ganeti/hooks/instance-add-pre.d"
    node.program(f"{base}/20-second", "echo $0 failed; exit 7")
    node.program(f"{base}/10-first", 'test -z "$OF_THE_DAEMON" && echo $GANETI_OP_CODE $PATH && pwd && cat')
    node.program(f"{base}/30-not-executable", "exit 1", mode=0o644)
    node.program(f"{base}/40.backup", "exit 1")
    results = node.call("hooks_runner", path="instance-add", phase="pre", env={"GANETI_OP_CODE": "OP_X"})
    assert results == [
        ("instance-add-pre.d/10-first", 2, "OP_X /sbin:/bin:/usr/sbin:/usr/bin\n/"),
        ("instance-add-pre.d/20-second", 1, f"{node.paths.under(base)}/20-second failed"),
        ("instance-add-pre.d/30-not-executable", 0, ""),
        ("instance-add-pre.d/40.backup", 0, ""),
    ]
    assert node.call("hooks_runner", path="instance-add", phase="post", env={}) == []
    for path, phase in (("../x", "pre"), ("instance-add", "during")):
        with pytest.raises(ParameterError):
            node.call("hooks_runner", path=path, phase=phase, env={})


@pytest.mark.parametrize(
    ("program", "call", "arguments"),
    [
        ("hooks/group-add-post.d/tell", "hooks_runner", {"path": "group-add", "phase": "post", "env": {}}),
        ("restricted-commands/tell", "restricted_command", {"name": "tell"}),
        ("node-repair-commands/tell", "repair_command", {"name": "tell", "input": ""}),
        (
            "tell",
            "run_oob",
            {"oob_program": "/etc/ganeti/tell", "command": "power-on", "remote_node": "node2", "timeout": 9.0},
        ),
    ],
)
def test_scripts_of_the_administrator_may_go_on_in_the_background(
    node, tmp_path, program: str, call: str, arguments: dict[str, Any]
) -> None:
    told = tmp_path / "told"
    node.program(f"/etc/ganeti/{program}", f"(sleep 0.1; echo done >{told}) >/dev/null 2>&1 &")
    node.call(call, **arguments)
    deadline = time.monotonic() + 10
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_says_which_hooks_it_has(node) -> None:
    assert node.call("hooks_present", path="instance-add") == []
    node.program("/etc/ganeti/hooks/instance-add-post.d/10-first", "exit 0")
    os.makedirs(node.paths.under("/etc/ganeti/hooks/instance-add-pre.d"))
    assert node.call("hooks_present", path="instance-add") == ["post"]
    with pytest.raises(ParameterError):
        node.call("hooks_present", path="../x")


@pytest.mark.requirement("S5.1", "S5.3", "S5.5", "S5.6")
def test_an_allocator_gets_a_file_and_its_words_come_back(node) -> None:
    node.program("/usr/lib/ganeti/iallocators/mine", 'cat "$1"; shift; echo " $@"')
    said = node.call(
        "iallocator_runner", name="mine", idata={"version": 2}, default_iallocator_params={"fast": "", "seed": 3}
    )
    assert said == '{"version":2} --fast --seed=3\n'
    node.program("/usr/local/lib/ganeti/iallocators/mine", "echo first directory wins")
    assert node.call("iallocator_runner", name="mine", idata="{}") == "first directory wins\n"


@pytest.mark.requirement("S5.6")
def test_an_allocators_failures_are_told_whole(node) -> None:
    node.program("/usr/lib/ganeti/iallocators/bad", "echo cannot; echo really >&2; exit 4")
    with pytest.raises(ExecutionError, match=r"'bad' failed: it ended with status 4, output: cannot\nreally"):
        node.call("iallocator_runner", name="bad", idata={})
    node.program("/usr/lib/ganeti/iallocators/killed", "kill -9 $$")
    with pytest.raises(ExecutionError, match=r"'killed' failed: it was ended by signal SIGKILL, output: \(none\)"):
        node.call("iallocator_runner", name="killed", idata={})
    for name in ("none", "../bad", ""):
        with pytest.raises(ExecutionError, match="not found in the search path"):
            node.call("iallocator_runner", name=name, idata={})


def test_an_allocator_that_prints_without_end_is_stopped(node) -> None:
    node.program("/usr/lib/ganeti/iallocators/flood", "exec yes")
    with pytest.raises(ExecutionError, match=r"'flood' failed: .*/flood did not end at 16777216 bytes and was stopped"):
        node.call("iallocator_runner", name="flood", idata={})


@pytest.mark.requirement("S5.3")
def test_the_first_directory_counts_although_its_file_cannot_be_run(node) -> None:
    node.program("/usr/lib/ganeti/iallocators/mine", "echo second")
    os.chmod(node.program("/usr/local/lib/ganeti/iallocators/mine", "echo first"), 0o644)
    with pytest.raises(
        ExecutionError, match=r"/usr/local/lib/ganeti/iallocators/mine cannot be started: it is not exec"
    ):
        node.call("iallocator_runner", name="mine", idata={})


def test_an_allocator_may_remove_the_file_it_is_given(node) -> None:
    node.program("/usr/lib/ganeti/iallocators/tidy", 'echo "$1"; rm "$1"')
    assert not Path(node.call("iallocator_runner", name="tidy", idata={}).strip()).exists()


def test_an_allocator_that_takes_too_long_is_stopped_with_all_it_started(node, tmp_path) -> None:
    alive = tmp_path / "alive"
    node.program("/usr/lib/ganeti/iallocators/slow", f"sleep 600 & echo $! > {alive}; echo half; sleep 600")
    with pytest.raises(ExecutionError, match=r"'slow' failed: .*/slow did not end within 0.5 seconds and was stopped"):
        node.call("iallocator_runner", name="slow", idata={}, limit_s=0.5)
    with pytest.raises(ProcessLookupError):
        while True:  # until the kernel has buried it
            os.kill(int(alive.read_text()), 0)
            if Path(f"/proc/{alive.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                raise ProcessLookupError


def test_ssconf_is_written_once_and_only_for_this_cluster(node) -> None:
    node.call("write_ssconf_files", values={"cluster_name": "c1", "node_list": "n1\nn2"})
    place = Path(node.paths.ssconf_file("node_list"))
    assert place.read_text() == "n1\nn2\n"
    assert place.stat().st_mode & 0o777 == 0o444
    before = place.stat().st_ino
    node.call("write_ssconf_files", values={"cluster_name": "c1", "node_list": "n1\nn2\n"})
    assert place.stat().st_ino == before, "unchanged values are left alone"
    assert node.logged == ["ssconf values replaced: cluster_name, node_list"]
    for values, sentence in (
        ({"cluster_name": "c2"}, "belongs to cluster c1"),
        ({"../x": "y"}, "not a name of an ssconf value"),
        ({"node_list": "x" * 200_000}, "longer than"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            node.call("write_ssconf_files", values=values)


def test_ssconf_that_was_long_on_its_way_does_not_replace_newer_values(node) -> None:
    def write(value: str, *position: int) -> str:
        values = {"cluster_name": "c1", "master_node": value}
        node.call("write_ssconf_files", values=values, position=list(position))
        return Path(node.paths.ssconf_file("master_node")).read_text()

    assert [write("a", 2, 7), write("b", 2, 9), write("a", 2, 8), write("c", 3, 1)] == ["a\n", "b\n", "b\n", "c\n"]
    assert write("d", 3, 1) == "d\n", "the same position again is not older"


def test_files_go_to_known_places_with_narrow_modes(node) -> None:
    node.call("upload_file", path="/var/lib/ganeti/rapi/users", content="jack secret", mode=0o640)
    place = Path(node.paths.data_dir, "rapi/users")
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("jack secret", 0o640)
    with pytest.raises(ParameterError, match="not one that may be distributed"):
        node.call("upload_file", path="/var/lib/ganeti/rapi/../server.pem", content="", mode=0o400)
    with pytest.raises(ParameterError, match="cannot get mode 0644: the widest is 0400"):
        node.call("upload_file", path="/var/lib/ganeti/ca.key", content="", mode=0o644)


def test_files_that_every_node_has_are_read_where_they_are(node) -> None:
    Path(node.paths.data_dir).mkdir(parents=True, exist_ok=True)
    for name, text in (("hmac.key", "key"), ("ca.key", "secret"), ("config.data", "{}")):
        Path(node.paths.data_dir, name).write_text(text)
    found = node.call("shared_files")
    assert [(each.path, each.content, each.mode) for each in found] == [("/var/lib/ganeti/hmac.key", "key", 0o440)]


def test_what_every_node_has_is_the_same_on_all_byte_for_byte(node) -> None:
    """A comment in Latin-1, or lines as Windows ends them, neither keep other files from nodes nor are changed."""
    users = Path(node.paths.data_dir, "rapi/users")
    users.parent.mkdir(parents=True, exist_ok=True)
    for content in (b"jack secret # J\xfcrgen\n", b"jack secret\r\n", "jack secret # Jürgen\n".encode()):
        users.write_bytes(content)
        [shared] = node.call("shared_files")
        sent = shared.upload()
        users.unlink()
        node.call("upload_file", path=sent.path, content=sent.content, mode=sent.mode, encoding=sent.encoding)
        assert users.read_bytes() == content


def test_a_node_learns_the_new_name_of_its_own_cluster_alone(node) -> None:
    place = Path(node.paths.ssconf_file("cluster_name"))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("one\n")
    for _ in range(2):
        node.call("adopt_cluster_name", old="one", new="two")
        assert place.read_text() == "two\n"
    with pytest.raises(ParameterError, match="belongs to cluster two, not three"):
        node.call("adopt_cluster_name", old="three", new="four")


def test_the_watchers_pause(node) -> None:
    assert node.call("get_watcher_pause") is None
    until = node.state.world.now_s() + 100
    node.call("set_watcher_pause", until=until)
    assert node.call("get_watcher_pause") == int(until)
    node.call("set_watcher_pause", until=1.0)
    assert node.call("get_watcher_pause") is None
    node.call("set_watcher_pause", until=None)
    assert not os.path.exists(node.paths.watcher_pause_file)


def test_only_some_daemons_can_be_started_by_a_call(node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = tmp_path / "said"
    util = node.program("/daemon-util", f'echo "$@" >>{said}')
    monkeypatch.setattr(daemons, "daemon_util", lambda: str(util))
    node.call("node_ensure_daemon", daemon="ganeti-confd", run=True)
    node.call("node_ensure_daemon", daemon="ganeti-confd", run=False)
    assert said.read_text() == "start ganeti-confd\nstop ganeti-confd\n"
    with pytest.raises(ParameterError, match="cannot be started by a call"):
        node.call("node_ensure_daemon", daemon="sshd", run=True)


@pytest.mark.parametrize(("status", "looked"), [(0, True), (15, False), (1, None)])
def test_the_watchers_look_says_whether_it_was_one(node, status: int, looked: bool | None, monkeypatch) -> None:
    program = node.program("/ganeti-watcher", f"echo what is wrong >&2; exit {status}")
    monkeypatch.setattr(daemons, "own_program", lambda name: str(program))
    group = "12345678-1234-1234-1234-123456789abc"
    if looked is None:
        with pytest.raises(CommandError, match=r"ended with status 1 \(see watcher.log\): what is wrong"):
            node.call("watcher_run", group=group)
    else:
        assert node.call("watcher_run", group=group) is looked


def test_leaving_takes_keys_and_configuration_and_ends_the_daemon(node) -> None:
    for name in ("server.pem", "config.data", "ssconf_node_list", "queue/job-1", "other/kept"):
        path = Path(node.paths.data_dir, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    node.call("node_leave_cluster")
    assert os.listdir(node.paths.data_dir) == ["other"]
    assert node.stopped


def test_leaving_ends_the_other_daemons_even_if_one_does_not_obey(node, tmp_path: Path, monkeypatch) -> None:
    util, said = tmp_path / "daemon-util", tmp_path / "said"
    util.write_text(f'#!/bin/sh\necho "$@" >>{said}\n[ "$2" != ganeti-confd ]\n')
    util.chmod(0o755)
    monkeypatch.setattr(daemons, "daemon_util", lambda: str(util))
    os.makedirs(node.paths.run_dir, exist_ok=True)
    for daemon in ("ganeti-confd", "ganeti-mond", "ganeti-mirrord"):
        Path(node.paths.pid_file(daemon)).write_text("1\n")
    node.call("node_leave_cluster")
    assert said.read_text() == "stop ganeti-confd\nstop ganeti-mond\nstop ganeti-mirrord\n"
    assert node.stopped


def test_addresses_and_bridges(node) -> None:
    assert node.call("node_has_ip_address", address="127.0.0.1")
    for strange in ("192.0.2.77", "0.0.0.0", "::", "2001:db8::77"):
        assert not node.call("node_has_ip_address", address=strange), strange
    with pytest.raises(ParameterError, match="not an address"):
        node.call("node_has_ip_address", address="example")
    assert node.call("bridges_exist", bridges=["no-such-bridge", "lo"]) == ["no-such-bridge", "lo"]
    with pytest.raises(ParameterError):
        node.call("bridges_exist", bridges=["../lo"])


def test_a_node_tells_whom_it_takes_for_the_master(node) -> None:
    with pytest.raises(ParameterError, match="knows no master"):
        node.call("master_node_name")
    Path(node.paths.ssconf_file("master_node")).write_text("node1.example.com\n")
    assert node.call("master_node_name") == "node1.example.com"


def test_aborting_reaches_the_calls(node) -> None:
    assert node.call("abort_attempt", job=7, attempt=2) == 2
    assert node.aborted == [(7, 2)]


def test_the_master_ip_by_an_external_script(node, tmp_path: Path) -> None:
    said = tmp_path / "said"
    node.program(
        "/etc/ganeti/scripts/master-ip-setup",
        f"echo $1 $MASTER_IP/$MASTER_NETMASK $MASTER_NETDEV $CLUSTER_IP_VERSION >>{said}",
    )
    master = {"ip": "192.0.2.1", "netdev": "eth0", "netmask": 24}
    node.call("node_activate_master_ip", master=master, use_external_mip_script=True)
    node.call("node_deactivate_master_ip", master=master, use_external_mip_script=True)
    assert said.read_text() == "start 192.0.2.1/24 eth0 4\nstop 192.0.2.1/24 eth0 4\n"


def test_directories_of_disks(node) -> None:
    node.call("file_storage_dir_create", file_storage_dir="/srv/disks/web1")
    node.call("file_storage_dir_create", file_storage_dir="/srv/disks/web1")
    place = Path(node.paths.under("/srv/disks/web1"))
    (place / "x").write_text("")
    with pytest.raises(BlockDeviceError, match="there are files in it"):
        node.call("file_storage_dir_remove", file_storage_dir="/srv/disks/web1")
    (place / "x").unlink()
    for _ in range(2):
        node.call("file_storage_dir_remove", file_storage_dir="/srv/disks/web1")
    node.call("file_storage_dir_remove", file_storage_dir="/srv/disks")
    assert place.parent.exists()
    with pytest.raises(BlockDeviceError):
        node.call("file_storage_dir_create", file_storage_dir="/srv/elsewhere")


def test_verify_makes_the_checks_named_and_no_other(node: OneNode) -> None:
    node.definition()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answer = node.call(
            "node_verify",
            checks={
                "version": True,
                "time": True,
                "bridges": ["nope"],
                "filelist": ["/etc/ganeti/file-storage-paths", "/etc/none"],
                "allowed-file-storage-paths": True,
                "storage": [{"template": "file", "setting": "/srv/disks"}, {"template": "paper", "setting": "x"}],
                "disks": [{"template": "file", "setting": "/srv/disks"}],
                "hypervisor": {"fake": {}, "none": {}},
                "hypervisor-cautions": ["fake", "none"],
                "hvparms": [{"source": "cluster", "hypervisor": "fake", "hvparams": {"colour": 1}}],
                "instancelist": ["fake"],
                "nodelist": [
                    {"name": "n1", "primary_ip": "127.0.0.1", "port": port},
                    {"name": "n2", "primary_ip": "127.0.0.1", "port": 1},
                ],
                "user-scripts": ["/etc/ganeti/scripts/none"],
                "client-cert": True,
                "oslist": True,
            },
        )
    assert answer.version == (3010000, "3.1")
    assert abs(answer.time[0] - node.state.world.now_s()) < 5
    assert answer.bridges == ["nope"]
    assert answer.filelist["/etc/none"] is None
    assert len(answer.filelist["/etc/ganeti/file-storage-paths"]) == 64
    assert answer.allowed_file_storage_paths == []
    assert answer.storage["file /srv/disks"] == []
    assert "Unknown disk template" in answer.storage["paper x"][0]
    assert answer.disks == {"file /srv/disks": []}
    assert answer.hypervisor["fake"] == []
    assert "Unknown hypervisor" in answer.hypervisor["none"][0]
    assert answer.hypervisor_cautions == {"fake": []}
    assert answer.hvparms[0][:2] == ("cluster", "fake")
    assert answer.instancelist == []
    assert list(answer.nodelist) == ["n2"]
    assert "Connection refused" in answer.nodelist["n2"]
    assert answer.user_scripts == ["/etc/ganeti/scripts/none"]
    assert answer.client_cert == ""
    assert [status.name for status in answer.oslist] == ["test"]
    plain = msgspec.to_builtins(answer)
    assert len(plain) == 15 and "failures" not in plain
    with pytest.raises(ParameterError, match="unknown field `colour`"):
        node.call("node_verify", checks={"colour": True})
    assert NodeVerify.read(json.loads(msgspec.json.encode(answer))) == answer


def test_forbidden_lines_of_the_allowed_paths_are_told(node) -> None:
    Path(node.paths.file_storage_paths_file).write_text("/srv/disks\n/etc/disks\nrelative\n/srv//x\n/\n")
    problems = node.call("node_verify", checks={"allowed-file-storage-paths": True}).allowed_file_storage_paths
    assert [problem.split("'")[1] for problem in problems] == ["/etc/disks", "relative", "/srv//x", "/"]


@pytest.mark.parametrize("name", ["../ca.key", "a/b", ".", "..", "", "web1\n", "-x", "/etc/passwd"])
@pytest.mark.parametrize("call", ["instance_finalize_migration_src", "instance_start", "instance_os_add"])
def test_the_name_of_an_instance_leads_nowhere_else(node, call: str, name: str) -> None:
    """It is the name of files in several directories of the node."""
    victim = Path(node.paths.data_dir, "ca.key")
    victim.write_text("key")
    plain = msgspec.to_builtins(instance_spec()) | {"name": name}
    extra = {"success": True} if call == "instance_finalize_migration_src" else {}
    with pytest.raises(ParameterError, match="cannot be the name of an instance"):
        node.call(call, instance=plain, **extra)
    assert victim.read_text() == "key"


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("write_ssconf_files", {"values": {"cluster_tags\n": "x"}}),
        ("hooks_runner", {"path": "instance-add\n", "phase": "pre", "env": {}}),
    ],
)
def test_a_line_end_is_no_part_of_a_name(node, call: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="is not a"):
        node.call(call, **arguments)


def test_who_is_let_in_over_ssh_is_told_by_digests(node) -> None:
    assert node.call("node_verify", checks={"ssh-keys": True}) == NodeFindings(ssh_keys=SshKeys())
    key, other = "ssh-rsa AAAA1 root@node2", "ssh-ed25519 AAAA2 root@elsewhere"
    node.call("node_ssh_key_add", keys={"uuid-2": [key]}, remember=True)
    path = Path(node.paths.under("/root/.ssh/authorized_keys"))
    path.write_text(path.read_text() + f'# {key}\nfrom="10.0.0.1" {other}\n')
    told = node.call("node_verify", checks={"ssh-keys": True}).ssh_keys
    digests = {uuid: found for uuid, (found,) in told.known.items()}
    assert list(digests) == ["uuid-2"] and digests["uuid-2"] in told.let_in
    assert told.marked == told.known
    assert len(told.let_in) == 2 and all(len(each) == 64 for each in told.let_in)


def test_the_copy_of_the_configuration_is_told_by_its_fingerprint(node) -> None:
    def copy_of(data: bytes) -> Any:
        Path(node.paths.config_file).write_bytes(data)
        return node.call("node_verify", checks={"config-copy": True}).config_copy

    assert node.call("node_verify", checks={"config-copy": True}).config_copy == ConfigCopy()
    one = copy_of(b'{"serial_no":7,"cluster":{"a":1},"nodes":{"x":{"b":2},"y":{"c":3}}}')
    assert one.serial_no == 7 and len(one.fingerprint) == 64
    assert copy_of(b'{ "nodes":{"y":{"c":3}\n,"x":{"b":2}}, "serial_no":7,   "cluster":{"a":1}}') == one
    other = copy_of(b'{"serial_no":7,"cluster":{"a":1},"nodes":{"x":{"b":2},"y":{"c":4}}}')
    assert other.serial_no == 7 and other.fingerprint != one.fingerprint
    for broken in (b"", b"{", b"[1]", b'{"serial_no":"x"}'[:-1], b"\xff\x00"):
        assert copy_of(broken) == ConfigCopy(fingerprint="")


def test_certificates_are_told_by_their_last_moment(node) -> None:
    path = "/var/lib/ganeti/server.pem"

    def expiry() -> Any:
        return node.call("node_verify", checks={"certificates": [path]}).certificates[path]

    assert expiry() is None
    file = Path(node.paths.under(path))
    file.write_text("nothing of the kind")
    assert expiry() == Failure(error="holds no certificate")
    file.write_text(issue_node_certificate(create_authority("cluster"), "node1", "cluster"))
    assert abs(expiry() - (datetime.datetime.now(datetime.UTC) + VALIDITY).timestamp()) < 60


def test_names_enter_the_hosts_file_and_leave_it(node) -> None:
    path = Path(node.paths.under("/etc/hosts"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("127.0.0.1\tlocalhost\n")
    node.call("etc_hosts_modify", entries={"node2.example.com": "192.0.2.2", "node3": "192.0.2.3"})
    assert path.read_text() == "127.0.0.1\tlocalhost\n192.0.2.2\tnode2.example.com node2\n192.0.2.3\tnode3\n"
    node.call("etc_hosts_modify", entries={"node2.example.com": None, "node4": None})
    assert path.read_text() == "127.0.0.1\tlocalhost\n192.0.2.3\tnode3\n"
    for entries in ({"a b": "192.0.2.2"}, {"node2": "here"}, {"x\ny": None}):
        with pytest.raises(ParameterError):
            node.call("etc_hosts_modify", entries=entries)


def test_an_address_is_in_use_where_something_answers(node, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {"used-addresses": ["127.0.0.1"]}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        monkeypatch.setattr(verify, "NODED_PORT", listener.getsockname()[1])
        assert node.call("node_verify", checks=checks).used_addresses == []
        listener.listen()
        assert node.call("node_verify", checks=checks).used_addresses == ["127.0.0.1"]


def test_files_that_are_sent_have_the_modes_of_the_table():
    paths = Paths()
    table = {rule.path: rule.mode for rule in accounts.rules(paths)}
    sent = {path: mode for path, mode in files.uploadable(paths).items() if path in table}
    assert len(sent) > 8
    assert sent == {path: table[path] for path in sent}
