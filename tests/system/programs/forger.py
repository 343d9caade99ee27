# SPDX-License-Identifier: BSD-2-Clause
"""Sends messages that nobody may accept to one port or socket of this node; says how many were accepted all the same.

Run on a node of the testbed: ``KIND COUNT SEED DATA_DIR``. Prints ``{"sent": n, "accepted": [what]}`` as JSON. What is
sent is drawn from the seed: noise, and true messages that are forged, replayed, cut off, changed or too long. Where the
other side keeps a connection, many messages go over it.
"""

import base64
import glob
import hashlib
import hmac
import json
import multiprocessing
import random
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress

WAIT_S = 2.0
WORKERS = 8
OVERLONG_BYTES = 70 * 1024 * 1024
"""More than any port or socket takes."""
OVERLONG_EVERY = 4000
ALERTS_MAX_BYTES = 64
"""More than that in answer to what was replayed is an answer."""
SIGNATURES_VARY_BYTES = 8
TRUE_HEAD = b"POST %s HTTP/1.1\r\nHost: node\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
TRUE_LOGIN = (
    b"GET /2/info HTTP/1.1\r\nHost: node\r\nConnection: close\r\nAuthorization: Basic "
    + base64.b64encode(b"jack:open-sesame")
    + b"\r\n\r\n"
)
"""Of a user whom the test has put into the users file."""
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
    """Requests over TLS, or plain ones; *kept* is the context whose connection the other side may keep."""

    def __init__(
        self,
        port: int,
        path: str,
        contexts: "list[ssl.SSLContext | None]",
        body: bytes,
        host: str = "127.0.0.1",
        kept: "ssl.SSLContext | None" = None,
        recording: "Recording | None" = None,
        refused_at_the_door: bool = False,
    ) -> None:
        """Somebody who is *refused at the door* is let go at once, and needs a connection for each message."""
        self.place, self.path, self.contexts, self.body = (host, port), path, contexts, body
        self.kept, self.recording = kept, recording
        self.refused_at_the_door = refused_at_the_door
        self.connection: socket.socket | None = None

    def send(self, draw: random.Random) -> "bytes | None":
        body = self.body if draw.random() < 0.3 else spoiled(draw, self.body)
        if self.recording is not None and self.refused_at_the_door and draw.random() < 0.8:
            return self.recording.spoiled(draw)
        match draw.randrange(20):
            case 0 | 1:
                return self.alone(draw, spoiled(draw, self.request(body)))
            case 2:
                return self.alone(draw, self.request(body).replace(b"Content-Length: ", b"Content-Length: 9999999"))
            case 3:
                return self.alone(draw, b"A" * draw.randrange(1, 100_000))
            case 4 if self.recording is not None:
                return self.recording.replay()
            case 4 | 5:
                return self.alone(draw, self.request(body), whole=True)
        return self.along(self.request(body))

    def request(self, body: bytes) -> bytes:
        head = f"POST {self.path} HTTP/1.1\r\nHost: node\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def alone(self, draw: random.Random, request: bytes, *, whole: bool = False) -> "bytes | None":
        """Over a connection of its own, by any stranger."""
        with socket.create_connection(self.place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            context = draw.choice(self.contexts)
            request = request.replace(b"Host: node", b"Host: node\r\nConnection: close", 1)
            if context is None:
                return said(plain, request, whole)
            with suppress(ssl.SSLError), context.wrap_socket(plain) as tls:
                return said(tls, request, whole)
        return None

    def along(self, request: bytes) -> bytes:
        """Over the connection that is kept, as long as it lasts."""
        if self.connection is None:
            plain = socket.create_connection(self.place, WAIT_S)
            plain.settimeout(WAIT_S)
            self.connection = plain if self.kept is None else self.kept.wrap_socket(plain)
        try:
            self.connection.sendall(request)
            answer, goes_on = http_answer(self.connection)
        except OSError:
            answer, goes_on = b"", False
        if not goes_on:
            self.connection.close()
            self.connection = None
        return answer

    def truly(self, context: "ssl.SSLContext | None", request: bytes) -> "bytes | None":
        with socket.create_connection(self.place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            if context is None:
                return said(plain, request, True)
            with context.wrap_socket(plain) as tls:
                return said(tls, request, True)


def http_answer(connection: socket.socket) -> tuple[bytes, bool]:
    """One answer, and whether the connection is kept after it."""
    found = b""
    while b"\r\n\r\n" not in found:
        if not (more := connection.recv(65536)):
            return found, False
        found += more
    head, _, body = found.partition(b"\r\n\r\n")
    fields = head.lower().split(b"\r\n")[1:]
    length = next((int(field.partition(b":")[2]) for field in fields if field.startswith(b"content-length:")), None)
    if length is None:
        return found, False
    while len(body) < length and (more := connection.recv(65536)):
        body += more
    return head + b"\r\n\r\n" + body, b"connection: close" not in fields


class Recording:
    """What one client with the right certificate or password has sent over TLS, to be sent again."""

    def __init__(self, place: tuple[str, int], context: ssl.SSLContext, request: bytes) -> None:
        self.place, came, goes = place, ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(came, goes)
        with socket.create_connection(place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            self.hello, self.greeting_bytes = b"", 0
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self.hello += (sent := goes.read())
                    plain.sendall(sent)
                    self.greeting_bytes += came.write(plain.recv(65536))
            tls.write(request)
            self.rest = goes.read()
            plain.sendall(self.rest)
            assert plain.recv(65536), "the true client is answered"

    def spoiled(self, draw: random.Random) -> "bytes | None":
        """A client that fails in its first message, or goes on in another way than it has begun."""
        with socket.create_connection(self.place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            said(plain, spoiled(draw, draw.choice((self.hello, self.rest, self.hello + self.rest))))
        return None

    def replay(self) -> bytes:
        """The answer cannot be read; an alert is shorter than any."""
        with socket.create_connection(self.place, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            plain.sendall(self.hello)
            greeting = 0
            while greeting < self.greeting_bytes - SIGNATURES_VARY_BYTES:
                if not (more := plain.recv(65536)):
                    return b""
                greeting += len(more)
            answer = said(plain, self.rest) or b""
        return b"HTTP/1.1 200 replayed" if len(answer) > ALERTS_MAX_BYTES else b""


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


class Caller(Http):
    """Calls of a node that may call, none of which can be read: each has a body that is no JSON object."""

    def send(self, draw: random.Random) -> "bytes | None":
        body = spoiled(draw, self.body)
        while is_document(body):
            body = spoiled(draw, self.body)
        return self.along(self.request(body))


class Lines:
    """Lines over TLS, by strangers who come each time from another address; *first* is sent before TLS, in clear."""

    def __init__(self, port: int, line: bytes, contexts: "list[ssl.SSLContext | None]", first: bytes = b"") -> None:
        self.port, self.line, self.contexts, self.first = port, line, contexts, first

    def send(self, draw: random.Random) -> "bytes | None":
        line = self.line if draw.random() < 0.3 else spoiled(draw, self.line)
        number = draw.randrange(2**22) if draw.random() < 0.9 else 1
        source = f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S, (source, 0)) as plain:
            plain.settimeout(WAIT_S)
            if self.first:
                plain.sendall(self.first if draw.random() < 0.7 else spoiled(draw, self.first))
            context = draw.choice(self.contexts)
            if context is None:
                return said(plain, line)
            with suppress(ssl.SSLError), context.wrap_socket(plain) as secured:
                return said(secured, line)
        return None


class Unix:
    """Documents on a socket of a daemon, each with its end."""

    def __init__(self, path: str, message: dict, end: bytes = b"\x03") -> None:
        self.path, self.message, self.end = path, json.dumps(message).encode(), end

    def send(self, draw: random.Random) -> "bytes | None":
        if draw.randrange(OVERLONG_EVERY) == 0:
            return overlong(self.path, self.end)
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

    BATCH = 4
    """So few that even the longest fit into the queue of the socket."""

    def __init__(self, data_dir: str) -> None:
        self.waiting = 0
        self.true_tokens: set[bytes] = set()
        """Of all true questions: an answer may come when the next one is asked already."""
        self.port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port.settimeout(WAIT_S)
        self.port.connect(("127.0.0.1", 1814))
        with open(f"{data_dir}/hmac.key", "rb") as file:
            self.key = file.read().strip()

    def datagram(self, token: str, signed_s: int, shown_s: int, key: bytes = b"") -> bytes:
        message = json.dumps({"protocol": 1, "type": 0, "query": None, "rsalt": token})
        mac = hmac.new(key or self.key, f"{signed_s}{message}".encode(), hashlib.sha1).hexdigest()
        return b"plj0" + json.dumps({"msg": message, "salt": str(shown_s), "hmac": mac}).encode()

    def forged(self, draw: random.Random) -> bytes:
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
        return datagram

    def send(self, draw: random.Random) -> "bytes | None":
        """A true question after the forged ones tells that all were read: what comes before its answer is for them."""
        self.waiting += 1
        self.port.send(self.forged(draw))
        if self.waiting < self.BATCH:
            return None
        self.waiting = 0
        token, now_s = f"true{draw.random()}", int(time.time())
        self.true_tokens.add(token.encode())
        self.port.send(self.datagram(token, now_s, now_s))
        answer = self.port.recv(65536)
        return None if any(each in answer for each in self.true_tokens) else answer


def overlong(path: str, end: bytes) -> "bytes | None":
    """One that never ends: the other side must end it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_S)
        connection.connect(path)
        piece, sent = b"[" * 2**20, 0
        while sent < OVERLONG_BYTES:
            connection.sendall(piece)
            sent += len(piece)
        return said(connection, end)


def tls(certificate: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate)
    return context


def cluster_address(data_dir: str) -> str:
    with open(f"{data_dir}/ssconf_master_ip") as file:
        return file.read().strip()


def uuid_of_a_disk() -> str:
    """Of one that is in use here: what a stranger sees who reads what goes over the network."""
    [path] = glob.glob("/run/ganeti/mirror/*.json")
    with open(path) as file:
        uuid: str = json.load(file)["uuid"]
    return uuid


def sender_of(kind: str, data_dir: str) -> "tuple[Sender, Callable[[bytes], bool]]":
    strangers: list[ssl.SSLContext | None] = [
        None,
        tls(),
        tls(f"{data_dir}/stranger.pem"),
        tls(f"{data_dir}/regular.pem"),
    ]
    call = json.dumps({"epoch": 1, "job": 1, "attempt": 1, "step": 1, "arguments": {}}).encode()
    run = "/run/ganeti/socket"
    own, known = f"{data_dir}/client.pem", f"{data_dir}/regular.pem"
    match kind:
        case "noded":
            recording = Recording(("127.0.0.1", 1811), tls(own), TRUE_HEAD % (b"/version", len(call)) + call)
            return Http(
                1811, "/version", strangers, call, kept=tls(known), recording=recording, refused_at_the_door=True
            ).send, is_ok
        case "caller":
            return Caller(1811, "/version", [tls(own)], call, kept=tls(own)).send, lambda answer: b"\n[true," in answer
        case "mirrord":
            ask = b'{"type":"AskPeer","uuid":"x"}\n'
            return Lines(1818, ask, [None] * 6 + strangers).send, lambda answer: b'"role"' in answer
        case "disk":
            uuid = uuid_of_a_disk()
            wanted = json.dumps({"type": "Connect", "uuid": uuid, "generation": 10**12}).encode() + b"\n"
            first = f"GANETI-DISK {uuid}\n".encode()
            return Lines(1818, wanted, [None] * 2 + strangers, first).send, lambda answer: b"NBDMAGIC" in answer
        case "rapi":
            body = json.dumps({"OP_ID": "OP_CLUSTER_DESTROY"}).encode()
            recording = Recording(("127.0.0.1", 5080), tls(), TRUE_LOGIN)
            place = "/2/redistribute-config"
            return Http(5080, place, [None, tls()], body, kept=tls(), recording=recording).send, is_ok
        case "mond":
            return Http(1815, "/1/report/all", [None], b"{}").send, is_ok
        case "maintd":
            return Http(1816, "/1/status", [None], b"{}", cluster_address(data_dir)).send, is_ok
        case "token":
            forged = json.dumps({"secret": "00" * 16, "name": "node3"}).encode() + b"\n"
            return Lines(1817, forged, [None, None, tls()]).send, lambda answer: b'"setup"' in answer
        case "mirror-control":
            look = {"type": "Inspect", "uuid": "x", "image": "/etc/passwd"}
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
        case "noded" | "caller":
            body = json.dumps({"epoch": 0, "job": 0, "attempt": 0, "step": 0, "arguments": {}}).encode()
            head = TRUE_HEAD % (b"/version", len(body))
            return Http(1811, "", [], b"").truly(tls(f"{data_dir}/client.pem"), head + body)
        case "rapi":
            return Http(5080, "", [], b"").truly(tls(), TRUE_LOGIN)
        case "mond":
            return Http(1815, "", [], b"").truly(None, get % b"/")
        case "maintd":
            return Http(1816, "", [], b"", cluster_address(data_dir)).truly(None, get % b"/1/status")
        case "mirror-control":
            look = {"type": "Inspect", "uuid": "x", "image": "/nowhere"}
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


def forge(kind: str, count: int, seed: str, data_dir: str) -> "list[str]":
    """Send *count* messages; gives what was accepted."""
    draw = random.Random(f"{kind} {seed}")
    send, is_accepted = sender_of(kind, data_dir)
    accepted = []
    for _ in range(count):
        answer = None
        with suppress(OSError):  # refused, ended, or not answered in time: all are fine
            answer = send(draw)
        if answer and is_accepted(answer):
            accepted.append(answer[:200].decode(errors="replace"))
    return accepted


def main() -> None:
    kind, count, seed, data_dir = sys.argv[1:]
    if count == "true":
        print(json.dumps(bool(sender_of(kind, data_dir)[1](true_answer(kind, data_dir) or b""))))
        return
    shares = [(kind, int(count) // WORKERS, f"{seed} {number}", data_dir) for number in range(WORKERS)]
    with multiprocessing.Pool(WORKERS) as pool:
        accepted = [what for found in pool.starmap(forge, shares) for what in found]
    print(json.dumps({"sent": sum(share[1] for share in shares), "accepted": accepted}))


if __name__ == "__main__":
    main()
