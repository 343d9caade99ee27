# SPDX-License-Identifier: BSD-2-Clause
"""check-cert-expired: what its exit status says of a valid, an old and an unreadable certificate."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from ganeti.tools.check_cert_expired import main


def certificate(path: Path, ends: datetime.datetime) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cluster")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2019, 1, 1))
        .not_valid_after(ends)
    )
    path.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return str(path)


def test_zero_says_expired(tmp_path: Path) -> None:
    assert main([certificate(tmp_path / "old.pem", datetime.datetime(2020, 1, 1))]) == 0
    assert main([certificate(tmp_path / "new.pem", datetime.datetime(2090, 1, 1))]) == 1


def test_what_cannot_be_read_is_not_expired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    assert main([str(junk)]) == 1
    assert main([str(tmp_path / "missing.pem")]) == 1
    assert main([]) == 1
    told = capsys.readouterr().err
    assert "holds no certificate" in told
    assert "No such file" in told
    assert "Usage" in told
