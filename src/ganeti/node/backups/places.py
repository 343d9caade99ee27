# SPDX-License-Identifier: BSD-2-Clause
"""Where this node keeps backups: ``/etc/ganeti/backup-store.json`` names another place than the usual directory.

    {"store": "/mnt/backups"}
    {"store": "/mnt/backups/ganeti", "mount_point": "/mnt/backups"}
    {"store": "/data/backups", "mount_point": ""}
    {"store": "s3://bucket/prefix", "endpoint": "https://s3.example.com", "access_key": "…", "secret_key": "…"}

The file is root's alone: it has keys, and it makes the daemon write wherever it says.
"""

import os
import re
import stat

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node.backups.directory import BackupDirectory
from ganeti.node.backups.interface import BackupStore
from ganeti.system.files import plain_file

_BUCKET = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,62})(?:/([A-Za-z0-9][A-Za-z0-9._/-]{0,200}))?")
_SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/ganeti",
)
_RETRIES, _RETRY_WITHIN_S = 4, 60


class _Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    store: str
    mount_point: str | None = None
    """Of a directory: where a file system must be mounted. Null for the directory itself, empty for nowhere."""
    endpoint: str = ""
    """Without it, that of Amazon's region."""
    region: str = "us-east-1"
    access_key: str = ""
    secret_key: str = ""
    virtual_host: bool = False
    """Whether the bucket is a part of the server's name."""


def store_of(paths: Paths) -> BackupStore:
    """Raises `BlockDeviceError` for a file that cannot be used: nothing is kept elsewhere by mistake."""
    place = _read(paths)
    if place is None:
        return BackupDirectory(paths.backup_dir)
    if place.store.startswith("s3:"):
        return _bucket(place, paths)
    directory = paths.under(_directory(place.store, paths))
    if not os.path.isdir(directory):
        raise BlockDeviceError(f"{directory}, which is for backups, is not there: make it, or mount it")
    _require_mounted(directory, place, paths)
    return BackupDirectory(directory)


def _read(paths: Paths) -> _Place | None:
    path = paths.backup_store_file
    try:
        with open(path, "rb", opener=plain_file) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise BlockDeviceError(f"{path} must belong to root, and only root may read it: chmod 600 {path}")
            return msgspec.json.decode(file.read(), type=_Place)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE_JSON) as err:
        raise BlockDeviceError(f"{path} cannot be used: {err}") from err


def _directory(store: str, paths: Paths) -> str:
    plain = os.path.normpath(store)
    inside = [each for each in _SYSTEM if plain == each or plain.startswith(f"{each}/")]
    if not store.startswith("/") or store.rstrip("/") != plain or plain == "/" or inside:
        why = f"lies in {inside[0]}" if inside else "is no plain full path"
        raise BlockDeviceError(
            f"Backups cannot be kept in '{store}', which {why}: name a directory such as /mnt/backups, or "
            f"s3://BUCKET/PREFIX, in {paths.backup_store_file}"
        )
    return plain


def _require_mounted(directory: str, place: _Place, paths: Paths) -> None:
    """Refuse the empty directory below a file system that is not mounted: its backups would look gone."""
    if place.mount_point == "":
        return
    point = directory if place.mount_point is None else paths.under(_directory(place.mount_point, paths))
    if directory != point and not directory.startswith(f"{point}/"):
        raise BlockDeviceError(
            f"{directory} does not lie below {point}: correct mount_point in {paths.backup_store_file}"
        )
    if not os.path.ismount(os.path.realpath(point)):
        raise BlockDeviceError(
            f"No file system is mounted at {point}, which is for backups: mount it, or, if none belongs there, add "
            f'"mount_point": "" in {paths.backup_store_file}'
        )


def _bucket(place: _Place, paths: Paths) -> BackupStore:
    found = _BUCKET.fullmatch(place.store)
    if found is None or ".." in place.store or "//" in place.store[5:]:
        raise BlockDeviceError(
            f"'{place.store}' is no place for backups: write s3://BUCKET/PREFIX in {paths.backup_store_file}"
        )
    if not place.access_key or not place.secret_key:
        raise BlockDeviceError(f"{paths.backup_store_file} has no access_key or no secret_key for {place.store}")
    from datetime import timedelta

    from obstore.store import S3Store

    from ganeti.node.backups.bucket import Bucket
    from ganeti.node.backups.object_store import BackupObjects

    # Two nodes may write the same place in two ways: what it is called tells that they have the same backups.
    prefix, endpoint = (found[2] or "").strip("/"), place.endpoint.rstrip("/")
    called = f"s3://{found[1]}/{prefix}".rstrip("/") + (f" of {endpoint}" if endpoint else "")
    store = S3Store(
        found[1],
        prefix=prefix or None,
        endpoint=endpoint or None,
        region=place.region,
        access_key_id=place.access_key,
        secret_access_key=place.secret_key,
        virtual_hosted_style_request=place.virtual_host,
        client_options={"allow_http": place.endpoint.startswith("http://")},
        retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_WITHIN_S)},
    )
    return BackupObjects(Bucket(called, store), f"{paths.backup_scratch_dir}/store")
