# SPDX-License-Identifier: BSD-2-Clause
"""The blocking client of the master daemon, and why there may be none to talk to (protocols, section 2)."""

from __future__ import annotations

from ganeti.base.errors import TransportError
from ganeti.cli import environment
from ganeti.cli.failures import EXIT_NO_CLUSTER, EXIT_NOT_MASTER, Failure, from_wire
from ganeti.wire.framing_sync import SyncConnection, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_CONNECT_TIMEOUT_S = 30
_ANSWER_TIMEOUT_S = 180


class Disconnected(Failure):
    """The master daemon went away, or is down for now; it may come back."""


class LostAnswer(Disconnected):
    """It went away after it was asked: whether it did what was asked is not known."""


class Client:
    """One connection, opened at the first call; requests are answered in order."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or environment.socket_path()
        self._connection: SyncConnection | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Ask the master daemon; raises `ServerError` for its errors, `Failure` when it does not answer."""
        connection = self._connection or self._connect()
        try:
            connection.send({"method": method, "args": list(arguments)})
            answer = connection.receive()
        except TransportError as err:
            self.close()
            raise LostAnswer(f"Lost the master daemon: {err}; see 'daemon-util check ganeti-luxid'") from None
        if not isinstance(answer, dict) or "success" not in answer:
            raise Failure("The master daemon gave an answer without 'success': do both come from the same release?")
        if not answer["success"]:
            raise from_wire(answer.get("result"))
        return answer.get("result")

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        """Make a call that turns the connection into a stream; gives its result, then each message, without end."""
        yield self.call(method, *arguments)
        while self._connection is not None:
            self._connection.set_timeout(None)
            try:
                message = self._connection.receive()
            except TransportError as err:
                self.close()
                raise Disconnected(f"Lost the master daemon: {err}; see 'daemon-util check ganeti-luxid'") from None
            yield message

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> SyncConnection:
        try:
            connection = connect(self._path, _CONNECT_TIMEOUT_S)
        except TransportError as err:
            raise why_unreachable(err.__cause__, self._path) from None
        connection.set_timeout(_ANSWER_TIMEOUT_S)
        self._connection = connection
        return connection


def why_unreachable(err: BaseException | None, path: str) -> Failure:
    """Say why nobody listens: no cluster, another master, no rights, or a daemon that is down."""
    if isinstance(err, PermissionError):
        return Failure(f"You may not talk to the master daemon at {path}: run this as root")
    check_is_master()
    if isinstance(err, TimeoutError):
        return Disconnected(f"The master daemon took no connection within {_CONNECT_TIMEOUT_S} s: is it overloaded?")
    return Disconnected("The master daemon is not running: start it with 'daemon-util start-master'")


def check_is_master() -> None:
    """Raise the `Failure` of a machine without a cluster, or of a node that is not the master."""
    if not environment.ssconf("master_node") and environment.ssconf("cluster_name") is None:
        raise no_master()
    from ganeti.cli.commands.bootstrap_calls import own_mastership  # seldom needed, and slow to import

    own = own_mastership()
    if own.is_unfinished:
        raise Failure(
            "This node has begun to become the master and was interrupted: run 'daemon-util start-master' here, or "
            "wait for ganeti-watcher to do so",
            EXIT_NOT_MASTER,
        )
    if own.serves_here:
        return
    if not own.master:
        raise no_master()
    if not environment.is_this_host(own.master):
        raise Failure(
            f"This is not the master node, please connect to node '{own.master}' and rerun the command", EXIT_NOT_MASTER
        )


def no_master() -> Failure:
    """Why no file of this machine names a master."""
    if environment.ssconf("cluster_name"):
        return Failure(
            "No file of this node says who is the master: look on another node of the cluster with 'gnt-cluster "
            "getmaster'",
            EXIT_NOT_MASTER,
        )
    return Failure(
        "There is no cluster on this machine: make one with 'gnt-cluster init', or run this on the master of yours",
        EXIT_NO_CLUSTER,
    )
