# SPDX-License-Identifier: BSD-2-Clause
"""Files that the master distributes: a list of known ones, and ssconf."""

import fcntl
import hashlib
import ipaddress
import os
import re

from ganeti.base.errors import ExecutionError, ParameterError
from ganeti.base.paths import Paths
from ganeti.model.node_calls.files import (
    AdoptClusterName,
    DifferingSsconf,
    EtcHostsModify,
    SharedFile,
    SharedFiles,
    UploadFile,
    WriteSsconfFiles,
)
from ganeti.node.actions.registry import answers
from ganeti.node.hosts_file import with_host, without_host
from ganeti.node.state import NodeState
from ganeti.system.accounts import owner_for
from ganeti.system.files import open_lock, plain_file, write_atomically
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

SSCONF_MODE = 0o444
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_SSCONF_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def uploadable(paths: Paths) -> dict[str, int]:
    """The files that may be written by a call, with the widest mode each may have."""
    return {
        paths.config_file: 0o640,
        paths.authority_cert: 0o444,
        paths.authority_key: 0o400,
        paths.hmac_key: 0o440,
        paths.cluster_domain_secret: 0o600,
        paths.known_hosts: 0o644,
        f"{paths.data_dir}/rapi.pem": 0o440,
        f"{paths.data_dir}/spice.pem": 0o440,
        f"{paths.data_dir}/spice-ca.pem": 0o440,
        f"{paths.data_dir}/rapi/users": 0o640,
        paths.api_tokens: 0o640,
        paths.api_issuers: 0o640,
        f"{paths.sysconf_dir}/vnc-cluster-password": 0o600,
        paths.under("/etc/hosts"): 0o644,
    }


@answers(UploadFile)
async def upload_file(node: NodeState, asked: UploadFile) -> None:
    path = asked.path
    mode = asked.mode
    place = node.paths.under(path)
    widest = uploadable(node.paths).get(place)
    if widest is None:
        raise ParameterError(f"File {path} is not one that may be distributed")
    if mode & ~widest:
        raise ParameterError(f"File {path} cannot get mode {mode:04o}: the widest is {widest:04o}")
    os.makedirs(os.path.dirname(place), mode=0o750, exist_ok=True)
    write_atomically(place, asked.content.encode(asked.encoding), mode=mode, owner=owner_for(place, node.paths))
    node.world.log(f"file {path} replaced ({len(asked.content)} characters)")


@answers(SharedFiles)
async def shared_files(node: NodeState, asked: SharedFiles) -> list[SharedFile]:
    """The files that every node should have, byte for byte."""
    own = Paths()
    apart = {own.config_file, own.authority_key, own.under("/etc/hosts")}
    found = []
    for path, mode in uploadable(own).items():
        if path in apart:
            continue
        try:
            with open(node.paths.under(path), "rb") as file:
                found.append(_shared(path, file.read(), mode))
        except FileNotFoundError:
            continue
    return found


def _shared(path: str, content: bytes, mode: int) -> SharedFile:
    try:
        return SharedFile(path=path, content=content.decode(), mode=mode)
    except UnicodeDecodeError:
        return SharedFile(path=path, content=content.decode("latin-1"), mode=mode, encoding="latin-1")


@answers(EtcHostsModify)
async def etc_hosts_modify(node: NodeState, asked: EtcHostsModify) -> None:
    entries = asked.entries
    for name, address in entries.items():
        if not _HOST_NAME.fullmatch(name):
            raise ParameterError(f"'{name}' is not the name of a host")
        if address is not None:
            try:
                ipaddress.ip_address(address)
            except ValueError as err:
                raise ParameterError(f"'{address}' is not an IP address") from err
    path = node.paths.under("/etc/hosts")
    before = after = read_text(path) or ""
    for name, address in entries.items():
        after = without_host(after, name) if address is None else with_host(after, name, address)
    if after != before:
        try:
            write_atomically(path, after.encode(), mode=0o644)
        except OSError as err:
            raise ExecutionError(f"/etc/hosts cannot be replaced: {err.strerror}") from err
        node.world.log(f"/etc/hosts changed: {', '.join(entries)}")


@answers(WriteSsconfFiles)
async def write_ssconf_files(node: NodeState, asked: WriteSsconfFiles) -> None:
    values = asked.values
    for key, value in values.items():
        if not _SSCONF_KEY.fullmatch(key):
            raise ParameterError(f"'{key}' is not a name of an ssconf value")
        if len(value.encode()) > SIZE_LIMIT_BYTES:
            raise ParameterError(f"The ssconf value {key} is longer than {SIZE_LIMIT_BYTES} bytes")
    with ssconf_lock(node.paths):
        _check_cluster(node, values)
        if asked.position is not None and not node.newest_ssconf.admit(values.get("cluster_name", ""), asked.position):
            return
        changed = []
        for key in sorted(values):
            text = values[key] if values[key].endswith("\n") or not values[key] else values[key] + "\n"
            path = node.paths.ssconf_file(key)
            if read_text(path) != text:
                write_atomically(path, text.encode(), mode=SSCONF_MODE)
                changed.append(key)
    if changed:
        node.world.log(f"ssconf values replaced: {', '.join(changed)}")


@answers(DifferingSsconf)
async def differing_ssconf(node: NodeState, asked: DifferingSsconf) -> list[str]:
    for key in asked.digests:
        if not _SSCONF_KEY.fullmatch(key):
            raise ParameterError(f"'{key}' is not a name of an ssconf value")
    return [key for key, digest in sorted(asked.digests.items()) if _digest_of(node.paths.ssconf_file(key)) != digest]


def _digest_of(path: str) -> str | None:
    try:
        with open(path, "rb", opener=plain_file) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return None


@answers(AdoptClusterName)
async def adopt_cluster_name(node: NodeState, asked: AdoptClusterName) -> None:
    """Write the cluster's new name, by which this node tells its own cluster from others."""
    path = node.paths.ssconf_file("cluster_name")
    with ssconf_lock(node.paths):
        mine = (read_text(path) or "").strip()
        if mine == asked.new:
            return
        if mine != asked.old:
            raise ParameterError(f"This node belongs to cluster {mine}, not {asked.old}: remove it there first")
        write_atomically(path, f"{asked.new}\n".encode(), mode=SSCONF_MODE)
    node.world.log(f"the cluster is called {asked.new} now")


def _check_cluster(node: NodeState, values: dict[str, str]) -> None:
    mine = (read_text(node.paths.ssconf_file("cluster_name")) or "").strip()
    theirs = values.get("cluster_name", mine).strip()
    if mine and theirs != mine:
        raise ParameterError(
            f"This node belongs to cluster {mine}, and the values are of cluster {theirs}: remove it there first"
        )


class ssconf_lock:
    """Keep other writers of ssconf on this node away (``lock/ganeti-ssconf.lock``)."""

    def __init__(self, paths: Paths) -> None:
        self._path = f"{paths.lock_dir}/ganeti-ssconf.lock"

    def __enter__(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._descriptor = open_lock(self._path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", opener=plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return None
