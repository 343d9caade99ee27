# SPDX-License-Identifier: BSD-2-Clause
"""What only ``fake`` can: failures on order, nodes of any size, guests that die with their node."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.fake import guests
from ganeti.node.hypervisors.fake.driver import FakeHypervisor

NAME = "web1.example.com"


@pytest.fixture
def fake(tmp_path: Path) -> FakeHypervisor:
    (tmp_path / "run/ganeti/fake-hypervisor/.fail").mkdir(parents=True)
    return FakeHypervisor(NodeOnDisk(tmp_path))


def order(fake: FakeHypervisor, method: str, text: str) -> Path:
    path = Path(fake.directory) / ".fail" / method
    path.write_text(text)
    return path


def test_a_method_fails_on_order_before_or_after_it_acted(fake: FakeHypervisor) -> None:
    async def story() -> None:
        spec = hypervisor_world.instance("fake")
        order(fake, "start", "fail The moon is full")
        with pytest.raises(HypervisorError, match="moon"):
            await fake.start(spec, [])
        assert await fake.list_instances() == []
        order(fake, "start", "fail-after")
        with pytest.raises(HypervisorError, match="method start"):
            await fake.start(spec, [])
        assert len(await fake.list_instances()) == 1

    asyncio.run(story())


def test_a_guest_of_an_earlier_instance_is_not_taken_for_the_new_one(fake: FakeHypervisor) -> None:
    """The first one was removed while its node was away, and its guest runs on."""

    async def story() -> None:
        removed = hypervisor_world.instance("fake", uuid="0d6f4f6e-5f0e-4d2c-9b67-6f1c2f3f4a55")
        await fake.start(removed, [])
        with pytest.raises(HypervisorError, match=r"left from another instance of that name \(UUID 0d6f4f6e-.*end it"):
            await fake.start(hypervisor_world.instance("fake"), [])
        await fake.start(removed, [])

    asyncio.run(story())


def test_an_order_can_be_for_one_instance(fake: FakeHypervisor) -> None:
    async def story() -> None:
        order(fake, f"start@{NAME}", "")
        await fake.start(hypervisor_world.instance("fake", "web2.example.com"), [])
        with pytest.raises(HypervisorError):
            await fake.start(hypervisor_world.instance("fake", NAME), [])

    asyncio.run(story())


def test_a_method_hangs_until_the_order_is_taken_back(fake: FakeHypervisor) -> None:
    async def story() -> None:
        path = order(fake, "stop", "hang")
        stopping = asyncio.create_task(fake.stop(NAME, timeout_s=1))
        await asyncio.sleep(0.1)
        assert not stopping.done()
        path.unlink()
        await asyncio.wait_for(stopping, 5)
        order(fake, "stop", "hang 0.05")
        await asyncio.wait_for(fake.stop(NAME, timeout_s=1), 5)

    asyncio.run(story())


def test_a_node_can_be_of_any_size(fake: FakeHypervisor) -> None:
    async def story() -> None:
        size = {"memory_total": 1048576, "memory_dom0": 1024, "cpu_total": 256}
        (Path(fake.directory) / ".capacity").write_text(json.dumps(size))
        await fake.start(hypervisor_world.instance("fake", beparams={"maxmem": 4096}), [])
        found = await fake.capacity()
        assert (found.memory_total, found.cpu_total) == (1048576, 256)
        assert found.memory_free == 1048576 - 1024 - 4096

    asyncio.run(story())


def test_guests_die_with_their_node(fake: FakeHypervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        await fake.start(hypervisor_world.instance("fake"), [])
        assert len(await fake.list_instances()) == 1
        monkeypatch.setattr(guests, "boot_identity", lambda: "another boot")
        assert await fake.list_instances() == []
        assert await fake.info(NAME) is None

    asyncio.run(story())
