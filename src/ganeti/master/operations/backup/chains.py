# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups that nodes keep: finding them, and the chain that one of them needs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ganeti.base.errors import (
    ENVIRONMENT_ERROR,
    UNKNOWN_ENTITY,
    WRONG_INPUT,
    WRONG_STATE,
    BlockDeviceError,
    PrerequisiteError,
)
from ganeti.base.names import shown
from ganeti.model.locks import instance_lock
from ganeti.model.node_calls.backups import BackupList, BackupStored, ChainLink, KeptFiles
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many
from ganeti.wire.backup_file import Backup, Proof, UnreadableBackupError, decode

HISTORY = "gnt-backup history shows those there are"
GONE: Final = instance_lock("[gone]")
_REMEDY: Final = "Choose a backup before it, and have the next one read everything (gnt-backup create --full)"


@dataclass(frozen=True)
class KeptBackup:
    """A backup as its node tells of it."""

    node_uuid: str
    node_name: str
    backup: Backup
    proof: Proof | None = None
    store: str = ""
    """Which store has it, see `Found.stores`."""

    def is_within_reach_of(self, node_uuid: str, stores: Mapping[str, str]) -> bool:
        """Whether a node has this backup; *stores*: names of shared ones by node."""
        return self.node_uuid == node_uuid or bool(self.store and self.store == stores.get(node_uuid))

    @property
    def link(self) -> ChainLink:
        disks = self.backup.disks
        chunks = [disk.chunks for disk in disks]
        return ChainLink(id=self.backup.id, generation=self.backup.generation, disks=len(disks), chunks=chunks)


@dataclass(frozen=True)
class Unusable:
    node_uuid: str
    node_name: str
    instance_uuid: str
    id: str
    why: str


@dataclass(frozen=True)
class Found:
    backups: list[KeptBackup]
    """The oldest first."""
    unusable: list[Unusable]
    unfinished: list[tuple[str, str, str]]
    """Name of the node, UUID of the instance, id."""
    silent: dict[str, str]
    """Why a node could not say, by its UUID."""
    stores: dict[str, str] = field(default_factory=dict)
    """Identities of stores, by the UUIDs of the nodes that use them: several nodes may have one."""

    @property
    def left_out(self) -> str:
        """What a sentence ends with about backups that were not found: they may be on nodes that could not say."""
        return f" ({'; '.join(self.silent.values())})" if self.silent else ""

    def of(self, instance_uuid: str) -> list[KeptBackup]:
        return [each for each in self.backups if each.backup.instance_uuid == instance_uuid]


async def find_backups(ctx: OperationContext, view: ConfigView) -> Found:
    """All backups of all nodes that are not offline; those in a store of several nodes count for the first of them."""
    nodes = [node.uuid for node in view.nodes() if not node.offline]
    keys = view.backups.keys
    found = Found([], [], [], {})
    for answer in await ask_many(ctx.nodes, nodes, BackupList()):
        name = view.node(answer.node_uuid).name
        if answer.error is not None:
            found.silent[answer.node_uuid] = str(answer.error)
            continue
        store = answer.value.identity or answer.value.shared
        known = store in found.stores.values()
        if store:
            found.stores[answer.node_uuid] = store
        if store and known:
            continue
        found.unfinished.extend((name, uuid, backup) for uuid, backup in answer.value.unfinished)
        for files in answer.value.backups:
            try:
                proof = _proof(files, keys)
                found.backups.append(KeptBackup(answer.node_uuid, name, _manifest(files, keys), proof, store))
            except UnreadableBackupError as err:
                found.unusable.append(Unusable(answer.node_uuid, name, files.instance_uuid, files.id, str(err)))
    found.backups.sort(key=_ages(found.backups))
    return found


def _ages(backups: Sequence[KeptBackup]) -> Callable[[KeptBackup], tuple[float, int, str]]:
    """What sorts the oldest first: no backup comes before one that it builds on, whatever the clock said then."""
    there = {(each.node_uuid, each.backup.instance_uuid, each.backup.id): each for each in backups}
    known: dict[int, tuple[float, int, str]] = {}

    def age(each: KeptBackup) -> tuple[float, int, str]:
        above = [each]
        while id(above[-1]) not in known and len(above) <= len(there):
            last = above[-1]
            parent = there.get((last.node_uuid, last.backup.instance_uuid, last.backup.parent))
            if parent is None:
                known[id(last)] = last.backup.created, 0, last.backup.id
            else:
                above.append(parent)
        for parent, child in zip(above[:0:-1], above[-2::-1], strict=True):
            time_s, depth, _ = known.get(id(parent), (parent.backup.created, 0, ""))
            known[id(child)] = max(time_s, child.backup.created), depth + 1, child.backup.id
        return known[id(each)]

    return age


def _manifest(files: KeptFiles, keys: dict[str, str]) -> Backup:
    if files.fault:
        raise UnreadableBackupError(files.fault)
    backup = decode(files.manifest, Backup, keys)
    if (backup.instance_uuid, backup.id) != (files.instance_uuid, files.id):
        raise UnreadableBackupError(f"it lies in the place of another one: its manifest is that of {backup.id}")
    return backup


def _proof(files: KeptFiles, keys: dict[str, str]) -> Proof | None:
    """A proof that cannot be read is none."""
    if not files.proof:
        return None
    try:
        proof = decode(files.proof, Proof, keys)
    except UnreadableBackupError:
        return None
    return proof if (proof.instance_uuid, proof.backup) == (files.instance_uuid, files.id) else None


def choose(found: Found, view: ConfigView, name: str, backup_id: str | None) -> KeptBackup:
    """The backup of an instance, which may be gone, by id; the newest without one. Raises `PrerequisiteError`."""
    uuids = of_name(found, view, name)
    known = [each for each in found.backups if each.backup.instance_uuid in uuids]
    if backup_id is not None:
        for bad in found.unusable:
            if bad.id == backup_id and bad.instance_uuid in uuids:
                raise PrerequisiteError(f"Backup {bad.id} on {bad.node_name} cannot be used: {bad.why}", WRONG_STATE)
        known = [each for each in known if each.backup.id == backup_id]
    if not known:
        what = f"has no backup {shown(backup_id)}" if backup_id else "has no backup"
        bad_ones = [f"{bad.id} on {bad.node_name}: {bad.why}" for bad in found.unusable if bad.instance_uuid in uuids]
        damaged = f" that can be used ({'; '.join(bad_ones)})" if bad_ones else ""
        raise PrerequisiteError(f"Instance {shown(name)} {what}{damaged}{found.left_out}: {HISTORY}", UNKNOWN_ENTITY)
    if len({each.backup.instance_uuid for each in known}) > 1:
        raise PrerequisiteError(
            f"Several instances were called {shown(name)}: choose a backup by its id, {HISTORY}", UNKNOWN_ENTITY
        )
    return known[-1]


def lock_of(view: ConfigView, name: str) -> str:
    """The one lock of all backups that *name* may mean, see `of_name`.

    A gone instance may be named by each name it had, and by each of its backups: all gone instances have one lock.
    """
    try:
        return instance_lock(view.find_instance(name).name)
    except PrerequisiteError:
        return GONE


def of_name(found: Found, view: ConfigView, name: str) -> set[str]:
    """UUIDs of the instances of this name: that of today, or those that are gone, which ids of backups name, too.

    Raises `PrerequisiteError` for another name of an instance that is there: its lock goes by its name of today.
    """
    try:
        return {view.find_instance(name).uuid}
    except PrerequisiteError as err:
        if err.code != UNKNOWN_ENTITY:
            raise
    named = {each.backup.instance_uuid for each in found.backups if name in (each.backup.instance_name, each.backup.id)}
    named |= {bad.instance_uuid for bad in found.unusable if bad.id == name}
    gone = {uuid for uuid in named if view.get("instances", uuid) is None}
    if named and not gone:
        today = " and ".join(sorted(view.instance(uuid).name for uuid in named))
        raise PrerequisiteError(f"'{shown(name)}' means backups of {today}: give that name", WRONG_INPUT)
    return gone


def chain_of(found: Found, newest: KeptBackup) -> list[KeptBackup]:
    """A backup and all that it builds on, the newest first; raises `PrerequisiteError` where one is missing."""
    there = {each.backup.id: each for each in found.of(newest.backup.instance_uuid) if _same_node(each, newest)}
    chain = [newest]
    while parent := chain[-1].backup.parent:
        if parent not in there or len(chain) > len(there):
            why = next((f": {bad.why}" for bad in found.unusable if bad.id == parent), "")
            raise PrerequisiteError(
                f"Backup {newest.backup.id} builds on {parent}, which node {newest.node_name} does not have or cannot "
                f"read{why}: choose a backup before it, {HISTORY}",
                WRONG_STATE,
            )
        chain.append(there[parent])
    return chain


def _same_node(one: KeptBackup, other: KeptBackup) -> bool:
    return one.node_uuid == other.node_uuid


def links(chain: Iterable[KeptBackup]) -> list[ChainLink]:
    return [each.link for each in chain]


async def require_whole(ctx: OperationContext, chain: Sequence[KeptBackup]) -> None:
    """Read the indexes of a chain, and refuse one that is damaged or cut; raises `PrerequisiteError`."""
    for each in chain:
        backup = each.backup
        request = BackupStored(instance_uuid=backup.instance_uuid, link=each.link)
        try:
            stored = await ask(ctx.nodes, each.node_uuid, request)
        except BlockDeviceError as err:
            raise PrerequisiteError(
                f"Backup {backup.id} on {each.node_name} is damaged or cannot be read: {err}. {_REMEDY}",
                ENVIRONMENT_ERROR,
            ) from err
        for number, (disk, now) in enumerate(zip(backup.disks, stored, strict=True)):
            if (disk.index_sha256, disk.chunk_bytes) != (now.index_sha256, now.chunk_bytes):
                what = "cut" if now.chunk_bytes < disk.chunk_bytes else "changed"
                raise PrerequisiteError(
                    f"Backup {backup.id} on {each.node_name} is damaged: the files of disk {number} were {what}. "
                    f"{_REMEDY}",
                    ENVIRONMENT_ERROR,
                )


def sealing_key(view: ConfigView, key_id: str) -> bytes:
    return bytes.fromhex(view.backups.keys[key_id])


def current_key(view: ConfigView) -> tuple[str, bytes]:
    """Id and key for a new backup; raises `PrerequisiteError` where the cluster has none."""
    keys = view.backups.keys
    if not keys:
        raise PrerequisiteError(
            "The cluster has no key to encrypt backups with: make one (gnt-backup key new), and keep a copy of it "
            "outside the cluster",
            WRONG_STATE,
        )
    key_id = list(keys)[-1]
    return key_id, bytes.fromhex(keys[key_id])
