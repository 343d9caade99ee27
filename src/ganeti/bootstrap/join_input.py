# SPDX-License-Identifier: BSD-2-Clause
"""What `prepare-node-join` and `node-daemon-setup` read on standard input, decoded whole and strictly (S3.2, S3.4).

The node daemon's certificate of S3 is, here, this node's own key and certificate with the cluster's authority; the
public part that `prepare-node-join` gets is the authority's certificate. A machine is another cluster's if its
authority is another one.
"""

import re
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from ganeti.base.clocks import clock_fault
from ganeti.base.errors import UNREADABLE_JSON, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.names import host_name_fault
from ganeti.base.paths import Paths
from ganeti.bootstrap.own_mastership import promised_epoch
from ganeti.bootstrap.ssh_keys import HOST_KEY_KINDS, key_to_make, same_key
from ganeti.node.ssh_key_lines import is_node_uuid, is_public_key
from ganeti.system.files import plain_file
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

KeyTriple = tuple[str, str, str]
"""(kind, private part, public part), S3.9."""

CLUSTER_FILES = {"known_hosts": 0o644, "cluster-domain-secret": 0o600}
"""Further files of the data directory that a node is given, with their modes. `ca.key` comes with candidacy."""

_SSCONF_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n?", re.DOTALL)

Input = TypeVar("Input", bound=msgspec.Struct)


class PrepareJoin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input of `prepare-node-join` (S3.8, S3.11); *time_s*, the master's clock, is our addition."""

    cluster_name: str
    time_s: float | None = None
    node_daemon_certificate: str | None = None
    ssh_host_key: list[KeyTriple] = []
    ssh_root_key: list[KeyTriple] = []
    authorized_keys: dict[str, list[str]] = {}
    ssh_key_type: str | None = None
    ssh_key_bits: int | None = None


class DaemonSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input of `node-daemon-setup` (S3.10, S3.11); *cluster_files* and *time_s* are our additions."""

    cluster_name: str
    time_s: float | None = None
    """The master's clock."""
    node_daemon_certificate: str | None = None
    ssconf: dict[str, str] = {}
    hmac_key: str | None = None
    start_node_daemon: bool = False
    node_name: str | None = None
    cluster_files: dict[str, str] = {}


class _Joining(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prepare: msgspec.Raw
    setup: msgspec.Raw
    is_member: bool | None = None
    is_alone: bool = False
    epoch: int = 0


class NodePem(msgspec.Struct, frozen=True):
    """The three parts of a node's `server.pem`."""

    key: str
    certificate: str
    authority: str

    @property
    def text(self) -> str:
        return self.key + self.certificate + self.authority


def decode(data: bytes, shape: type[Input]) -> Input:
    """Read the whole input; raises `PrerequisiteError` naming the key at fault."""
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as err:
        text, _, path = str(err).partition(" - at `$")
        where = path.rstrip("`").lstrip(".")
        raise PrerequisiteError(f"The input is not right: {where + ': ' if where else ''}{text}", WRONG_INPUT) from err
    except UNREADABLE_JSON as err:
        raise PrerequisiteError(f"The input is not one JSON object: {err}", WRONG_INPUT) from err


class JoiningRequest(msgspec.Struct, frozen=True):
    """What joining in one go reads: what `prepare-node-join` gets, and what `node-daemon-setup` gets."""

    prepare: bytes
    setup: bytes
    is_member: bool | None = None
    """Whether the cluster has a node of this name, by what the master says."""
    is_alone: bool = False
    """Whether the master has no other process that talks to this machine."""
    epoch: int = 0
    """That of the master; 0 where it is not known."""


def decode_joining(data: bytes) -> JoiningRequest:
    given = decode(data, _Joining)
    return JoiningRequest(bytes(given.prepare), bytes(given.setup), given.is_member, given.is_alone, given.epoch)


def check_cluster_name(name: str, paths: Paths) -> None:
    """Refuse an empty name, and a machine that belongs to another cluster."""
    if not name.strip():
        raise PrerequisiteError("The input is not right: cluster_name must not be empty", WRONG_INPUT)
    if (fault := host_name_fault(name)) is not None:
        raise PrerequisiteError(f"The input is not right: cluster_name: {fault}", WRONG_INPUT)
    mine = _read(paths.ssconf_file("cluster_name")).strip()
    if mine and mine != name:
        raise PrerequisiteError(
            f"This machine belongs to the cluster '{mine}', not to '{name}': remove it there, or run node-cleanup here",
            WRONG_STATE,
        )


def check_epoch(masters: int, paths: Paths) -> None:
    """Refuse a machine that obeys a later master than the one that adds it: it would take none of its calls."""
    mine = promised_epoch(paths)
    if 0 < masters < mine:
        raise PrerequisiteError(
            f"This machine obeys the master of a later epoch ({mine}) than that of the one that adds it ({masters}): "
            "if the one that adds it is the right one, run node-cleanup here, then add it again",
            WRONG_STATE,
        )


def check_clock(masters_s: float | None, now_s: float) -> None:
    """Refuse a machine whose clock is not the master's: its certificates would not be valid there, or for too long."""
    if masters_s is not None and (fault := clock_fault("this machine", now_s - masters_s, "the master")) is not None:
        raise PrerequisiteError(fault, WRONG_STATE)


def check_same_authority(given: str, paths: Paths) -> None:
    """Refuse what holds no certificate, and a machine whose certificate comes from another authority."""
    theirs = {_fingerprint(certificate) for certificate in certificates_in(given)}
    if not theirs:
        raise PrerequisiteError("node_daemon_certificate holds no certificate", WRONG_INPUT)
    mine = certificates_in(_read(paths.authority_cert)) or certificates_in(_read(paths.server_cert))[-1:]
    if mine and not {_fingerprint(certificate) for certificate in mine} & theirs:
        raise PrerequisiteError(
            f"The certificate in {paths.data_dir} was issued by another cluster's authority: run node-cleanup here "
            "first, or add the node with --force-join",
            WRONG_STATE,
        )


def certificates_in(pem: str) -> list[x509.Certificate]:
    """All certificates of a PEM text; raises `PrerequisiteError` if one cannot be read."""
    found = []
    for match in _PEM.finditer(pem):
        if match[1] == "CERTIFICATE":
            try:
                found.append(x509.load_pem_x509_certificate(match[0].encode()))
            except ValueError as err:
                raise PrerequisiteError(f"A certificate cannot be read: {err}", WRONG_INPUT) from err
    return found


def split_node_pem(pem: str, node_name: str | None) -> NodePem:
    """Take a node's PEM text apart; raises `PrerequisiteError` unless key, certificate, authority and name fit."""
    kinds: dict[str, list[str]] = {}
    for match in _PEM.finditer(pem):
        text = match[0] if match[0].endswith("\n") else match[0] + "\n"
        kinds.setdefault("key" if match[1].endswith("PRIVATE KEY") else match[1], []).append(text)
    keys, certificates = kinds.get("key", []), kinds.get("CERTIFICATE", [])
    if len(keys) != 1 or len(certificates) != 2:
        raise PrerequisiteError(
            "node_daemon_certificate must hold a key, a certificate and the authority's certificate, "
            f"not {len(keys)} keys and {len(certificates)} certificates",
            WRONG_INPUT,
        )
    parts = NodePem(keys[0], certificates[0], certificates[1])
    _check_node_pem(parts, node_name)
    return parts


def _check_node_pem(parts: NodePem, node_name: str | None) -> None:
    certificate, authority = certificates_in(parts.certificate + parts.authority)
    try:
        key = serialization.load_pem_private_key(parts.key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        raise PrerequisiteError(f"node_daemon_certificate: the key cannot be read: {err}", WRONG_INPUT) from err
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise PrerequisiteError("node_daemon_certificate: key and certificate do not belong together", WRONG_INPUT)
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError) as err:
        raise PrerequisiteError(
            "node_daemon_certificate: the certificate was not issued by the authority beside it", WRONG_INPUT
        ) from err
    for certificate_of, one in (("certificate", certificate), ("authority's certificate", authority)):
        if not one.not_valid_before_utc <= datetime.now(UTC) <= one.not_valid_after_utc:
            valid = f"{one.not_valid_before_utc:%Y-%m-%d %H:%M} to {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
            raise PrerequisiteError(
                f"node_daemon_certificate: the {certificate_of} is valid from {valid}, which is not now: set the clock "
                "right, or renew it on the master (gnt-cluster renew-crypto --new-cluster-certificate)",
                WRONG_STATE,
            )
    if node_name is not None and node_name not in names_of(certificate):
        raise PrerequisiteError(
            f"node_daemon_certificate is of {' and '.join(names_of(certificate))}, not of the node '{node_name}'",
            WRONG_INPUT,
        )


def names_of(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def check_key_triple(triple: KeyTriple, where: str) -> None:
    """Refuse kinds that cannot be used, texts that are no keys, and halves of two different keys."""
    kind, private, public = triple
    if kind not in HOST_KEY_KINDS:
        because = " because current OpenSSH does not take it" if kind == "dsa" else ""
        raise PrerequisiteError(
            f"{where}: a key of the type '{kind}' cannot be used{because}: use one of {', '.join(HOST_KEY_KINDS)}",
            WRONG_INPUT,
        )
    if not is_public_key(public) or not public.startswith(HOST_KEY_KINDS[kind]):
        raise PrerequisiteError(f"{where}: the public part is not one of a key of the type '{kind}'", WRONG_INPUT)
    if not same_key(_public_part(private, where), public):
        raise PrerequisiteError(f"{where}: the two parts of the {kind} key do not belong together", WRONG_INPUT)


def check_keys(request: PrepareJoin) -> None:
    for where, triples in (("ssh_host_key", request.ssh_host_key), ("ssh_root_key", request.ssh_root_key)):
        for triple in triples:
            check_key_triple(triple, where)
        kinds = [kind for kind, _, _ in triples]
        if len(set(kinds)) != len(kinds):
            raise PrerequisiteError(f"{where}: a type of key is given twice", WRONG_INPUT)
    for node, keys in request.authorized_keys.items():
        if not is_node_uuid(node):
            raise PrerequisiteError(f"authorized_keys: '{node[:40]}' is not the uuid of a node", WRONG_INPUT)
        for key in keys:
            if not is_public_key(key):
                raise PrerequisiteError(f"authorized_keys of {node}: '{key[:40]}' is not a public key", WRONG_INPUT)
    if request.ssh_key_type is not None or request.ssh_key_bits is not None:
        key_to_make(request.ssh_key_type, request.ssh_key_bits)


def check_ssconf(values: dict[str, str], cluster_name: str) -> None:
    for key, text in values.items():
        if not _SSCONF_KEY.fullmatch(key):
            raise PrerequisiteError(f"ssconf: '{key}' is not a name of a value", WRONG_INPUT)
        if len(text.encode()) > SIZE_LIMIT_BYTES:
            raise PrerequisiteError(f"ssconf: {key} is longer than {SIZE_LIMIT_BYTES} bytes", WRONG_INPUT)
    inside = values.get("cluster_name", cluster_name).strip()
    if inside != cluster_name:
        raise PrerequisiteError(
            f"ssconf: cluster_name is '{inside}' there and '{cluster_name}' beside it: they must be the same",
            WRONG_INPUT,
        )


def check_secret(where: str, text: str) -> None:
    """A secret is one line: programs that read the first line and those that read all must know the same one."""
    if not text.strip():
        raise PrerequisiteError(f"{where} must not be empty", WRONG_INPUT)
    if not (text.strip().isascii() and text.strip().isprintable()):
        raise PrerequisiteError(f"{where} must be one line of printable characters", WRONG_INPUT)


def check_cluster_files(files: dict[str, str]) -> None:
    for name in files:
        if name not in CLUSTER_FILES:
            raise PrerequisiteError(
                f"cluster_files: '{name}' is not one of {', '.join(sorted(CLUSTER_FILES))}", WRONG_INPUT
            )
        if not files[name].strip():
            raise PrerequisiteError(f"cluster_files: '{name}' must not be empty", WRONG_INPUT)


def _public_part(private: str, where: str) -> str:
    """Whether the factors of an rsa key are primes is not looked at: the master's sshd uses the key, and that look
    takes a third of a second.
    """
    data = private.encode()
    key: Any = None
    for load in (serialization.load_ssh_private_key, serialization.load_pem_private_key):
        try:
            key = load(data, None, unsafe_skip_rsa_key_validation=True)
            break
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
    if key is None:
        raise PrerequisiteError(f"{where}: the private part is not a key without a passphrase", WRONG_INPUT)
    text: bytes = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return text.decode()


def _fingerprint(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
