# SPDX-License-Identifier: BSD-2-Clause
"""What every hypervisor promises (`node/hypervisors/interface.py`), asked of each in the registry that can run here.

Guests boot nothing: what is held here is the life of a guest as its node sees it. `tests/real` looks inside.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError, TypeEnforcementError
from ganeti.model.node_calls.migration import MigrationStatus
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.parameters import accept_all
from ganeti.node.hypervisors.interface import Adopted, Hypervisor

ADDRESS = "127.0.0.1"
NAME = "web1.example.com"
PATIENCE_S = 30.0
T = TypeVar("T")


class Node:
    """A node of a test; *fresh* gives its driver as a restarted daemon would have it."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind = kind
        self.world: NodeOnDisk = hypervisor_world.world_of(kind, root)
        self.disks = [hypervisor_world.root_disk(root.parent)] if kind in ON_ROOT_DISKS else []

    async def start(self, *, paused: bool = False, **changes) -> None:
        await self.fresh.start(spec_of(self, **changes), self.disks, paused=paused)

    @property
    def fresh(self) -> Hypervisor:
        return hypervisor_world.driver(self.kind, self.world)

    async def state(self, name: str = NAME) -> str | None:
        found = await self.fresh.info(name)
        return found.state if found is not None else None

    def leftovers(self) -> list[str]:
        """Files that name the guest, logs left out."""
        run = Path(self.world.paths.run_dir)
        return [str(path) for path in run.rglob("*") if NAME in path.name]


WITHOUT_PROCESSES = {"fake", "xen-hvm", "xen-pvm"}
"""The others start real guests: their part of the suite is run with the real tests. For Xen a stand-in answers."""
ON_ROOT_DISKS = {"chroot", "lxc"}
"""Their guests share the kernel of the node, and have no other state than running."""


@pytest.fixture(
    params=[
        pytest.param(name, marks=[] if name in WITHOUT_PROCESSES else [pytest.mark.real])
        for name in sorted(Hypervisor.registry)
    ]
)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    name: str = request.param
    world = hypervisor_world.world_of(name, tmp_path_factory.mktemp("verify"))
    problems = asyncio.run(hypervisor_world.driver(name, world).verify(hypervisor_world.instance(name).hvparams))
    if problems:
        if os.environ.get("CI") and name not in ON_ROOT_DISKS:
            pytest.fail(f"{name} cannot run here: {problems}")
        pytest.skip(f"{name} cannot run here: {problems}")
    return name


@pytest.fixture
def node(kind: str, tmp_path: Path):
    made = Node(kind, tmp_path / "node1")
    yield made
    asyncio.run(made.fresh.stop(NAME, timeout_s=0))


@pytest.fixture
def other(kind: str, tmp_path: Path):
    needs_steps(kind)
    made = Node(kind, tmp_path / "node2")
    yield made
    asyncio.run(made.fresh.stop(NAME, timeout_s=0))


IN_ONE_STEP = {"xen-hvm", "xen-pvm"}
"""Their migration has no moment before the switch (`test_xen.py`)."""


def needs_steps(kind: str) -> None:
    if not Hypervisor.registry[kind].traits.can_migrate or kind in IN_ONE_STEP:
        pytest.skip(f"{kind} does not migrate in steps")


def spec_of(node: Node, **changes) -> InstanceSpec:
    return hypervisor_world.instance(node.kind, NAME, **{"disks": [disk.spec for disk in node.disks]} | changes)


async def until(question: Callable[[], Awaitable[T]], *wanted: T) -> T:
    async with asyncio.timeout(PATIENCE_S):
        while (found := await question()) not in wanted:  # noqa: ASYNC110 - another process has no event for us
            await asyncio.sleep(0.01)
        return found


async def migration_state(node: Node) -> str:
    return (await node.fresh.migration_status(NAME)).status


async def begun(node: Node, other: Node, *, live: bool = True) -> InstanceSpec:
    """A guest that runs on *node* and has begun to move to *other*."""
    spec = spec_of(node)
    if await node.state() is None:
        await node.fresh.start(spec, [])
    info = await node.fresh.migration_info(NAME)
    target = await other.fresh.accept(spec, [], info, ADDRESS)
    assert target.address == ADDRESS and 0 < target.port < 65536 and len(target.key) >= 32
    await node.fresh.migrate(NAME, target, live=live)
    return spec


async def at_switchover(node: Node, other: Node, *, live: bool = True) -> None:
    await begun(node, other, live=live)
    await until(lambda: migration_state(node), "pre-switchover")


async def moved(node: Node, other: Node, *, live: bool = True) -> None:
    await at_switchover(node, other, live=live)
    await node.fresh.continue_switchover(NAME)
    await until(lambda: migration_state(node), "completed")
    await other.fresh.finalize_target(NAME, success=True)
    await node.fresh.finalize_source(NAME, success=True)


def test_a_started_guest_runs_and_is_listed(node: Node) -> None:
    async def story() -> None:
        await node.start(beparams={"maxmem": 48, "minmem": 32, "vcpus": 2})
        (found,) = await node.fresh.list_instances()
        assert (found.name, found.memory_mib, found.vcpus, found.state) == (NAME, 48, 2, "running")
        assert await node.fresh.info(NAME) is not None
        assert await node.fresh.info("other.example.com") is None

    asyncio.run(story())


def test_starting_what_runs_does_no_harm(node: Node) -> None:
    async def story() -> None:
        await node.start()
        await node.start(beparams={"maxmem": 20, "minmem": 20, "vcpus": 1})
        (found,) = await node.fresh.list_instances()
        assert found.memory_mib == 32  # the same guest still

    asyncio.run(story())


def test_a_guest_can_start_paused(node: Node) -> None:
    async def story() -> None:
        if node.kind in ON_ROOT_DISKS:
            with pytest.raises(HypervisorError, match="has no such state"):
                await node.start(paused=True)
            assert await node.state() is None and node.leftovers() == []
            return
        await node.start(paused=True)
        assert await node.state() == "paused"

    asyncio.run(story())


def test_a_stopped_guest_leaves_nothing_and_can_be_stopped_again(node: Node) -> None:
    async def story() -> None:
        await node.start()
        await node.fresh.stop(NAME, timeout_s=0)
        assert await node.fresh.list_instances() == []
        await node.fresh.stop(NAME, timeout_s=5, force=True)
        assert node.leftovers() == []

    asyncio.run(story())


def test_a_guest_that_ignores_the_power_button_is_ended_in_time(node: Node) -> None:
    async def story() -> None:
        await node.start()
        async with asyncio.timeout(PATIENCE_S):
            await node.fresh.stop(NAME, timeout_s=0.5)
        assert await node.state() is None

    asyncio.run(story())


@pytest.mark.parametrize("hard", [False, True])
def test_a_rebooted_guest_runs(node: Node, hard: bool) -> None:
    async def story() -> None:
        await node.start()
        await node.fresh.reboot(spec_of(node), node.disks, hard=hard)
        assert await node.state() == "running"

    asyncio.run(story())


def test_a_hard_reboot_takes_what_has_changed(node: Node) -> None:
    async def story() -> None:
        await node.start()
        await node.fresh.reboot(spec_of(node, beparams={"maxmem": 40, "minmem": 32, "vcpus": 1}), node.disks, hard=True)
        (found,) = await node.fresh.list_instances()
        assert found.memory_mib == 40

    asyncio.run(story())


def test_rebooting_what_does_not_run_starts_it(node: Node) -> None:
    async def story() -> None:
        await node.fresh.reboot(spec_of(node), node.disks, hard=False)
        assert await node.state() == "running"

    asyncio.run(story())


def test_a_refused_start_leaves_nothing(node: Node, tmp_path: Path) -> None:
    async def story() -> None:
        missing = hypervisor_world.disk(tmp_path / "missing.img")
        with pytest.raises(HypervisorError):
            await node.fresh.start(spec_of(node), [*node.disks, missing])  # the instance does not have it
        assert await node.fresh.list_instances() == []
        assert node.leftovers() == []

    asyncio.run(story())


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden"])
def test_a_name_that_is_no_file_name_is_refused(node: Node, name: str) -> None:
    with pytest.raises(HypervisorError, match="host name"):
        asyncio.run(node.fresh.start(hypervisor_world.instance(node.kind, name), []))


def test_memory_can_be_taken_within_bounds(node: Node) -> None:
    if not Hypervisor.registry[node.kind].traits.can_balloon:
        pytest.skip(f"{node.kind} does not promise it")

    async def story() -> None:
        await node.start()
        await node.fresh.balloon(NAME, 24)
        (found,) = await node.fresh.list_instances()
        assert found.memory_mib == 24
        with pytest.raises(HypervisorError, match=r"1\.\.32"):
            await node.fresh.balloon(NAME, 33)

    asyncio.run(story())


def test_disks_of_a_running_guest_are_copied(node: Node, tmp_path: Path) -> None:
    if not Hypervisor.registry[node.kind].traits.can_copy_disks:
        pytest.skip(f"{node.kind} does not promise it")
    images = [tmp_path / "a.img", tmp_path / "b.img"]
    for number, image in enumerate(images, 1):
        image.write_bytes(bytes([number]) * 1024 * 1024)
    disks = [hypervisor_world.disk(image, index) for index, image in enumerate(images)]
    spec = hypervisor_world.instance(node.kind, NAME, disks=[disk.spec for disk in disks])
    copies = [tmp_path / "a.copy", tmp_path / "b.copy"]

    async def story() -> None:
        await node.fresh.start(spec, disks, paused=True)
        await node.fresh.devices.end_copies(NAME)  # nothing goes on
        for _ in range(2):
            for copy in copies:
                copy.write_bytes(b"")
            await node.fresh.devices.copy_disks(NAME, [str(copy) for copy in copies])
        await node.fresh.stop(NAME, timeout_s=0)
        with pytest.raises(HypervisorError, match=NAME):
            await node.fresh.devices.copy_disks(NAME, [str(copy) for copy in copies])
        await node.fresh.devices.end_copies(NAME)

    asyncio.run(story())
    assert [copy.read_bytes() for copy in copies] == [image.read_bytes() for image in images]


def test_capacity_adds_up(node: Node) -> None:
    found = asyncio.run(node.fresh.capacity())
    assert found.memory_total > 0 and found.cpu_total > 0
    assert 0 <= found.memory_free <= found.memory_total
    assert 0 <= found.memory_dom0 <= found.memory_total


def test_the_console_names_the_instance(node: Node) -> None:
    console = node.fresh.console(spec_of(node))
    assert console.instance == NAME
    assert console.kind in ("msg", "ssh", "vnc", "spice")
    assert console.message or console.command or console.port


def test_parameters_are_typed_and_their_defaults_accepted(kind: str) -> None:
    parameters = Hypervisor.registry[kind].traits.parameters
    defaults = {parameter.name: parameter.default for parameter in parameters}
    assert accept_all(parameters, defaults, "hypervisor") == defaults
    with pytest.raises(TypeEnforcementError, match="there are"):
        accept_all(parameters, {"no_such_parameter": 1}, "hypervisor")
    if "migration_mode" not in defaults:
        return
    with pytest.raises(TypeEnforcementError, match="one of live, non-live"):
        accept_all(parameters, {"migration_mode": "sideways"}, "hypervisor")


def test_a_restarted_daemon_finds_and_ends_the_guest(node: Node, tmp_path: Path) -> None:
    async def story() -> None:
        await node.start()
        again = Node(node.kind, tmp_path / "node1")
        assert await again.state() == "running"
        await again.fresh.stop(NAME, timeout_s=0)
        assert await node.state() is None

    asyncio.run(story())


@pytest.mark.parametrize("live", [True, False])
def test_a_migrated_guest_runs_on_the_target_only(node: Node, other: Node, live: bool) -> None:
    async def story() -> None:
        await moved(node, other, live=live)
        assert await other.state() == "running"
        assert await node.state() is None
        assert node.leftovers() == []
        found = await other.fresh.info(NAME)
        assert found is not None and found.memory_mib == 32
        await moved(other, node)  # and back
        assert await node.state() == "running"
        assert await other.state() is None

    asyncio.run(story())


def test_a_paused_guest_arrives_paused(node: Node, other: Node) -> None:
    async def story() -> None:
        await node.start(paused=True)
        await moved(node, other)
        assert await other.state() == "paused"

    asyncio.run(story())


def test_until_the_switchover_only_the_source_has_the_guest(node: Node, other: Node) -> None:
    async def story() -> None:
        await at_switchover(node, other)
        assert await node.state() == "paused"
        assert await other.state() == "incoming"
        status = await node.fresh.migration_status(NAME)
        assert status.transferred_ram > 0 and status.total_ram >= 32 * 1024 * 1024

    asyncio.run(story())


@pytest.mark.parametrize("stage", ["active", "pre-switchover"])
def test_a_cancelled_guest_runs_on_at_the_source(node: Node, other: Node, stage: str) -> None:
    async def story() -> None:
        await begun(node, other)
        if stage == "pre-switchover":
            await until(lambda: migration_state(node), stage)
        found = await node.fresh.cancel_migration(NAME)
        assert found.status in ("cancelled", "failed")
        assert await node.state() == "running"
        await other.fresh.finalize_target(NAME, success=False)
        await node.fresh.finalize_source(NAME, success=False)
        assert await node.state() == "running"
        assert await other.state() is None and other.leftovers() == []
        await moved(node, other)  # a cancelled migration is no obstacle to the next
        assert await other.state() == "running"

    asyncio.run(story())


def test_it_is_too_late_to_cancel_what_is_completed(node: Node, other: Node) -> None:
    async def story() -> None:
        await at_switchover(node, other)
        await node.fresh.continue_switchover(NAME)
        await until(lambda: migration_state(node), "completed")
        assert (await node.fresh.cancel_migration(NAME)).status == "completed"
        assert await node.state() == "postmigrate"
        await other.fresh.finalize_target(NAME, success=True)
        assert await other.state() == "running"

    asyncio.run(story())


def test_a_guest_that_was_lost_on_the_target_returns_to_the_source(node: Node, other: Node) -> None:
    async def story() -> None:
        await at_switchover(node, other)
        await node.fresh.continue_switchover(NAME)
        await until(lambda: migration_state(node), "completed")
        await other.fresh.stop(NAME, timeout_s=0, force=True)
        with pytest.raises(HypervisorError, match="did not arrive"):
            await other.fresh.finalize_target(NAME, success=True)
        await node.fresh.finalize_source(NAME, success=False)
        assert await node.state() == "running"

    asyncio.run(story())


def test_cancelling_nothing_does_no_harm(node: Node) -> None:
    needs_steps(node.kind)

    async def story() -> None:
        assert (await node.fresh.cancel_migration(NAME)).status == "none"
        await node.start()
        assert (await node.fresh.cancel_migration(NAME)).status == "none"
        assert (await node.fresh.migration_status(NAME)) == MigrationStatus(status="none")
        assert await node.state() == "running"

    asyncio.run(story())


def test_a_guest_that_has_not_left_is_not_ended_at_the_source(node: Node, other: Node) -> None:
    async def story() -> None:
        await at_switchover(node, other)
        with pytest.raises(HypervisorError, match="has not left"):
            await node.fresh.finalize_source(NAME, success=True)
        await node.fresh.cancel_migration(NAME)
        assert await node.state() == "running"

    asyncio.run(story())


def test_a_guest_that_was_taken_over_is_not_removed_by_a_late_failure(node: Node, other: Node) -> None:
    async def story() -> None:
        await moved(node, other)
        with pytest.raises(HypervisorError, match="taken over"):
            await other.fresh.finalize_target(NAME, success=False)
        await other.fresh.finalize_target(NAME, success=True)
        assert await other.state() == "running"

    asyncio.run(story())


def test_what_a_guest_that_has_left_leaves_behind_can_be_cleaned_up(node: Node, other: Node) -> None:
    async def story() -> None:
        await at_switchover(node, other)
        with pytest.raises(HypervisorError, match="it is not removed"):
            await node.fresh.finalize_target(NAME, success=False)
        await node.fresh.continue_switchover(NAME)
        await until(lambda: migration_state(node), "completed")
        await other.fresh.finalize_target(NAME, success=True)
        await node.fresh.finalize_target(NAME, success=False)
        assert node.leftovers() == []
        assert await other.state() == "running"

    asyncio.run(story())


def test_the_target_refuses_what_does_not_fit(node: Node, other: Node, tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "one.img").write_bytes(bytes(1024 * 1024))
        disk = hypervisor_world.disk(tmp_path / "one.img")
        spec = msgspec.structs.replace(spec_of(node), disks=[disk.spec])
        await node.fresh.start(spec, [disk])
        info = await node.fresh.migration_info(NAME)
        with pytest.raises(HypervisorError, match="disks"):
            await other.fresh.accept(spec, [], info, ADDRESS)
        stranger = msgspec.structs.replace(spec, uuid="11111111-2222-3333-4444-555555555555")
        with pytest.raises(HypervisorError, match="not of"):
            await other.fresh.accept(stranger, [disk], info, ADDRESS)
        with pytest.raises(HypervisorError, match="cannot be read"):
            await other.fresh.accept(spec, [disk], {"name": NAME}, ADDRESS)
        assert await other.state() is None and other.leftovers() == []
        await other.fresh.start(msgspec.structs.replace(spec, disks=[]), [])
        with pytest.raises(HypervisorError, match="on the target already"):
            await other.fresh.accept(spec, [disk], info, ADDRESS)

    asyncio.run(story())


def test_a_guest_that_does_not_run_cannot_be_migrated(node: Node, other: Node) -> None:
    async def story() -> None:
        with pytest.raises(HypervisorError, match="does not run"):
            await node.fresh.migration_info(NAME)
        if Hypervisor.registry[node.kind].traits.can_balloon:
            with pytest.raises(HypervisorError, match="does not run"):
                await node.fresh.balloon(NAME, 16)

    asyncio.run(story())


def test_an_aborted_accept_leaves_nothing_on_the_target(node: Node, other: Node) -> None:
    async def story() -> None:
        spec = spec_of(node)
        await node.fresh.start(spec, [])
        await other.fresh.accept(spec, [], await node.fresh.migration_info(NAME), ADDRESS)
        assert await other.state() == "incoming"
        await other.fresh.finalize_target(NAME, success=False)
        await other.fresh.finalize_target(NAME, success=False)
        assert await other.state() is None and other.leftovers() == []

    asyncio.run(story())


def test_guests_that_share_the_kernel_are_stopped_before_another_ganeti_takes_them(node: Node) -> None:
    if node.kind not in ON_ROOT_DISKS:
        pytest.skip(f"{node.kind} is taken over as it runs")
    spec = msgspec.structs.replace(spec_of(node), name="adopted.example.com")  # no other test's containers are meant
    wanted = [Adopted(name=spec.name, uuid=spec.uuid)]

    async def story() -> None:
        adoption = node.fresh.adoption()
        assert adoption is not None
        assert await adoption.check(wanted) == await adoption.take(wanted) == []
        await node.fresh.start(spec, node.disks)
        try:
            [problem] = await adoption.check_back(wanted)
            assert f"gnt-instance shutdown {spec.name}" in problem
            with pytest.raises(HypervisorError, match="are stopped for this"):
                await adoption.give_back(wanted)
        finally:
            await node.fresh.stop(spec.name, timeout_s=0, may_write=False)
        assert await node.fresh.list_instances() == []
        assert list(Path(node.world.paths.run_dir).rglob(f"{spec.name}*")) == []

    asyncio.run(story())
