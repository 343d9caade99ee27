# SPDX-License-Identifier: BSD-2-Clause
"""TLS between the daemons of a cluster: mutual, version 1.3, trusting the cluster's own authority alone (D8)."""

import hashlib
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths


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
    """For a server that asks for a certificate of the authority; raises `TransportError` naming the file at fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    reload_certificate(context, files)
    return context


def reload_certificate(context: ssl.SSLContext, files: ServerFiles) -> None:
    """Use renewed files for connections made from now on."""
    with _naming(files.certificate):
        context.load_cert_chain(files.certificate, files.key or None)
    with _naming(files.authority):
        context.load_verify_locations(files.authority)


def client_context(paths: Paths) -> ssl.SSLContext:
    """For a caller: shows this node's certificate, and checks that the server is the node it was called.

    The same one each time while the files are the same; jobs get it from the spawner.
    """
    files = (paths.client_cert, paths.authority_cert)
    states = tuple((path, found.st_ino, found.st_size, found.st_mtime_ns) for path, found in _states(files))
    if len(states) < len(files) or states not in _contexts:
        context = _load_client_context(paths)  # raises for the files that are missing
        _contexts.clear()
        _contexts[states] = context
    return _contexts[states]


def _states(files: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    for path in files:
        with suppress(FileNotFoundError):
            yield path, os.stat(path)


_contexts: dict[tuple[tuple[str, int, int, int], ...], ssl.SSLContext] = {}


def _load_client_context(paths: Paths) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = True
    with _naming(paths.client_cert):
        context.load_cert_chain(paths.client_cert)
    with _naming(paths.authority_cert):
        context.load_verify_locations(paths.authority_cert)
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
        yield
    except FileNotFoundError as err:
        raise TransportError(f"{path} is missing: is this machine a node of a cluster?") from err
    except (OSError, ssl.SSLError) as err:
        raise TransportError(f"{path} cannot be used: {err}") from err
