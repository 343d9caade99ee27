# SPDX-License-Identifier: BSD-2-Clause
"""Running our own helpers on a machine that is not a node yet, over the system's ssh (S3.3)."""

import os
import re
import sys
from dataclasses import dataclass

from ganeti.base.errors import CommandError
from ganeti.bootstrap.machine import Machine, last_words

HELPERS = "/usr/lib/ganeti"
CONNECT_WITHIN_S = 10
SSH_FAILED = 255
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
        for options in self._host_key_options():
            done = self.machine.run([*self._ssh(options), "--", *command], stdin=text, timeout_s=timeout_s, check=False)
            if done.returncode == 0:
                return done.stdout
            if done.returncode != SSH_FAILED or not _UNKNOWN_KEY.search(done.stderr):
                break
        assert done is not None
        raise CommandError(self._explain(helper, done.returncode, done.stderr, last_words(done)))

    def _ssh(self, options: list[str]) -> list[str]:
        asks = sys.stdin is not None and sys.stdin.isatty()
        words = ["ssh", "-o", "EscapeChar=none", "-o", f"BatchMode={'no' if asks else 'yes'}", "-o", "ForwardAgent=no"]
        words += ["-o", f"ConnectTimeout={CONNECT_WITHIN_S}", "-o", "CheckHostIP=no"]
        return [*words, *options, "-p", str(self.port), "-l", "root", self.name]

    def _host_key_options(self) -> list[list[str]]:
        if not self.check_host_key:
            return [
                ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={os.devnull}", "-o", "LogLevel=ERROR"]
            ]
        asks = sys.stdin is not None and sys.stdin.isatty()
        cluster = ["-o", "StrictHostKeyChecking=yes", "-o", f"HostKeyAlias={self.cluster_name}"]
        cluster += ["-o", f"UserKnownHostsFile={self.machine.paths.known_hosts}", "-o", "GlobalKnownHostsFile=none"]
        return [cluster, ["-o", f"StrictHostKeyChecking={'ask' if asks else 'yes'}"]]

    def _explain(self, helper: str, status: int, errors: str, words: str) -> str:
        if status == SSH_FAILED and _UNKNOWN_KEY.search(errors):
            return (
                f"The ssh host key of {self.name} is not known here: enter it into known_hosts, or add "
                "--no-ssh-key-check"
            )
        if status == SSH_FAILED:
            return f"{self.name} cannot be reached as root over ssh: {words}"
        return f"{helper} on {self.name} failed: {words}"
