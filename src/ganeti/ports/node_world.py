# SPDX-License-Identifier: BSD-2-Clause
"""What the drivers and actions of a node may ask of the machine they run on.

Drivers use it for processes, time and paths, so that a node can be run in the simulator and in tests; files of a
real driver (images, sockets) are reached with the standard library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ganeti.base.paths import Paths


@dataclass(frozen=True)
class Completed:
    """An ended program."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both streams, for messages."""
        return (self.stdout + self.stderr).strip()


class NodeWorld(Protocol):
    @property
    def paths(self) -> Paths: ...

    @property
    def node_name(self) -> str: ...

    def now_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        cwd: str | None = None,
        log_path: str | None = None,
        stdin_path: str | None = None,
        stdout_path: str | None = None,
        stdout_fd: int | None = None,
        pass_fds: Sequence[int] = (),
        script_fd: int | None = None,
        check: bool = True,
        leaves_background: bool = False,
        largest_output_bytes: int | None = None,
    ) -> Completed:
        """Run a program to its end, without a shell, in a process group of the current call.

        The group ends when the call is superseded or *timeout_s* passes. *env* replaces the environment (PATH is
        the standard one). With *log_path*, output goes to that file instead; *stdin_path* is read and *stdout_path*
        (made anew) or *stdout_fd* written by the program itself, whatever their length. A shell script gets the
        descriptor *script_fd* under a number of one digit (`system.files.single_digit`). With *check*, a non-zero
        status raises `CommandError` with the last lines of output. What the program has put into the background ends
        with it, unless it *leaves_background*: the administrator's own scripts may, as in 3.1, and what these write is
        for root alone. One that prints more than *largest_output_bytes* is ended, with `CommandError`; without it, the
        end of a very long output is cut off.
        """
        ...

    async def spawn(self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), log_path: str = "/dev/null") -> int:
        """Start a process that outlives this daemon (a guest): own session, no inherited descriptors but *pass_fds*.

        Gives its process id.
        """
        ...

    def log(self, sentence: str) -> None:
        """One line in the node daemon's log."""
        ...
