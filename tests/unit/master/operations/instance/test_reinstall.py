# SPDX-License-Identifier: BSD-2-Clause
"""Reinstalling an instance: its OS or another, parameters for this time, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ExecutionError, ParameterError, PrerequisiteError
from ganeti.master.operations.instance.os.reinstall import ReinstallInstance

FOUND = {"name": "noop", "path": "/srv/ganeti/os/noop", "valid": True}


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1", admin_state="down")
    return context


def change(ctx: FakeContext, **values: Any) -> None:
    config = ctx.config.view()
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), **values))


def reinstall(ctx: FakeContext, **parameters: Any) -> None:
    run(ReinstallInstance(instance_name="web1", **parameters), ctx)


def test_the_same_os_again(ctx: FakeContext) -> None:
    reinstall(ctx)
    assert ctx.story == [
        "node1 instance_info",
        "node1 os_validate",
        "undo: close the disks of web1",
        "node1 instance_disks_assemble",
        "node1 instance_os_add",
        "node1 script_output",
        "node1 instance_disks_shutdown",
        "commit NoteInstalledOs settles",
    ]
    assert ctx.config.view().find_instance("web1").os == "noop+default"


def test_a_dry_run_asks_for_the_os_and_does_nothing(ctx: FakeContext) -> None:
    reinstall(ctx, dry_run=True)
    assert ctx.story == ["node1 instance_info", "node1 os_validate"]


def test_another_os_with_parameters_for_this_time(ctx: FakeContext) -> None:
    change(ctx, osparams={"size": "1", "lang": "de"})
    asked: dict[str, Any] = {}
    ctx.nodes.handlers["os_validate"] = lambda _, **arguments: asked.update(arguments) or FOUND
    ctx.nodes.handlers["instance_os_add"] = lambda name, **arguments: asked.update(arguments)
    reinstall(
        ctx,
        os_type="debian+bookworm",
        force_variant=True,
        osparams={"size": "2", "lang": "default"},
        osparams_private={"key": "k"},
        osparams_secret={"password": "p"},
    )
    assert (asked["name"], asked["force_variant"]) == ("debian+bookworm", True)
    assert asked["params"] == {"size": "2", "key": "k", "password": "p"}
    assert (asked["reinstall"], asked["instance"].os) == (True, "debian+bookworm")
    assert asked["instance"].osparams == {"size": "2"}
    assert asked["instance"].osparams_private == {"key": "k", "password": "p"}
    instance = ctx.config.view().find_instance("web1")
    assert (instance.os, instance.osparams) == ("debian+bookworm", {"size": "1", "lang": "de"})
    assert "* changing the OS from 'noop+default' to 'debian+bookworm'..." in ctx.lines


def test_the_script_gets_the_secret_that_was_checked_where_the_instance_keeps_a_private_one(ctx: FakeContext) -> None:
    change(ctx, osparams={"password": "public"}, osparams_private={"password": "kept"})
    asked: dict[str, Any] = {}
    ctx.nodes.handlers["os_validate"] = lambda _, **arguments: asked.update(arguments) or FOUND
    ctx.nodes.handlers["instance_os_add"] = lambda name, **arguments: asked.update(arguments)
    reinstall(ctx, osparams_secret={"password": "for this time"})
    given = asked["instance"].osparams | asked["instance"].osparams_private
    assert given["password"] == asked["params"]["password"] == "for this time"


def test_a_failed_script_leaves_the_former_os_in_the_configuration(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_os_add"] = ExecutionError("OS create script of debian failed for web1: status 1")
    with pytest.raises(ExecutionError, match="status 1"):
        reinstall(ctx, os_type="debian")
    assert ctx.config.view().find_instance("web1").os == "noop+default"
    assert [record.sentence for record in ctx.records] == ["close the disks of web1"]


@pytest.mark.parametrize(
    ("values", "sentence", "code"),
    [
        ({"admin_state": "up"}, "web1 should be running, so it cannot be reinstalled: shut it down first", WRONG_STATE),
        ({"disks": []}, "web1 has no disks, so nothing can be installed on it", WRONG_INPUT),
        ({"os": ""}, "web1 has no OS: name one with -o OS", WRONG_INPUT),
        ({"forthcoming": True}, "web1 is only reserved so far: it cannot be reinstalled", WRONG_STATE),
    ],
)
def test_refusals(ctx: FakeContext, values: dict[str, Any], sentence: str, code: str) -> None:
    change(ctx, **values)
    with pytest.raises(PrerequisiteError, match=sentence) as refused:
        reinstall(ctx)
    assert refused.value.code == code and not ctx.records


def test_a_node_that_is_offline_and_parameters_that_are_wrong(ctx: FakeContext) -> None:
    ctx.nodes.handlers["os_validate"] = ParameterError("Unknown parameter of OS 'noop': x; it has none")
    with pytest.raises(PrerequisiteError, match="Unknown parameter of OS"):
        reinstall(ctx, osparams={"x": "1"})
    config = ctx.config.view()
    config.put("nodes", "uuid-node1", replace(config.node("uuid-node1"), offline=True))
    with pytest.raises(PrerequisiteError, match="Node node1 is marked offline"):
        reinstall(ctx)


def test_an_image_instead_of_an_os_or_before_it(ctx: FakeContext) -> None:
    filled: list[tuple[str, int]] = []
    ctx.nodes.handlers["disk_image"] = lambda name, *, image, index, instance: filled.append((image, index)) or 4096
    ctx.nodes.handlers["os_validate"] = lambda _, *, params, **rest: FOUND | {"was": params.pop("os-image")}
    change(ctx, os="", osparams={"os-image": "https://images.example.com/base.raw"})
    reinstall(ctx)
    assert filled == [("https://images.example.com/base.raw", 0)]
    assert not [line for line in ctx.story if line.endswith(("os_validate", "instance_os_add"))]
    ctx.nodes.handlers["os_validate"] = lambda _, **rest: FOUND
    reinstall(ctx, os_type="noop", osparams={"os-image": "/srv/base.raw"})
    assert filled[-1] == ("/srv/base.raw", 0)
    assert ctx.story.index("node1 disk_image") < ctx.story.index("node1 instance_os_add")
    with pytest.raises(PrerequisiteError, match="cannot be the OS parameter os-image: give an absolute path, or a URL"):
        reinstall(ctx, osparams={"os-image": "base.raw"})
