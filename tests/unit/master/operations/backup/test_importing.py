# SPDX-License-Identifier: BSD-2-Clause
"""Making an instance from an export: what it says, what the request says in its place, order of steps, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.wire.export_file import Export, ExportedDisk, encode

QUIET = (
    "script_output",
    "node_info",
    "all_instances_info",
    "bridges_exist",
    "export_list",
    "export_info",
    "os_validate",
    "export_read",
)
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
        export_read=lambda name, **_: {"offset": 0, "data": "", "size": 0},
        export_copy_begin=lambda name, **_: "boot-7",
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


def test_the_dumps_come_to_the_primary_node_and_go_again(ctx: FakeContext) -> None:
    make(ctx)
    assert [line for line in ctx.story if not line.endswith(QUIET)][-10:] == [
        "node2 blockdev_create",
        "undo: remove the unfinished dumps of new.example.com from node2",
        "undo: close the disks of new.example.com",
        "node2 instance_disks_assemble",
        "node2 export_copy_begin",
        "node2 import_dump",
        "node2 export_discard",
        "node2 instance_run_rename",
        "node2 instance_disks_shutdown",
        "commit FinishInstance settles",
    ]


def test_under_its_old_name_it_keeps_its_addresses(ctx: FakeContext) -> None:
    instance = make(ctx, instance_name="old.example.com")
    assert instance.nics[0].mac == "aa:00:00:11:22:33"
    assert "node2 instance_run_rename" not in ctx.story


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
