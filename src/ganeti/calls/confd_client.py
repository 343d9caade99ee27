# SPDX-License-Identifier: BSD-2-Clause
"""Asking ConfDs of the configuration, of any that answers (S2.14, S2.15), and whose volumes are whose."""

import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from ganeti.node.collectors.owners import Owned, of_disks
from ganeti.wire.confd import LARGEST_REPLY_BYTES, PORT, Kind, Question, Reply, read_reply, request

EXPIRY_S = 10.0
"""How long answers are waited for, as clients of 3.1 wait for one."""
MOST_ASKED = 6
"""So many candidates are asked, as clients of 3.1 do."""
_AGAIN_S = 1.0
_OTHERS_S = 0.2
"""How long the others have after the first answer: theirs may be newer."""
_HERE = "127.0.0.1"


class SilentError(Exception):
    """Nobody gives an answer that the cluster's key has signed."""


class ConfdClient:
    """Asks the ConfDs at *places* (address, port) all at once; *key_file_content* is that of ``hmac.key``.

    Whether the end of its line is part of the key is not said anywhere, so both are tried: what is signed with the
    wrong one gets no answer.
    """

    def __init__(
        self,
        places: Sequence[tuple[str, int]],
        key_file_content: bytes,
        expiry_s: float = EXPIRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._places = list(places)[:MOST_ASKED]
        self._keys = list(dict.fromkeys((key_file_content.strip(), key_file_content)))
        self._expiry_s = expiry_s

    def deadline_s(self) -> float:
        """Up to when answers are waited for that are asked for from now on."""
        return self._clock() + self._expiry_s

    def ask(self, kind: int, query: Any, deadline_s: float) -> Any:
        """Give the newest answer, None for none; raises `SilentError`."""
        question = Question(kind, query, secrets.token_hex(16))
        with ExitStack() as open_sockets, selectors.DefaultSelector() as selector:
            for place in self._places:
                with suppress(OSError, OverflowError, UnicodeError):
                    selector.register(open_sockets.enter_context(_connected(place)), selectors.EVENT_READ)
            return self._exchange(selector, question, deadline_s)

    def _exchange(self, selector: selectors.BaseSelector, question: Question, end_s: float) -> Any:
        """Datagrams get lost: the question is repeated until there is an answer, and others may be newer."""
        newest: Reply | None = None
        silent: set[Any] = {key.fileobj for key in selector.get_map().values()}
        again_s = None
        while silent and (now_s := self._clock()) < end_s:
            if again_s is None or now_s >= again_s:
                silent -= self._send(silent, question)
                again_s = now_s + _AGAIN_S
                if not silent:
                    break
            for key, _ in selector.select(max(0.001, min(again_s, end_s) - now_s)):
                try:
                    found = self._receive(key.fileobj, question)
                except ConnectionRefusedError:
                    silent.discard(key.fileobj)
                    continue
                if found is None:
                    continue
                silent.discard(key.fileobj)
                if newest is None:
                    end_s = min(end_s, self._clock() + _OTHERS_S)
                newest = max(found, newest or found, key=_newness)
        if newest is None:
            if silent:
                raise SilentError(f"no answer within {self._expiry_s:g} s (are the key and the clocks right?)")
            where = " and ".join(f"{address} port {port}" for address, port in self._places)
            raise SilentError(f"no ConfD can be reached at {where}")
        return newest.answer

    def _send(self, connections: Iterable[Any], question: Question) -> set[Any]:
        """Give the connections to whose places the system has said that nobody listens: they are not waited for."""
        refused = set()
        for connection in connections:
            for key in self._keys:
                try:
                    connection.send(request(question, time.time(), key))
                except ConnectionRefusedError:
                    refused.add(connection)
                except OSError:
                    continue
        return refused

    def _receive(self, connection: Any, question: Question) -> Reply | None:
        try:
            return read_reply(connection.recv(LARGEST_REPLY_BYTES), question, self._keys)
        except ConnectionRefusedError:
            raise
        except OSError:
            return None


def _newness(found: Reply) -> tuple[bool, int]:
    """A node that has no answer may have no copy."""
    return found.answer is not None, found.serial


def _connected(place: tuple[str, int]) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(*place, type=socket.SOCK_DGRAM)[0]
    connection = socket.socket(family, socket.SOCK_DGRAM)
    try:
        connection.connect(address)
        connection.setblocking(False)
    except OSError:
        connection.close()
        raise
    return connection


def volumes_by_confd(client: ConfdClient, node: str) -> Owned | None:
    """Whose volumes are whose on the node of this name; None where nobody says it.

    All questions have the time of one. An instance of which nothing is known any more has gone meanwhile.
    """
    end_s = client.deadline_s()
    try:
        names = _names(client.ask(Kind.NODE_INSTANCES, node, end_s))
        disks = {name: client.ask(Kind.INSTANCE_DISKS, name, end_s) for name in names or ()}
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
