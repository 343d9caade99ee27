# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node list-drbd: the DRBD minors of a node, as a ConfD of the candidates knows them."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import closing, suppress

from ganeti.base.paths import Paths
from ganeti.cli import environment
from ganeti.cli.failures import Failure
from ganeti.cli.tabular import print_table
from ganeti.wire.confd import LARGEST_REPLY_BYTES, PORT, Kind, Question, read_reply, request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation
    from ganeti.wire.confd import Reply

_TITLES = ("Node", "Minor", "Instance", "Disk", "Role", "PeerNode")
_TRIES = 3
_TRY_S = 1.0


def list_minors(call: Invocation) -> int:
    """Print a line for each minor: number, instance, disk, role and peer."""
    found = call.client.call("Query", "node", ["name"], ["==", "name", call.values["node"]])
    name = str(_values(found["data"][0])[0])
    question = Question(Kind.NODE_MINORS, name, secrets.token_hex(16))
    keys = _keys()
    places = call.client.call(
        "Query", "node", ["pip", "master"], ["&", ["?", "master_candidate"], ["!", ["?", "offline"]]]
    )
    candidates = sorted((_values(row) for row in places["data"]), key=lambda values: not values[1])
    answer = next((found for ip, _ in candidates if (found := _ask(ip, question, keys)) is not None), None)
    if answer is None or answer.answer is None:
        raise Failure(f"No candidate tells the minors of node {name}: see 'daemon-util check ganeti-confd' on each")
    rows = [[str(value) for value in row] for row in answer.answer]
    print_table(
        _TITLES,
        [title == "Minor" for title in _TITLES],
        rows,
        headers=not call.get("no_headers"),
        separator=call.get("separator"),
    )
    return 0


def _values(row: list[Any]) -> list[Any]:
    return [value for _, value in row]


def _keys() -> list[bytes]:
    """The end of the line may be part of the key: what is signed with the wrong one gets no answer."""
    path = Paths(environment.root()).hmac_key
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as err:
        raise Failure(f"The key {path} cannot be read: {err.strerror}; run this as root on a node") from None
    return list(dict.fromkeys((content.strip(), content)))


def _ask(address: str, question: Question, keys: list[bytes]) -> Reply | None:
    """The answer of one ConfD; datagrams get lost, so the question is repeated."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as connection, suppress(OSError):
        connection.connect((address, PORT))
        connection.settimeout(_TRY_S)
        for _ in range(_TRIES):
            for key in keys:
                connection.send(request(question, time.time(), key))
            with suppress(TimeoutError):
                found = read_reply(connection.recv(LARGEST_REPLY_BYTES), question, keys)
                if found is not None:
                    return found
    return None
