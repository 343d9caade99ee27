# SPDX-License-Identifier: BSD-2-Clause
"""Questions before something is lost. They are asked on the terminal, so that standard input stays free."""

from __future__ import annotations

from ganeti.cli.failures import EXIT_FAILURE, Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def require(question: str, remedy: str, status: int = EXIT_FAILURE) -> None:
    """Ask; anything but yes ends the command. Without a terminal nobody can answer: *remedy* says what to give."""
    answer = ask(question)
    if answer is None:
        raise Failure(f"{question.splitlines()[0]} There is no terminal to ask on: {remedy}", status)
    if not answer:
        raise Failure("Nothing was done.", status)


def ask(question: str) -> bool | None:
    """Give the answer to a yes-or-no question, None if there is no terminal; raises `Failure` at an interrupt."""
    prompt = f"{question}\ny/[n]/?: "
    while (line := _answer(prompt)) == "?":
        prompt = f"y - yes, go on; n - no, do nothing (the default)\n{question}\ny/[n]/?: "
    return None if line is None else line.lower() in ("y", "yes")


def choose(what: str, names: Sequence[str]) -> str:
    """Have one of *names* chosen by its number; raises `Failure` where none is, or nobody can be asked."""
    shown = "\n".join(f"{number:3}: {name}" for number, name in enumerate(names))
    prompt = question = f"{shown}\nNumber of the {what} (x to do nothing): "
    while (line := _answer(prompt)) is not None:
        if line.lower() in ("x", ""):
            raise Failure("Nothing was done.")
        if line.isascii() and line.isdigit() and int(line) < len(names):
            return names[int(line)]
        prompt = f"'{line}' is no number from 0 to {len(names) - 1}\n{question}"
    raise Failure(f"There is no terminal to choose the {what} on: name it")


def _answer(prompt: str) -> str | None:
    """Give the line that is typed, None without a terminal."""
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            terminal.write(prompt.encode())
            return terminal.readline().decode(errors="replace").strip()
    except OSError:
        return None
    except KeyboardInterrupt:
        raise Failure("\nInterrupted; nothing was done.") from None


def listing(what: str, names: Sequence[str], verb: str) -> str:
    """Make the question for several objects at once."""
    shown = "\n".join(f"  {name}" for name in names)
    return f"The {verb} will operate on {len(names)} {what}.\nAffected {what}:\n{shown}\nContinue?"
