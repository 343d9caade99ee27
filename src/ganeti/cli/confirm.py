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
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            while True:
                terminal.write(f"{question}\ny/[n]/?: ".encode())
                line = terminal.readline().decode(errors="replace").strip().lower()
                if line == "?":
                    terminal.write(b"y - yes, go on; n - no, do nothing (the default)\n")
                    continue
                return line in ("y", "yes")
    except OSError:
        return None
    except KeyboardInterrupt:
        raise Failure("\nInterrupted; nothing was done.") from None


def listing(what: str, names: Sequence[str], verb: str) -> str:
    """Make the question for several objects at once."""
    shown = "\n".join(f"  {name}" for name in names)
    return f"The {verb} will operate on {len(names)} {what}.\nAffected {what}:\n{shown}\nContinue?"
