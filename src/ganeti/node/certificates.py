# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's certificate authority and the certificates of its nodes: EC P-256, five years (D8).

A node has one key pair. Its PEM text (`server.pem`, and the same as `client.pem`) holds key, certificate and the
certificate of the authority. The certificate's names are the node, the cluster and the node's addresses, so a
caller can check that it has reached the right node.
"""

import datetime
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
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
    key = ec.generate_private_key(ec.SECP256R1())
    return _key_pem(key) + _signed(authority, key.public_key(), node, cluster, addresses)


def request_certificate() -> tuple[str, str]:
    """Make a key, and what asks for its certificate without giving it away; both as PEM text."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return _key_pem(key), request.public_bytes(serialization.Encoding.PEM).decode()


def sign_request(
    authority: Authority, request: str, node: str, cluster: str, addresses: Iterable[str], days: float | None = None
) -> str:
    """Give certificate and authority for what `request_certificate` of *node* has made, as one PEM text.

    It is good for *days*, five years without them, and not longer than the authority. Raises `ParameterError`.
    """
    try:
        asked = x509.load_pem_x509_csr(request.encode())
    except ValueError as err:
        raise ParameterError(f"The request of node {node} for a certificate cannot be read: {err}") from err
    key = asked.public_key()
    if not asked.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
        raise ParameterError(f"The request of node {node} for a certificate is not signed by a key of its own")
    validity = VALIDITY if days is None else datetime.timedelta(days=days)
    return _signed(authority, key, node, cluster, addresses, validity)


def transfer_certificate(name: str, validity_s: float) -> tuple[str, str]:
    """A key and its self-signed certificate (both PEM) for one transfer; 3.1's socat looks for *name* in it."""
    key = ec.generate_private_key(ec.SECP256R1())
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=validity_s)
    certificate = (
        _builder(_name(name), _name(name), key.public_key(), until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _key_pem(key), _certificate_pem(certificate)


def fits(key: str, certificate: str) -> bool:
    """Whether a key and the first certificate of a PEM text belong together."""
    try:
        public = serialization.load_pem_private_key(key.encode(), password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return _public_bytes(public) == _public_bytes(_load(certificate).public_key())


def issuer_in(pem: str, authorities: str) -> str | None:
    """Which certificate in *authorities* has issued the first one of *pem*, as PEM text."""
    issuer = _issuer_among(_load_all(authorities), _load(pem))
    return None if issuer is None else _certificate_pem(issuer)


def trusted_for(pem: str, authorities: str) -> str | None:
    """As `issuer_in`, also where certificates that follow the first one in *pem* stand between the two."""
    certificate, *between = _load_all(pem)
    trusted = _load_all(authorities)
    while True:
        if (issuer := _issuer_among(trusted, certificate)) is not None:
            return _certificate_pem(issuer)
        if (issuer := _issuer_among(between, certificate)) is None:
            return None
        between.remove(issuer)
        certificate = issuer


def first_certificate(pem: str) -> str | None:
    """The first certificate in *pem* alone; None where there is none that can be read."""
    try:
        return _certificate_pem(_load_all(pem)[0])
    except ParameterError:
        return None


def has_fitting_key(pem: str) -> bool:
    """Whether a PEM text holds a certificate and the key that belongs to it."""
    certificate = first_certificate(pem)
    return certificate is not None and fits(pem, certificate)


def expiry_s(pem: str) -> float:
    """When the first certificate in *pem* expires, in seconds since the epoch."""
    return _load(pem).not_valid_after_utc.timestamp()


def _issuer_among(authorities: Iterable[x509.Certificate], certificate: x509.Certificate) -> x509.Certificate | None:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return authority
    return None


def _issuer(authority: Authority) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """The first certificate of `ca.pem`, which may hold a former one, too: its key must not sign any more."""
    try:
        key = serialization.load_pem_private_key(authority.key.encode(), password=None)
    except ValueError as err:
        raise ParameterError(f"The cluster's authority cannot be read: {err}") from err
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ParameterError("The cluster's authority has a key of another kind than EC")
    if not fits(authority.key, authority.certificate):
        raise ParameterError(
            "The key of the cluster's authority is not that of its certificate: make both anew "
            "(gnt-cluster renew-crypto --new-cluster-certificate)"
        )
    return key, _load(authority.certificate)


def _signed(
    authority: Authority,
    key: ec.EllipticCurvePublicKey,
    node: str,
    cluster: str,
    addresses: Iterable[str],
    validity: datetime.timedelta = VALIDITY,
) -> str:
    issuer_key, issuer = _issuer(authority)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dict.fromkeys((node, cluster))]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in dict.fromkeys(addresses)]
    certificate = (
        _builder(_name(node), issuer.subject, key, min(_now() + validity, issuer.not_valid_after_utc))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return _certificate_pem(certificate) + _certificate_pem(issuer)


def digest(pem: str) -> str:
    """SHA-256 of the first certificate in *pem*: lower-case hexadecimal without colons.

    This is what `candidate_certs` and `ssconf_master_candidates_certs` hold.
    """
    certificate = _load(pem)
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def create_self_signed(name: str, *others: str) -> str:
    """Give key and certificate of a server that strangers talk to, as one PEM text; no node trusts it.

    Clients may call the server by *name* or by *others*, which may be addresses.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([_general_name(each) for each in dict.fromkeys((name, *others))])
    builder = _builder(_name(name), _name(name), key.public_key()).add_extension(names, critical=False)
    return _key_pem(key) + _certificate_pem(builder.sign(key, hashes.SHA256()))


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _load(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as err:
        raise ParameterError(f"The certificate cannot be read: {err}") from err


def _load_all(pem: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as err:
        raise ParameterError(f"The certificates of the cluster's authority cannot be read: {err}") from err


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_LIMIT])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime.datetime | None = None
) -> x509.CertificateBuilder:
    now = _now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until or now + VALIDITY)
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
