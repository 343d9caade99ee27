# SPDX-License-Identifier: BSD-2-Clause
"""Making a backup beside running daemons, and proving that one can be started from."""

import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import msgspec

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths, database_uri
from ganeti.base.version import RELEASE
from ganeti.master.config.importing import read_foreign
from ganeti.model.configuration import Configuration
from ganeti.stores.config_store import SqliteStore
from ganeti.system.files import check_plain
from ganeti.tools.cluster_backup import archive
from ganeti.tools.cluster_backup.archive import CONFIG, Content, Manifest

_FILES = (
    *("ca.pem", "ca.key", "server.pem", "client.pem", "rapi.pem", "spice.pem", "spice-ca.pem"),
    *("hmac.key", "cluster-domain-secret", "known_hosts", "ganeti_pub_keys", "noded-epoch.json"),
    *("rapi/users", "rapi/tokens", "rapi/issuers"),
)
_JOB_FILE = re.compile(r"job-\d+(\.undo)?")
SUFFIX = ".tar.gz"


def make(paths: Paths, path: str) -> Manifest:
    """Write a backup to the file *path* and read it back; raises `PrerequisiteError` or `OSError`."""
    config = _configuration(paths)
    contents = [Content(CONFIG, msgspec.json.encode(config.to_plain()), 0o640), *_files(paths)]
    manifest = Manifest(
        release=RELEASE,
        cluster=config.cluster.cluster_name,
        master=config.node(config.cluster.master_node).name,
        time_s=time.time(),
        position=config.position,
        members=[archive.member_of(content) for content in contents],
    )
    try:
        return archive.write(path, contents, manifest, verify)
    except GanetiError as err:
        raise PrerequisiteError(
            f"What was written cannot be read back, and {path} is as it was before: {err}. Check the disk, then "
            "back up again",
            WRONG_STATE,
        ) from err


def verify(path: str) -> Manifest:
    """Check that every byte is as it was written, and that a cluster could be started from it.

    Raises `PrerequisiteError` or `ConfigurationError` saying what is wrong.
    """
    with archive.reading(path) as (manifest, contents):
        for content in contents:
            if content.name == CONFIG:
                read_foreign(content.data, "", None, time.time())
    missing = {CONFIG, "server.pem", "ca.pem"} - {member.name for member in manifest.members}
    if missing:
        raise PrerequisiteError(f"{path} lacks {', '.join(sorted(missing))}", WRONG_INPUT)
    return manifest


def prune(directory: str, cluster: str, keep: int, made: str) -> list[str]:
    """Remove all but the newest *keep* backups of *cluster* in *directory*; gives the names removed.

    Only files that have the name which `file_name` gives are removed, and never *made*, the one just made: the clock
    may have been wrong when an earlier one was named.
    """
    pattern = re.compile(rf"{re.escape(cluster)}-\d{{8}}-\d{{6}}{re.escape(SUFFIX)}")
    others = sorted(name for name in os.listdir(directory) if pattern.fullmatch(name) and name != made)
    removed = others[: max(0, len(others) + 1 - keep)]
    for name in removed:
        os.unlink(f"{directory}/{name}")
    return removed


def file_name(cluster: str) -> str:
    return f"{cluster}-{time.strftime('%Y%m%d-%H%M%S')}{SUFFIX}"


def _configuration(paths: Paths) -> Configuration:
    """What has been acknowledged up to now: from the database, of which `config.data` is a later picture."""
    if not os.path.exists(paths.config_database):
        raise PrerequisiteError(
            f"There is no {paths.config_database}: run this on the master of a cluster", WRONG_STATE
        )
    with tempfile.TemporaryDirectory(prefix="ganeti-backup-") as place:
        copy = f"{place}/config.sqlite"
        try:
            check_plain(paths.config_database)
            with (
                closing(sqlite3.connect(database_uri(paths.config_database, "ro"), uri=True)) as source,
                closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
        except (OSError, sqlite3.Error) as err:
            raise PrerequisiteError(f"{paths.config_database} cannot be read: {err}", WRONG_STATE) from err
        store = SqliteStore(copy)
        try:
            loaded = store.load()
        finally:
            store.close()
    if loaded is None:
        raise PrerequisiteError(f"{paths.config_database} is empty: start ganeti-wconfd first", WRONG_STATE)
    config = loaded.config
    config.header["serial_no"], config.header["mtime"] = config.position[1], loaded.mtime_s
    return config


def _files(paths: Paths) -> Iterator[Content]:
    names = [*_FILES]
    names += sorted(name for name in os.listdir(paths.data_dir) if name.startswith("ssconf_") and "." not in name)
    with suppress(FileNotFoundError):
        names += [f"queue/{name}" for name in sorted(os.listdir(paths.queue_dir)) if _is_queue_file(name)]
    for name in names:
        path = f"{paths.data_dir}/{name}"
        with suppress(FileNotFoundError), open(path, "rb") as file:  # a job may be archived at this moment
            yield Content(name, file.read(), os.fstat(file.fileno()).st_mode & 0o7777)


def _is_queue_file(name: str) -> bool:
    return name in ("serial", "version") or _JOB_FILE.fullmatch(name) is not None
