# SPDX-License-Identifier: BSD-2-Clause
"""Publication: `config.data` and ssconf on the master follow the commits, in a thread, many commits at once (D6).

Every commit has the fingerprint of the file that will hold it, so after any crash the file's fingerprint is one the
store knows, and a file with another one was not written here. `config.data` is synced now and then only,
`instance_list` never: after a loss of power both come from the database, when WConfD starts.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ganeti.base.errors import INTERNAL_ERROR, ConfigurationError
from ganeti.base.paths import Paths
from ganeti.master.config.publication import PublishedForm, SsconfSource, ssconf_files
from ganeti.master.config.records import Position, PublishedMark
from ganeti.master.config.stream import COMMITS_KEPT
from ganeti.stores.config_file import ConfigFile
from ganeti.system.files import read_if_there, write_atomically
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)
_RETRY_FIRST_S = 1.0
_RETRY_LONGEST_S = 30.0
SSCONF_MODE = 0o444
_NOTHING: Position = (0, 0)
_NOT_SYNCED = ("instance_list",)
"""Changes with every creation, and no daemon needs it to start."""
_SYNC_AFTER_COMMITS = COMMITS_KEPT // 4
"""The store keeps all commits since the state that was synced."""


_Stamp = tuple[int, int, int]
"""Inode, time of the last write in nanoseconds, size in bytes."""
SsconfTurn = Callable[[str, Position], AbstractContextManager[bool]]
"""Held while ssconf of this cluster and position is written; says whether it may be, or is newer already."""


def _nobody_else(_cluster: str, _position: Position) -> AbstractContextManager[bool]:
    return nullcontext(True)


@dataclass(frozen=True)
class Published:
    """What lies on the master's disk now, for the caller to send to other nodes."""

    position: Position
    config_file: str
    """Of this position or a later one."""
    ssconf: dict[str, str]
    source: SsconfSource


class Publisher:
    """Writes the newest durable state whenever there is a newer one."""

    def __init__(
        self,
        paths: Paths,
        form: PublishedForm,
        file_digest: str | None,
        on_written: Callable[[PublishedMark], None] = lambda _: None,
        on_published: Callable[[Published], None] = lambda _: None,
        wait_distributed: Callable[[str | None], Awaitable[None]] | None = None,
        ssconf_turn: SsconfTurn = _nobody_else,
    ) -> None:
        """*file_digest* is the fingerprint of the `config.data` found, None if there is none.

        *on_written* is told what `config.data` holds now, *on_published* that ssconf does too. *ssconf_turn* is for
        where somebody else writes ssconf as well.
        """
        self._paths = paths
        self._form = form
        self._file = ConfigFile(paths.config_file)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publication")
        self._on_written = on_written
        self._on_published = on_published
        self._wait_distributed = wait_distributed
        self._ssconf_turn = ssconf_turn
        self._digest = file_digest
        """Fingerprint of the file on disk."""
        self._synced: Position = _NOTHING
        """What is durable of it at least; of the file found nothing is known."""
        self._sync_tried: Position = _NOTHING
        self._position: Position = _NOTHING
        self._ssconf_position: Position = _NOTHING
        self._ssconf: dict[str, str] = {}
        self._stamps: dict[str, _Stamp | None] = {}
        """Of the files that hold it: what somebody else has written since is not taken for ours."""
        self._source: SsconfSource | None = None
        self._told_large: set[str] = set()
        self._wake = asyncio.Event()
        self._waiters: list[tuple[Position, asyncio.Future[None]]] = []
        self._stopped = False

    async def _in_turn(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """Do *work* in the one thread that writes: what a cancelled publication has begun ends before `close` acts."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))

    def notify(self) -> None:
        """There is a newer commit."""
        self._wake.set()

    def stop_publishing(self) -> None:
        """The cluster is about to be destroyed: write nothing any more, and let waiting callers go."""
        self._stopped = True
        self._release(None)

    async def wait_published(self, position: Position) -> None:
        """Return when the files hold *position*; raises `ConfigurationError` if they could not be written."""
        if self._stopped or self._position >= position:
            return
        if position > self._form.position:
            raise ConfigurationError(f"There is no commit {position[0]}.{position[1]} to wait for")
        published = asyncio.get_running_loop().create_future()
        self._waiters.append((position, published))
        self._wake.set()
        await published

    async def flush(self, group: str | None = None) -> None:
        """Return when what is committed now is published, and every reachable node, or those of a *group*, has it."""
        await self.wait_published(self._form.position)
        if self._wait_distributed is not None:
            await self._wait_distributed(group)

    async def run(self) -> None:
        """Publish for ever; a failure is told to those who wait, and tried again."""
        retry_s = _RETRY_FIRST_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._stopped:
                continue
            try:
                await self.publish()
                await self._sync_at_times()
                retry_s = _RETRY_FIRST_S
            except Exception as err:
                if not isinstance(err, OSError | ConfigurationError):
                    _log.exception("Publication failed with %s", INTERNAL_ERROR)
                problem = err.strerror if isinstance(err, OSError) else str(err)
                _log.error("The configuration cannot be published, next try in %d s: %s", retry_s, problem)
                self._release(ConfigurationError(f"The configuration is committed but not published: {problem}"))
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _RETRY_LONGEST_S)
                self._wake.set()

    async def publish(self) -> None:
        """Write what is newest now, once. Raises `OSError`, `ConfigurationError`."""
        position = self._form.position
        if position == self._position:
            self._release(None)
            return
        digest = self._form.digest
        ssconf_position = self._form.ssconf_position
        source = self._form.ssconf_source() if ssconf_position > self._ssconf_position else None
        if self._digest != digest:
            await self._write_config(digest)
            self._digest = digest
        self._on_written(PublishedMark(position, digest, self._synced))
        if source is not None and (files := await self._in_turn(self._write_ssconf, source, position)) is not None:
            self._ssconf, self._source, self._ssconf_position = files, source, ssconf_position
        self._position = position
        self._release(None)
        if self._source is not None:
            self._on_published(Published(position, self._paths.config_file, self._ssconf, self._source))

    async def close(self) -> PublishedMark | None:
        """Make `config.data` durable; gives what it holds, or None if it is not known to be on disk.

        Nothing else of this object may run any more.
        """
        try:
            await self._in_turn(self._file.close)
            if self._stopped or self._position == _NOTHING or self._digest is None:
                return None
            await self._in_turn(self._file.sync)
        except OSError as err:
            _log.warning("config.data may not be on disk whole: %s", err.strerror)
            return None
        finally:
            self._thread.shutdown()
        return PublishedMark(self._position, self._digest, self._position)

    async def _write_config(self, digest: str) -> None:
        """What cannot be written now is written with the next; what fails by a fault of the program begins anew."""
        header = self._form.header_data()
        changes = self._form.take_changes()
        self._digest = None
        try:
            if changes is None or not self._file.is_begun:
                await self._in_turn(self._file.begin, header, self._form.entries(), digest)
            else:
                await self._in_turn(self._file.update, header, changes, digest)
            await self._in_turn(self._file.write)
        except OSError:
            raise
        except Exception:
            self._file.close()
            raise

    async def _sync_at_times(self) -> None:
        """When nobody waits, so that a loss of power takes `config.data` back by a bounded number of commits."""
        if self._stopped or self._digest is None or self._position[1] - self._sync_tried[1] < _SYNC_AFTER_COMMITS:
            return
        self._sync_tried = self._position
        try:
            await self._in_turn(self._file.sync)
        except OSError as err:
            _log.warning("config.data cannot be made durable: %s", err.strerror)
            return
        self._synced = self._sync_tried
        self._on_written(PublishedMark(self._position, self._digest, self._synced))

    def _write_ssconf(self, source: SsconfSource, position: Position) -> dict[str, str] | None:
        """Give what is there now; None where it is newer already."""
        files = ssconf_files(source)
        with self._ssconf_turn(files["cluster_name"], position) as may_write:
            if not may_write:
                return None
            self._write_files(files)
        return files

    def _write_files(self, files: dict[str, str]) -> None:
        """Only what differs is written: most commits change no ssconf file."""
        for key, text in files.items():
            path, data = self._paths.ssconf_file(key), text.encode()
            if self._ssconf.get(key) == text and self._stamps.get(key) == _stamp_of(path):
                continue
            if len(data) > SIZE_LIMIT_BYTES and key not in self._told_large:
                self._told_large.add(key)
                _log.warning("%s has %d bytes; readers of Ganeti 3.1 take %d", path, len(data), SIZE_LIMIT_BYTES)
            if read_if_there(path) != data:
                write_atomically(path, data, mode=SSCONF_MODE, durable=key not in _NOT_SYNCED)
            self._stamps[key] = _stamp_of(path)

    def _release(self, error: ConfigurationError | None) -> None:
        """Wake those whose position is reached; with an error, all, and with it."""
        waiters, self._waiters = self._waiters, []
        for position, published in waiters:
            if published.done():
                continue
            if error is not None:
                published.set_exception(error)
            elif self._stopped or position <= self._position:
                published.set_result(None)
            else:
                self._waiters.append((position, published))


def _stamp_of(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
