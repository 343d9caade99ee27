# SPDX-License-Identifier: BSD-2-Clause
"""The machine a cluster is made on or a node joins from: names, addresses, programs."""

import ipaddress
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from ganeti.base.errors import RESOLVER_ERROR, CommandError, PrerequisiteError
from ganeti.base.names import NO_HOST_NAME, shown
from ganeti.base.paths import Paths

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class Machine:
    """This machine as set-up work sees it; *root* and *hostname* make it one node of a virtual cluster."""

    def __init__(self, root: str = "", hostname: str = "", say: Callable[[str], None] = lambda line: None) -> None:
        self.paths = Paths(root)
        self.hostname = hostname or socket.gethostname()
        self.say = say
        """Called with a sentence before each step that takes a while."""

    @classmethod
    def here(cls) -> "Machine":
        root = os.environ.get("GANETI_ROOTDIR", "").rstrip("/")
        return cls(root, os.environ.get("GANETI_HOSTNAME", ""), _print)

    def resolve(self, name: str, version: int) -> tuple[str, str]:
        """Give (full name, address) of *name*; raises `PrerequisiteError`."""
        try:
            found = socket.getaddrinfo(name, None, FAMILIES[version], socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
        except (socket.gaierror, UnicodeError) as err:
            reason = getattr(err, "strerror", None) or NO_HOST_NAME
            raise PrerequisiteError(
                f"The name '{shown(name)}' has no IPv{version} address ({reason}): enter it into the DNS or /etc/hosts",
                RESOLVER_ERROR,
            ) from err
        return found[0][3] or name, str(found[0][4][0])

    def owns(self, address: str) -> bool:
        """True if *address* is one of this machine."""
        parsed = ipaddress.ip_address(address)
        if parsed.is_unspecified:
            return False  # every machine can listen there
        family = FAMILIES[parsed.version]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return False
        return True

    def answers(self, address: str, port: int, timeout_s: float) -> bool:
        """True if something at *address* takes, or refuses, a connection: then the address is in use."""
        try:
            with socket.create_connection((address, port), timeout_s):
                return True
        except ConnectionRefusedError:
            return not ipaddress.ip_address(address).is_loopback  # there every address refuses, used or not
        except OSError:
            return False

    def has_device(self, name: str) -> bool:
        return bool(name) and "/" not in name and os.path.exists(f"/sys/class/net/{name}")

    def program(self, name: str) -> str:
        """Give the path of one of our own programs, beside the running one or its interpreter.

        Not by name on PATH: another release may be installed on this machine, too.
        """
        for program in (os.path.realpath(sys.argv[0]), sys.executable):
            beside = os.path.join(os.path.dirname(program), name)
            if os.access(beside, os.X_OK):
                return beside
        raise CommandError(f"The program {name} is missing in {os.path.dirname(sys.executable)}: install it again")

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 120.0,
        check: bool = True,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program without a shell; with *check*, a failure raises `CommandError` with its last words."""
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError as err:
            raise CommandError(f"The program {argv[0]} was not found: install the package that brings it") from err
        except subprocess.TimeoutExpired as err:
            raise CommandError(f"{argv[0]} did not end within {timeout_s:g} seconds") from err
        if check and done.returncode:
            raise CommandError(f"{os.path.basename(argv[0])} failed: {last_words(done)}")
        return done

    def leave_behind(self, work: Callable[[], None]) -> None:
        """Do *work* that nobody waits for, in a process of its own where that is possible."""
        work()

    def daemon_util(self, *words: str, timeout_s: float = 120.0) -> None:
        self.run([self.program("daemon-util"), *words], timeout_s=timeout_s)


def _print(line: str) -> None:
    """Nobody may be left to read it: what was begun is carried out all the same."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def last_words(done: "subprocess.CompletedProcess[str]") -> str:
    """The end of what a program said, for a sentence about its failure."""
    return last_lines(done.stderr.strip() or done.stdout.strip()) or f"exit status {done.returncode}"


def last_lines(text: str) -> str:
    """The last three lines that say something, in one."""
    return " / ".join([line for line in text.splitlines() if line.strip()][-3:])


def has_joining(paths: Paths) -> bool:
    """Whether a joining is under way here or has left a record (`attempt`, slow to import). Costs two system calls."""
    return any(map(os.path.lexists, paths.joining_records))
