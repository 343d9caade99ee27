# SPDX-License-Identifier: BSD-2-Clause
"""Making an instance from an export: what it says, what the request says in its place, order of steps, refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.master.operations.backup.importing import Source
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.wire.export_file import Export, ExportedDisk, encode

QUIET = (
    "node_info",
    "all_instances_info",
    "bridges_exist",
    "export_list",
    "export_info",
    "os_validate",
    "export_dump_sizes",
    "transfer_states",
    "script_output",
)
STATE = {"name": "t", "running": True, "connected": True, "received": True, "exit_status": 0, "done_mib": 64}
EXPORT = Export(
    name="old.example.com",
    timestamp=1000,
    source="node1",
    os="noop",
    disk_template="local",
    hypervisor="pretend",
    tags=["a"],
    nics=[{"mac": "aa:00:00:11:22:33", "mode": "bridged", "link": "br7"}],
    disks=[ExportedDisk(ivname="disk/0", dump="disk0.dump", size_mib=64, name="root")],
    beparams={"maxmem": "256", "minmem": "128", "vcpus": "3", "foreign": "1"},
)


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers.update(
        node_info=lambda name, **_: node_facts(storage_free_mib=100000),
        all_instances_info=lambda name, **_: [],
        export_list=lambda name, **_: ["old.example.com"] if name == "node1" else [],
        export_info=lambda name, **_: encode(EXPORT),
        export_dump_sizes=lambda name, *, dumps, **_: [4096 for _ in dumps],
        transfer_key_make=lambda node, /, **asked: {"name": asked["name"], "certificate": f"of {node}"},
        transfer_receive=lambda node, /, **_: 4711,
        transfer_states=lambda node, /, **_: [STATE],
    )
    return context


def make(ctx: FakeContext, **parameters: Any) -> Any:
    asked = {
        "instance_name": "new.example.com",
        "mode": "import",
        "src_path": "old.example.com",
        "disks": [],
        "nics": [],
        "pnode": "node2",
        "start": False,
    }
    run(CreateInstance(**asked | parameters), ctx)
    return ctx.config.view().find_instance(parameters.get("instance_name", "new.example.com"))


def test_what_was_not_said_is_as_the_export_has_it(ctx: FakeContext) -> None:
    instance = make(ctx)
    view = ctx.config.view()
    assert (instance.os, instance.tags, instance.hypervisor) == ("noop", ["a"], "pretend")
    assert {key: instance.beparams[key] for key in ("maxmem", "minmem", "vcpus")} == {
        "maxmem": 256,
        "minmem": 128,
        "vcpus": 3,
    }
    assert [(disk.size, disk.name, disk.dev_type) for disk in view.instance_disks(instance)] == [(64, "root", "local")]
    assert instance.nics[0].nicparams == {"mode": "bridged", "link": "br7"}
    assert instance.nics[0].mac != "aa:00:00:11:22:33", "the exported one may run beside it"


def test_what_was_said_counts(ctx: FakeContext) -> None:
    instance = make(ctx, beparams={"vcpus": 1, "memory": 512}, tags=["b"], disks=[{"size": 128}])
    assert (instance.beparams["vcpus"], instance.beparams["maxmem"], instance.tags) == (1, 512, ["b"])
    assert ctx.config.view().instance_disks(instance)[0].size == 128


def test_the_import_script_takes_the_dumps_as_they_come_from_their_node(ctx: FakeContext) -> None:
    sent: list[dict[str, Any]] = []
    ctx.nodes.handlers["transfer_send"] = lambda node, /, **asked: sent.append(asked | {"node": node})
    make(ctx, osparams_secret={"word": "quiet"})
    told = [re.sub("x509-[0-9a-f]+", "x509-KEY", line) for line in ctx.story if not line.endswith(QUIET)]
    assert told[told.index("node2 blockdev_create") + 1 :] == [
        "undo: close the disks of new.example.com",
        "node2 instance_disks_assemble",
        "undo: remove the key x509-KEY from node1",
        "node1 transfer_key_make",
        "undo: remove the key x509-KEY from node2",
        "node2 transfer_key_make",
        "undo: end the transfer import-1.0.0-disk0 on node2",
        "node2 transfer_receive",
        "undo: end the transfer export-1.0.0-disk0 on node1",
        "node1 transfer_send",
        "node2 transfer_confirm",
        "node1 transfer_end",
        "node2 transfer_end",
        "node1 transfer_key_remove",
        "node2 transfer_key_remove",
        "node2 instance_run_rename",
        "node2 instance_disks_shutdown",
        "commit FinishInstance settles",
    ]
    (asked,) = sent
    what = asked["transfer"]
    assert (asked["node"], what.directory, what.dump) == ("node1", "old.example.com", "disk0.dump")
    assert "quiet" not in str(what), "the node that keeps the export needs no secrets"


def test_a_dump_that_is_missing_is_refused_before_anything_is_made(ctx: FakeContext) -> None:
    def missing(name: str, **_: Any) -> None:
        raise BlockDeviceError("its dump disk0.dump is missing")

    ctx.nodes.handlers["export_dump_sizes"] = missing
    with pytest.raises(BlockDeviceError, match="is missing"):
        make(ctx)
    assert not [line for line in ctx.story if "undo" in line or "commit" in line]


@pytest.mark.parametrize("size", [4095, 4097, 0])
def test_a_dump_of_another_size_is_refused_before_anything_is_made(ctx: FakeContext, size: int) -> None:
    exported = replace(EXPORT, disks=[replace(EXPORT.disks[0], dump_bytes=4096)])
    ctx.nodes.handlers["export_info"] = lambda name, **_: encode(exported)
    make(ctx, instance_name="whole.example.com")
    ctx.story.clear()
    ctx.nodes.handlers["export_dump_sizes"] = lambda name, **_: [size]
    sentence = rf"on node1 is damaged: its dump disk0.dump has {size} bytes, and 4096 were written\. Export .* again"
    with pytest.raises(PrerequisiteError, match=sentence):
        make(ctx)
    assert not [line for line in ctx.story if "undo" in line or "commit" in line]


SUM = "5a" * 32


def with_checksum(ctx: FakeContext) -> list[dict[str, str]]:
    """The export says one; gives what the node is asked to compare."""
    exported = replace(EXPORT, disks=[replace(EXPORT.disks[0], dump_bytes=4096, sha256=SUM)])
    asked: list[dict[str, str]] = []

    def damaged(name: str, *, directory: str, dumps: dict[str, str], token: str) -> list[str]:
        assert (name, directory) == ("node1", "old.example.com") and token
        asked.append(dumps)
        return []

    ctx.nodes.handlers |= {"export_info": lambda name, **_: encode(exported), "export_damaged_dumps": damaged}
    return asked


def test_dumps_are_read_before_anything_is_made(ctx: FakeContext) -> None:
    asked = with_checksum(ctx)
    make(ctx)
    assert asked == [{"disk0.dump": SUM}]
    told = [line for line in ctx.story if not line.endswith(QUIET)]
    first = told.index("node1 export_damaged_dumps")
    assert told.index("undo: end the check of dumps on node1") < first < told.index("commit AddInstance")
    assert not [line for line in told[:first] if "commit" in line or "blockdev" in line]


def test_a_dump_that_was_changed_is_refused_before_anything_is_made(ctx: FakeContext) -> None:
    with_checksum(ctx)
    ctx.nodes.handlers["export_damaged_dumps"] = lambda name, **_: ["disk0.dump"]
    sentence = r"on node1 is damaged: its dump disk0.dump is not what was written, its checksum .* Export the insta"
    with pytest.raises(PrerequisiteError, match=sentence):
        make(ctx)
    assert not [line for line in ctx.story if "commit" in line or "blockdev" in line]
    assert ctx.config.view().uuid_by_name("instances", "new.example.com") is None


def test_others_may_look_for_room_while_dumps_are_read(ctx: FakeContext) -> None:
    with_checksum(ctx)
    make(ctx)
    (released,) = (at for at, line in enumerate(ctx.story) if line.startswith("release "))
    assert released < ctx.story.index("node1 export_damaged_dumps") < ctx.story.index("commit AddInstance")


def test_an_export_of_ganeti_is_imported_and_the_job_says_that_nothing_could_be_checked(ctx: FakeContext) -> None:
    make(ctx)
    assert "node1 export_damaged_dumps" not in ctx.story
    said = "The export has no checksum of disk0.dump (Ganeti 3.1 notes none): whether it is as it was written could"
    assert [line for line in ctx.log.lines if said in str(line)]


def test_who_has_dumps_read_by_another_os_is_told(ctx: FakeContext) -> None:
    for os_type, warned in (("noop", 0), ("noop+variant", 0), ("other", 1)):
        make(ctx, instance_name=f"{os_type.replace('+', '-')}.example.com", os_type=os_type)
        assert (
            len([line for line in ctx.log.lines if "made by OS 'noop' and are read by 'other'" in str(line)]) == warned
        )


def test_hooks_are_told_the_whole_path_of_the_export_and_its_dumps(ctx: FakeContext) -> None:
    for directory in ("old.example.com", "/srv/ganeti/export/old.example.com"):
        told = Source("uuid-node1", "node1", directory, EXPORT).told()
        assert told["SRC_PATH"] == "/srv/ganeti/export/old.example.com"
        assert told["SRC_IMAGES"] == "['/srv/ganeti/export/old.example.com/disk0.dump']"


def test_under_its_old_name_it_keeps_its_addresses(ctx: FakeContext) -> None:
    instance = make(ctx, instance_name="old.example.com")
    assert instance.nics[0].mac == "aa:00:00:11:22:33"
    assert "node2 instance_run_rename" in ctx.story, "its other addresses may have changed"


def test_what_cannot_be_imported_is_refused(ctx: FakeContext) -> None:
    for parameters, sentence in (
        ({"src_path": "gone"}, "No node keeps an export 'gone': see gnt-backup list"),
        ({"no_install": True}, "leave --forthcoming, --commit and --no-install out"),
        ({"compress": "lzma"}, "Compression 'lzma' is not enabled in the cluster"),
        ({"mode": "remote-import"}, "An import from another cluster needs source_handshake"),
    ):
        with pytest.raises(PrerequisiteError, match=sentence):
            make(ctx, **parameters)
    ctx.nodes.handlers["export_info"] = lambda name, **_: "[export]\nversion = 1\n[instance]\n"
    with pytest.raises(PrerequisiteError, match="has version 1, and version 0 can be imported"):
        make(ctx)
    ctx.nodes.handlers["export_info"] = lambda name, **_: "[export]\nversion = 0\n"
    with pytest.raises(PrerequisiteError, match=r"config.ini of the export is damaged: .*Export the instance again"):
        make(ctx)
    assert ctx.config.view().uuid_by_name("instances", "new.example.com") is None
