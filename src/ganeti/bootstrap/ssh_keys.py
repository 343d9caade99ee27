# SPDX-License-Identifier: BSD-2-Clause
"""The ssh keys of hosts and of root: found, made, entered (S3.1, S3.8; protocols, section 22)."""

import os

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.file_set import FileSet
from ganeti.bootstrap.machine import Machine
from ganeti.node import ssh_key_lines
from ganeti.system.files import plain_file

HOST_KEY_KINDS = {"rsa": "ssh-rsa", "ecdsa": "ecdsa", "ed25519": "ssh-ed25519"}
"""Word in the file name to the beginning of the word in the key."""
_KEY_BITS = {"rsa": 2048, "ecdsa": 256, "ed25519": 256}
_CURVES: dict[int, ec.EllipticCurve] = {256: ec.SECP256R1(), 384: ec.SECP384R1(), 521: ec.SECP521R1()}


def same_key(one: str, other: str) -> bool:
    """True if two public keys are one, whatever their comments."""
    return one.split()[:2] == other.split()[:2]


def host_key_path(paths: Paths, kind: str) -> str:
    return paths.under(f"/etc/ssh/ssh_host_{kind}_key")


def root_key_path(paths: Paths, kind: str) -> str:
    return paths.under(f"/root/.ssh/id_{kind}")


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
        files.expect([path, f"{path}.pub"])
        files.directory(os.path.dirname(path), 0o700)
        private, public = new_key(kind, bits)
        files.put(path, private, 0o600)
        files.put(f"{path}.pub", f"{public} root@{machine.hostname}\n", 0o644)
    elif not os.path.exists(f"{path}.pub"):
        files.put(f"{path}.pub", machine.run(["ssh-keygen", "-y", "-f", path]).stdout, 0o644)
    return _read(f"{path}.pub").strip()


def key_to_make(given_type: str | None, given_bits: int | None) -> tuple[str, int]:
    """Kind and length of the key that root of each node gets. Raises `PrerequisiteError`."""
    kind = given_type or "rsa"
    if kind not in _KEY_BITS:
        known = ", ".join(_KEY_BITS)
        because = " because current OpenSSH does not take it" if kind == "dsa" else ""
        raise PrerequisiteError(f"The ssh key type '{kind}' cannot be used{because}: use one of {known}", WRONG_INPUT)
    bits = given_bits or _KEY_BITS[kind]
    if kind == "rsa" and not 1024 <= bits <= 16384:
        raise PrerequisiteError(f"An rsa key cannot have {bits} bits: use 2048 or more", WRONG_INPUT)
    if kind == "ecdsa" and bits not in (256, 384, 521):
        raise PrerequisiteError(f"An ecdsa key cannot have {bits} bits: use 256, 384 or 521", WRONG_INPUT)
    return kind, bits


def new_key(kind: str, bits: int) -> tuple[str, str]:
    """Make a key pair of OpenSSH; gives the private and the public part, the latter without a comment.

    Here and not by `ssh-keygen`, which would go on and write its files when this process has been killed.
    """
    key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if kind == "ed25519":
        key = ed25519.Ed25519PrivateKey.generate()
    elif kind == "rsa":
        key = rsa.generate_private_key(65537, bits)
    else:
        key = ec.generate_private_key(_CURVES[bits])
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def authorize(paths: Paths, files: FileSet, keys: ssh_key_lines.KeysOfNodes) -> bool:
    """Let these nodes in as root; True if the list of keys changed."""
    path = paths.authorized_keys
    old = _read(path)
    fresh = ssh_key_lines.enter(old, keys)
    if fresh == old:
        return False
    files.directory(os.path.dirname(path), 0o700)
    files.put(path, fresh, 0o600)
    return True


def public_keys_of_nodes(paths: Paths) -> dict[str, list[str]]:
    """Read the public keys of all candidates by the uuid of the node."""
    return ssh_key_lines.read_public_keys(_read(paths.public_keys))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
