# SPDX-License-Identifier: BSD-2-Clause
"""An OS whose create script is not trusted is installed by a helper guest, or refused with what is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.instance.os.helper_installation import USUAL, helper_times, install_by_helper
from ganeti.master.operations.instance.os.reinstall import ReinstallInstance
from ganeti.model.objects import CLUSTER_KEY, Nic

FOUND = {"name": "noop", "path": "/srv/ganeti/os/noop", "valid": True, "trusted": False}
NIC = Nic(uuid="uuid-talk", mac="52:54:00:00:00:01", ip="169.254.0.7", name="ganeti:communication:web1")


@pytest.fixture
def ctx() -> FakeContext:
    """The instance web1 is stopped and has a NIC for communication."""
    context = FakeContext(configuration(), catalogue())
    config = context.config.view()
    instance = add_instance(config, "web1", admin_state="down")
    config.put("instances", instance.uuid, replace(instance, nics=[*instance.nics, NIC]))
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, install_image="/srv/install.img"))
    context.nodes.handlers |= {"os_validate": lambda _, **asked: FOUND, "os_get": lambda _, **asked: FOUND}
    return context


def helper(ctx: FakeContext, *, works_s: float) -> list[dict[str, Any]]:
    """Let helper guests run that long; gives what each was started with."""
    started: list[dict[str, Any]] = []

    def start(name: str, **asked: Any) -> None:
        started.append(asked | {"at_s": ctx.time_s})

    def info(name: str, **_: Any) -> Any:
        if not started or ctx.time_s - started[-1]["at_s"] >= works_s:
            return None
        guest = {"name": "web1", "hypervisor": "pretend", "memory_mib": 128, "vcpus": 1, "state": "running"}
        return guest | {"cpu_time_s": 0.0}

    ctx.nodes.handlers |= {"helper_start": start, "instance_info": info}
    return started


def test_a_helper_guest_installs_and_the_node_runs_no_script(ctx: FakeContext) -> None:
    started = helper(ctx, works_s=30)
    run(ReinstallInstance(instance_name="web1"), ctx)
    assert [(asked["image"], asked["communicates"]) for asked in started] == [("/srv/install.img", True)]
    assert [line for line in ctx.story if "helper" in line or line.startswith("commit") or "os_add" in line] == [
        "undo: end the helper guest of web1 on node1",
        "node1 helper_start",
        "node1 helper_end",
        "commit NoteInstalledOs settles",
    ]


def test_a_helper_guest_that_does_not_end_fails_the_installation(ctx: FakeContext) -> None:
    helper(ctx, works_s=1e9)
    with pytest.raises(ExecutionError, match="web1 has not ended within 7200 seconds and was stopped"):
        run(ReinstallInstance(instance_name="web1"), ctx)
    assert ctx.story[-1] == "node1 helper_end"


def test_what_a_helper_guest_needs_is_asked_for_first(ctx: FakeContext) -> None:
    config = ctx.config.view()
    with pytest.raises(PrerequisiteError, match=r"secret OS parameters \(password\) are stored nowhere"):
        run(ReinstallInstance(instance_name="web1", osparams_secret={"password": "p"}), ctx)
    instance = config.find_instance("web1")
    config.put("instances", instance.uuid, replace(instance, nics=instance.nics[:-1]))
    with pytest.raises(PrerequisiteError, match=r"give instance web1 one \(--communication=yes\)"):
        run(ReinstallInstance(instance_name="web1"), ctx)
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, install_image=""))
    with pytest.raises(PrerequisiteError, match="gnt-cluster modify --install-image IMAGE"):
        run(ReinstallInstance(instance_name="web1"), ctx)
    assert not ctx.records


def test_the_times_asked_for_count(ctx: FakeContext) -> None:
    helper(ctx, works_s=1e9)
    spec = instance_spec(ctx.config.view(), ctx.catalogue, ctx.config.view().find_instance("web1"))
    with pytest.raises(ExecutionError, match="web1 has not ended within 60 seconds"):
        asyncio.run(install_by_helper(ctx, spec, "/srv/install.img", helper_times(5, 60)))
    assert helper_times(None, None) == USUAL
    assert helper_times(0, None).start_s == 0.0
