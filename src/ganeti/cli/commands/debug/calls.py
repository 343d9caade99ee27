# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug wconfd and metad: one call to a daemon of this node, as it is."""

from __future__ import annotations

import json
import os

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
    return _call(
        Paths(environment.root()).wconfd_socket, "The configuration daemon", "ganeti-wconfd", method, arguments
    )


def metad(call: Invocation) -> int:
    """The same to the metadata daemon: echo, list, update_config, forget."""
    method, arguments = call.values["method"], [_value(word) for word in call.get("words") or []]
    path = f"{Paths(environment.root()).socket_dir}/ganeti-metad"
    if not os.path.exists(path):
        raise Failure("No metadata daemon runs on this node: it starts with the first guest that has --communication")
    return _call(path, "The metadata daemon", "ganeti-metad", method, arguments)


def _call(path: str, title: str, name: str, method: str, arguments: list[Any]) -> int:
    try:
        connection = connect(path, _ANSWER_WITHIN_S)
    except TransportError as err:
        raise why_unreachable(err.__cause__, path) from None
    with connection:
        try:
            answer = connection.call(method, *arguments)
        except TransportError as err:
            raise Failure(f"{title} gave no answer: {err}; see 'daemon-util check {name}'") from err
        except GanetiError as err:
            raise Failure(f"The call {method} failed: {err}") from err
    out(json.dumps(answer, indent=2, sort_keys=True, ensure_ascii=False))
    return 0


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word
