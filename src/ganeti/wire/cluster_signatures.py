# SPDX-License-Identifier: BSD-2-Clause
"""What two clusters show each other before an instance goes from one to the other (protocols, section 12).

Both hold the same cluster domain secret. Each value that goes through the hands of the client between them is signed by
HMAC-SHA1 over a salt and a text, as 3.1 does it.
"""

import datetime
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError

HANDSHAKE_VERSION = 0
_GREETING = "Hi, I'm Ganeti"
_SIGNATURE = re.compile(r"\AX-Ganeti-Signature:[ \t]*(?P<salt>[0-9a-zA-Z_.-]+)/(?P<digest>[0-9a-fA-F]{40})\s*\n", re.M)
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.S)
_MAGIC = re.compile(r"[-_.a-zA-Z0-9]{5,100}")
_CLOCKS_DIFFER_S = 300
"""How far the clocks of two clusters may be apart."""
_NOT_SIGNED = (
    "it is not signed by the domain secret of this cluster: both clusters need the same one (gnt-cluster renew-crypto "
    "--cluster-domain-secret FILE, with /var/lib/ganeti/cluster-domain-secret of the other)"
)


def handshake(secret: str, salt: str) -> list[Any]:
    """What the sending cluster shows the receiving one."""
    return [HANDSHAKE_VERSION, _digest(secret, salt, f"{HANDSHAKE_VERSION}:{_GREETING}"), salt]


def check_handshake(secret: str, shown: Sequence[Any]) -> None:
    """Raises `PrerequisiteError`."""
    what = "The handshake (source_handshake) of the sending cluster cannot be taken"
    if len(shown) != 3 or not isinstance(shown[1], str) or not isinstance(shown[2], str):
        raise PrerequisiteError(f"{what}: it must be version, digest and salt", WRONG_INPUT)
    if shown[0] != HANDSHAKE_VERSION:
        raise PrerequisiteError(f"{what}: it has version {shown[0]}, this cluster {HANDSHAKE_VERSION}", WRONG_INPUT)
    _require(secret, shown[2], f"{HANDSHAKE_VERSION}:{_GREETING}", shown[1], what)


def key_name(secret: str, salt: str, name: str) -> list[str]:
    """The name of a key on a node, so that nobody makes an export use another file."""
    return [name, _digest(secret, salt, name), salt]


def check_key_name(secret: str, shown: Sequence[Any]) -> str:
    """Give the name; raises `PrerequisiteError`."""
    what = "The key of the export (x509_key_name) cannot be used"
    if len(shown) != 3 or not all(isinstance(each, str) for each in shown):
        raise PrerequisiteError(f"{what}: it must be as OP_BACKUP_PREPARE gives it", WRONG_INPUT)
    name: str = shown[0]
    _require(secret, shown[2], name, shown[1], what)
    return name


def disk_info(secret: str, salt: str, index: int, host: str, port: int, magic: str) -> list[Any]:
    """Where the receiving cluster waits for a disk."""
    return [host, port, magic, _digest(secret, salt, f"{index}:{host}:{port}:{magic}"), salt]


def check_disk_info(secret: str, index: int, shown: Any) -> tuple[str, int, str]:
    """Give (host, port, magic); raises `PrerequisiteError`."""
    what = f"The destination of disk {index} (target_node) cannot be used"
    match shown:
        case [str(host), int(port), str(magic), str(digest), str(salt)]:
            _require(secret, salt, f"{index}:{host}:{port}:{magic}", digest, what)
        case _:
            raise PrerequisiteError(f"{what}: it must be host, port, magic, digest and salt", WRONG_INPUT)
    if not 0 < port < 65536 or not _MAGIC.fullmatch(magic) or host.startswith("-"):
        raise PrerequisiteError(f"{what}: host, port or magic is not valid", WRONG_INPUT)
    return host, port, magic


def sign_certificate(secret: str, salt: str, pem: str) -> str:
    return f"X-Ganeti-Signature: {salt}/{_digest(secret, salt, pem)}\n\n{pem}"


def check_certificate(secret: str, signed: str, now_s: float, what: str) -> str:
    """Give the certificate alone; raises `PrerequisiteError` where it is not signed by the secret, or not valid now."""
    head, certificate = _SIGNATURE.search(signed), _PEM.search(signed)
    if head is None or certificate is None:
        raise PrerequisiteError(f"{what} cannot be used: it is no certificate with its signature", WRONG_INPUT)
    pem = certificate[0]
    texts = (pem, pem.rstrip("\n"), f"{pem.rstrip()}\n")
    if not any(hmac.compare_digest(_digest(secret, head["salt"], text), head["digest"].lower()) for text in texts):
        raise PrerequisiteError(f"{what} cannot be used: {_NOT_SIGNED}", WRONG_INPUT)
    from cryptography import x509

    try:
        read = x509.load_pem_x509_certificate(pem.encode())
    except ValueError as err:
        raise PrerequisiteError(f"{what} cannot be read: {err}", WRONG_INPUT) from err
    now = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    if (read.not_valid_before_utc - now).total_seconds() > _CLOCKS_DIFFER_S:
        raise PrerequisiteError(
            f"{what} is not valid before {read.not_valid_before_utc}: compare the clocks of both clusters", WRONG_INPUT
        )
    if read.not_valid_after_utc < now:
        raise PrerequisiteError(f"{what} has expired on {read.not_valid_after_utc}: prepare the export again")
    return pem


def _digest(secret: str, salt: str, text: str) -> str:
    return hmac.new(secret.encode(), (salt + text).encode(), hashlib.sha1).hexdigest()


def _require(secret: str, salt: str, text: str, digest: str, what: str) -> None:
    if not hmac.compare_digest(_digest(secret, salt, text).encode(), digest.lower().encode()):
        raise PrerequisiteError(f"{what}: {_NOT_SIGNED}", WRONG_INPUT)
