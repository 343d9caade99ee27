# SPDX-License-Identifier: BSD-2-Clause
"""What `gnt-cluster verify` asks each node, in one call: only the checks named are made.

Keys are 3.1's (protocols, section 6); an answer has the keys of its request. Empty lists and dicts mean all is well
wherever problems are listed.
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from ganeti.base.errors import BlockDeviceError, FileStoragePathError, GanetiError, HypervisorError
from ganeti.base.paths import NODED_PORT
from ganeti.model.node_calls.disks import FAULTY, DiskStatus
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_calls.mastership import MasterAddress
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_calls.operating_systems import OsStatus
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.model.node_calls.verify import (
    ConfigCopy,
    Failure,
    HypervisorCheck,
    NodeAddress,
    NodeFindings,
    NodeVerify,
    ReplicationFound,
    SshKeys,
)
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import CONFIG_VERSION
from ganeti.node import ssh_key_lines
from ganeti.node.actions.files import read_text
from ganeti.node.actions.instances import find_instances
from ganeti.node.actions.master_ip import fault_of_place
from ganeti.node.actions.node import missing_bridges, owns_address
from ganeti.node.actions.registry import answers
from ganeti.node.os import definition
from ganeti.node.state import NodeState
from ganeti.node.storage.allowed_paths import AllowedPaths
from ganeti.node.storage.interface import Replicates
from ganeti.system.accounts import too_open
from ganeti.system.files import plain_file
from ganeti.wire.config_fingerprint import fingerprint_of

RELEASE = "3.1"
CONNECT_S = 5.0
_AT_ONCE = 32
_LOOKED_AT_ONCE = 4
"""Disks: each look may start programs."""


class _Serial(msgspec.Struct, frozen=True):
    """What is read of `config.data` beside its fingerprint."""

    serial_no: int


@answers(NodeVerify)
async def node_verify(node: NodeState, asked: NodeVerify) -> NodeFindings:
    checks = asked.checks
    found: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for field, key in zip(checks.__struct_fields__, checks.__struct_encode_fields__, strict=True):
        value = getattr(checks, field)
        if value is not None:
            try:
                found[field] = await _CHECKS[field](node, value)
            except (GanetiError, OSError) as err:
                failures[key] = str(err)
    return NodeFindings(failures=failures, **found)


async def _bridges(node: NodeState, value: list[str]) -> list[str]:
    return missing_bridges(value)


async def _client_cert(node: NodeState, value: bool) -> str:
    import ssl

    try:
        with open(node.paths.client_cert, encoding="ascii", opener=plain_file) as file:
            text = file.read()
    except FileNotFoundError:
        return ""
    start, end = text.find("-----BEGIN CERTIFICATE-----"), text.find("-----END CERTIFICATE-----")
    if start < 0 or end < start:
        return ""
    der = ssl.PEM_cert_to_DER_cert(text[start:end] + "-----END CERTIFICATE-----\n")
    return hashlib.sha256(der).hexdigest()


async def _certificates(node: NodeState, value: list[str]) -> dict[str, float | Failure | None]:
    return {path: await asyncio.to_thread(_expiry, node.paths.under(path)) for path in value}


def _expiry(path: str) -> float | Failure | None:
    from cryptography import x509

    try:
        with open(path, "rb", opener=plain_file) as file:
            certificate = x509.load_pem_x509_certificates(file.read())[0]
    except FileNotFoundError:
        return None
    except OSError as err:
        return Failure(error=f"cannot be read: {err.strerror}")
    except ValueError:
        return Failure(error="holds no certificate")
    return certificate.not_valid_after_utc.timestamp()


async def _config_copy(node: NodeState, value: bool) -> ConfigCopy:
    return await asyncio.to_thread(_config_file, node.paths.config_file)


def _config_file(path: str) -> ConfigCopy:
    try:
        with open(path, "rb", opener=plain_file) as file:
            data = file.read()
    except OSError:
        return ConfigCopy()
    serial = None
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        serial = msgspec.json.decode(data, type=_Serial).serial_no
    return ConfigCopy(serial_no=serial, fingerprint=fingerprint_of(data))


async def _filelist(node: NodeState, value: list[str]) -> dict[str, str | None]:
    return {path: await asyncio.to_thread(_checksum, node.paths.under(path)) for path in value}


def _checksum(path: str) -> str | None:
    try:
        with open(path, "rb", opener=plain_file) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


async def _allowed_paths(node: NodeState, value: bool) -> list[str]:
    return AllowedPaths(node.paths).problems()


async def _storage(node: NodeState, value: list[StorageUnit]) -> dict[str, list[str]]:
    found = {}
    for unit in value:
        try:
            found[f"{unit.template} {unit.setting}"] = await node.template(unit.template).verify(unit.setting)
        except BlockDeviceError as err:
            found[f"{unit.template} {unit.setting}"] = [str(err)]
    return found


async def _disks(node: NodeState, value: list[StorageUnit]) -> dict[str, list[str]]:
    return {
        f"{unit.template} {unit.setting}": list(await node.template(unit.template).list_owned(unit.setting))
        for unit in value
    }


async def _replication(node: NodeState, value: list[str]) -> dict[str, ReplicationFound]:
    found: dict[str, ReplicationFound] = {}
    for name in value:
        template = node.template(name)
        if isinstance(template, Replicates):
            try:
                found[name] = ReplicationFound(found=await template.replication())
            except BlockDeviceError as err:
                found[name] = ReplicationFound(error=str(err))
    return found


async def _disk_status(node: NodeState, value: list[DiskSpec]) -> dict[str, str | None]:
    places = asyncio.Semaphore(_LOOKED_AT_ONCE)

    async def look(disk: DiskSpec) -> str | None:
        async with places:
            try:
                status = await node.template(disk.template).find(disk)
            except (BlockDeviceError, FileStoragePathError) as err:
                return str(err)
        return None if status is None else _disk_fault(status, disk.size_mib)

    found = await asyncio.gather(*map(look, value))
    return {disk.uuid: fault for disk, fault in zip(value, found, strict=True) if fault != ""}


def _disk_fault(status: DiskStatus, size_mib: int) -> str:
    if status.ldisk_status == FAULTY:
        return f"{status.dev_path} is faulty"
    if status.size_mib is not None and status.size_mib < size_mib:
        return f"{status.dev_path} has {status.size_mib} MiB of its {size_mib} MiB"
    if status.fault:
        return f"{status.dev_path} {status.fault}"
    if status.is_degraded:
        how_far = "nothing is copied" if status.sync_percent is None else f"{status.sync_percent:.1f}% are copied"
        return f"{status.dev_path} is degraded, {how_far}: the other node's copy lacks something"
    return ""


async def _hypervisor(node: NodeState, value: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for name, hvparams in value.items():
        try:
            found[name] = await node.hypervisor(name).verify(hvparams)
        except HypervisorError as err:
            found[name] = [str(err)]
    return found


async def _hypervisor_cautions(node: NodeState, value: list[str]) -> dict[str, list[str]]:
    found = {}
    for name in value:
        with contextlib.suppress(HypervisorError):  # `_hypervisor` says why
            found[name] = node.hypervisor(name).cautions()
    return found


async def _hvparms(node: NodeState, value: list[HypervisorCheck]) -> list[tuple[str, str, str]]:
    wrong = []
    for check in value:
        try:
            await node.hypervisor(check.hypervisor).check_parameters(check.hvparams)
        except GanetiError as err:
            wrong.append((check.source, check.hypervisor, str(err)))
    return wrong


async def _instancelist(node: NodeState, value: list[str]) -> list[str]:
    return [found.name for found in await find_instances(node, value)]


async def _instances(node: NodeState, value: list[str]) -> list[FoundInstance]:
    return await find_instances(node, value)


async def _hvinfo(node: NodeState, value: list[str]) -> dict[str, NodeCapacity]:
    return {name: await node.hypervisor(name).capacity() for name in value}


async def _master_address(node: NodeState, value: MasterAddress) -> str:
    return "" if node.paths.root else await asyncio.to_thread(fault_of_place, value)


async def _master_ip(node: NodeState, value: NodeAddress) -> bool:
    return owns_address(value.primary_ip) or await _reach(value.primary_ip, value.port) is None


async def _held_addresses(node: NodeState, value: list[str]) -> list[str]:
    return [] if node.paths.root else [ip for ip in value if owns_address(ip)]


async def _nodelist(node: NodeState, value: list[NodeAddress]) -> dict[str, str]:
    return await _unreached(value, lambda address: [address.primary_ip])


async def _node_net_test(node: NodeState, value: list[NodeAddress]) -> dict[str, str]:
    return await _unreached(
        value, lambda address: list(dict.fromkeys(filter(None, (address.primary_ip, address.secondary_ip))))
    )


async def _unreached(nodes: list[NodeAddress], addresses: Callable[[NodeAddress], list[str]]) -> dict[str, str]:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def check(address: NodeAddress) -> str:
        async with limit:
            reasons = [await _reach(ip, address.port) for ip in addresses(address)]
        return "; ".join(reason for reason in reasons if reason is not None)

    found = await asyncio.gather(*(check(address) for address in nodes))
    return {address.name: reason for address, reason in zip(nodes, found, strict=True) if reason}


async def _reach(ip: str, port: int) -> str | None:
    """Say why the node daemon at *ip* cannot be reached, or None."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(ip, port)
    except TimeoutError:
        return f"{ip} port {port} did not answer in {CONNECT_S:g} seconds"
    except OSError as err:
        return f"{ip} port {port} cannot be reached: {os.strerror(err.errno) if err.errno else err}"
    writer.close()
    return None


async def _used_addresses(node: NodeState, value: list[str]) -> list[str]:
    return [ip for ip in value if await _is_used(ip)]


async def _is_used(ip: str) -> bool:
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(ip, NODED_PORT)
    except ConnectionRefusedError:
        return not ipaddress.ip_address(ip).is_loopback  # there every address refuses, used or not
    except (TimeoutError, OSError):
        return False
    writer.close()
    return True


async def _oob_paths(node: NodeState, value: list[str]) -> list[str]:
    return [reason for path in value if (reason := _program_problem(node.paths.under(path))) is not None]


async def _file_modes(node: NodeState, value: bool) -> list[str]:
    return too_open(node.paths)


async def _user_scripts(node: NodeState, value: list[str]) -> list[str]:
    return [path for path in value if _program_problem(node.paths.under(path)) is not None]


def _program_problem(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except OSError as err:
        return f"{path}: {err.strerror}"
    if not stat.S_ISREG(mode) or not os.access(path, os.X_OK):
        return f"{path} is not a program"
    return None


async def _oslist(node: NodeState, value: bool) -> list[OsStatus]:
    return definition.find_all(node.paths)


async def _ssh_keys(node: NodeState, value: bool) -> SshKeys:
    authorized = read_text(node.paths.authorized_keys) or ""
    let_in = ssh_key_lines.keys_in(authorized)
    known = ssh_key_lines.read_public_keys(read_text(node.paths.public_keys) or "")
    return SshKeys(
        let_in=sorted(map(_key_digest, let_in)),
        marked={uuid: sorted(map(_key_digest, keys)) for uuid, keys in ssh_key_lines.marked_keys(authorized).items()},
        known={uuid: [_key_digest(" ".join(key.split()[:2])) for key in keys] for uuid, keys in known.items()},
    )


def _key_digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


async def _time(node: NodeState, value: bool) -> tuple[int, int]:
    now = node.world.now_s()
    return int(now), int(now % 1 * 1_000_000)


async def _version(node: NodeState, value: bool) -> tuple[int, str]:
    return CONFIG_VERSION, RELEASE


_CHECKS: dict[str, Callable[[NodeState, Any], Awaitable[Any]]] = {
    "bridges": _bridges,
    "client_cert": _client_cert,
    "certificates": _certificates,
    "config_copy": _config_copy,
    "filelist": _filelist,
    "allowed_file_storage_paths": _allowed_paths,
    "storage": _storage,
    "disks": _disks,
    "disk_status": _disk_status,
    "hypervisor": _hypervisor,
    "hypervisor_cautions": _hypervisor_cautions,
    "hvparms": _hvparms,
    "file_modes": _file_modes,
    "instancelist": _instancelist,
    "instances": _instances,
    "hvinfo": _hvinfo,
    "master_address": _master_address,
    "master_ip": _master_ip,
    "held_addresses": _held_addresses,
    "nodelist": _nodelist,
    "node_net_test": _node_net_test,
    "oob_paths": _oob_paths,
    "oslist": _oslist,
    "replication": _replication,
    "ssh_keys": _ssh_keys,
    "time": _time,
    "used_addresses": _used_addresses,
    "user_scripts": _user_scripts,
    "version": _version,
}
