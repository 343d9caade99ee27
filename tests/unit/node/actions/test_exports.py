# SPDX-License-Identifier: BSD-2-Clause
"""Exports on a node: whole at their end, never a path outside, not across a restart."""

import asyncio
import hashlib
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError, ExecutionError
from ganeti.model.node_calls.exports import UNFINISHED, Dumped
from ganeti.node.exports import Exports
from ganeti.system import files
from ganeti.system.boot import boot_identity

NEW = {"directory": f"web1{UNFINISHED}", "dump": "disk0.dump"}
CONFIG = "[export]\nversion = 0\n"
DUMPS = {"disk0.dump": 3}


def begin(node: OneNode) -> str:
    """A dump as a transfer leaves it."""
    place = Path(node.paths.export_dir, NEW["directory"])
    place.mkdir(parents=True, exist_ok=True)
    (place / NEW["dump"]).write_bytes(b"abc")
    return boot_identity()


def test_an_export_is_there_at_its_end(node: OneNode) -> None:
    boot = begin(node)
    assert node.call("export_list") == []
    node.call("export_finish", name="web1", config=CONFIG, boot=boot, dumps=DUMPS)
    assert node.call("export_list") == ["web1"]
    assert node.call("export_info", directory="web1") == CONFIG
    assert node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump"]) == [3]
    begin(node)
    node.call("export_finish", name="web1", config=CONFIG + "os = new\n", boot="", dumps=DUMPS)
    assert "os = new" in node.call("export_info", directory="web1")
    assert (node.call("export_remove", name="web1"), node.call("export_remove", name="web1")) == (True, False)


def test_what_is_unfinished_can_be_taken_back(node: OneNode) -> None:
    begin(node)
    node.call("export_discard", name="web1")
    node.call("export_discard", name="web1")
    assert os.listdir(node.paths.export_dir) == []


@pytest.mark.parametrize("directory", ["..", "../..", ".", "", "/etc", "web1/..", "a/b", "/srv/ganeti/export"])
def test_nothing_outside_is_reached(node: OneNode, directory: str) -> None:
    begin(node)
    with pytest.raises(BlockDeviceError, match="is no directory of an export: it must lie directly below"):
        node.call("export_info", directory=directory)


def test_a_link_that_leads_out_and_a_dump_that_is_a_path_are_refused(node: OneNode) -> None:
    begin(node)
    os.symlink("/etc", f"{node.paths.export_dir}/web2")
    with pytest.raises(BlockDeviceError, match="is no directory of an export"):
        node.call("export_info", directory="web2")
    with pytest.raises(BlockDeviceError, match="cannot be the name of a dump"):
        node.call("export_dump_sizes", directory=NEW["directory"], dumps=["../../x"])


def test_a_damaged_description_and_a_missing_one_are_named(node: OneNode) -> None:
    node.call("export_finish", name="web1", config="version = 0\n", boot=boot_identity(), dumps={})
    with pytest.raises(BlockDeviceError, match=r"config.ini is damaged: .* Export the instance again"):
        node.call("export_info", directory="web1")
    with pytest.raises(BlockDeviceError, match=r"There is no export in .*: see gnt-backup list"):
        node.call("export_info", directory="web9")


def test_a_node_that_has_restarted_does_not_go_on(node: OneNode) -> None:
    begin(node)
    with pytest.raises(BlockDeviceError, match="has restarted while web1 was exported"):
        node.call("export_finish", name="web1", config=CONFIG, boot="before", dumps=DUMPS)


def test_a_dump_that_is_missing_is_named(node: OneNode) -> None:
    boot = begin(node)
    node.call("export_finish", name="web1", config=CONFIG, boot=boot, dumps=DUMPS)
    with pytest.raises(
        BlockDeviceError, match=r"is damaged: its dump disk1.dump is missing. Export the instance again"
    ):
        node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump", "disk1.dump"])


def test_a_flipped_byte_of_a_dump_is_noticed(node: OneNode) -> None:
    node.definition(export='head -c 3000000 /dev/urandom; echo "of which $EXPORT_INDEX"')
    spec = instance_spec(disks=[disk_spec()])
    node.call("blockdev_create", disk=disk_spec())
    dumped = node.call("export_dump", instance=spec, index=0, **NEW, debug=0)
    dump = Path(node.paths.export_dir, NEW["directory"], NEW["dump"])
    assert dumped == Dumped(boot=boot_identity(), sha256=hashlib.sha256(dump.read_bytes()).hexdigest())
    asked = {"directory": NEW["directory"], "dumps": {NEW["dump"]: dumped.sha256}, "token": "t"}
    assert node.call("export_damaged_dumps", **asked) == []
    with dump.open("r+b") as file:
        file.seek(1500000)
        byte = file.read(1)
        file.seek(1500000)
        file.write(bytes([byte[0] ^ 1]))
    assert node.call("export_damaged_dumps", **asked) == [NEW["dump"]]
    assert node.call("export_progress", token="t") == 0, "it is over"
    node.call("script_end", token="u")
    with pytest.raises(ExecutionError, match="It was ended"):
        node.call("export_damaged_dumps", **asked | {"token": "u"})


@pytest.mark.parametrize(
    ("dumps", "sentence"),
    [
        (None, "its dump disk0.dump is missing"),
        ({"disk0.dump": 3, "disk1.dump": 3}, "its dump disk1.dump is missing"),
        ({"disk0.dump": 4}, "its dump disk0.dump has 3 bytes, and 4 were written. Export the instance again"),
    ],
    ids=["the directory is gone", "a dump is missing", "a dump is cut off"],
)
def test_an_export_replaces_the_older_one_only_with_all_its_dumps(
    node: OneNode, dumps: dict[str, int] | None, sentence: str
) -> None:
    begin(node)
    node.call("export_finish", name="web1", config=CONFIG, boot="", dumps=DUMPS)
    if dumps is not None:
        begin(node)
    with pytest.raises(BlockDeviceError, match=sentence):
        node.call("export_finish", name="web1", config=CONFIG + "os = new\n", boot="", dumps=dumps or DUMPS)
    assert node.call("export_info", directory="web1") == CONFIG
    assert node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump"]) == [3]


class Crash(Exception):
    """The node dies."""


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "a file system without exchange"])
@pytest.mark.parametrize("call", ["rename", "unlink", "rmdir", "fsync"])
def test_a_crash_while_a_new_export_replaces_the_older_one_loses_neither(
    node: OneNode, monkeypatch: pytest.MonkeyPatch, call: str, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    newer = CONFIG + "os = new\n"
    genuine = getattr(os, call)
    for crash_at in range(1, 20):
        node.call("export_remove", name="web1")
        node.call("export_discard", name="web1")
        begin(node)
        node.call("export_finish", name="web1", config=CONFIG, boot="", dumps=DUMPS)
        begin(node)
        count = itertools.count(1)

        def failing(*args: Any, **kwargs: Any) -> Any:
            if next(count) == crash_at:  # noqa: B023 -- used within this turn only
                raise Crash
            return genuine(*args, **kwargs)

        crashed = False
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                Exports(node.paths).publish("web1", newer, DUMPS)
            except Crash:
                crashed = True
        assert node.call("export_list") == ["web1"]
        assert node.call("export_info", directory="web1") in (CONFIG, newer)
        assert node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump"]) == [3]
        if not crashed:
            break
        node.call("export_discard", name="web1")
        assert os.listdir(node.paths.export_dir) == ["web1"], "discard leaves nothing"
    else:
        pytest.fail("it never went through")
    assert os.listdir(node.paths.export_dir) == ["web1"]


def test_the_end_of_an_export_may_be_repeated(node: OneNode) -> None:
    begin(node)
    for _ in range(2):
        node.call("export_finish", name="web1", config=CONFIG, boot="", dumps=DUMPS)
    assert node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump"]) == [3]


def test_an_instance_without_disks_has_an_export_without_dumps(node: OneNode) -> None:
    node.call("export_finish", name="web1", config=CONFIG, boot="", dumps={})
    assert node.call("export_list") == ["web1"]


HELD = """[ $(basename "$0") != create ] || exit 0
setsid sleep 1000 & echo $! > {top}/child; echo $$ > {top}/leader; wait"""
"""A script that waits for what it has started, which left its group."""


def held(node: OneNode) -> tuple[dict[str, Any], Path]:
    """Arguments that begin the export or import of a disk, and where the numbers of the processes are."""
    top = Path(node.paths.under("/"))
    text = HELD.format(top=top)
    node.definition(create=text, **{"export": text, "import": text})
    spec = instance_spec(disks=[disk_spec()])
    node.call("blockdev_create", disk=disk_spec())
    begin(node)
    return {"instance": spec, "index": 0, **NEW, "debug": 0, "token": f"t-{top}"}, top


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("call", ["export_dump", "import_dump"])
def test_what_ends_a_run_waits_until_the_script_and_all_it_has_started_are_gone(node: OneNode, call: str) -> None:
    asked, top = held(node)

    async def story() -> None:
        run = asyncio.ensure_future(node.make_call(call, **asked))
        async with asyncio.timeout(60):
            while not ((top / "leader").exists() and (top / "leader").read_text().endswith("\n")):
                assert not run.done(), run.result()
                await asyncio.sleep(0.05)
            pids = [int((top / name).read_text()) for name in ("child", "leader")]
            assert [running(pid) for pid in pids] == [True, True]
            await node.make_call("script_end", token=asked["token"])
            assert [running(pid) for pid in pids] == [False, False]
            with pytest.raises(ExecutionError, match="It was ended: its job does not wait for it any more"):
                await run

    node.run(story())


@pytest.mark.parametrize("call", ["export_dump", "import_dump", "export_copy_disks"])
def test_a_run_that_was_ended_before_it_began_does_not_begin(node: OneNode, call: str) -> None:
    asked, top = held(node)
    if call == "export_copy_disks":
        asked = {name: asked[name] for name in ("instance", "directory", "token")}
        node.call("export_end_copies", hypervisor="fake", name="web1", token=asked["token"])
    else:
        node.call("script_end", token=asked["token"])
    with pytest.raises(ExecutionError, match="It was ended"):
        node.call(call, **asked)
    assert not (top / "leader").exists()
