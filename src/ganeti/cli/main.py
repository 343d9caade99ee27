# SPDX-License-Identifier: BSD-2-Clause
"""The way from a program's name and words to its handler, and from whatever goes wrong to a sentence and a status.

Everything here starts in milliseconds: a module is imported when it is needed, none of it at the top but `sys`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from ganeti.cli.table import CommandRow


def run(program: str) -> int:
    """Run the command line of *program* with the words of `sys.argv`; gives the exit status."""
    words = sys.argv[1:]
    _open_closed_streams()
    if words[:1] == ["--version"]:
        return _version(program)
    try:
        status = _guarded(program, words)
        _flush(program)
        return status
    except BrokenPipeError:
        _silence_output()
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; a job that was submitted goes on: see 'gnt-job list'\n")
        return 1


def leave(status: int) -> NoReturn:
    """End the process, at once where nothing waits for its end: taking the interpreter down costs 3 ms."""
    if "atexit" in sys.modules or "threading" in sys.modules:
        sys.exit(status)
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _version(program: str) -> int:
    from ganeti.base.version import RELEASE, VCS

    try:
        sys.stdout.write(f"{program} (ganeti {VCS}) {RELEASE}\n")
        _flush(program)
    except BrokenPipeError:
        _silence_output()
    return 0


def _open_closed_streams() -> None:
    """A caller that closed standard output or error wants silence, not a crash."""
    if sys.stdout is None or sys.stderr is None:
        import os

        sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _flush(program: str) -> None:
    """Write out what is printed so far; where that fails, as on a full disk, the program ends here."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence_output()
        sys.stderr.write(f"{program}: cannot write the output: {error.strerror}\n")
        sys.exit(1)


def _silence_output() -> None:
    """Nobody reads any more: let the interpreter's last flush go nowhere."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _guarded(program: str, words: list[str]) -> int:
    from ganeti.base.terminal import harmless
    from ganeti.cli.failures import EXIT_FAILURE, Failure

    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _dispatch(program, words)
    except Failure as failure:
        _flush(program)
        sys.stderr.write(harmless(failure.text.rstrip("\n")) + "\n")
        return failure.status
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if _wants_traceback(words):
            raise
        _flush(program)
        sys.stderr.write(harmless(f"{_sentence(program, error)}\n"))
        return getattr(error, "exit_status", EXIT_FAILURE)


def _wants_traceback(words: list[str]) -> bool:
    import os

    return bool(os.environ.get("GANETI_DEBUG")) or "-d" in words or "--debug" in words


def _sentence(program: str, error: Exception) -> str:
    """Say what went wrong: an error of the tree as if the cluster had sent it, another as a fault of this program."""
    to_wire = getattr(error, "to_wire", None)
    if to_wire is not None:
        from ganeti.cli.failures import describe

        return describe(*to_wire())
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{program}: {where}{error.strerror or error}"
    return f"{program}: unexpected {type(error).__name__}: {error} (run it again with -d to see where; this is a bug)"


def _dispatch(program: str, words: list[str]) -> int:
    table = _load_table(program)
    if words[:1] == ["--complete"]:
        from ganeti.cli.completion import run as complete

        return complete(program, table, [_text(word) for word in words[1:]])
    if not words or words[0] in ("-h", "--help", "help"):
        from ganeti.cli.help import program_help

        (sys.stdout if words else sys.stderr).write(program_help(program, table) + "\n")
        return 0 if words else 1
    command = _find(program, table, words[0])
    from ganeti.cli.parser import parse

    values = parse(command, _environment_words(command) + [_text(word) for word in words[1:]])
    if values.get("help"):
        from ganeti.cli.help import command_help

        sys.stdout.write(command_help(command) + "\n")
        return 0
    if command.needs_root:
        _check_root(command)
    from ganeti.cli.invocation import Invocation

    return _handler(command)(Invocation(command, values))


def _load_table(program: str) -> tuple[tuple[Any, ...], ...]:
    module = __import__(f"ganeti.cli.tables.{program.replace('-', '_')}", fromlist=["COMMANDS"])
    commands: tuple[tuple[Any, ...], ...] = module.COMMANDS
    return commands


def _find(program: str, table: tuple[tuple[Any, ...], ...], word: str) -> CommandRow:
    from ganeti.cli.table import CommandRow

    for row in table:
        if word == row[0] or word in row[4]:
            return CommandRow(program, row)
    from ganeti.cli.failures import UsageError
    from ganeti.cli.suggestions import command_hint

    names = [row[0] for row in table]
    what = "option" if word.startswith("-") else "command"
    hint = command_hint(word, names + [alias for row in table for alias in row[4]])
    raise UsageError(f"{program} has no {what} '{word}'{hint}\nCommands: {', '.join(names)}")


def _environment_words(command: CommandRow) -> list[str]:
    """Default options from, for example, ``GNT_INSTANCE_LIST``; they come before the user's."""
    if not command.environment:
        return []
    import os

    variable = f"{command.program}-{command.name}".replace("-", "_").upper()
    text = os.environ.get(variable)
    if not text:
        return []
    import shlex

    try:
        return [_text(word) for word in shlex.split(text)]
    except ValueError as error:
        from ganeti.cli.failures import EXIT_USAGE, UsageError

        raise UsageError(
            f"The environment variable {variable} cannot be read as options: {error}", EXIT_USAGE
        ) from None


def _text(word: str) -> str:
    """Refuse bytes that are no text: they could not be sent to the master."""
    if any("\ud800" <= letter <= "\udfff" for letter in word):
        from ganeti.cli.failures import UsageError

        shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise UsageError(f"'{shown}' is not text in UTF-8: write it in the encoding of this terminal")
    return word


def _check_root(command: CommandRow) -> None:
    import os

    if os.geteuid() != 0 and not os.environ.get("GANETI_ROOTDIR"):
        from ganeti.cli.failures import Failure

        raise Failure(f"{command.line} must be run as root: log in as root or use sudo")


def _handler(command: CommandRow) -> Callable[[Any], int]:
    module_name, _, function = (command.handler or "plain:submit").partition(":")
    module = __import__(f"ganeti.cli.commands.{module_name}", fromlist=[function])
    handler: Callable[[Any], int] = getattr(module, function)
    return handler
