# SPDX-License-Identifier: BSD-2-Clause
"""What keeps a placement tool from going on, in the words of 3.1 (spec: htools, 1)."""

from ganeti.base.errors import ParameterError
from ganeti.tools.htools.haskell.endless import read_file

_KINDS = {
    FileNotFoundError: "does not exist",
    IsADirectoryError: "inappropriate type",
    NotADirectoryError: "inappropriate type",
    PermissionError: "permission denied",
}


class ToolError(ParameterError):
    """The tool cannot go on; the message is the sentence for the user, which is printed after ``Error:``."""


class UnreadableText(ToolError):
    """A file that should be text is none. Like a file that cannot be opened it is told without ``Error:``."""


def failed_open(error: OSError) -> str:
    """Why a file could not be opened."""
    kind = _KINDS.get(type(error), "failed")
    reason = "is a directory" if isinstance(error, IsADirectoryError) else error.strerror
    return f"{error.filename}: openFile: {kind} ({reason})"


def read_text(path: str) -> str:
    """The whole file as text; raises `OSError`, `UnreadableText`, or `EndlessError`."""
    return decoded(read_file(path) if path else _no_name(), path)


def _no_name() -> bytes:
    raise FileNotFoundError(2, "No such file or directory", "")


def decoded(data: bytes, path: str) -> str:
    """*data* as text; raises `UnreadableText`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnreadableText(f"{path}: hGetContents: invalid argument (invalid byte sequence)") from None
