# SPDX-License-Identifier: BSD-2-Clause
"""A port for a guest that arrives: QEMU is not sent where somebody listens, nor two of them to one place."""

import asyncio
import socket

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import checks
from ganeti.node.hypervisors.kvm.ports import listen_on_free_port
from ganeti.node.hypervisors.kvm.qmp import QmpError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord


def arriving(port: int) -> RuntimeRecord:
    hvparams = checks.filled({"kernel_path": "", "migration_port": port})
    return RuntimeRecord(
        name="web1",
        uuid="u",
        hvparams=hvparams,
        vcpus=1,
        memory_mib=64,
        ram_kib=65536,
        machine="pc-q35-7.2",
        accelerator="tcg",
        qemu_version=[10, 0, 2],
        has_rng=True,
        nics=[],
    )


def test_a_port_where_somebody_listens_is_left_out() -> None:
    asked = []

    async def listen(port: int) -> None:
        asked.append(port)

    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        got = asyncio.run(listen_on_free_port(arriving(taken), "127.0.0.1", listen))
    assert asked == [got] and got > taken


def test_two_that_come_at_once_get_two_ports() -> None:
    async def listen(port: int) -> None:
        await asyncio.sleep(0)

    async def both() -> list[int]:
        return list(
            await asyncio.gather(*(listen_on_free_port(arriving(46000), "127.0.0.1", listen) for _ in range(2)))
        )

    one, two = asyncio.run(both())
    assert one != two


def test_a_refusal_of_another_kind_is_told() -> None:
    async def listen(port: int) -> None:
        raise QmpError("no such address")

    with pytest.raises(HypervisorError, match=r"ports from 46000 \(migration_port\): .*no such address"):
        asyncio.run(listen_on_free_port(arriving(46000), "127.0.0.1", listen))
