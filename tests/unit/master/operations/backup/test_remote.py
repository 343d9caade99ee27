# SPDX-License-Identifier: BSD-2-Clause
"""An instance from one cluster to another: order of steps on both sides, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operations.backup.export import ExportInstance
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.node.certificates import transfer_certificate
from ganeti.wire import cluster_signatures as signatures

SECRET = "the secret of both"
_, CERTIFICATE = transfer_certificate("ganeti.example.com", 86400)
QUIET = ("instance_info", "bridges_exist", "transfer_states", "script_output")


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are valid when they are made, and the clock of the fake is in 1970."""
    real = signatures.check_certificate
    now_s = 0.0

    def check(secret: str, signed: str, at_s: float, what: str) -> str:
        del at_s
        import time

        return real(secret, signed, time.time() + now_s, what)

    for module in ("sending", "receiving"):
        monkeypatch.setattr(f"ganeti.master.operations.backup.{module}.check_certificate", check)


def state(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "t", "running": True, "connected": True} | changes]


def steps(ctx: FakeContext) -> list[str]:
    return [line for line in ctx.story if not line.endswith(QUIET)]


@pytest.fixture
def source() -> FakeContext:
    ctx = FakeContext(configuration(), catalogue())
    instance = add_instance(ctx.config.view(), "web1", template="local")
    ctx.config.view().put("instances", instance.uuid, replace(instance, os="noop"))
    ctx.nodes.handlers["export_dump"] = lambda name, **_: {"boot": "boot", "sha256": "5a" * 32}
    ctx.nodes.handlers["transfer_states"] = lambda name, **_: state(running=False, exit_status=0, done_mib=5)
    return ctx


def export(ctx: FakeContext, **parameters: Any) -> Any:
    asked: dict[str, Any] = {
        "mode": "remote",
        "target_node": [signatures.disk_info(SECRET, "s", 0, "10.0.0.9", 4711, "magic-1")],
        "x509_key_name": signatures.key_name(SECRET, "s", "x509-1"),
        "destination_x509_ca": signatures.sign_certificate(SECRET, "s", CERTIFICATE),
    }
    return run(ExportInstance(instance_name="web1", **(asked | parameters)), ctx)


def test_a_moved_instance_is_down_first_and_goes_at_the_end(source: FakeContext) -> None:
    sent: list[dict[str, Any]] = []
    source.nodes.handlers["transfer_send"] = lambda node, /, **asked: sent.append(asked)
    assert export(source, remove_instance=True) == (True, [True])
    assert steps(source)[:12] == [
        "undo: remove the unfinished dumps of web1 from node1",
        "undo: start web1 on node1 again",
        "undo: open the disks of web1 on node1",
        "node1 instance_shutdown",
        "node1 instance_disks_shutdown",
        "node1 instance_disks_assemble",
        "undo: remove the key x509-1 from node1",
        "undo: end the transfer export-1.0.0-disk0 on node1",
        "node1 transfer_send",
        "node1 transfer_end",
        "node1 transfer_key_remove",
        "node1 export_discard",
    ]
    what = sent[0]["transfer"]
    assert (sent[0]["host"], sent[0]["port"], what.magic, what.dump) == (
        "10.0.0.9",
        4711,
        "magic-1",
        "",
    )
    assert source.config.view().uuid_by_name("instances", "web1") is None
    assert "Disk 0 is sent: 5 MiB" in source.lines


def test_one_that_stays_runs_again_before_its_dump_is_sent(source: FakeContext) -> None:
    sent: list[dict[str, Any]] = []
    source.nodes.handlers["transfer_send"] = lambda node, /, **asked: sent.append(asked)
    export(source)
    story = steps(source)
    assert story.index("node1 export_dump") < story.index("node1 instance_start") < story.index("node1 transfer_send")
    assert sent[0]["transfer"].dump == "disk0.dump"
    source.story.clear()
    export(source, long_sleep=True)
    story = steps(source)
    assert story.index("node1 transfer_send") < story.index("node1 instance_start")


def test_a_transfer_that_fails_is_the_end_of_the_export(source: FakeContext) -> None:
    source.nodes.handlers["transfer_states"] = lambda name, **_: state(running=False, exit_status=1, error="no way")
    with pytest.raises(ExecutionError, match="Disk 0 could not be sent: no way"):
        export(source, remove_instance=True)
    assert source.config.view().uuid_by_name("instances", "web1") is not None


def test_rate_and_time_left_are_in_the_log(source: FakeContext) -> None:
    told = [
        state(percent=10, done_mib=10, rate_mib=2.0, left_s=45.0),
        *[state(percent=50, done_mib=50, rate_mib=2.0, left_s=25.0)] * 30,
    ]

    def states(name: str, **_: Any) -> Any:
        return told.pop(0) if told else state(running=False, exit_status=0, done_mib=100)

    source.nodes.handlers["transfer_states"] = states
    export(source)
    assert "Disk 0: 50 MiB (50 %) sent, 2.0 MiB/s, 25 s left" in source.lines


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"target_node": []}, "one destination for each of the 1 disks, and this is 0 of them"),
        ({"target_node": "node2"}, "and this is no list"),
        ({"x509_key_name": ["x", "y", "z"]}, "not signed by the domain secret"),
        ({"destination_x509_ca": "x"}, "no certificate with its signature"),
        ({"destination_x509_ca": None}, "needs destination_x509_ca"),
    ],
)
def test_a_destination_that_is_none_is_refused(source: FakeContext, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PrerequisiteError, match=sentence):
        export(source, **changes)
    assert steps(source) == []


@pytest.fixture
def target() -> FakeContext:
    ctx = FakeContext(configuration(), catalogue())
    ctx.nodes.handlers.update(
        transfer_key_make=lambda node, /, **asked: {"name": asked["name"], "certificate": CERTIFICATE},
        transfer_receive=lambda node, /, **_: 4711,
        transfer_states=lambda name, **_: state(received=True, exit_status=0, done_mib=5),
        node_info=lambda name, **_: node_facts(),
    )
    return ctx


def receive(ctx: FakeContext, **parameters: Any) -> Any:
    asked: dict[str, Any] = {
        "instance_name": "web9.example.com",
        "mode": "remote-import",
        "disk_template": "local",
        "disks": [{"size": 64}],
        "nics": [],
        "os_type": "noop",
        "pnode": "node2",
        "start": True,
        "source_handshake": signatures.handshake(SECRET, "s"),
        "source_x509_ca": signatures.sign_certificate(SECRET, "s", CERTIFICATE),
        "source_instance_name": "web1.example.com",
    }
    return run(CreateInstance(**(asked | parameters)), ctx)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source_handshake": None}, "needs source_handshake"),
        ({"source_handshake": [0, "a", "b"]}, "not signed by the domain secret"),
        ({"source_x509_ca": "x"}, "no certificate with its signature"),
        ({"os_type": None}, "needs os_type"),
        ({"no_install": True}, "leave forthcoming, commit and no_install out"),
        ({"src_path": "web1"}, "src_path is about an export that a node keeps"),
        ({"source_instance_name": "../x"}, "source_instance_name '../x' is none"),
        ({"disks": [{"adopt": "x"}]}, "leave adopt out"),
        ({"mode": "create"}, "source_handshake is about an instance that another cluster sends"),
        ({"compress": "lzma"}, "Compression 'lzma' is not enabled"),
    ],
)
def test_a_sender_that_is_none_is_refused(target: FakeContext, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PrerequisiteError, match=sentence):
        receive(target, **changes)
    assert steps(target) == []


def test_the_sender_hears_of_it_when_the_instance_is_in_the_configuration(target: FakeContext) -> None:
    receive(target)
    story = steps(target)
    wanted = ["transfer_key_make", "transfer_receive", "instance_run_rename", "instance_start", "transfer_confirm"]
    places = [story.index(f"node2 {call}") for call in wanted]
    assert places == sorted(places)
    committed = max(at for at, line in enumerate(story) if "FinishInstance" in line)
    assert committed < places[-1] < story.index("node2 transfer_end")
    announced = next(line for line in target.lines if line.startswith("remote-import"))
    assert "4711" in announced and "X-Ganeti-Signature" in announced
