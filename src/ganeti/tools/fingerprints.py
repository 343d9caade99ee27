# SPDX-License-Identifier: BSD-2-Clause
"""Certificates and keys in values of the configuration, shortened to fingerprints for people to read."""

import base64
import binascii
import hashlib
import re
from typing import Any

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*([A-Za-z0-9+/=\s]*)-----END \1-----\s*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SSH_KEY = re.compile(r"AAAA[A-Za-z0-9+/]{40,}={0,2}")
_SHOWN_DIGITS = 16
_HIDDEN = "<hidden>"


def shortened(value: Any) -> Any:
    """The same value, of any depth, with a fingerprint in place of each certificate, key and digest."""
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shortened(each) for each in value]
    return _PEM.sub(_of_pem, _SSH_KEY.sub(_of_ssh_key, _whole_digest(value))) if isinstance(value, str) else value


def _whole_digest(text: str) -> str:
    return f"{text[:_SHOWN_DIGITS]}..." if _SHA256.fullmatch(text) else text


def _of_pem(found: re.Match[str]) -> str:
    if "PRIVATE" in found[1]:
        return _HIDDEN
    return f"<{found[1].lower()} SHA-256 {hashlib.sha256(_decoded(found[2])).hexdigest()[:_SHOWN_DIGITS]}...>"


def _of_ssh_key(found: re.Match[str]) -> str:
    """As `ssh-keygen -l` shows it."""
    digest = base64.b64encode(hashlib.sha256(_decoded(found[0])).digest()).decode()
    return f"SHA256:{digest.rstrip('=')}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()))
    except binascii.Error:
        return text.encode()
