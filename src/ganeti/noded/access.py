# SPDX-License-Identifier: BSD-2-Clause
"""Who this node is, and whose calls it takes: both told by ssconf."""

import logging
import os
import socket

from ganeti.base.paths import Paths
from ganeti.system.tls import certificate_digest, same_digest

_log = logging.getLogger(__name__)


class CandidateCertificates:
    """The digests in `ssconf_master_candidates_certs`, read again when the file changes.

    A node that is being joined has no such file: then any certificate of the cluster's authority will do, which TLS
    has checked before. A file that names nobody admits nobody.

    Whom this node has promised itself to is admitted though the file does not name it: that may come from a copy with a
    change that nobody acknowledged, and only the master it leaves out can replace it.
    """

    def __init__(self, paths: Paths) -> None:
        self._path = paths.ssconf_file("master_candidates_certs")
        self._seen: tuple[int, int, int] | None = None
        self._digests: list[tuple[str, str]] | None = None
        """With the uuid of the node before each."""
        self._promised: tuple[str, str] | None = None
        """As above."""
        self._known: dict[bytes, bool] = {}
        """Whether a certificate is accepted, as long as the file is the same: callers are few."""

    def accepts(self, certificate: bytes | None) -> bool:
        if certificate is None:
            return False
        self._refresh()
        if self._digests is None:
            return True
        accepted = self._known.get(certificate)
        if accepted is None:
            mine = certificate_digest(certificate)
            accepted = any(same_digest(mine, digest) for _, digest in self._admitted(self._digests))
            if accepted:  # strangers could be many
                self._known[certificate] = True
        return accepted

    def digest_of(self, node: str) -> str | None:
        """What the certificate of a node is known by, if it is a candidate."""
        self._refresh()
        return next((digest for uuid, digest in self._digests or () if uuid == node), None)

    def admit_promised(self, node: str | None, digest: str | None) -> None:
        """Admit who is promised to be followed, in place of who was before; one that is named, as it is named."""
        promised = None if node is None or digest is None else (node, digest)
        if promised != self._promised:
            self._promised = promised
            self._known.clear()

    def _admitted(self, named: list[tuple[str, str]]) -> list[tuple[str, str]]:
        promised = self._promised
        return named if promised is None or any(node == promised[0] for node, _ in named) else [*named, promised]

    def _refresh(self) -> None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._digests = None, None
            self._known.clear()
            return
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._seen:
            return
        self._known.clear()
        with open(self._path, encoding="ascii", errors="replace") as file:
            lines = [line.strip() for line in file]
        named = (line.partition("=") for line in lines)
        self._digests = [(node, digest) for node, separator, digest in named if separator]
        self._seen = stamp


def own_name(paths: Paths) -> str:
    """The name under which the cluster knows this machine.

    `GANETI_HOSTNAME` wins (virtual clusters); the short name of the machine is completed from the cluster's list of
    nodes, else by the resolver.
    """
    given = os.environ.get("GANETI_HOSTNAME")
    if given:
        return given
    name = socket.gethostname()
    try:
        with open(paths.ssconf_file("node_list"), encoding="utf-8") as file:
            nodes = [line.strip() for line in file]
    except FileNotFoundError:
        nodes = []
    if name in nodes:
        return name
    longer = [node for node in nodes if node.startswith(f"{name}.")]
    if len(longer) == 1:
        return longer[0]
    if "." in name:
        return name
    try:
        canonical = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)[0][3]
    except OSError:
        return name
    return canonical if canonical.startswith(f"{name}.") else name
