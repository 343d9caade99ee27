# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug wconfd: one call to the daemon of locks and configuration, as it is."""

from __future__ import annotations

import json

from ganeti.base.errors import GanetiError, TransportError
from ganeti.base.paths import Paths
from ganeti.cli import environment
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out
from ganeti.cli.luxi import why_unreachable
from ganeti.wire.framing_sync import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_ANSWER_WITHIN_S = 180.0
_STREAMS = ("subscribe", "followLocks")


def wconfd(call: Invocation) -> int:
    """Make the call and print its result as JSON; arguments are JSON, or text where they are none."""
    method, arguments = call.values["method"], [_value(word) for word in call.get("words") or []]
    if method in _STREAMS:
        raise Failure(f"The call {method} never ends: follow the cluster with 'gnt-debug events'")
    path = Paths(environment.root()).wconfd_socket
    try:
        connection = connect(path, _ANSWER_WITHIN_S)
    except TransportError as err:
        raise why_unreachable(err.__cause__, path) from None
    with connection:
        try:
            answer = connection.call(method, *arguments)
        except TransportError as err:
            raise Failure(
                f"The configuration daemon gave no answer: {err}; see 'daemon-util check ganeti-wconfd'"
            ) from err
        except GanetiError as err:
            raise Failure(f"The call {method} failed: {err}") from err
    out(json.dumps(answer, indent=2, sort_keys=True, ensure_ascii=False))
    return 0


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word
