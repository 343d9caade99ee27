# SPDX-License-Identifier: BSD-2-Clause
"""Asking a ConfD whose volumes are whose: where a node is part of a cluster that Ganeti 3.1 still serves."""

import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from ganeti.node.collectors.owners import Owned, of_disks
from ganeti.wire.confd import INSTANCE_DISKS, LARGEST_REPLY_BYTES, NODE_INSTANCES, PORT, Question, read_reply, request

EXPIRY_S = 10.0
"""How long answers are waited for, as clients of 3.1 wait for one."""
_AGAIN_S = 1.0
_HERE = "127.0.0.1"


class SilentError(Exception):
    """Nobody gives an answer that the cluster's key has signed."""


class ConfdClient:
    """Asks one ConfD; *key_file_content* is that of ``hmac.key``.

    Whether the end of its line is part of the key is not said anywhere, so both are tried: what is signed with the
    wrong one gets no answer.
    """

    def __init__(
        self,
        address: str,
        port: int,
        key_file_content: bytes,
        expiry_s: float = EXPIRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._place = address, port
        self._keys = list(dict.fromkeys((key_file_content.strip(), key_file_content)))
        self._expiry_s = expiry_s

    def deadline_s(self) -> float:
        """Up to when answers are waited for that are asked for from now on."""
        return self._clock() + self._expiry_s

    def ask(self, kind: int, query: Any, deadline_s: float) -> Any:
        """Give the answer, None for none; raises `SilentError`."""
        question = Question(kind, query, secrets.token_hex(16))
        try:
            family, _, _, _, place = socket.getaddrinfo(*self._place, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as connection:
                connection.connect(place)
                return self._exchange(connection, question, deadline_s)
        except (OSError, OverflowError, UnicodeError) as error:
            raise SilentError(str(error)) from None

    def _exchange(self, connection: socket.socket, question: Question, end_s: float) -> Any:
        """Datagrams get lost: the question is repeated until there is an answer."""
        again_s = None
        while (now_s := self._clock()) < end_s:
            if again_s is None or now_s >= again_s:
                for key in self._keys:
                    connection.send(request(question, time.time(), key))
                again_s = now_s + _AGAIN_S
            connection.settimeout(max(0.001, min(again_s, end_s) - now_s))
            try:
                answer = read_reply(connection.recv(LARGEST_REPLY_BYTES), question, self._keys)
            except TimeoutError:
                continue
            if answer is not None:
                return answer.answer
        raise SilentError(f"no answer within {self._expiry_s:g} s")


def volumes_by_confd(client: ConfdClient, node: str) -> Owned | None:
    """Whose volumes are whose on the node of this name; None where nobody says it.

    All questions have the time of one. An instance of which nothing is known any more has gone meanwhile.
    """
    end_s = client.deadline_s()
    try:
        names = _names(client.ask(NODE_INSTANCES, node, end_s))
        disks = {name: client.ask(INSTANCE_DISKS, name, end_s) for name in names or ()}
    except SilentError:
        return None
    if names is None:
        return None
    return of_disks([(name, disk) for name, own in disks.items() if isinstance(own, list) for disk in own])


def _names(instances: Any) -> list[str] | None:
    """Of primary and of secondary instances."""
    match instances:
        case [list(primary), list(secondary)]:
            found = [own.get("name") for own in (*primary, *secondary) if isinstance(own, dict)]
            return [name for name in found if isinstance(name, str)]
    return None


def place_of(address: str | None, port: str | None) -> tuple[str, int]:
    """Where to ask, by what the command line says of it."""
    return address or _HERE, PORT if port is None else int(port)
