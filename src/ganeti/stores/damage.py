# SPDX-License-Identifier: BSD-2-Clause
"""A start that fails on what lies on the disk says which file is damaged, and what to do about it.

Looked at only after the start has failed, so that what is whole costs nothing.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ganeti.base.errors import ConfigurationError, ConfigVerifyError, GanetiError, LockError
from ganeti.base.paths import Paths
from ganeti.stores.config_store import SqliteStore, is_of_file_system
from ganeti.system.daemonize import DaemonRefused

_TOLD = "move it away"


@contextmanager
def damage_of_configuration(paths: Paths) -> Iterator[None]:
    """Turn whatever opening the configuration raises into one `ConfigurationError` with the remedy.

    Refusals and findings that say already what to do pass, and so does `OSError`.
    """
    try:
        yield
    except (DaemonRefused, ConfigVerifyError, OSError):
        raise
    except Exception as err:
        if isinstance(err, ConfigurationError) and is_of_file_system(err.__cause__):
            raise ConfigurationError(
                f"{err}: see that the file system of {paths.data_dir} has room and can be written, then start again; "
                "nothing is to be removed"
            ) from err
        said = str(err) if isinstance(err, GanetiError) else f"{type(err).__name__}: {err}"
        database_fault = _fault_in_database(paths.config_database)
        if database_fault is not None and _TOLD not in database_fault:
            raise ConfigurationError(
                f"The configuration database {paths.config_database} is damaged ({database_fault}): {_TOLD}, with its "
                f"-wal and -shm, to start from {paths.config_file}"
            ) from err
        if database_fault is not None or _is_remedied(err):
            raise
        raise ConfigurationError(f"{paths.config_file} cannot be used ({said}): {_way_out(paths)}") from err


@contextmanager
def damage_of_locks() -> Iterator[None]:
    """Turn what reading `locks.data` raises into one `LockError` with the remedy."""
    try:
        yield
    except (GanetiError, OSError):
        raise
    except Exception as err:
        raise LockError(
            f"locks.data cannot be read ({type(err).__name__}: {err}): remove the file once no job runs"
        ) from err


def _fault_in_database(path: str) -> str | None:
    """What is wrong with the database itself; None if it reads, or there is none."""
    if not os.path.exists(path):
        return None
    try:
        store = SqliteStore(path)
        try:
            loaded = store.load()
        finally:
            store.close()
        if loaded is not None and loaded.config.get("cluster", "cluster") is None:
            return "it holds no cluster"
    except GanetiError as err:
        return str(err)
    except Exception as err:
        return f"{type(err).__name__}: {err}"
    return None


def _is_remedied(err: Exception) -> bool:
    return isinstance(err, ConfigurationError) and "cfgupgrade" in str(err)


def _way_out(paths: Paths) -> str:
    if os.path.exists(paths.config_database) and os.path.getsize(paths.config_database):
        return f"correct it, or {_TOLD} to go on with what the configuration database holds"
    return "correct it, or put back a copy from a master candidate or a backup"
