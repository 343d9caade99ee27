# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about what only master candidates have: the authority's key, and root's access to all nodes.

The key travels between node daemons and the master's jobs only, over mutual TLS; a reading call gives it, since answers
of changing ones are kept on disk. Who may make calls is a candidate, and has the key itself.
"""

import contextlib
import os

from ganeti.base.errors import NodeCallError, ParameterError
from ganeti.base.paths import Paths
from ganeti.model.node_calls.candidate_keys import (
    CandidateKeys,
    KeysOfCandidate,
    NodeDemoteFromMc,
    NodeSshKeyAdd,
    NodeSshKeyRemove,
    RootPublicKey,
)
from ganeti.node import ssh_key_lines
from ganeti.node.actions.files import read_text
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.system.files import write_atomically

KEY_KINDS = ("rsa", "ecdsa", "ed25519")


@answers(CandidateKeys)
async def candidate_keys(node: NodeState, asked: CandidateKeys) -> KeysOfCandidate:
    return KeysOfCandidate(
        authority_key=read_text(node.paths.authority_key),
        public_keys=ssh_key_lines.read_public_keys(read_text(node.paths.public_keys) or ""),
    )


@answers(RootPublicKey)
async def root_public_key(node: NodeState, asked: RootPublicKey) -> str | None:
    kind = asked.kind
    if kind not in KEY_KINDS:
        raise ParameterError(f"'{kind}' is not a type of ssh key: it is one of {', '.join(KEY_KINDS)}")
    text = (read_text(node.paths.under(f"/root/.ssh/id_{kind}.pub")) or "").strip()
    return text if ssh_key_lines.is_public_key(text) else None


@answers(NodeDemoteFromMc)
async def node_demote_from_mc(node: NodeState, asked: NodeDemoteFromMc) -> None:
    if asked.master == node.world.node_name:
        raise NodeCallError(f"{asked.master} is the master: it stays a candidate")
    removed = [path for path in (node.paths.authority_key, node.paths.public_keys) if _remove(path)]
    if removed:
        node.world.log(f"no master candidate any more: {', '.join(map(os.path.basename, removed))} removed")


@answers(NodeSshKeyAdd)
async def node_ssh_key_add(node: NodeState, asked: NodeSshKeyAdd) -> None:
    keys = asked.keys
    for uuid, texts in keys.items():
        _check_uuid(uuid)
        for text in texts:
            if not ssh_key_lines.is_public_key(text):
                raise ParameterError(f"'{text[:40]}', given for node {uuid}, is not a public key")
    path = node.paths.authorized_keys
    changed = _replace(path, ssh_key_lines.enter(read_text(path) or "", keys, only=asked.only))
    known = read_text(node.paths.public_keys)
    if known is not None or asked.remember:
        merged = ({} if asked.only else ssh_key_lines.read_public_keys(known or "")) | keys
        changed |= _replace(node.paths.public_keys, ssh_key_lines.public_keys_text(merged))
    if changed:
        node.world.log(f"ssh keys of {len(keys)} nodes entered")


@answers(NodeSshKeyRemove)
async def node_ssh_key_remove(node: NodeState, asked: NodeSshKeyRemove) -> None:
    nodes = asked.nodes
    for uuid in nodes:
        _check_uuid(uuid)
    changed = forget_ssh_keys(node.paths, nodes)
    known = read_text(node.paths.public_keys)
    if known is not None:
        left = {uuid: keys for uuid, keys in ssh_key_lines.read_public_keys(known).items() if uuid not in nodes}
        changed |= _replace(node.paths.public_keys, ssh_key_lines.public_keys_text(left))
    if changed:
        node.world.log(f"ssh keys of {len(nodes)} nodes taken out")


def forget_ssh_keys(paths: Paths, nodes: list[str] | None = None) -> bool:
    """Take out the lines of *nodes*, of all nodes without them; True if there were any."""
    path = paths.authorized_keys
    text = read_text(path)
    if text is None:
        return False
    fresh = ssh_key_lines.enter(text, {}, only=True) if nodes is None else ssh_key_lines.take_out(text, nodes)
    return _replace(path, fresh)


def _check_uuid(uuid: str) -> None:
    if not ssh_key_lines.is_node_uuid(uuid):
        raise ParameterError(f"'{uuid[:40]}' is not the uuid of a node")


def _replace(path: str, text: str) -> bool:
    """Write a file that is root's alone, unless it is so already."""
    if read_text(path) == text:
        return False
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomically(path, text.encode(), mode=0o600)
    return True


def _remove(path: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False
