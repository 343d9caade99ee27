# SPDX-License-Identifier: BSD-2-Clause
"""TLS between the daemons of a cluster: mutual, version 1.3, trusting the cluster's own authority alone (D8)."""

import hashlib
import logging
import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ganeti.base.errors import GanetiError, TransportError
from ganeti.base.paths import Paths
from ganeti.system.files import check_plain

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerFiles:
    """PEM files of a server: *key* is empty where the certificate's file holds it too."""

    certificate: str
    key: str
    authority: str

    @classmethod
    def of(cls, paths: Paths, *, key: str = "", certificate: str = "") -> "ServerFiles":
        return cls(certificate or paths.server_cert, key, paths.authority_cert)


def server_context(files: ServerFiles) -> ssl.SSLContext:
    """For a server that asks for a certificate of the authority; raises `TransportError` naming the file at fault.

    Renewed files are used from the next connection on. Files that cannot be used leave the former ones in use.
    """
    return renewing(lambda: _load_server_context(files), (files.certificate, files.key, files.authority))


def renewing(load: Callable[[], ssl.SSLContext], paths: Iterable[str]) -> ssl.SSLContext:
    """Give the context of a server, which is loaded anew when one of *paths* has changed since the last connection."""
    named = tuple(filter(None, paths))
    first = load()
    current, states = first, _states_of(named)

    def look(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        nonlocal current, states
        found = _states_of(named)
        if found != states:
            states = found
            try:
                current = load()
            except GanetiError as err:
                _log.error("the certificate in use stays: %s", err)
        connection.context = current

    # OpenSSL asks at each handshake, whether or not the client names a server.
    first.sni_callback = look
    return first


def _load_server_context(files: ServerFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    with _naming(files.certificate):
        context.load_cert_chain(files.certificate, files.key or None)
    with _naming(files.authority):
        context.load_verify_locations(files.authority)
    return context


def client_context(paths: Paths) -> ssl.SSLContext:
    """For a caller: shows this node's certificate, and checks that the server is the node it was called.

    The same one each time while the files are the same; jobs get it from the spawner.
    """
    return _client_context(paths.client_cert, paths.authority_cert)


def client_contexts(paths: Paths) -> Iterator[ssl.SSLContext]:
    """The context of `client_context`, then those of certificates that this node has shown before, newest first.

    A node that was away while certificates were renewed knows its callers by the former ones only. Each node call takes
    the first context, and few look further: the directory is read only for those.
    """
    yield client_context(paths)
    for former in former_certificates(paths):
        with suppress(TransportError):  # it goes once no node needs it
            context = _client_context(former, paths.authority_cert)
            yield context


def former_certificates(paths: Paths) -> list[str]:
    """Files with certificates that this node has shown before, newest first."""
    directory, pattern = os.path.split(paths.former_client_cert("*"))
    prefix, _, suffix = pattern.partition("*")
    with suppress(FileNotFoundError):
        names = [name for name in os.listdir(directory) if name.startswith(prefix) and name.endswith(suffix)]
        return [f"{directory}/{name}" for name in sorted(names, reverse=True)]
    return []


def _client_context(certificate: str, authority: str) -> ssl.SSLContext:
    files = (certificate, authority)
    states = _states_of(files)
    if len(states) < len(files) or states not in _contexts:
        context = _load_client_context(certificate, authority)  # raises for the files that are missing
        for old in [old for old in _contexts if old[0][0] == certificate]:
            del _contexts[old]
        _contexts[states] = context
    return _contexts[states]


_States = tuple[tuple[str, int, int, int], ...]
_contexts: dict[_States, ssl.SSLContext] = {}


def _states_of(files: Iterable[str]) -> _States:
    """What tells whether files are the same; those that are missing are left out."""
    return tuple((path, found.st_ino, found.st_size, found.st_mtime_ns) for path, found in _states(files))


def _states(files: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    for path in files:
        with suppress(FileNotFoundError):
            yield path, os.stat(path)


def _load_client_context(certificate: str, authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = True
    with _naming(certificate):
        context.load_cert_chain(certificate)
    with _naming(authority):
        context.load_verify_locations(authority)
    return context


def certificate_digest(der: bytes) -> str:
    """SHA-256 of a certificate in lower-case hexadecimal, as `ssconf_master_candidates_certs` lists it."""
    return hashlib.sha256(der).hexdigest()


def same_digest(one: str, other: str) -> bool:
    """Compare two digests, whatever the case and the colons they are written with."""
    return one.replace(":", "").strip().lower() == other.replace(":", "").strip().lower()


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        check_plain(path)
        yield
    except FileNotFoundError as err:
        remedy = _from_twin(path) or "is this machine a node of a cluster?"
        raise TransportError(f"{path} is missing: {remedy}") from err
    except ssl.SSLError as err:  # an OSError, too
        remedy = _from_twin(path) or (
            "'gnt-node add --readd NODE' on the master makes this node's certificates anew; the master's own, once "
            "another node is the master (gnt-cluster master-failover there)"
        )
        raise TransportError(f"{path} is damaged ({err.reason or err}): {remedy}") from err
    except OSError as err:
        raise TransportError(f"{path} cannot be used: {err.strerror or err}") from err


_TWINS = {"server.pem": "client.pem", "client.pem": "server.pem"}
"""Both hold a node's one pair of key and certificate."""


def _from_twin(path: str) -> str:
    """How to put a node's lost pair back from its other file; empty where that is lost, too."""
    directory, name = os.path.split(path)
    if name not in _TWINS:
        return ""
    twin = f"{directory}/{_TWINS[name]}"
    try:
        check_plain(twin)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(twin)
    except OSError:
        return ""
    return f"{twin} holds the same key and certificate: 'cp -p {twin} {path}' puts them back"
