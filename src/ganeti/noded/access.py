# SPDX-License-Identifier: BSD-2-Clause
"""Who this node is, and whose calls it takes: both told by ssconf."""

import hashlib
import json
import logging
import os
import socket
import time
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.model.node_calls.certificates import RENEWED
from ganeti.system.boot import boot_identity
from ganeti.system.files import plain_file, write_atomically
from ganeti.system.ssconf import ssconf_words
from ganeti.system.tls import certificate_digest, same_digest

SPARED_FOR_S = 86400.0
"""A node whose master has not renewed it within a day is lost, as it was at once before."""
_log = logging.getLogger(__name__)


class CandidateCertificates:
    """The digests in `ssconf_master_candidates_certs`, read again when the file changes.

    A node that is being joined has no such file: then any certificate of the cluster's authority will do, which TLS
    has checked before. A file that names nobody admits nobody.

    Whom this node has promised itself to is admitted though the file does not name it: that may come from a copy with a
    change that nobody acknowledged, and only the master it leaves out can replace it.

    A node that slept through a renewal is sent the list of today by a master that shows its former certificate. This
    node may not trust the authority of the present one yet: so the former one is spared until the authority is
    replaced here, a call shows the present one, or `SPARED_FOR_S` are over. A node that was awake has known both for a
    while: to it, the former one is withdrawn at once. So is that of a candidate that is named no more.
    """

    def __init__(self, paths: Paths) -> None:
        self._path = paths.ssconf_file("master_candidates_certs")
        self._seen: tuple[int, int, int] | None = None
        self._digests: list[tuple[str, str]] | None = None
        """With the uuid of the node before each."""
        self._promised: tuple[str, str] | None = None
        """As above."""
        self._spared_file = paths.spared_file
        self._authority = paths.authority_cert
        self._spared: tuple[str, str] | None = None
        """As above; taken as long as the authority is that of *_spared_under*."""
        self._spared_under = ""
        self._spared_from_s = 0.0
        """By the clock that runs since this machine was started."""
        self._caller = ""
        """The digest of whose call was taken last."""
        self._known: dict[bytes, str] = {}
        """Digests of the certificates that are accepted, as long as the file is the same: callers are few."""

    def accepts(self, certificate: bytes | None) -> bool:
        if certificate is None:
            return False
        self._refresh()
        if self._digests is None:
            return True
        mine = self._known.get(certificate)
        if mine is None:
            mine = certificate_digest(certificate)
            if not any(same_digest(mine, digest) for _, digest in self._admitted(self._digests)):
                return self._is_spared(mine)
            self._known[certificate] = mine  # strangers could be many
        if self._spared is not None:
            self._end_sparing_of(mine, self._digests)
        self._caller = mine
        return True

    def resume(self) -> None:
        """Go on as the daemon before this one: what it spared is spared for the rest of its time."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            with open(self._spared_file, encoding="ascii", opener=plain_file) as file:
                kept = json.load(file)
            if kept["boot"] == boot_identity():
                node, digest = str(kept["node"]), str(kept["digest"])
                self._spared_under, self._spared_from_s = str(kept["authority"]), float(kept["from"])
                self._spared = (node, digest)

    def digest_of(self, node: str) -> str | None:
        """What the certificate of a node is known by, if it is a candidate."""
        self._refresh()
        return next((digest for uuid, digest in self._digests or () if uuid == node), None)

    def admit_promised(self, node: str | None, digest: str | None) -> None:
        """Admit the node that this one has promised to follow, in place of the former one. None: nobody is."""
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
            self._seen, self._digests, self._caller = None, None, ""
            self._known.clear()
            self._spare(None)
            return
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._seen:
            return
        self._known.clear()
        with open(self._path, encoding="ascii", errors="replace", opener=plain_file) as file:
            lines = [line.strip() for line in file]
        named = (line.partition("=") for line in lines)
        fresh = [(node, digest) for node, separator, digest in named if separator]
        if self._spared is not None and self._spared[0] not in {_candidate(node) for node, _ in fresh}:
            self._spare(None)
        missed = self._caller_that_is_missed(self._digests or [], fresh)
        if missed is not None and not (self._spared is not None and self._is_spared(self._spared[1])):
            self._spare(missed)
        self._digests = fresh
        self._seen = stamp

    def _caller_that_is_missed(
        self, before: list[tuple[str, str]], fresh: list[tuple[str, str]]
    ) -> tuple[str, str] | None:
        """The last caller, where nothing that its node had is left in the list: this node slept meanwhile.

        Others are not spared: a machine that is added again has another certificate, and its former one is nobody's.
        """
        caller = next((_candidate(node) for node, digest in before if same_digest(digest, self._caller)), None)
        named = {digest for node, digest in fresh if _candidate(node) == caller}
        had = {digest for node, digest in before if _candidate(node) == caller}
        return (caller, self._caller) if caller is not None and named and not named & had else None

    def _spare(self, certificate: tuple[str, str] | None) -> None:
        """Spare this one from now on, and no other one."""
        if certificate == self._spared:
            return
        self._spared = certificate
        if certificate is None:
            _log.info("no former certificate is taken any more")
            with suppress(OSError):  # it is over by its time and by the authority, too
                os.unlink(self._spared_file)
            return
        node, digest = certificate
        _log.info("the former certificate of the candidate %s is taken until this node is renewed", node)
        self._spared_under, self._spared_from_s = _digest_of_file(self._authority), _running_s()
        kept = {"node": node, "digest": digest, "authority": self._spared_under, "from": self._spared_from_s}
        kept["boot"] = boot_identity()
        with suppress(OSError):  # a full disk must not keep the master out
            write_atomically(self._spared_file, json.dumps(kept).encode(), mode=0o600, durable=False)

    def _is_spared(self, mine: str) -> bool:
        """Whether this is taken though it is named no more; ends that where its time is over."""
        if self._spared is None or not same_digest(mine, self._spared[1]):
            return False
        is_in_time = 0 <= _running_s() - self._spared_from_s < SPARED_FOR_S
        if is_in_time and _digest_of_file(self._authority) == self._spared_under:
            return True
        self._spare(None)
        return False

    def _end_sparing_of(self, mine: str, named: list[tuple[str, str]]) -> None:
        """What shows a present certificate needs no former one any more."""
        if self._spared is not None and any(
            _candidate(node) == self._spared[0] and same_digest(mine, digest) for node, digest in named
        ):
            self._spare(None)


def _candidate(node: str) -> str:
    return node.removesuffix(RENEWED)


def _running_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _digest_of_file(path: str) -> str:
    try:
        with open(path, "rb", opener=plain_file) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def own_name(paths: Paths) -> str:
    """The name under which the cluster knows this machine.

    `GANETI_HOSTNAME` wins (virtual clusters); the short name of the machine is completed from the cluster's list of
    nodes, else by the resolver.
    """
    given = os.environ.get("GANETI_HOSTNAME")
    if given:
        return given
    name = socket.gethostname()
    nodes = ssconf_words(paths, "node_list")
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
