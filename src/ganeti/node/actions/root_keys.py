# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that renew root's own ssh key: a new one beside it, which takes its place once all nodes let it in."""

import contextlib
import os

from ganeti.base.errors import ExecutionError, ParameterError
from ganeti.model.node_calls import FAST_S
from ganeti.model.node_calls.certificates import MakeRootKey, UseRootKey
from ganeti.node.actions.candidate_keys import KEY_KINDS
from ganeti.node.actions.files import read_text
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.system.files import sync_directory


@answers(MakeRootKey)
async def make_root_key(node: NodeState, asked: MakeRootKey) -> str:
    """Raises `ParameterError` for a type that is none, `CommandError` where ssh-keygen fails."""
    path = _path(node, asked.kind)
    fresh = f"{path}.renewed"
    for old in (fresh, f"{fresh}.pub"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(old)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    bits = [] if asked.kind == "ed25519" else ["-b", str(asked.bits)]
    comment = f"root@{node.world.node_name}"
    await node.world.run(
        ["ssh-keygen", "-q", "-t", asked.kind, *bits, "-N", "", "-C", comment, "-f", fresh], timeout_s=FAST_S
    )
    return (read_text(f"{fresh}.pub") or "").strip()


@answers(UseRootKey)
async def use_root_key(node: NodeState, asked: UseRootKey) -> None:
    """Raises `ExecutionError` where no such key is prepared."""
    path = _path(node, asked.kind)
    fresh = f"{path}.renewed"
    if _is(read_text(f"{fresh}.pub"), asked.public) and os.path.exists(fresh):
        os.rename(fresh, path)
        os.rename(f"{fresh}.pub", f"{path}.pub")
        sync_directory(os.path.dirname(path))
        node.world.log(f"root uses a new ssh key of the type {asked.kind}")
    elif _is(read_text(f"{fresh}.pub"), asked.public):  # the public part did not follow
        os.rename(f"{fresh}.pub", f"{path}.pub")
    elif not _is(read_text(f"{path}.pub"), asked.public):
        raise ExecutionError("No such ssh key is prepared here: renew it again (gnt-cluster renew-crypto)")


def _is(found: str | None, wanted: str) -> bool:
    return found is not None and found.split()[:2] == wanted.split()[:2]


def _path(node: NodeState, kind: str) -> str:
    if kind not in KEY_KINDS:
        raise ParameterError(f"'{kind}' is not a type of ssh key: it is one of {', '.join(KEY_KINDS)}")
    return node.paths.under(f"/root/.ssh/id_{kind}")
