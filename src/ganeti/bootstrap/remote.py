# SPDX-License-Identifier: BSD-2-Clause
"""Running our own helpers on a machine that is not a node yet, over the system's ssh (S3.3)."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from typing import Any

from ganeti.base.errors import UNREADABLE_JSON, CommandError
from ganeti.bootstrap.machine import Machine, last_lines, last_words

HELPERS = "/usr/lib/ganeti"
CONNECT_WITHIN_S = 10
PASSWORD_WITHIN_S = 300.0
SSH_FAILED = 255
_SAID_BYTES = 64 * 1024
READY, ASKED, KEEP, TAKE_BACK = "ready", "asked", "keep", "take back"
"""Words of a joining's conversation, besides the two requests and their answer."""

_CHANGED_KEY = "IDENTIFICATION HAS CHANGED"
_UNKNOWN_KEY = re.compile(r"Host key verification failed|IDENTIFICATION HAS CHANGED|host key is known", re.IGNORECASE)


@dataclass(frozen=True)
class Remote:
    """A machine reached as root; *check_host_key* False takes whatever key it shows."""

    machine: Machine
    name: str
    cluster_name: str
    port: int = 22
    check_host_key: bool = True

    def run(self, helper: str, text: str, *words: str, timeout_s: float = 300.0) -> str:
        """Run *helper* there with *text* on its standard input; gives what it printed.

        Raises `CommandError` with what it said.

        A node answers with the cluster's host keys, a machine that never was one with its own: both are tried.
        """
        command = [f"{HELPERS}/{helper}", *words]
        done = None
        for options in self.host_key_options():
            done = self.machine.run(
                [*self.ssh_words(options), "--", *command], stdin=text, timeout_s=timeout_s, check=False
            )
            if done.returncode == 0:
                return done.stdout
            if done.returncode != SSH_FAILED or not _UNKNOWN_KEY.search(done.stderr):
                break
        assert done is not None
        raise CommandError(self.explain(helper, done.returncode, done.stderr, last_words(done)))

    @property
    def known_as(self) -> str:
        """Its name in known_hosts, as ssh writes it."""
        return self.name if self.port == 22 else f"'[{self.name}]:{self.port}'"

    def begin(self, helper: str, *words: str) -> "Conversation":
        """Start *helper* there, to talk with it; raises `CommandError` where there is no ssh here."""
        return Conversation(self, helper, words)

    def ssh_words(self, options: list[str]) -> list[str]:
        """The command that reaches the machine, without what is to run there."""
        asks = _has_terminal()
        words = ["ssh", "-o", "EscapeChar=none", "-o", f"BatchMode={'no' if asks else 'yes'}", "-o", "ForwardAgent=no"]
        words += ["-o", f"ConnectTimeout={CONNECT_WITHIN_S}", "-o", "CheckHostIP=no"]
        return [*words, *options, "-p", str(self.port), "-l", "root", self.name]

    def host_key_options(self) -> list[list[str]]:
        """What to try one after the other, until a host key is known."""
        if not self.check_host_key:
            return [
                ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={os.devnull}", "-o", "LogLevel=ERROR"]
            ]
        asks = _has_terminal()
        cluster = ["-o", "StrictHostKeyChecking=yes", "-o", f"HostKeyAlias={self.cluster_name}"]
        cluster += ["-o", f"UserKnownHostsFile={self.machine.paths.known_hosts}", "-o", "GlobalKnownHostsFile=none"]
        return [cluster, ["-o", f"StrictHostKeyChecking={'ask' if asks else 'yes'}"]]

    def explain(self, helper: str, status: int, errors: str, words: str) -> str:
        """One sentence for an exit *status* of ssh or the helper."""
        if status == SSH_FAILED and _CHANGED_KEY in errors.upper():
            return (
                f"{self.name} shows another ssh host key than known_hosts has: make sure that this is right, as after "
                f"a new installation, remove the old key (ssh-keygen -R {self.known_as}) and enter the new one"
            )
        if status == SSH_FAILED and _UNKNOWN_KEY.search(errors):
            return (
                f"The ssh host key of {self.name} is not known here: enter it into known_hosts, or add "
                "--no-ssh-key-check"
            )
        if status == SSH_FAILED:
            return f"{self.name} cannot be reached as root over ssh: {words}"
        return f"{helper} on {self.name} failed: {words}"


class Conversation:
    """One connection to a helper that runs there: a line of JSON each way, secrets by its standard input alone."""

    def __init__(self, remote: Remote, helper: str, words: tuple[str, ...]) -> None:
        self._remote = remote
        self._helper = helper
        self._command = [f"{HELPERS}/{helper}", *words]
        self._left = remote.host_key_options()
        self._errors = ""
        self._has_heard = False
        self._begin()

    def hear_first(self, timeout_s: float) -> dict[str, Any]:
        """What the helper says when it is there: a machine whose host key is not the cluster's is tried again."""
        while True:
            try:
                return self.hear(PASSWORD_WITHIN_S if _has_terminal() else timeout_s, after_others=True)
            except CommandError:
                status = self._process.returncode
                if not self._left or status != SSH_FAILED or not _UNKNOWN_KEY.search(self._errors):
                    raise
            self._begin()

    def hear(self, timeout_s: float, *, after_others: bool = False) -> dict[str, Any]:
        """The helper's next message; raises `CommandError` with what it printed where it has ended instead.

        With *after_others*, lines before it are passed over: root's shell there may print a greeting.
        """
        assert self._process.stdout is not None
        watch = Timer(timeout_s, self._process.kill)
        watch.start()
        try:
            while (line := self._process.stdout.readline()).endswith(b"\n"):
                message = _message(line)
                if message is not None:
                    self._has_heard = True
                    return message
                if not after_others:
                    raise CommandError(f"{self._helper} on {self._remote.name} answered with something else than JSON")
        finally:
            watch.cancel()
        status = self.end()
        if status < 0:
            raise CommandError(f"{self._helper} on {self._remote.name} did not answer within {timeout_s:g} seconds")
        said = last_lines(self._errors) or f"exit status {status}"
        if self._has_heard and status == SSH_FAILED:
            raise CommandError(f"{self._helper} on {self._remote.name} was ended, or the connection broke: {said}")
        raise CommandError(self._remote.explain(self._helper, status, self._errors, said))

    def say(self, message: Mapping[str, Any]) -> None:
        """One that has ended says why when it is heard next."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def end(self, within_s: float = 60.0) -> int:
        """Say no more, and wait until the helper has ended; gives its exit status."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        watch = Timer(within_s, self._process.kill)  # a wait with a limit looks only every 50 ms
        watch.start()
        status = self._process.wait()
        watch.cancel()
        if not self._said.closed:
            with self._said as said:
                self._errors = os.pread(said.fileno(), _SAID_BYTES, 0).decode(errors="replace")
        self._process.stdout.close()
        return status

    def part(self, within_s: float) -> None:
        """Hear the helper's last message; that it and ssh end afterwards, nobody waits for."""
        with suppress(CommandError):  # the connection broke: the helper knows what to do then
            self.hear(within_s)

    def _begin(self) -> None:
        words = [*self._remote.ssh_words(self._left.pop(0)), "--", *self._command]
        self._said = os.fdopen(os.memfd_create("ssh-errors"), "rb", 0)
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        except FileNotFoundError as err:
            raise CommandError("The program ssh was not found: install the package that brings it") from err


def _has_terminal() -> bool:
    """Whether an administrator can be asked for a password, or to compare a host key."""
    return sys.stdin is not None and sys.stdin.isatty()


def _message(line: bytes) -> dict[str, Any] | None:
    """None for a line that is no JSON object."""
    try:
        message = json.loads(line)
    except UNREADABLE_JSON:
        return None
    return message if isinstance(message, dict) else None
