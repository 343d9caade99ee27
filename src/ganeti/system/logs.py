# SPDX-License-Identifier: BSD-2-Clause
"""A daemon's log: one line a sentence, into its file, again into a new file after the file was moved away."""

import logging
import logging.handlers
import os
import sys
import time
from contextlib import suppress
from typing import TextIO

from ganeti.base.terminal import harmless
from ganeti.system.accounts import DAEMONS, give_group
from ganeti.system.files import open_among_others

_log = logging.getLogger(__name__)
_BASES = {
    "ganeti-noded": "node-daemon",
    "ganeti-wconfd": "wconf-daemon",
    "ganeti-luxid": "luxi-daemon",
    "ganeti-confd": "conf-daemon",
    "ganeti-mond": "monitoring-daemon",
    "ganeti-mirrord": "mirror-daemon",
    "ganeti-kvmd": "kvm-daemon",
    "ganeti-metad": "meta-daemon",
    "ganeti-maintd": "maintenance-daemon",
    "ganeti-rapi": "rapi-daemon",
    "ganeti-watcher": "watcher",
}


class SentenceFormatter(logging.Formatter):
    """``2024-05-01 12:00:00,123: ganeti-wconfd pid=17 INFO …``; line breaks in a message become spaces.

    Other control characters become escapes: messages quote what strangers have sent.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        text = _line(record.getMessage())
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        head = f"{moment},{int(record.msecs):03d}: {self._name} pid={record.process}"
        line = f"{head} {record.levelname} {text}"
        if record.exc_info and record.exc_info[0] is not None:
            line += "\n" + harmless(self.formatException(record.exc_info))
        return line


class _SyslogFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _line(super().format(record))


def _line(text: str) -> str:
    return harmless(" ".join(text.split("\n")))


class ReopeningHandler(logging.StreamHandler[TextIO]):
    """Appends to a file of mode 0600; `reopen` follows a rotation.

    On a full disk lines are lost, and the caller of the program is told once: no work fails for want of its log.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._has_failed = False
        super().__init__(self._open())

    def _open(self) -> TextIO:
        descriptor = open_among_others(self.path, os.O_WRONLY | os.O_APPEND, 0o600)
        with suppress(OSError):  # a file of before, that has it
            give_group(self.path, DAEMONS, descriptor)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def reopen(self) -> None:
        """Keeps the old file where the new one cannot be opened."""
        try:
            old = self.setStream(self._open())
        except OSError as err:
            _log.error("the log continues in the old file: %s cannot be opened: %s", self.path, err.strerror)
            return
        if old is not None:
            _close(old)

    def handleError(self, record: logging.LogRecord) -> None:
        err = sys.exc_info()[1]
        if not isinstance(err, OSError):
            super().handleError(record)
        elif not self._has_failed:
            self._has_failed = True
            with suppress(OSError, ValueError, AttributeError):  # nobody may listen there either
                print(f"{self.path} cannot be written: {err.strerror}; lines are lost", file=sys.stderr, flush=True)

    def close(self) -> None:
        _close(self.stream)
        super().close()


def _close(stream: TextIO) -> None:
    with suppress(OSError):  # what it still holds back has no room
        stream.close()


def log_path(log_dir: str, daemon: str) -> str:
    return f"{log_dir}/{_BASES.get(daemon, daemon)}.log"


def set_up_logs(
    daemon: str, log_dir: str, *, debug: bool = False, foreground: bool = False, syslog: bool = False
) -> None:
    """Send this process's log to its file; also to standard error in the foreground, to syslog if asked."""
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    handlers: list[logging.Handler] = [ReopeningHandler(log_path(log_dir, daemon))]
    if foreground:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(SentenceFormatter(daemon))
    if syslog:
        system = logging.handlers.SysLogHandler("/dev/log", logging.handlers.SysLogHandler.LOG_DAEMON)
        system.setFormatter(_SyslogFormatter(f"{daemon}[%(process)d]: %(levelname)s %(message)s"))
        handlers.append(system)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def reopen_logs() -> None:
    """Follow a rotation: open the files by their names again."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, ReopeningHandler):
            handler.reopen()
