# SPDX-License-Identifier: BSD-2-Clause
"""How a placement tool starts, ends and fails: one sentence on standard error, never a traceback (spec: htools, 1)."""

from __future__ import annotations

import errno
import os
import signal
import sys

from ganeti.base.errors import NO_MEMORY, GanetiError
from ganeti.tools.htools.command_line.parsing import parse
from ganeti.tools.htools.haskell.failures import ToolError as ToolError
from ganeti.tools.htools.haskell.failures import UnreadableText, failed_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ganeti.tools.htools.command_line.options import Options

EXIT_FAILURE = 1
_TAKES_NO_ARGUMENTS = "This program doesn't take any arguments."
_ITS_OWN_WORDS = {"harep": "this program doesn't take any arguments."}


def run(
    tool: str, arguments: Sequence[str] | None, work: Callable[[Options], int], *, takes_arguments: bool = False
) -> int:
    """Read the command line, do the work, tell of failures; gives the exit status.

    An interrupted program dies of the signal, as a shell expects.
    """
    options = parse(tool, sys.argv[1:] if arguments is None else arguments)
    if options.arguments and not takes_arguments:
        return _fail(f"Error: {_ITS_OWN_WORDS.get(tool, _TAKES_NO_ARGUMENTS)}")
    try:
        status = work(options)
        sys.stdout.flush()
    except UnreadableText as error:
        return _fail(f"{tool}: {error}")
    except GanetiError as error:
        return _fail(f"Error: {error}")
    except MemoryError:
        return _fail(f"Error: {NO_MEMORY}")
    except BrokenPipeError:
        _drop_output()
        return EXIT_FAILURE
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _fail(f"Error: {NO_MEMORY}")
        return _fail(f"{tool}: {_reason(error)}")
    except KeyboardInterrupt:
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
    return status


def _reason(error: OSError) -> str:
    return failed_open(error) if error.filename is not None else f"cannot write the output: {error.strerror}"


def _drop_output() -> None:
    """Nobody reads what is printed; the interpreter flushes once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    print(sentence, file=sys.stderr)
    return EXIT_FAILURE
