# SPDX-License-Identifier: BSD-2-Clause
"""How a placement tool starts, ends and fails: one sentence on standard error, never a traceback (spec: htools, 1)."""

from __future__ import annotations

import os
import sys

from ganeti.tools.htools.command_line import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ganeti.tools.htools.options import Options

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130
_NO_ARGUMENTS = {"harep": "this program doesn't take any arguments."}
_OPEN_ERRORS = {
    "FileNotFoundError": "does not exist",
    "IsADirectoryError": "inappropriate type",
    "NotADirectoryError": "inappropriate type",
    "PermissionError": "permission denied",
}
_IS_A_DIRECTORY = "is a directory"


class ToolError(Exception):
    """The tool cannot go on; the message is the sentence for the user, printed after ``Error:``."""


def run(
    tool: str, arguments: Sequence[str] | None, work: Callable[[Options], int], *, takes_arguments: bool = False
) -> int:
    """Read the command line, do the work, tell of failures; gives the exit status."""
    try:
        options = parse(tool, sys.argv[1:] if arguments is None else arguments)
        if options.arguments and not takes_arguments:
            raise ToolError(_NO_ARGUMENTS.get(tool, "This program doesn't take any arguments."))
        status = work(options)
        sys.stdout.flush()
    except ToolError as error:
        return _fail(f"Error: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more when it ends
        return EXIT_FAILURE
    except OSError as error:
        return _fail(f"{tool}: {failed_open(error)}")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status


def _fail(sentence: str) -> int:
    sys.stdout.flush()
    print(sentence, file=sys.stderr)
    return EXIT_FAILURE


def failed_open(error: OSError) -> str:
    """Why a file could not be opened, in the words of 3.1."""
    kind = _OPEN_ERRORS.get(type(error).__name__, "failed")
    reason = _IS_A_DIRECTORY if isinstance(error, IsADirectoryError) else error.strerror
    return f"{error.filename}: openFile: {kind} ({reason})"


def read_text(path: str) -> str:
    """The whole file as text; raises `OSError`, or `ToolError` for bytes that are no text."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path}: hGetContents: invalid argument (invalid byte sequence)") from None
