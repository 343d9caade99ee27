# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster queue and watcher: what stops the queue from taking jobs, and the watcher from acting."""

from __future__ import annotations

import time

from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out
from ganeti.cli.values import read_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def queue(call: Invocation) -> int:
    action = call.values["action"]
    if action in ("drain", "undrain"):
        call.client.call("SetDrainFlag", action == "drain")
    elif action == "info":
        out(f"The drain flag is {'set' if _value(call, 'drain_flag') else 'unset'}")
    else:
        raise _invalid(call, action, "drain, undrain or info")
    return 0


def watcher(call: Invocation) -> int:
    action, duration = call.values["action"], call.get("duration")
    if duration is not None and action != "pause":
        raise Failure(f"'{call.command.line} {action}' takes no time: only 'pause' does")
    if action == "pause":
        if duration is None:
            raise Failure("Missing pause duration: say for how long, as in 'gnt-cluster watcher pause 30m'")
        seconds = read_duration("pause", duration)  # none ends a pause, as in 3.1
        _show(call.client.call("SetWatcherPause", time.time() + seconds if seconds else None))
    elif action == "continue":
        call.client.call("SetWatcherPause", None)
        out("The watcher is no longer paused.")
    elif action == "info":
        _show(_value(call, "watcher_pause"))
    else:
        raise _invalid(call, action, "pause, continue or info")
    return 0


def _value(call: Invocation, name: str) -> Any:
    return call.client.call("QueryConfigValues", [name])[0]


def _show(until_s: float | None) -> None:
    if until_s is None or until_s < time.time():
        out("The watcher is not paused.")
    else:
        out(f"The watcher is paused until {time.ctime(until_s)}.")


def _invalid(call: Invocation, action: str, known: str) -> Failure:
    return Failure(f"Command '{action}' is not valid: give {known} after '{call.command.line}'")
