# SPDX-License-Identifier: BSD-2-Clause
"""Reading very many job files, each as quickly as can be: at the start of LuxiD, and for lists."""

import logging
import os
from contextlib import suppress
from types import TracebackType

import msgspec

from ganeti.base.errors import JobFileCorrupted
from ganeti.stores.job_files import JobFiles
from ganeti.wire.framing_sync import WithoutCollecting
from ganeti.wire.job_file import ALL_STATUSES, JobFile

_log = logging.getLogger(__name__)
_PIECE_BYTES = 16 * 1024
_statuses = frozenset(ALL_STATUSES)
_typed = msgspec.json.Decoder(JobFile)


class JobFilesReader:
    """Use it in a ``with``.

    It goes by a descriptor of the directory, so that no file's whole path is looked up. What it gives is for looking
    at, not for writing back: it lacks the keys of others.
    """

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        self._directory = os.open(files.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> "JobFilesReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._directory)

    def raw(self, job_id: int) -> bytes | None:
        """The bytes of a job's file; None if there is none, or it is archived."""
        try:
            descriptor = os.open(f"job-{job_id}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._directory)
        except FileNotFoundError:
            return None
        try:
            data = os.read(descriptor, _PIECE_BYTES)  # nothing, if it is a FIFO
            if len(data) < _PIECE_BYTES:
                return data
            with open(descriptor, "rb", closefd=False) as stream:  # seldom: the log of a verification, say
                return data + stream.read()
        finally:
            os.close(descriptor)

    def job(self, job_id: int) -> JobFile | None:
        """A job, archived or not; None if there is none. Raises `JobFileCorrupted`."""
        raw = None
        with suppress(OSError):  # the tolerant way says what is wrong with it
            raw = self.raw(job_id)
        if raw is None:
            return self._files.read(job_id)
        with WithoutCollecting(), suppress(msgspec.DecodeError, UnicodeDecodeError):
            job = _typed.decode(raw)
            if job.id == job_id and all(entry.status in _statuses for entry in job.ops):
                return job
        return self._files.read(job_id)  # it is damaged, or one that only the tolerant way can read

    def readable_job(self, job_id: int) -> JobFile | None:
        """As `job`, but a damaged file counts as none."""
        try:
            return self.job(job_id)
        except JobFileCorrupted as err:
            _log.error("%s", err)
            return None
