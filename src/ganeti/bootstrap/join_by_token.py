# SPDX-License-Identifier: BSD-2-Clause
"""Joining without ssh: the master waits with a one-time token, the machine comes with it and takes its keys (S3).

One TLS connection. The token is a secret and the digest of the certificate that the master shows: by the digest the
machine knows the master, by the secret the master knows the machine. Each message is one line of JSON: the machine says
secret and name, the master answers what `prepare-node-join` and `node-daemon-setup` read, the machine says how that
went. Then, as over ssh (`joining_machine`), the master says that it asks the cluster, and how that ended.
"""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from ganeti.base.addresses import split_host_and_port
from ganeti.base.errors import WRONG_INPUT, CommandError, GanetiError, PrerequisiteError, TransportError
from ganeti.base.failed_logins import FailedLogins
from ganeti.base.names import shown
from ganeti.base.paths import Paths
from ganeti.bootstrap import join_input
from ganeti.bootstrap.join import ClusterFiles, check_answers, claim, prepare_request, resolve_joining, setup_request
from ganeti.bootstrap.joining_machine import JoiningMachine, settle
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.own_mastership import promised_epoch
from ganeti.bootstrap.remote import ASKED, KEEP, TAKE_BACK
from ganeti.system.environment import any_address
from ganeti.system.ip_socket import listen_at

PORT = 1817
VALID_S = 600.0
_STRANGER_S = 5.0
"""How long somebody may take to say the secret, from the first byte to the last; others wait meanwhile."""
_SET_UP_S = 120.0
_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
"""A machine that waits for the end of the job hears within 90 seconds that the master is gone."""
_SECRET_BYTES, _DIGEST_BYTES = 16, 32
_STRANGERS_LINE_BYTES = 4096
_LINE_BYTES = 16 * 1024 * 1024
_TIMED = ("prepare", "setup")
"""Parts of the request that are sent with the master's clock."""
_PIECE_BYTES = 65536


class _Lines:
    """Messages over a TLS connection."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls
        self._unread = b""

    def send(self, message: Mapping[str, Any]) -> None:
        self._tls.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, limit_bytes: int) -> dict[str, Any]:
        """Raises `ValueError` for what is no message, `OSError` where the connection ends."""
        line = self._line(limit_bytes)
        message = json.loads(line) if len(line) <= limit_bytes else None
        if not isinstance(message, dict):
            raise ValueError("no message")
        return message

    def __iter__(self) -> Iterator[bytes]:
        """Further messages as they come; raises `OSError` where the connection ends."""
        while True:
            yield self._line(_STRANGERS_LINE_BYTES)

    def _line(self, limit_bytes: int) -> bytes:
        while b"\n" not in self._unread:
            more = self._tls.recv(_PIECE_BYTES)
            if not more:
                raise ConnectionResetError("the other side has closed the connection")
            self._unread += more
            if len(self._unread) > limit_bytes:
                break
        line, _, self._unread = self._unread.partition(b"\n")
        return line


class TokenJoining:
    """The connection to a machine that has come with the token and is set up.

    The machine takes everything back if it is told so, or if `close` comes before `asks_cluster`.
    """

    def __init__(self, lines: _Lines, held: ExitStack) -> None:
        self._lines, self._held = lines, held

    def asks_cluster(self) -> None:
        """From now on, a connection that breaks leaves the machine as it is.

        Raises `CommandError` where the machine does not confirm that it has written that down.
        """
        self._say(ASKED)
        try:
            confirmed = self._lines.receive(_STRANGERS_LINE_BYTES).get("state") == ASKED
        except (OSError, ValueError, RecursionError):
            confirmed = False
        if not confirmed:
            raise CommandError(
                "The machine has ended the connection, and the cluster was not asked to take it in: run gnt-node token "
                "again, and then gnt-node join there"
            )

    def keep(self) -> None:
        """The machine is a node."""
        self._say(KEEP)

    def take_back(self) -> None:
        """The cluster has not taken the machine: leave it as it was before."""
        self._say(TAKE_BACK)

    def close(self) -> None:
        with suppress(OSError):
            self._held.close()

    def _say(self, word: str) -> None:
        with suppress(OSError):  # a machine that is gone has decided by what it had heard
            self._lines.send({"state": word})


def offer(options: Mapping[str, Any], tell: Callable[[str], None]) -> TokenJoining:
    """Wait for the machine ``options["node_name"]`` to join; then OP_NODE_ADD may run, and its end is told there.

    Further keys: node_setup, port, timeout (seconds). *tell* gets the line to type there. Raises `PrerequisiteError`,
    or `CommandError` when nobody came or the machine could not be set up.
    """
    machine = Machine.here()
    cluster = ClusterFiles(machine.paths)
    name, address = resolve_joining(machine, cluster, str(options["node_name"]))
    requests = {
        "prepare": prepare_request(cluster, force=False, setup=bool(options.get("node_setup", True))),
        "setup": setup_request(cluster, name, address),
        "is_member": cluster.has(name),
        "is_alone": True,
        "epoch": promised_epoch(machine.paths),
    }
    context = _server_context(machine.paths.server_cert)
    secret = secrets.token_bytes(_SECRET_BYTES)
    token = _token(secret, machine.paths.server_cert)
    valid_s = float(options.get("timeout") or VALID_S)
    with closing(_listen(any_address(machine.paths), int(options.get("port") or PORT))) as listener:
        port = listener.getsockname()[1]
        master = machine.hostname if port == PORT else f"{machine.hostname}:{port}"
        tell(f"gnt-node join {master} {token}")
        joining = _serve(listener, context, secret, name, requests, time.monotonic() + valid_s, machine.paths)
    try:
        check_answers(machine, name, address)
    except BaseException:
        joining.close()
        raise
    return joining


def _serve(
    listener: socket.socket,
    context: ssl.SSLContext,
    secret: bytes,
    name: str,
    requests: Mapping[str, Any],
    deadline_s: float,
    paths: Paths,
) -> TokenJoining:
    """Return once the machine is set up. A caller that does not know the secret learns nothing and ends nothing,
    and is ignored after ten attempts in a minute."""
    guesses = FailedLogins(time.monotonic)
    while (left_s := deadline_s - time.monotonic()) > 0:
        listener.settimeout(left_s)
        try:
            plain, (peer, *_) = listener.accept()
        except TimeoutError:
            break
        if guesses.too_many(peer):
            plain.close()
            continue
        plain.settimeout(_STRANGER_S)
        with ExitStack() as held:
            held.callback(plain.close)
            try:
                stays = held.enter_context(_cut_off(plain))
                tls = held.enter_context(context.wrap_socket(plain, server_side=True))
                lines = _Lines(tls)
                said = lines.receive(_STRANGERS_LINE_BYTES)
                if not hmac.compare_digest(str(said.get("secret")).encode(), secret.hex().encode()):
                    guesses.note(peer)
                    lines.send({"error": "The token is not the one that the master waits for"})
                    continue
                stays()
                held.enter_context(_claimed(paths, name, lines))
                tls.settimeout(_SET_UP_S)
                lines.send({**requests, **{step: {**requests[step], "time_s": time.time()} for step in _TIMED}})
                failure = lines.receive(_LINE_BYTES).get("error")
            except (OSError, ValueError, RecursionError):
                guesses.note(peer)
                continue
            if failure is not None:
                raise CommandError(f"{name} could not be set up: {failure}")
            return TokenJoining(lines, held.pop_all())
    raise CommandError(f"{name} has not joined in time: run gnt-node token again, and then gnt-node join there")


@contextmanager
def _claimed(paths: Paths, name: str, lines: _Lines) -> Iterator[None]:
    """Raises `PrerequisiteError`, after telling the machine."""
    with ExitStack() as held:
        try:
            held.enter_context(claim(paths, name))
        except PrerequisiteError as err:
            lines.send({"error": str(err)})
            raise
        yield


@contextmanager
def _cut_off(plain: socket.socket) -> Iterator[Callable[[], None]]:
    """End the connection in `_STRANGER_S`, however slowly the other side sends, unless what this gives is called."""
    watched = plain.dup()  # TLS takes over the descriptor of *plain*

    def end() -> None:
        with suppress(OSError):
            watched.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_STRANGER_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()
        timer.join()
        watched.close()


def take_up(master: str, token: str) -> bool:
    """Make this machine a node of the cluster whose *master* waits for it with *token*.

    True once it is one; False if the connection broke before the master told how its job ended. Raises
    `PrerequisiteError`, `TransportError`, `CommandError`, or what setting up raises; nothing is changed here then.
    """
    machine = Machine.here()
    secret, digest = read_token(token)
    host, port = _place(master)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the digest in the token says more than a name
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), _STRANGER_S) as plain, context.wrap_socket(plain) as tls:
            if hashlib.sha256(tls.getpeercert(binary_form=True) or b"").digest() != digest:
                raise PrerequisiteError(
                    f"{master} is not the master that has given this token, as its certificate differs: check the "
                    "address, or make a new token on the master",
                    WRONG_INPUT,
                )
            tls.settimeout(_SET_UP_S)
            return _set_up(machine, _Lines(tls), tls, secret)
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        raise TransportError(
            f"The master {host} does not answer at port {port} ({reason}): does gnt-node token still wait there?"
        ) from err


def _set_up(machine: Machine, lines: _Lines, tls: ssl.SSLSocket, secret: bytes) -> bool:
    lines.send({"secret": secret.hex(), "name": machine.hostname})
    answer = lines.receive(_LINE_BYTES)
    if "error" in answer:
        raise PrerequisiteError(str(answer["error"]), WRONG_INPUT)
    joining = JoiningMachine(machine)
    try:
        joining.set_up(join_input.decode_joining(json.dumps(answer).encode()))
    except GanetiError as err:
        lines.send({"error": str(err)})
        raise
    with suppress(OSError):
        lines.send({"error": None})
        tls.settimeout(None)  # the job may wait for others
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE:
            tls.setsockopt(socket.IPPROTO_TCP, option, value)
    verdict = settle(joining, lines, lines.send)
    if verdict == TAKE_BACK:
        raise CommandError(
            "The cluster has not taken this machine in, and everything is as it was here: see what gnt-node token says "
            "on the master"
        )
    joining.start_answering()
    return verdict == KEEP


def _token(secret: bytes, certificate_path: str) -> str:
    with open(certificate_path, encoding="ascii") as file:
        pem = file.read()
    first = pem.index("-----BEGIN CERTIFICATE-----")
    end = "-----END CERTIFICATE-----"
    shown = ssl.PEM_cert_to_DER_cert(pem[first : pem.index(end, first) + len(end)])
    return base64.urlsafe_b64encode(secret + hashlib.sha256(shown).digest()).decode()


def read_token(token: str) -> tuple[bytes, bytes]:
    """Give the secret and the digest of the master's certificate; raises `PrerequisiteError`."""
    try:
        data = base64.b64decode(token.strip(), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    if len(data) != _SECRET_BYTES + _DIGEST_BYTES:
        raise PrerequisiteError("The token is not whole: copy the line that gnt-node token has printed", WRONG_INPUT)
    return data[:_SECRET_BYTES], data[_SECRET_BYTES:]


def _place(master: str) -> tuple[str, int]:
    try:
        return split_host_and_port(master, PORT)
    except ValueError as err:
        raise PrerequisiteError(
            f"'{shown(master)}' is no address of a master ({err}): give NAME, NAME:PORT or [ADDRESS]:PORT", WRONG_INPUT
        ) from err


def _server_context(path: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(path)
    return context


def _listen(address: str, port: int) -> socket.socket:
    try:
        return listen_at(address, port)
    except OSError as err:
        raise PrerequisiteError(
            f"Port {port} cannot be listened on ({err.strerror}): does another gnt-node token wait? Name another with "
            "--port"
        ) from err
