# SPDX-License-Identifier: BSD-2-Clause
"""The ssh keys of hosts and of root: found, made, entered (S3.1, S3.8; protocols, section 22)."""

import os
import re

from ganeti.base.paths import Paths
from ganeti.bootstrap.machine import FileSet, Machine

HOST_KEY_KINDS = {"rsa": "ssh-rsa", "ecdsa": "ecdsa", "ed25519": "ssh-ed25519"}
"""Word in the file name to the beginning of the word in the key."""

_PUBLIC_KEY = re.compile(r"(?:ssh-(?:rsa|ed25519)|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,3}(?: [^\n]*)?")


def is_public_key(text: str) -> bool:
    return _PUBLIC_KEY.fullmatch(text.strip()) is not None


def is_private_key(text: str) -> bool:
    lines = text.strip().splitlines()
    return (
        len(lines) > 2
        and re.fullmatch(r"-----BEGIN (?:OPENSSH |RSA |EC |)PRIVATE KEY-----", lines[0]) is not None
        and lines[-1] == lines[0].replace("BEGIN", "END")
    )


def same_key(one: str, other: str) -> bool:
    """True if two public keys are one, whatever their comments."""
    return one.split()[:2] == other.split()[:2]


def host_key_path(paths: Paths, kind: str) -> str:
    return paths.under(f"/etc/ssh/ssh_host_{kind}_key")


def root_key_path(paths: Paths, kind: str) -> str:
    return paths.under(f"/root/.ssh/id_{kind}")


def authorized_keys_path(paths: Paths) -> str:
    return paths.under("/root/.ssh/authorized_keys")


def public_keys_path(paths: Paths) -> str:
    """The public keys of all nodes, each line after the uuid of its node."""
    return f"{paths.data_dir}/ganeti_pub_keys"


def host_public_keys(paths: Paths) -> dict[str, str]:
    """Host keys of this machine: kind as in the key (``ssh-rsa``) to base64 text."""
    found = {}
    for kind in HOST_KEY_KINDS:
        words = _read(f"{host_key_path(paths, kind)}.pub").split()
        if len(words) >= 2:
            found[words[0]] = words[1]
    return found


def host_key_triples(paths: Paths) -> list[tuple[str, str, str]]:
    """(kind, private part, public part) of each host key there is, for a node that is to answer with them (S3.9)."""
    triples = []
    for kind in HOST_KEY_KINDS:
        private, public = _read(host_key_path(paths, kind)), _read(f"{host_key_path(paths, kind)}.pub")
        if private and public:
            triples.append((kind, private, public))
    return triples


def known_hosts_text(cluster_name: str, keys: dict[str, str]) -> str:
    """Every node answers with the cluster's host keys, known by the cluster's name."""
    return "".join(f"{cluster_name} {kind} {text}\n" for kind, text in sorted(keys.items()))


def ensure_root_key(machine: Machine, files: FileSet, kind: str, bits: int) -> str:
    """Make root's key of this kind unless there is one; gives its public part."""
    path = root_key_path(machine.paths, kind)
    if not os.path.exists(path):
        files.directory(os.path.dirname(path), 0o700)
        size = [] if kind == "ed25519" else ["-b", str(bits)]
        machine.run(
            ["ssh-keygen", "-q", "-t", kind, *size, "-N", "", "-C", f"root@{machine.hostname}", "-f", path],
            timeout_s=300.0,
        )
        files.will_remove(path)
        files.will_remove(f"{path}.pub")
    elif not os.path.exists(f"{path}.pub"):
        files.put(f"{path}.pub", machine.run(["ssh-keygen", "-y", "-f", path]).stdout, 0o644)
    return _read(f"{path}.pub").strip()


def authorize(paths: Paths, files: FileSet, keys: list[str]) -> bool:
    """Let these keys in as root; True if the list of keys changed."""
    path = authorized_keys_path(paths)
    old = _read(path)
    lines = old.splitlines()
    known = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    missing = [key.strip() for key in keys if not any(_contains(line, key) for line in known)]
    if not missing:
        return False
    files.directory(os.path.dirname(path), 0o700)
    files.put(path, "".join(f"{line}\n" for line in [*lines, *missing]), 0o600)
    return True


def _contains(line: str, key: str) -> bool:
    """A line may begin with options."""
    words = key.split()[:2]
    return " ".join(words) in " ".join(line.split())


def public_keys_of_nodes(paths: Paths) -> dict[str, list[str]]:
    """Read the public keys of all nodes by the uuid of the node."""
    keys: dict[str, list[str]] = {}
    for line in _read(public_keys_path(paths)).splitlines():
        uuid, _, key = line.strip().partition(" ")
        if key:
            keys.setdefault(uuid, []).append(key)
    return keys


def public_keys_text(keys: dict[str, list[str]]) -> str:
    return "".join(f"{uuid} {key}\n" for uuid in sorted(keys) for key in keys[uuid])


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
