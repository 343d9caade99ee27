# SPDX-License-Identifier: BSD-2-Clause
"""A server is believed by its own certificate, or by its name in one of an authority; no password before that."""

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ganeti.base.errors import PrerequisiteError
from ganeti.tools.move_instance.cluster import Access, Cluster

Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certificate(name: str, signer: Pair | None = None, *, is_authority: bool = False) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    day = datetime.timedelta(1)
    now = datetime.datetime.now(datetime.UTC)
    issuer = signer[0].subject if signer else subject
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), now - day, now + day)
    made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return made.sign(signer[1] if signer else key, hashes.SHA256()), key


@contextlib.contextmanager
def server(directory: Path, pair: Pair) -> Iterator[tuple[int, list[bytes]]]:
    """Answers nothing but reads; gives the port, and what it was sent."""
    key = pair[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / "server.pem").write_bytes(pair[0].public_bytes(Encoding.PEM) + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                        if data := secured.recv(65536):
                            got.append(data)
                            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n2")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], got
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def ask(port: int, ca_file: Path) -> object:
    access = Access("127.0.0.1", port, str(ca_file), "mover", "secret")
    return Cluster(access, threading.Event(), lambda line: None).get("/version")


def test_a_cluster_s_own_certificate_needs_no_name(tmp_path: Path) -> None:
    own = certificate("cluster.example.com")
    (tmp_path / "rapi.pem").write_bytes(own[0].public_bytes(Encoding.PEM))
    with server(tmp_path, own) as (port, got):
        assert ask(port, tmp_path / "rapi.pem") == 2
    assert b"Authorization: Basic" in got[0]


def test_any_host_of_an_authority_is_not_the_cluster(tmp_path: Path) -> None:
    authority = certificate("authority", is_authority=True)
    (tmp_path / "ca.pem").write_bytes(authority[0].public_bytes(Encoding.PEM))
    with (
        server(tmp_path, certificate("printer.example.com", authority)) as (port, got),
        pytest.raises(PrerequisiteError, match=r"certificate of 127\.0\.0\.1 is not known"),
    ):
        ask(port, tmp_path / "ca.pem")
    assert not got
