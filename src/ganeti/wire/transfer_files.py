# SPDX-License-Identifier: BSD-2-Clause
"""The two files of a transfer: what it is to do, and how far it is (protocols, section 12: the status file)."""

import msgspec

STATUS, TASK, CONFIRMED, LOCK = "status", "task", "confirmed", "lock"
"""Names in the directory of a transfer."""
SEND, RECEIVE = "export", "import"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the data, or takes them."""

    argv: list[str]
    env: dict[str, str] = {}
    cwd: str | None = None
    log_path: str | None = None
    tells_size: bool = False
    """Whether it may write the size of its data, in bytes, to the descriptor that EXP_SIZE_FD names."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    mode: str
    key: str
    certificate: str
    authority: str
    """Files: the key and certificate of this side, the certificate of the other."""
    magic: str = ""
    compress: str = "none"
    bind: str = ""
    host: str = ""
    port: int = 0
    family: int = 0
    """4, 6, or 0 for either."""
    connect_timeout_s: float = 60
    connect_retries: int = 0
    expected_mib: float | None = None
    program: Program | None = None
    """Without it, standard input or output."""
    file: str = ""
    """A file that is sent or written, in place of a program."""
    waits_for_confirmation: bool = False
    """Whether the sender hears of success only once the file `CONFIRMED` is there."""


class Status(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the status file holds: the names of 3.1, and *received*, *sha256* and *pid* of our own."""

    recent_output: list[str] = msgspec.field(default_factory=list)
    listen_port: int | None = None
    connected: bool | None = None
    progress_mbytes: float | None = None
    progress_throughput: float | None = None
    """MiB in a second."""
    progress_eta: float | None = None
    """Seconds."""
    progress_percent: float | None = None
    exit_status: int | None = None
    error_message: str | None = None
    ctime: float | None = None
    mtime: float | None = None
    received: bool = False
    sha256: str = ""
    """Of what came, where it is written into a file."""
    pid: int = 0


def read_status(data: bytes) -> Status:
    """An empty file is a transfer that has not said anything yet; raises `msgspec.ValidationError` or `DecodeError`."""
    return msgspec.json.decode(data, type=Status) if data.strip() else Status()
