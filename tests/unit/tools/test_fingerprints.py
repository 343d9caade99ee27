# SPDX-License-Identifier: BSD-2-Clause
"""What people read of certificates and keys: enough to tell them apart, and to compare with openssl and ssh-keygen."""

from __future__ import annotations

from ganeti.node.certificates import create_authority, digest
from ganeti.tools.fingerprints import shortened

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def test_certificates_are_shown_by_their_fingerprints() -> None:
    authority = create_authority("cluster")
    told = shortened(
        {"a": [authority.certificate, "b", 3, None], "key": authority.key, "sha": digest(authority.certificate)}
    )
    short = digest(authority.certificate)[:16]
    assert told == {"a": [f"<certificate SHA-256 {short}...>", "b", 3, None], "key": "<hidden>", "sha": f"{short}..."}


def test_ssh_keys_are_shown_as_ssh_keygen_does() -> None:
    fingerprint = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    assert shortened(KEY) == fingerprint
    assert shortened(f"ssh-ed25519 {KEY} root@node1") == f"ssh-ed25519 {fingerprint} root@node1"


def test_other_values_are_kept() -> None:
    for value in ("/srv/ganeti", "AAAA", "e7736482-c9ed-4268-bea0-5f1568b84f69", "f" * 63, 1.5, True):
        assert shortened(value) == value
