# SPDX-License-Identifier: BSD-2-Clause
"""The watcher's look at the remote API: one that runs and does not answer is started again, once (protocols, 23)."""

import http.client
import logging
import ssl
from collections.abc import Callable, Sequence

from ganeti.base.errors import CommandError, ParameterError
from ganeti.base.paths import Paths
from ganeti.system.environment import any_address
from ganeti.system.files import read_if_there
from ganeti.system.interface_address import interface_address

NAME = "ganeti-rapi"
_PORT = 5080
_HERE = "127.0.0.1"
_HERE_BY = {"0.0.0.0": _HERE, "::": "::1", "": _HERE}
"""How a daemon that listens on all addresses is reached."""
_log = logging.getLogger(__name__)


class RemoteApi:
    """Without it the rest of a round is as good: what goes wrong is told in the log."""

    def __init__(
        self,
        paths: Paths,
        ensure: Callable[[str], None],
        restart: Callable[[str], None],
        address: str | None,
        within_s: float,
    ) -> None:
        """*address* is asked in the place of the one that the daemon was told to listen on."""
        self._paths = paths
        self._ensure = ensure
        self._restart = restart
        self._address = address
        self._within_s = within_s

    def ensure(self) -> None:
        try:
            self._ensure(NAME)
            if not self._answers():
                self._restart(NAME)
                if not self._answers():
                    _log.error("%s does not answer after a restart either: see its log", NAME)
        except CommandError as err:
            _log.error("%s", err)

    def _answers(self) -> bool:
        words = self._words()
        address = self._address or self._told(words)
        port = int(_value(words, "-p", "--port") or _PORT)
        plain = "--no-ssl" in words
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # whether it answers is asked, and nothing secret is told
        host = _HERE_BY.get(address, address).strip("[]")
        connection: http.client.HTTPConnection
        if plain:
            connection = http.client.HTTPConnection(host, port, timeout=self._within_s)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=self._within_s, context=context)
        try:
            connection.request("GET", "/version")
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException) as err:
            _log.warning("%s does not answer on %s port %d: %s", NAME, host, port, err)
            return False
        finally:
            connection.close()

    def _told(self, words: Sequence[str]) -> str:
        """Where the daemon listens that was started so."""
        everywhere = any_address(self._paths)
        interface = _value(words, "-i", "--interface")
        if interface:
            try:
                return interface_address(interface, everywhere)
            except ParameterError as err:
                _log.warning("%s: %s", NAME, err)
        return _value(words, "-b", "--bind") or everywhere

    def _words(self) -> list[str]:
        """How the running daemon was started."""
        pid = (read_if_there(self._paths.pid_file(NAME)) or b"").decode(errors="replace").strip()
        line = read_if_there(f"/proc/{pid}/cmdline") if pid.isdigit() else None
        return (line or b"").decode(errors="replace").split("\0")


def _value(words: Sequence[str], short: str, long: str) -> str | None:
    for index, word in enumerate(words):
        if word in (short, long) and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{long}="):
            return word.partition("=")[2]
        if word.startswith(short) and len(word) > len(short) and not word.startswith("--"):
            return word.removeprefix(short)
    return None
