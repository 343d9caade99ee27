# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that bring the data of disks to another node, of this cluster or of another, and take them there."""

import ipaddress

import msgspec

from ganeti.model.node_calls.transfers import (
    DiskTransfer,
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
from ganeti.node.actions.registry import answers
from ganeti.node.exports import Exports
from ganeti.node.os import output
from ganeti.node.os.runner import Prepared, prepared_export, prepared_import
from ganeti.node.state import NodeState
from ganeti.node.storage.image_io import MIB, in_thread
from ganeti.node.transfers import Transfers
from ganeti.wire.transfer_files import RECEIVE, SEND, Program, Task

CONNECT_TIMEOUT_S, CONNECT_RETRIES = 20.0, 10


@answers(TransferKeyMake)
async def transfer_key_make(node: NodeState, asked: TransferKeyMake) -> TransferKey:
    return Transfers(node.world).make_key(asked.name, asked.owner, asked.validity_s)


@answers(TransferKeyRemove)
async def transfer_key_remove(node: NodeState, asked: TransferKeyRemove) -> None:
    Transfers(node.world).remove_key(asked.name)


@answers(TransferReceive)
async def transfer_receive(node: NodeState, asked: TransferReceive) -> int:
    what = asked.transfer
    program, file = None, ""
    if what.dump:
        file = await in_thread(Exports(node.paths).require_room, what.directory, what.dump, asked.size)
    else:
        disks = await attach_files(node, what.instance)
        prepared = prepared_import(node.world, what.instance, disks, what.index, debug=what.debug)
        program = _program(prepared, what.token)
    task = msgspec.structs.replace(
        _task(RECEIVE, what, asked.size),
        bind=asked.bind,
        family=ipaddress.ip_address(asked.bind).version,
        connect_timeout_s=asked.connect_timeout_s,
        program=program,
        file=file,
        waits_for_confirmation=True,
    )
    status = await Transfers(node.world).start(what.name, what.key, what.authority, task)
    node.world.log(f"disk {what.index} of instance {what.instance.name}: waiting for it on port {status.listen_port}")
    return status.listen_port or 0


@answers(TransferSend)
async def transfer_send(node: NodeState, asked: TransferSend) -> None:
    what = asked.transfer
    program, file, size = None, "", 0
    if what.dump:
        exports = Exports(node.paths)
        file = exports.dump(what.directory, what.dump)
        (size,) = await in_thread(exports.dump_sizes, what.directory, [what.dump])
    else:
        disks = await _source(node, asked)
        prepared = prepared_export(node.world, what.instance, disks, what.index, debug=what.debug)
        program = _program(prepared, what.token, tells_size=True)
    task = msgspec.structs.replace(
        _task(SEND, what, size),
        host=asked.host,
        port=asked.port,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        connect_retries=CONNECT_RETRIES,
        program=program,
        file=file,
    )
    await Transfers(node.world).start(what.name, what.key, what.authority, task)
    node.world.log(f"disk {what.index} of instance {what.instance.name} goes to {asked.host} port {asked.port}")


def _task(mode: str, what: DiskTransfer, size: int) -> Task:
    """What both sides do alike; *size* is 0 where the dump's is not known. The key is found by its name later."""
    size_mib = what.instance.disks[what.index].size_mib if what.index < len(what.instance.disks) else None
    return Task(
        mode=mode,
        key="",
        certificate="",
        authority="",
        magic=what.magic,
        compress=what.compress,
        expected_mib=size / MIB if size else size_mib,
    )


@answers(TransferStates)
async def transfer_states(node: NodeState, asked: TransferStates) -> list[TransferState]:
    return Transfers(node.world).states(asked.names)


@answers(TransferConfirm)
async def transfer_confirm(node: NodeState, asked: TransferConfirm) -> None:
    for name in asked.names:
        Transfers(node.world).confirm(name)


@answers(TransferEnd)
async def transfer_end(node: NodeState, asked: TransferEnd) -> None:
    await Transfers(node.world).end(asked.name)


async def _source(node: NodeState, asked: TransferSend) -> list[AttachedDisk]:
    what = asked.transfer
    if not asked.copied:
        return await attach_files(node, what.instance)
    exports = Exports(node.paths)
    return [AttachedDisk(spec=disk, path=exports.source(what.directory, disk.index)) for disk in what.instance.disks]


def _program(prepared: Prepared, token: str, *, tells_size: bool = False) -> Program:
    output.begin(token, prepared.log_path, prepared.hidden)
    return Program(
        argv=prepared.argv, env=prepared.env, cwd=prepared.cwd, log_path=prepared.log_path, tells_size=tells_size
    )
