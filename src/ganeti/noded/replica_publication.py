# SPDX-License-Identifier: BSD-2-Clause
"""A candidate writes its own `config.data` and ssconf from its copy: coalesced, and nobody waits for it (D6).

The publisher is the master's. It is not the only one that writes ssconf here: while the copy was not in sync, the
master sent it, and may still do so. What it has written is noted with the records, so that WConfD knows this
`config.data` for its own if this node becomes the master.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ganeti.base.errors import ConfigurationError
from ganeti.base.paths import Paths
from ganeti.master.config.fingerprint import fingerprint_of
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Position, PublishedMark
from ganeti.node.actions.files import ssconf_lock
from ganeti.node.ssconf import NewestSsconf
from ganeti.stores.publisher import Publisher
from ganeti.system.event_loop import Background
from ganeti.system.files import read_if_there

_log = logging.getLogger(__name__)


class ReplicaPublication:
    """Follows one form; `close` ends it."""

    def __init__(self, paths: Paths, form: PublishedForm, file_digest: str | None, newest_ssconf: NewestSsconf) -> None:
        """*file_digest* is the fingerprint of the `config.data` there is, None without one."""
        self._paths = paths
        self._newest_ssconf = newest_ssconf
        self._form = form
        self.mark: PublishedMark | None = None
        """What `config.data` was written with last."""
        self._publisher = self._make_publisher(file_digest)
        self._background = Background()
        self._background.start(self._publisher.run(), "publication of the copy")
        self._publisher.notify()

    def notify(self) -> None:
        """More is acknowledged."""
        self._publisher.notify()

    async def flush(self) -> None:
        """Return when what is acknowledged is published; raises `ConfigurationError` if it could not be."""
        await self._publisher.flush()

    async def close(self, *, settle: bool) -> PublishedMark | None:
        """Write nothing any more; gives what lies on the disk durably, None if that is not known.

        With *settle*, all that is acknowledged is published first: WConfD will open the database, and would take a
        `config.data` it does not know for an administrator's.
        """
        await self._background.cancel()
        publisher = self._publisher
        if settle:
            found = await asyncio.to_thread(file_digest, self._paths)
            if found != self._form.digest:
                await publisher.close()
                publisher = self._make_publisher(found)
            with suppress(OSError, ConfigurationError):
                await publisher.publish()
        return await publisher.close()

    def _make_publisher(self, digest: str | None) -> Publisher:
        return Publisher(self._paths, self._form, digest, self._written, ssconf_turn=self._ssconf_turn)

    @contextmanager
    def _ssconf_turn(self, cluster: str, position: Position) -> Iterator[bool]:
        with ssconf_lock(self._paths):
            yield self._newest_ssconf.admit(cluster, position)

    def _written(self, mark: PublishedMark) -> None:
        self.mark = mark


def file_digest(paths: Paths) -> str | None:
    """The fingerprint of the `config.data` on disk; None without one, or where it cannot be read."""
    try:
        data = read_if_there(paths.config_file)
    except OSError as err:
        _log.warning("%s cannot be read: %s", paths.config_file, err.strerror)
        return None
    return None if data is None else fingerprint_of(data)
