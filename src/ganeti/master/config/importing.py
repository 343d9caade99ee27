# SPDX-License-Identifier: BSD-2-Clause
"""What a start makes of the store and of the `config.data` it finds (D6).

The store knows the fingerprints of what it published. A file with another one was restored, edited, or written by
Ganeti 3.1: it is what the administrator wants, so it is verified and imported as one commit, or the start is refused
with the reason. Because an import remembers the file's fingerprint in the same commit, it happens once.

Publication syncs nothing, so a machine that lost power may have an older `config.data`, or one in pieces. Only then, a
state from before the last published one is taken for ours, and so is a file that is not as it was written: the
database is what was acknowledged. A whole file that is unknown came from another master, or from a backup.
"""

from dataclasses import dataclass
from enum import Enum

import msgspec

from ganeti.base.errors import ConfigurationError, ConfigVerifyError
from ganeti.master.config.file_layout import is_broken
from ganeti.master.config.fingerprint import UNREADABLE, Fingerprint
from ganeti.master.config.head import Head
from ganeti.master.config.invariants import hard_problems
from ganeti.master.config.records import Commit, Position, make_put
from ganeti.master.config.store import Loaded
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CONFIG_VERSION, KINDS

FIRST_EPOCH = 1


class Start(Enum):
    NO_CLUSTER = "there is neither a store nor a config.data"
    STORED = "the store holds what config.data says, or something newer"
    OUTDATED = "config.data is our own, in pieces or older than what was published: the machine lost power"
    IMPORT = "config.data is not ours"


@dataclass(frozen=True)
class Import:
    """A foreign configuration, verified, and the commit that takes it over."""

    config: Configuration
    commit: Commit


def decide(stored: Loaded | None, data: bytes | None, digest: str, boot: str) -> Start:
    """*data* is `config.data`, None if there is none; *digest* its fingerprint; *boot* the machine's present run."""
    if stored is None:
        return Start.NO_CLUSTER if data is None else Start.IMPORT
    if data is None or digest in stored.published:
        return Start.STORED
    if stored.boot in ("", boot):
        return Start.IMPORT
    if digest in stored.earlier or digest == UNREADABLE or is_broken(data, digest):
        return Start.OUTDATED
    return Start.IMPORT


def read_foreign(data: bytes, digest: str, stored: Position | None, now_s: float, promised: int = 0) -> Import:
    """Read and verify a `config.data`. Raises `ConfigurationError` or `ConfigVerifyError` with all problems.

    *promised* is the highest epoch that this node knows of, whatever became of the database: 0 where it knows none.
    """
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise ConfigurationError(f"config.data is not JSON: {err}") from err
    if not isinstance(plain, dict):
        raise ConfigurationError("config.data must be a JSON object")
    _check_version(plain.get("version"))
    config = Configuration.from_plain(plain)
    head = Head(config)
    problems = hard_problems(config, head.indexes)
    if problems:
        raise ConfigVerifyError(f"config.data is not consistent: {'; '.join(problems)}", problems)
    config.position = _next_position(config, stored, promised)
    return Import(config, import_commit(config, now_s, digest))


def import_commit(config: Configuration, now_s: float, imported_digest: str = "") -> Commit:
    """Give the commit that replaces everything by *config*, at its position."""
    puts = tuple(
        make_put(kind, uuid, obj)
        for kind in KINDS
        for uuid in config.uuids(kind)
        if (obj := config.get(kind, uuid)) is not None
    )
    fingerprint = Fingerprint(config.header, {(put.kind, put.uuid): put.data for put in puts})
    return Commit(
        config.position,
        now_s,
        puts,
        whole=True,
        header=config.header,
        imported_digest=imported_digest,
        digest=fingerprint.now(config.position[1], now_s),
    )


def _next_position(config: Configuration, stored: Position | None, promised: int) -> Position:
    """An import begins an epoch: what another copy may have after the stored position was never meant by it."""
    written = config.header.get("serial_no", 0)
    serial = written if isinstance(written, int) else 0
    if stored is None:
        return (promised + 1 if promised else FIRST_EPOCH), max(serial, 0) + 1
    return max(stored[0], promised) + 1, max(serial, stored[1]) + 1


def _check_version(version: object) -> None:
    if version == CONFIG_VERSION:
        return
    if isinstance(version, int) and not isinstance(version, bool):
        shown = f"version {version // 1000000}.{version // 10000 % 100}"
    else:
        shown = "no version"
    wanted = f"{CONFIG_VERSION // 1000000}.{CONFIG_VERSION // 10000 % 100}"
    raise ConfigurationError(f"config.data has {shown}, this program reads {wanted}: convert it with cfgupgrade first")
