# SPDX-License-Identifier: BSD-2-Clause
"""Joining without ssh: the master waits with a one-time token, the machine comes with it and takes its keys (S3).

One TLS connection. The token is a secret and the digest of the certificate that the master shows: by the digest the
machine knows the master, by the secret the master knows the machine. Each message is one line of JSON: the machine says
secret and name, the master answers what `prepare-node-join` and `node-daemon-setup` read, the machine says how that
went.
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
from contextlib import closing, contextmanager, suppress
from typing import Any

from ganeti.base.errors import WRONG_INPUT, CommandError, GanetiError, PrerequisiteError, TransportError
from ganeti.base.failed_logins import FailedLogins
from ganeti.bootstrap import daemon_setup, prepare_join
from ganeti.bootstrap.join import ClusterFiles, check_answers, prepare_request, resolve_joining, setup_request
from ganeti.bootstrap.machine import Machine
from ganeti.system.environment import any_address

PORT = 1817
VALID_S = 600.0
_STRANGER_S = 5.0
"""How long somebody may take to say the secret, from the first byte to the last; others wait meanwhile."""
_SET_UP_S = 120.0
_SECRET_BYTES, _DIGEST_BYTES = 16, 32
_STRANGERS_LINE_BYTES = 4096
_LINE_BYTES = 16 * 1024 * 1024
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
        while b"\n" not in self._unread:
            more = self._tls.recv(_PIECE_BYTES)
            if not more:
                raise ConnectionResetError("the other side has closed the connection")
            self._unread += more
            if len(self._unread) > limit_bytes:
                break
        line, _, self._unread = self._unread.partition(b"\n")
        message = json.loads(line) if len(line) <= limit_bytes else None
        if not isinstance(message, dict):
            raise ValueError("no message")
        return message


def offer(options: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    """Wait for the machine ``options["node_name"]`` to join; then OP_NODE_ADD may run.

    Further keys: node_setup, port, timeout (seconds). *tell* gets the line to type there. Raises `PrerequisiteError`,
    or `CommandError` when nobody came or the machine could not be set up.
    """
    machine = Machine.here()
    cluster = ClusterFiles(machine.paths)
    name, address = resolve_joining(machine, cluster, str(options["node_name"]))
    requests = {
        "prepare": prepare_request(cluster, force=False, setup=bool(options.get("node_setup", True))),
        "setup": setup_request(cluster, name, address),
    }
    context = _server_context(machine.paths.server_cert)
    secret = secrets.token_bytes(_SECRET_BYTES)
    token = _token(secret, machine.paths.server_cert)
    valid_s = float(options.get("timeout") or VALID_S)
    with closing(_listen(any_address(machine.paths), int(options.get("port") or PORT))) as listener:
        port = listener.getsockname()[1]
        master = machine.hostname if port == PORT else f"{machine.hostname}:{port}"
        tell(f"gnt-node join {master} {token}")
        _serve(listener, context, secret, name, requests, time.monotonic() + valid_s)
    check_answers(machine, name, address)


def _serve(
    listener: socket.socket,
    context: ssl.SSLContext,
    secret: bytes,
    name: str,
    requests: Mapping[str, Any],
    deadline_s: float,
) -> None:
    """Return once the machine is set up. Whoever does not know the secret learns nothing and ends nothing, and after
    ten times in a minute is not even heard."""
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
        try:
            with _cut_off(plain) as stays, context.wrap_socket(plain, server_side=True) as tls:
                lines = _Lines(tls)
                said = lines.receive(_STRANGERS_LINE_BYTES)
                if not hmac.compare_digest(str(said.get("secret")).encode(), secret.hex().encode()):
                    guesses.note(peer)
                    lines.send({"error": "The token is not the one that the master waits for"})
                    continue
                stays()
                tls.settimeout(_SET_UP_S)
                lines.send({step: {**request, "time_s": time.time()} for step, request in requests.items()})
                failure = lines.receive(_LINE_BYTES).get("error")
        except (OSError, ValueError, RecursionError):
            guesses.note(peer)
            continue
        finally:
            plain.close()
        if failure is not None:
            raise CommandError(f"{name} could not be set up: {failure}")
        return
    raise CommandError(f"{name} has not joined in time: run gnt-node token again, and then gnt-node join there")


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


def take_up(master: str, token: str) -> None:
    """Make this machine a node of the cluster whose *master* waits for it with *token*.

    Raises `PrerequisiteError`, `TransportError`, or what setting up raises; nothing is changed here then.
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
                    f"{master} is not the master that has given this token: its certificate is another one", WRONG_INPUT
                )
            tls.settimeout(_SET_UP_S)
            _set_up(machine, _Lines(tls), secret)
    except (OSError, ValueError) as err:
        raise TransportError(
            f"The master {host} does not answer at port {port} ({err}): does gnt-node token still wait there?"
        ) from err


def _set_up(machine: Machine, lines: _Lines, secret: bytes) -> None:
    lines.send({"secret": secret.hex(), "name": machine.hostname})
    answer = lines.receive(_LINE_BYTES)
    if "error" in answer:
        raise PrerequisiteError(str(answer["error"]), WRONG_INPUT)
    try:
        prepare_join.prepare(json.dumps(answer.get("prepare")).encode(), machine)
        daemon_setup.set_up(json.dumps(answer.get("setup")).encode(), machine)
    except GanetiError as err:
        lines.send({"error": str(err)})
        raise
    lines.send({"error": None})


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
    """Take ``HOST``, ``HOST:PORT`` or ``[ADDRESS]:PORT`` apart."""
    host, colon, port = master.rpartition(":")
    if not colon or master.endswith("]") or (":" in host and not host.startswith("[")):
        return master.strip("[]"), PORT
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise PrerequisiteError(f"'{master}' is no address of a master: give NAME or NAME:PORT", WRONG_INPUT)
    return host.strip("[]"), int(port)


def _server_context(path: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(path)
    return context


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, dualstack_ipv6=address == "::")
    except OSError as err:
        raise PrerequisiteError(
            f"Port {port} cannot be listened on ({err.strerror}): does another gnt-node token wait? Name another with "
            "--port"
        ) from err
