# SPDX-License-Identifier: BSD-2-Clause
"""Publication: `config.data` and ssconf on the master follow the commits, in a thread, many commits at once (D6).

Before `config.data` is replaced, the store remembers the hash it is about to have; so after any crash the file's hash
is one the store knows, and a file with another hash was not written here.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ganeti.base.errors import ConfigurationError
from ganeti.base.paths import Paths
from ganeti.master.config.publication import PublishedForm, SsconfSource, ssconf_files
from ganeti.master.config.records import Position
from ganeti.runtime.files import read_if_there, write_atomically
from ganeti.runtime.pause_points import reach
from ganeti.runtime.wconfd_commits import StoreThread
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

_log = logging.getLogger(__name__)
_RETRY_FIRST_S = 1.0
_RETRY_LONGEST_S = 30.0
CONFIG_MODE = 0o640
SSCONF_MODE = 0o444


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Published:
    """What lies on the master's disk now, for whoever sends it to other nodes."""

    position: Position
    config_data: bytes
    ssconf: dict[str, str]
    source: SsconfSource


class Publisher:
    """Writes the newest durable state whenever there is a newer one."""

    def __init__(
        self,
        paths: Paths,
        form: PublishedForm,
        store: StoreThread,
        file_hash: str | None,
        on_published: Callable[[Published], None] = lambda _: None,
        wait_distributed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._paths = paths
        self._form = form
        self._store = store
        self._on_published = on_published
        self._wait_distributed = wait_distributed
        self._hashes: tuple[str, ...] = () if file_hash is None else (file_hash,)
        """What the file on disk may have as its hash; one, unless writing failed half-way."""
        self._position: Position = (0, 0)
        self._ssconf_position: Position = (0, 0)
        self._ssconf: dict[str, str] = {}
        self._source: SsconfSource | None = None
        self._wake = asyncio.Event()
        self._waiters: list[tuple[Position, asyncio.Future[None]]] = []
        self._stopped = False

    def notify(self) -> None:
        """There is a newer commit."""
        self._wake.set()

    def stop_publishing(self) -> None:
        """The cluster is about to be destroyed: write nothing any more; who waits is let go."""
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

    async def flush(self) -> None:
        """Return when all that is committed now is published, and every reachable node has been sent it."""
        await self.wait_published(self._form.position)
        if self._wait_distributed is not None:
            await self._wait_distributed()

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
                retry_s = _RETRY_FIRST_S
            except Exception as err:
                if not isinstance(err, OSError | ConfigurationError):
                    _log.exception("Publication failed by a fault of its own")
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
        parts = self._form.config_parts()
        ssconf_position = self._form.ssconf_position
        source = self._form.ssconf_source() if ssconf_position > self._ssconf_position else None
        data = await asyncio.to_thread(b"".join, parts)
        digest = await asyncio.to_thread(hash_of, data)
        if self._hashes != (digest,):
            self._hashes = tuple(dict.fromkeys((*self._hashes, digest)))
            await self._store.run(self._store.store.remember_published, self._hashes)
            reach("publish-remembered")
            await asyncio.to_thread(write_atomically, self._paths.config_file, data, mode=CONFIG_MODE)
            self._hashes = (digest,)
            reach("publish-replaced")
        if source is not None:
            self._ssconf = await asyncio.to_thread(self._write_ssconf, source)
            self._source = source
        self._position = position
        self._ssconf_position = ssconf_position
        self._release(None)
        if self._source is not None:
            self._on_published(Published(position, data, self._ssconf, self._source))

    def _write_ssconf(self, source: SsconfSource) -> dict[str, str]:
        """Only what differs is written: most commits change no ssconf file."""
        files = ssconf_files(source)
        for key, text in files.items():
            path, data = self._paths.ssconf_file(key), text.encode()
            if self._ssconf.get(key) == text:
                continue
            if len(data) > SIZE_LIMIT_BYTES:
                _log.warning("%s has %d bytes; readers of Ganeti 3.1 take %d", path, len(data), SIZE_LIMIT_BYTES)
            if read_if_there(path) != data:
                write_atomically(path, data, mode=SSCONF_MODE)
        return files

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
