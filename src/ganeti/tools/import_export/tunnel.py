# SPDX-License-Identifier: BSD-2-Clause
"""The connection of a transfer: mutual TLS in which each side trusts the one certificate that it was told of.

The way of 3.1 (which uses socat): the sender connects, and closes at the end of the data. One thing is added that 3.1
does not notice: the receiver answers the sender's closing only when the data are used, and breaks the connection where
they are not, so that a sender of this program never takes a disk for delivered that is not.
"""

import contextlib
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable

from ganeti.base.errors import TransportError
from ganeti.wire.transfer_files import Task

_RETRY_S = 1.0
_HANDSHAKE_S, _LOOK_S, _MOMENT_S = 30.0, 0.1, 0.01
STRANGERS_MAX = 16
HANDSHAKE = "handshake"
_RECORD = 16 * 1024 + 512
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 5))
ANSWER_WITHIN_S = 24 * 3600.0
"""How long the receiver may use the data that it has: its system installs them meanwhile."""


def listen(task: Task) -> socket.socket:
    """Raises `TransportError`."""
    family = _FAMILIES.get(task.family) or (socket.AF_INET6 if ":" in task.bind else socket.AF_INET)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((task.bind, task.port))
        listener.listen(STRANGERS_MAX)
    except OSError as err:
        listener.close()
        raise TransportError(f"No connection can be taken on {task.bind or 'any address'}: {err.strerror}") from err
    return listener


def accept(task: Task, listener: socket.socket) -> ssl.SSLSocket:
    """Wait for the sender; others that connect are turned away. Raises `TransportError` when the time is over."""
    context = context_of(task, ssl.PROTOCOL_TLS_SERVER)
    end_s = time.monotonic() + task.connect_timeout_s
    with contextlib.closing(_Handshakes(context)) as handshakes:
        while (left_s := end_s - time.monotonic()) > 0:
            listener.settimeout(min(left_s, _LOOK_S))
            with contextlib.suppress(TimeoutError):
                handshakes.begin(listener.accept()[0], within_s=min(left_s, _HANDSHAKE_S))
            if (tunnel := handshakes.done()) is not None:
                return tunnel
        refused = handshakes.refused
    raise TransportError(f"The sender has not connected within {task.connect_timeout_s:.0f} seconds{refused}")


class _Handshakes:
    """Those under way, each in a thread: a client that connects and says nothing holds no other up."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._running: dict[threading.Thread, socket.socket] = {}
        """With a twin of the socket that the thread has."""
        self._done: queue.SimpleQueue[tuple[threading.Thread, ssl.SSLSocket]] = queue.SimpleQueue()
        self.refused = ""
        """Why the last stranger was turned away."""

    def begin(self, plain: socket.socket, *, within_s: float) -> None:
        """Of too many the first is turned away: a handshake with the sender takes a moment."""
        if not self._done.empty():
            plain.close()
            return
        for ended in [thread for thread in self._running if not thread.is_alive()]:
            self._running.pop(ended).close()
        if len(self._running) >= STRANGERS_MAX:
            self._turn_away(next(iter(self._running)))
        twin = plain.dup()
        thread = threading.Thread(target=self._shake_hands, args=(plain, twin, within_s), name=HANDSHAKE, daemon=True)
        self._running[thread] = twin
        thread.start()

    def done(self) -> ssl.SSLSocket | None:
        """The sender's connection, if it is there."""
        try:
            thread, tunnel = self._done.get(timeout=_MOMENT_S)
        except queue.Empty:
            return None
        if (twin := self._running.pop(thread, None)) is not None:
            twin.close()
        return tunnel

    def close(self) -> None:
        """Turn away all others."""
        for thread in list(self._running):
            self._turn_away(thread)

    def _turn_away(self, thread: threading.Thread) -> None:
        """Not for one whose connection `done` gives."""
        with self._running.pop(thread) as twin:
            _end(twin)
            thread.join()

    def _shake_hands(self, plain: socket.socket, twin: socket.socket, within_s: float) -> None:
        try:
            tunnel = _wrapped(self._context, plain, within_s=within_s)
        except (OSError, ssl.SSLError) as err:
            self.refused = f"; one that came was refused: {err}"
            _end(twin)
        else:
            self._done.put((threading.current_thread(), tunnel))


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Outgoing:
    """The sender's end. It reads the receiver's answer itself: `ssl.SSLSocket.unwrap` takes an alert that tells of a
    failure for a proper end, and in TLS 1.3 the sender's certificate may be refused when all data are sent."""

    def __init__(self, context: ssl.SSLContext, plain: socket.socket) -> None:
        """Take *plain* over. Raises `OSError`, `ssl.SSLError`."""
        self._plain = plain
        self._come, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._come, self._goes)
        try:
            self._until_done(self._tls.do_handshake)
        except BaseException:
            plain.close()
            raise
        plain.settimeout(None)

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def await_answer(self) -> None:
        """Close this direction, and wait until the receiver has used the data.

        Raises `TransportError` where it broke off.
        """
        self._plain.settimeout(ANSWER_WITHIN_S)
        try:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.read(1)  # leaves nothing that the next line could read
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
            self._until_done(lambda: self._tls.read(1))
        except ssl.SSLZeroReturnError:
            return
        except OSError as err:  # TLS's errors, too
            reason = f" ({err})"
        else:
            reason = ""
        raise TransportError(f"The receiver has broken the connection off at its end{reason}: its job says why")

    def close(self) -> None:
        self._plain.close()

    def _until_done(self, step: Callable[[], object]) -> None:
        while True:
            try:
                step()
            except ssl.SSLWantReadError:
                self._flush()
                if data := self._plain.recv(_RECORD):
                    self._come.write(data)
                else:
                    self._come.write_eof()
            else:
                return self._flush()

    def _flush(self) -> None:
        if self._goes.pending:
            self._plain.sendall(self._goes.read())


def connect(task: Task) -> Outgoing:
    """Raises `TransportError`."""
    context = context_of(task, ssl.PROTOCOL_TLS_CLIENT)
    for left in range(task.connect_retries, -1, -1):
        try:
            found = socket.getaddrinfo(
                task.host, task.port, family=_FAMILIES.get(task.family, socket.AF_UNSPEC), type=socket.SOCK_STREAM
            )
            plain = _prepared(socket.socket(found[0][0], socket.SOCK_STREAM), task.connect_timeout_s)
            plain.connect(found[0][4])
            return Outgoing(context, plain)
        except OSError as err:  # TLS's errors, too
            if not left:
                reason = str(err) if isinstance(err, ssl.SSLError) else err.strerror or str(err)
                raise TransportError(f"{task.host} port {task.port} cannot be reached: {reason}") from err
            time.sleep(_RETRY_S)
    raise AssertionError("the last try returns or raises")


def answer(tunnel: ssl.SSLSocket) -> None:
    """The receiver's end, when its data are used. A sender of 3.1 does not wait for it."""
    with contextlib.suppress(OSError, ssl.SSLError):
        tunnel.settimeout(30.0)
        tunnel.unwrap().close()


def _wrapped(context: ssl.SSLContext, plain: socket.socket, *, within_s: float) -> ssl.SSLSocket:
    """The receiver's end."""
    try:
        tunnel = context.wrap_socket(_prepared(plain, within_s), server_side=True, suppress_ragged_eofs=False)
    except BaseException:
        plain.close()
        raise
    tunnel.settimeout(None)
    return tunnel


def _prepared(plain: socket.socket, within_s: float) -> socket.socket:
    plain.settimeout(within_s)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        plain.setsockopt(socket.IPPROTO_TCP, option, value)
    return plain


def context_of(task: Task, protocol: int) -> ssl.SSLContext:
    """What each side trusts. Raises `TransportError`."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # else a connection that breaks looks like the end of the data
    try:
        context.load_cert_chain(task.certificate, task.key)
        context.load_verify_locations(task.authority)
    except (OSError, ssl.SSLError) as err:
        raise TransportError(f"The key or a certificate of the transfer cannot be used: {err}") from err
    return context
