# SPDX-License-Identifier: BSD-2-Clause
"""The lines that the cluster owns in root's `authorized_keys`, and `ganeti_pub_keys` (protocols, section 1). Pure.

A line of the cluster ends with a word that names the node whose key it is. All other lines are the administrator's:
they stay as they are, and a key that one of them lets in already is not entered a second time.
"""

import re
from collections.abc import Collection, Iterable, Mapping

MARK = "ganeti-node:"
KeysOfNodes = Mapping[str, list[str]]
"""Node uuid to public keys, each as its file has it: kind, key, comment."""

_PUBLIC_KEY = re.compile(
    r"(?:ssh-(?:rsa|ed25519)|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,3}"
    r"(?: [^\x00-\x1f\x7f\x85\u2028\u2029]*)?"
)
_UUID = re.compile(r"[A-Za-z0-9-]{1,64}")


def is_public_key(text: str) -> bool:
    return _PUBLIC_KEY.fullmatch(text.strip()) is not None


def is_node_uuid(text: str) -> bool:
    """Whether this may stand for a node in a line."""
    return _UUID.fullmatch(text) is not None


def enter(text: str, keys: KeysOfNodes, *, only: bool = False) -> str:
    """Give `authorized_keys` with these keys; older ones of the same nodes go, with *only* those of all other nodes."""
    lines = [line for line in text.splitlines() if not _is_ours(line, None if only else keys)]
    present = {_key_of(line) for line in lines}
    for uuid in sorted(keys):
        for key in keys[uuid]:
            if " ".join(key.split()[:2]) not in present:
                lines.append(f"{key.strip()} {MARK}{uuid}")
    return _text(lines)


def take_out(text: str, nodes: Collection[str]) -> str:
    """Give `authorized_keys` without the keys of *nodes*."""
    return _text(line for line in text.splitlines() if not _is_ours(line, nodes))


def read_public_keys(text: str) -> dict[str, list[str]]:
    """Take `ganeti_pub_keys` apart."""
    keys: dict[str, list[str]] = {}
    for line in text.splitlines():
        uuid, _, key = line.strip().partition(" ")
        if key:
            keys.setdefault(uuid, []).append(key)
    return keys


def public_keys_text(keys: KeysOfNodes) -> str:
    """Give the text of `ganeti_pub_keys`: the same for the same keys, so that nodes can be compared."""
    return "".join(f"{uuid} {key.strip()}\n" for uuid in sorted(keys) for key in sorted(keys[uuid]))


def keys_in(text: str) -> list[str]:
    """Give ``kind key`` of each line of `authorized_keys` that lets somebody in, of the cluster or not."""
    return [key for line in text.splitlines() if (key := _key_of(line))]


def marked_keys(text: str) -> dict[str, list[str]]:
    """Give ``kind key`` of the lines of `authorized_keys` that name a node, by its uuid."""
    keys: dict[str, list[str]] = {}
    for line in text.splitlines():
        if _is_ours(line, None) and (key := _key_of(line)):
            keys.setdefault(line.split()[-1].removeprefix(MARK), []).append(key)
    return keys


def _is_ours(line: str, nodes: Collection[str] | None) -> bool:
    words = line.split()
    if not words or line.lstrip().startswith("#") or not words[-1].startswith(MARK):
        return False
    return nodes is None or words[-1].removeprefix(MARK) in nodes


def _key_of(line: str) -> str:
    """Kind and key of a line, which may begin with options."""
    found = re.search(r"(?:^|\s)((?:ssh|ecdsa)-[a-z0-9-]+)\s+([A-Za-z0-9+/]+={0,3})(?:\s|$)", line)
    return "" if found is None or line.lstrip().startswith("#") else f"{found[1]} {found[2]}"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
