# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that bring disks to another cluster, and take them from there."""

import ipaddress

from ganeti.model.node_calls.transfers import (
    TransferConfirm,
    TransferEnd,
    TransferKey,
    TransferKeyMake,
    TransferKeyRemove,
    TransferReceive,
    TransferSend,
    TransferState,
    TransferStates,
)
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.actions.instances import attach_files
from ganeti.node.actions.registry import FAST_S, NORMAL_S, answers
from ganeti.node.exports import Exports
from ganeti.node.os.runner import Prepared, prepared_export, prepared_import
from ganeti.node.state import NodeState
from ganeti.node.transfers import Transfers
from ganeti.wire.transfer_files import RECEIVE, SEND, Program, Task

CONNECT_TIMEOUT_S, CONNECT_RETRIES = 20.0, 10


@answers(TransferKeyMake, timeout_s=FAST_S)
async def transfer_key_make(node: NodeState, asked: TransferKeyMake) -> TransferKey:
    return Transfers(node.world).make_key(asked.name, asked.owner, asked.validity_s)


@answers(TransferKeyRemove, timeout_s=FAST_S)
async def transfer_key_remove(node: NodeState, asked: TransferKeyRemove) -> None:
    Transfers(node.world).remove_key(asked.name)


@answers(TransferReceive, timeout_s=NORMAL_S)
async def transfer_receive(node: NodeState, asked: TransferReceive) -> int:
    disks = await attach_files(node, asked.instance)
    prepared = prepared_import(node.world, asked.instance, disks, asked.index, debug=asked.debug)
    task = Task(
        mode=RECEIVE,
        key="",
        certificate="",
        authority="",
        magic=asked.magic,
        compress=asked.compress,
        bind=asked.bind,
        family=ipaddress.ip_address(asked.bind).version,
        connect_timeout_s=asked.connect_timeout_s,
        expected_mib=asked.instance.disks[asked.index].size_mib,
        program=_program(prepared),
        waits_for_confirmation=True,
    )
    status = await Transfers(node.world).start(asked.name, asked.key, asked.authority, task)
    node.world.log(f"disk {asked.index} of instance {asked.instance.name}: waiting for it on port {status.listen_port}")
    return status.listen_port or 0


@answers(TransferSend, timeout_s=NORMAL_S)
async def transfer_send(node: NodeState, asked: TransferSend) -> None:
    program, file = None, ""
    if asked.dump:
        file = Exports(node.paths).dump(asked.directory, asked.dump)
    else:
        disks = await _source(node, asked)
        prepared = prepared_export(node.world, asked.instance, disks, asked.index, debug=asked.debug)
        program = _program(prepared, tells_size=True)
    task = Task(
        mode=SEND,
        key="",
        certificate="",
        authority="",
        magic=asked.magic,
        compress=asked.compress,
        host=asked.host,
        port=asked.port,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        connect_retries=CONNECT_RETRIES,
        expected_mib=asked.instance.disks[asked.index].size_mib,
        program=program,
        file=file,
    )
    await Transfers(node.world).start(asked.name, asked.key, asked.authority, task)
    node.world.log(f"disk {asked.index} of instance {asked.instance.name} goes to {asked.host} port {asked.port}")


@answers(TransferStates, timeout_s=FAST_S, changes=False)
async def transfer_states(node: NodeState, asked: TransferStates) -> list[TransferState]:
    return Transfers(node.world).states(asked.names)


@answers(TransferConfirm, timeout_s=FAST_S)
async def transfer_confirm(node: NodeState, asked: TransferConfirm) -> None:
    for name in asked.names:
        Transfers(node.world).confirm(name)


@answers(TransferEnd, timeout_s=FAST_S)
async def transfer_end(node: NodeState, asked: TransferEnd) -> None:
    await Transfers(node.world).end(asked.name)


async def _source(node: NodeState, asked: TransferSend) -> list[AttachedDisk]:
    if not asked.copied:
        return await attach_files(node, asked.instance)
    exports = Exports(node.paths)
    return [AttachedDisk(spec=disk, path=exports.copy(asked.directory, disk.index)) for disk in asked.instance.disks]


def _program(prepared: Prepared, *, tells_size: bool = False) -> Program:
    return Program(
        argv=prepared.argv, env=prepared.env, cwd=prepared.cwd, log_path=prepared.log_path, tells_size=tells_size
    )
