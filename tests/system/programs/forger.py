# SPDX-License-Identifier: BSD-2-Clause
"""Sends messages that nobody may accept to one port or socket of this node; says how many were accepted all the same.

Run on a node of the testbed: ``KIND COUNT SEED DATA_DIR``. Prints ``{"sent": n, "accepted": [what]}`` as JSON. What is
sent is drawn from the seed: noise, and true messages that are forged, replayed, cut off, changed or too long.
"""

import base64
import hashlib
import hmac
import json
import random
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress

WAIT_S = 2.0
Sender = Callable[[random.Random], "bytes | None"]


def spoiled(draw: random.Random, message: bytes) -> bytes:
    """A true message made wrong in one way."""
    match draw.randrange(6):
        case 0:
            return draw.randbytes(draw.randrange(1, 400))
        case 1:
            return message[: draw.randrange(len(message))]
        case 2:
            place = draw.randrange(len(message))
            return message[:place] + bytes([message[place] ^ (1 << draw.randrange(8))]) + message[place + 1 :]
        case 3:
            return message.replace(b'"', b"\xff", 1)
        case 4:
            return message * draw.randrange(2, 5)
        case _:
            return b"[" * draw.randrange(1000, 20000) + message


class Http:
    """Requests over TLS, or plain ones."""

    def __init__(
        self, port: int, path: str, contexts: "list[ssl.SSLContext | None]", body: bytes, host: str = "127.0.0.1"
    ) -> None:
        self.place, self.path, self.contexts, self.body = (host, port), path, contexts, body

    def send(self, draw: random.Random) -> "bytes | None":
        head = f"POST {self.path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        body = self.body if draw.random() < 0.3 else spoiled(draw, self.body)
        request = (head % len(body)).encode() + body
        whole = False
        match draw.randrange(5):
            case 0:
                request = spoiled(draw, request)
            case 1:
                request = (head % 2**40).encode() + body
            case 2:
                request = b"A" * draw.randrange(1, 100_000)
            case _:
                whole = True
        with socket.create_connection(self.place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            context = draw.choice(self.contexts)
            if context is None:
                return said(plain, request, whole)
            with suppress(ssl.SSLError), context.wrap_socket(plain) as tls:
                return said(tls, request, whole)
        return None

    def truly(self, context: "ssl.SSLContext | None", request: bytes) -> "bytes | None":
        with socket.create_connection(self.place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            if context is None:
                return said(plain, request, True)
            with context.wrap_socket(plain) as tls:
                return said(tls, request, True)


def said(connection: socket.socket, request: bytes, whole: bool = False) -> "bytes | None":
    """Send, and give the answer; of what is not *whole*, the end is told, so that nobody waits for more."""
    connection.sendall(request)
    if not whole:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    found = b""
    while len(found) < 65536 and (more := connection.recv(65536)):
        found += more
    return found


def is_ok(answer: bytes) -> bool:
    return answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202", b"HTTP/1.0 200"))


class Lines:
    """Lines over TLS, by one who does not know the secret."""

    def __init__(self, port: int, line: bytes) -> None:
        self.port, self.line = port, line

    def send(self, draw: random.Random) -> "bytes | None":
        line = self.line if draw.random() < 0.3 else spoiled(draw, self.line)
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            if draw.random() < 0.2:
                return said(plain, line)
            with suppress(ssl.SSLError), tls().wrap_socket(plain) as secured:
                return said(secured, line)
        return None


class Unix:
    """Documents on a socket of a daemon, each with its end."""

    def __init__(self, path: str, message: dict, end: bytes = b"\x03") -> None:
        self.path, self.message, self.end = path, json.dumps(message).encode(), end

    def send(self, draw: random.Random) -> "bytes | None":
        document = spoiled(draw, self.message)
        while is_document(document.rstrip(self.end)):
            document = spoiled(draw, self.message)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT_S)
            connection.connect(self.path)
            return said(connection, document + self.end * draw.randrange(2))


def ask(path: str, document: dict, end: bytes = b"\x03") -> "bytes | None":
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_S)
        connection.connect(path)
        return said(connection, json.dumps(document).encode() + end)


def is_document(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


class Confd:
    """Datagrams: with a wrong key, an old time, another time than was signed, or spoiled."""

    def __init__(self, data_dir: str) -> None:
        with open(f"{data_dir}/hmac.key", "rb") as file:
            self.key = file.read().strip()

    def datagram(self, token: str, signed_s: int, shown_s: int, key: bytes = b"") -> bytes:
        message = json.dumps({"protocol": 1, "type": 0, "query": None, "rsalt": token})
        mac = hmac.new(key or self.key, f"{signed_s}{message}".encode(), hashlib.sha1).hexdigest()
        return b"plj0" + json.dumps({"msg": message, "salt": str(shown_s), "hmac": mac}).encode()

    def send(self, draw: random.Random) -> "bytes | None":
        now_s = int(time.time())
        signed_s, shown_s, key = now_s, now_s, self.key
        match draw.randrange(4):
            case 0:
                key = draw.randbytes(20)
            case 1:
                signed_s = shown_s = now_s + draw.choice((-1, 1)) * draw.randrange(400, 10**6)
            case 2:
                signed_s = now_s - draw.randrange(1, 10**6)
            case _:
                pass
        datagram = self.datagram(f"token{draw.random()}", signed_s, shown_s, key)
        if (key, signed_s, shown_s) == (self.key, now_s, now_s):
            datagram = datagram[: draw.randrange(len(datagram))] + draw.randbytes(
                draw.randrange(1, 60000 - len(datagram))
            )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
            port.settimeout(0.001)
            port.connect(("127.0.0.1", 1814))
            port.send(datagram)
            with suppress(TimeoutError, ConnectionRefusedError):
                return port.recv(65536)
        return None


def tls(certificate: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate)
    return context


def cluster_address(data_dir: str) -> str:
    with open(f"{data_dir}/ssconf_master_ip") as file:
        return file.read().strip()


def sender_of(kind: str, data_dir: str) -> "tuple[Sender, Callable[[bytes], bool]]":
    strangers: list[ssl.SSLContext | None] = [
        None,
        tls(),
        tls(f"{data_dir}/stranger.pem"),
        tls(f"{data_dir}/regular.pem"),
    ]
    call = json.dumps({"epoch": 1, "job": 1, "attempt": 1, "step": 1, "arguments": {}}).encode()
    run = "/run/ganeti/socket"
    match kind:
        case "noded":
            return Http(1811, "/version", strangers, call).send, is_ok
        case "mirrord":
            return Http(
                1818, "/", strangers[:3], b'{"kind":"AskPeer","uuid":"x"}'
            ).send, lambda answer: b'"role"' in answer
        case "rapi":
            body = json.dumps({"OP_ID": "OP_CLUSTER_DESTROY"}).encode()
            return Http(5080, "/2/redistribute-config", [None, tls()], body).send, is_ok
        case "mond":
            return Http(1815, "/1/report/all", [None], b"{}").send, is_ok
        case "maintd":
            return Http(1816, "/1/status", [None], b"{}", cluster_address(data_dir)).send, is_ok
        case "token":
            forged = json.dumps({"secret": "00" * 16, "name": "node3"}).encode() + b"\n"
            return Lines(1817, forged).send, lambda answer: b'"setup"' in answer
        case "mirror-control":
            look = {"type": "Look", "uuid": "x", "image": "/etc/passwd"}
            return Unix("/run/ganeti/mirror/control", look, b"\n").send, lambda answer: b'"role"' in answer
        case "master":
            message = {"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": 0.0}]]}
            return Unix(
                f"{run}/ganeti-master", message
            ).send, lambda answer: b'"success":true' in answer.replace(b" ", b"")
        case "luxid":
            message = {"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": 0.0}]]}
            return Unix(
                f"{run}/ganeti-query", message
            ).send, lambda answer: b'"success":true' in answer.replace(b" ", b"")
        case "wconfd":
            message = {"method": "echo", "args": ["forged"]}
            return Unix(
                f"{run}/ganeti-wconfd", message
            ).send, lambda answer: b'"success":true' in answer.replace(b" ", b"")
        case "confd":
            return Confd(data_dir).send, bool
    raise SystemExit(f"no kind {kind}")


def true_answer(kind: str, data_dir: str) -> "bytes | None":
    """What the same port says to a true message."""
    run = "/run/ganeti/socket"
    get = b"GET %s HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
    match kind:
        case "noded":
            body = json.dumps({"epoch": 0, "job": 0, "attempt": 0, "step": 0, "arguments": {}}).encode()
            head = f"POST /version HTTP/1.1\r\nHost: node\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            return Http(1811, "", [], b"").truly(tls(f"{data_dir}/client.pem"), head.encode() + body)
        case "rapi":
            login = b"Authorization: Basic " + base64.b64encode(b"jack:secret") + b"\r\n\r\n"
            return Http(5080, "", [], b"").truly(tls(), (get % b"/2/info")[:-2] + login)
        case "mond":
            return Http(1815, "", [], b"").truly(None, get % b"/")
        case "maintd":
            return Http(1816, "", [], b"", cluster_address(data_dir)).truly(None, get % b"/1/status")
        case "mirror-control":
            look = {"type": "Look", "uuid": "x", "image": "/nowhere"}
            return ask("/run/ganeti/mirror/control", look, b"\n")
        case "master":
            return ask(f"{run}/ganeti-master", {"method": "QueryConfigValues", "args": [["cluster_name"]]})
        case "luxid":
            return ask(f"{run}/ganeti-query", {"method": "QueryConfigValues", "args": [["cluster_name"]]})
        case "wconfd":
            return ask(f"{run}/ganeti-wconfd", {"method": "echo", "args": ["true"]})
        case "confd":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
                port.settimeout(WAIT_S)
                port.connect(("127.0.0.1", 1814))
                port.send(Confd(data_dir).datagram("token", int(time.time()), int(time.time())))
                return port.recv(65536)
    return None


def main() -> None:
    if sys.argv[2] == "true":
        print(json.dumps(bool(sender_of(sys.argv[1], sys.argv[4])[1](true_answer(sys.argv[1], sys.argv[4]) or b""))))
        return
    kind, count, seed, data_dir = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    draw = random.Random(f"{kind} {seed}")
    send, is_accepted = sender_of(kind, data_dir)
    accepted, sent = [], 0
    for _ in range(count):
        answer = None
        with suppress(OSError):  # refused, ended, or not answered in time: all are fine
            answer = send(draw)
        sent += 1
        if answer and is_accepted(answer):
            accepted.append(answer[:200].decode(errors="replace"))
    print(json.dumps({"sent": sent, "accepted": accepted}))


main()
