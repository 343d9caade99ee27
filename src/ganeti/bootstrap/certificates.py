# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's certificate authority and the certificates of its nodes: EC P-256, five years (D8).

A node has one key pair. Its PEM text (`server.pem`, and the same as `client.pem`) holds key, certificate and the
certificate of the authority. The certificate's names are the node, the cluster and the node's addresses, so whoever
calls a node can check that it is the one.
"""

import datetime
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ganeti.base.errors import ParameterError

VALIDITY = datetime.timedelta(days=1825)
BACKDATED = datetime.timedelta(days=1)
"""Clocks of nodes that join may be a little behind."""

_COMMON_NAME_LIMIT = 64


@dataclass(frozen=True)
class Authority:
    """The two files of the authority, as PEM text."""

    key: str
    """`ca.key`: on master candidates only."""
    certificate: str
    """`ca.pem`: on every node."""


def create_authority(cluster: str) -> Authority:
    """Make a cluster's own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Authority of {cluster}")
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_key_pem(key), _certificate_pem(certificate))


def issue_node_certificate(authority: Authority, node: str, cluster: str, addresses: Iterable[str] = ()) -> str:
    """Make a key pair for a node; gives the PEM text of `server.pem` and `client.pem`.

    *addresses* are the node's IP addresses. Raises `ParameterError` when the authority cannot be read.
    """
    try:
        issuer_key = serialization.load_pem_private_key(authority.key.encode(), password=None)
        issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    except ValueError as err:
        raise ParameterError(f"The cluster's authority cannot be read: {err}") from err
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ParameterError("The cluster's authority has a key of another kind than EC")
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dict.fromkeys((node, cluster))]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in dict.fromkeys(addresses)]
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name(node), issuer.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return _key_pem(key) + _certificate_pem(certificate) + authority.certificate


def digest(pem: str) -> str:
    """SHA-256 of the first certificate in *pem*: lower-case hexadecimal without colons.

    This is what `candidate_certs` and `ssconf_master_candidates_certs` hold.
    """
    certificate = _load(pem)
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def certificate_names(pem: str) -> list[str]:
    """The DNS names of the first certificate in *pem*: node, then cluster."""
    names = _load(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


def create_self_signed(name: str) -> str:
    """Give key and certificate of a server that strangers talk to, as one PEM text; no node trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    builder = _builder(_name(name), _name(name), key.public_key()).add_extension(names, critical=False)
    return _key_pem(key) + _certificate_pem(builder.sign(key, hashes.SHA256()))


def _load(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as err:
        raise ParameterError(f"The certificate cannot be read: {err}") from err


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_LIMIT])])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALIDITY)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
