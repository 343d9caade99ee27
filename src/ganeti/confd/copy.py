# SPDX-License-Identifier: BSD-2-Clause
"""The candidate's own copy of the configuration, read again when it has been replaced.

Where nobody has asked for a moment, it is read with the next question, or now and then: each commit replaces it, and
most of what is read would be told to nobody.

Only what all members in sync have acknowledged is published as `config.data`, so nothing else is told.
"""

import asyncio
import logging
import os
import time
from contextlib import suppress

from ganeti.base.errors import ConfigurationError, GanetiError
from ganeti.base.paths import Paths
from ganeti.confd.picture import Picture, read
from ganeti.system.directory_watch import DirectoryWatch
from ganeti.system.event_loop import Background
from ganeti.system.files import plain_file
from ganeti.system.ssconf import ssconf_words

LOOK_S = 17.0
"""How often it is looked without being told, as in 3.1."""
_PAUSE_S = 0.25
_QUIET_S = 1.0
"""After so long without a question, the next one waits for what has changed to be read. Clients ask several times:
the MonDs do every few seconds, each all it wants to know at once."""
_log = logging.getLogger(__name__)


class NoCopyError(GanetiError):
    """This node has no copy to answer by: the text says why."""


class Copy:
    """Call `start`, then `picture`."""

    def __init__(self, paths: Paths, node_name: str) -> None:
        self._paths = paths
        self._node_name = node_name
        self._background = Background()
        self._seen: tuple[int, int, int] | None = None
        self._picture: Picture | None = None
        self._fault = ""
        self._changed = asyncio.Event()
        self._watch: DirectoryWatch | None = None
        self._asked_s = -_QUIET_S
        self._asked = asyncio.Event()
        self._rest: asyncio.Future[None] | None = None
        """Done when what has changed while nobody asked is read."""

    async def start(self) -> None:
        directory = os.path.dirname(self._paths.config_file)
        self._watch = DirectoryWatch(directory, lambda _: self._changed.set(), self._changed.set)
        await self._look()
        self._background.start(self._follow(), "the copy of the configuration")

    async def close(self) -> None:
        await self._background.cancel()
        if self._watch is not None:
            self._watch.close()

    def asked(self) -> "asyncio.Future[None] | None":
        """Somebody asks now; gives what is done when `picture` is there to answer by, None where it is."""
        self._asked_s = time.monotonic()
        self._asked.set()
        return self._rest

    @property
    def picture(self) -> Picture:
        """Raises `NoCopyError`."""
        if self._picture is None:
            raise NoCopyError(self._fault)
        return self._picture

    async def _follow(self) -> None:
        """A large configuration that changes often must not keep this process busy: it rests longer than it reads."""
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await self._rest_if_quiet()
            self._changed.clear()
            begin_s = time.monotonic()
            await self._look()
            if self._rest is not None:
                self._rest.set_result(None)
                self._rest = None
            await asyncio.sleep(max(_PAUSE_S, 4 * (time.monotonic() - begin_s)))

    async def _rest_if_quiet(self) -> None:
        if not self._changed.is_set() or time.monotonic() - self._asked_s < _QUIET_S:
            return
        self._rest = asyncio.get_running_loop().create_future()
        self._asked.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._asked.wait()

    async def _look(self) -> None:
        try:
            self._check_candidate()
            seen = self._state()
            if seen == self._seen and self._picture is not None:
                return
            self._picture = await asyncio.to_thread(self._read)
            self._seen, self._fault = seen, ""
        except FileNotFoundError:
            self._lose("there is no copy of the configuration yet")
        except OSError as err:
            self._lose(f"the copy of the configuration cannot be read: {err.strerror}")
        except (ConfigurationError, NoCopyError) as err:
            self._lose(str(err))

    def _lose(self, fault: str) -> None:
        if fault != self._fault:
            _log.warning("nothing is answered: %s", fault)
        self._picture, self._fault = None, fault

    def _state(self) -> tuple[int, int, int]:
        status = os.stat(self._paths.config_file)
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> Picture:
        with open(self._paths.config_file, "rb", opener=plain_file) as file:
            return read(file.read())

    def _check_candidate(self) -> None:
        """A node that is candidate no more keeps an old copy for a while."""
        if self._node_name not in ssconf_words(self._paths, "master_candidates"):
            raise NoCopyError(f"node {self._node_name} is no master candidate")
