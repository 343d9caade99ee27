# SPDX-License-Identifier: BSD-2-Clause
"""The storage daemon of a mirrored disk without ganeti-mirrord: a test gives the commands, and decides in its place.

`Pair` has two programs on this machine, with the port of the second one's node between them. `GANETI_STORAGE_DAEMON`
names another build, such as one with -fsanitize=address,undefined (which takes more memory than the tests allow).
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import itertools
import os
import queue
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.real.nbd_client import PATIENCE_S, NbdClient

from ganeti.mirrord.data_path import PROGRAM
from ganeti.node.certificates import Authority, create_authority, issue_node_certificate
from ganeti.node.storage.mirror.requests import Connect, Done, Refusal

STORAGE_DAEMON = os.environ.get("GANETI_STORAGE_DAEMON", PROGRAM)
MIB = 1 << 20
BLOCK = 4096
EXPORT = "disk"
UUID = "3f0c0a8e-71d7-4d37-9a0c-000000000001"
ONE, TWO = "node1.example.com", "node2.example.com"
CONNECT = msgspec.json.encode(Connect(uuid=UUID, generation=7, session="s"))
SILENCE_S = 0.8
"""So long the program waits for an answer that is due before the other copy is lost."""
_MESSAGE_BYTES = 1 << 17
_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438


class CommandRefusedError(Exception):
    """The program has answered `error`; *line* is the answer of the other node's ganeti-mirrord, where it is one."""

    def __init__(self, sentence: str, line: str = "") -> None:
        super().__init__(sentence)
        self.line = line


class Commands:
    """The client of the commands, as ganeti-mirrord is one."""

    def __init__(self, path: str, asked: Callable[[str, str], tuple[str, str] | None]) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.connect(path)
        self._asked = asked
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[list[str]]] = {}
        self.losses: queue.Queue[str] = queue.Queue()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def begin(self, word: str, *arguments: object, sockets: Sequence[socket.socket] = ()) -> Future[list[str]]:
        number, answer = next(self._numbers), Future[list[str]]()
        self._waiting[number] = answer
        text = "\n".join(map(str, (number, word, *arguments)))
        rights = array.array("i", [each.fileno() for each in sockets])
        carried = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if sockets else []
        self._sock.sendmsg([text.encode()], carried)
        return answer

    def ask(self, word: str, *arguments: object, sockets: Sequence[socket.socket] = ()) -> list[str]:
        """The results; raises `CommandRefusedError`."""
        return self.begin(word, *arguments, sockets=sockets).result(PATIENCE_S)

    def next_loss(self, within_s: float = PATIENCE_S) -> str:
        return self.losses.get(timeout=within_s)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        self._sock.close()

    def _hear(self) -> None:
        with contextlib.suppress(OSError):
            while message := self._sock.recv(_MESSAGE_BYTES):
                self._take(message.decode().split("\n"))
        self.ended.set()
        for answer in self._waiting.values():
            answer.set_exception(ConnectionResetError("the program has ended the command connection"))

    def _take(self, fields: list[str]) -> None:
        if fields[0] == "0":
            self._take_event(*fields[1:])
            return
        answer = self._waiting.pop(int(fields[0]))
        if fields[1] == "ok":
            answer.set_result(fields[2:])
        else:
            assert fields[1] == "error" and 3 <= len(fields) <= 4, fields
            answer.set_exception(CommandRefusedError(*fields[2:]))

    def _take_event(self, word: str, *fields: str) -> None:
        if word == "lost":
            self.losses.put(fields[0])
            return
        number, names, line = fields
        assert word == "asks", word
        answer = self._asked(names, line)
        if answer is not None:
            self.begin("answer", number, *answer)


class Status(NamedTuple):
    state: str
    done: int
    total: int
    export: str


class Program:
    """One storage daemon in a directory of its own; *words* run it, as `unshare` does, *image* may be theirs alone."""

    def __init__(self, directory: Path, size: int, *, words: Sequence[str] = (), image: Path | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.image = image or directory / "image"
        if image is None and not self.image.exists():
            self.image.touch()
            os.truncate(self.image, size)
        self.door: Door | None = None
        self._log = directory / "stderr"
        with self._log.open("ab") as log:
            command = [*words, STORAGE_DAEMON, str(self.image), "disk.cmd", "disk.nbd"]
            self.process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.commands = self._first_client()

    def _first_client(self) -> Commands:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self.process.poll() is None, f"it does not start: {self.said}"
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return self.new_client()
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.005)

    def new_client(self) -> Commands:
        return Commands(str(self.directory / "disk.cmd"), self._answer)

    def _answer(self, names: str, line: str) -> tuple[str, str] | None:
        assert self.door is not None
        return self.door.answer(names, line)

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def socket_path(self) -> str:
        return str(self.directory / "disk.nbd")

    @property
    def url(self) -> str:
        return f"nbd+unix:///{EXPORT}?socket={self.socket_path}"

    def client(self, *, is_structured: bool = True) -> NbdClient:
        return NbdClient.at(self.socket_path, EXPORT, is_structured=is_structured)

    def ask(self, word: str, *arguments: object) -> list[str]:
        return self.commands.ask(word, *arguments)

    def status(self) -> Status:
        state, done, total, export = self.ask("status")
        return Status(state, int(done), int(total), export)

    def lives(self) -> None:
        """Fails where it has ended."""
        assert self.process.poll() is None, f"it has ended ({self.process.returncode}): {self.said}"

    @property
    def name(self) -> str:
        return self.directory.name

    def connections(self) -> int:
        """Of the other node, served or not."""
        assert self.door is not None
        return self.door.connections()

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_bytes(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [found] = [line.split()[1] for line in lines if line.startswith("VmRSS")]
        return int(found) * 1024

    def processor_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As a loss of power does it."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.commands.close()

    def end(self) -> int:
        """As ganeti-mirrord does it; gives the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait(PATIENCE_S)
            self.commands.close()


class Door:
    """The port of ganeti-mirrord on a node: it gives each connection of the other node to the *program*."""

    def __init__(self, certificate: Path, authority: Path) -> None:
        self._files = certificate, authority
        self.program: Program | None = None
        self.asked: list[tuple[str, Connect]] = []
        """Names and request, of each connection."""
        self.refusal = ""
        self.answers = True
        """Where it does not, `asks` is never answered."""
        self.answers_after_s = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                line = read_line(sock)
                if line != f"GANETI-DISK {UUID}\n".encode() or self.program is None:
                    sock.close()
                    continue
                with sock, contextlib.suppress(CommandRefusedError, ConnectionError, OSError):
                    self.program.commands.ask("take", *self._files, sockets=[sock])

    def answer(self, names: str, line: str) -> tuple[str, str] | None:
        """What to answer to a connection of the names in its certificate, with its first line."""
        self.asked.append((names, msgspec.json.decode(line, type=Connect)))
        if not self.answers:
            return None
        time.sleep(self.answers_after_s)
        if self.refusal:
            return "close", msgspec.json.encode(Refusal(error=self.refusal)).decode()
        return "serve", msgspec.json.encode(Done(export=EXPORT)).decode()

    def cut(self) -> None:
        """End the connections that the program has, as a network does."""
        for sock in self._held():
            with sock:
                sock.shutdown(socket.SHUT_RDWR)

    def received_bytes(self) -> int:
        """By the program, on the connections that it has; TLS adds little."""
        total = 0
        for sock in self._held():
            with sock:
                information = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += int.from_bytes(information[128:136], "little")
        return total

    def connections(self) -> int:
        held = self._held()
        for sock in held:
            sock.close()
        return len(held)

    def _held(self) -> list[socket.socket]:
        """A descriptor kept here from the start would keep a connection alive that the program has closed."""
        assert self.program is not None
        found = []
        pid = os.pidfd_open(self.program.pid)
        try:
            for place in Path(f"/proc/{self.program.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if not os.readlink(place).startswith("socket:"):
                        continue
                    number = _LIBC.syscall(_PIDFD_GETFD, pid, int(place.name), 0)
                    if number < 0:  # it has closed it meanwhile
                        continue
                    sock = socket.socket(fileno=number)
                    is_of_this_port = sock.family == socket.AF_INET and sock.getsockname()[1] == self.port
                    found.append(sock) if is_of_this_port else sock.close()
        finally:
            os.close(pid)
        return found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)


class Pair:
    """The primary's program *one*, and the secondary's *two*, not attached yet."""

    def __init__(self, root: Path, size: int, *, two: Callable[[Path, int], Program] = Program) -> None:
        self.root, self.size = root, size
        authority = create_authority("cluster.example.com")
        self.authority = root / "authority.pem"
        self.authority.write_text(authority.certificate)
        self.certificates = {name: self.certificate(name, authority) for name in (ONE, TWO)}
        self.door = Door(self.certificates[TWO], self.authority)
        self.one = Program(root / "one", size)
        self.one.ask("show", EXPORT)
        self.take_second(two(root / "two", size))

    def certificate(self, name: str, authority: Authority) -> Path:
        path = self.root / f"{name}-{len(list(self.root.iterdir()))}.pem"
        path.write_text(issue_node_certificate(authority, name, "cluster.example.com", ["127.0.0.1"]))
        return path

    def take_second(self, program: Program) -> None:
        self.two = self.door.program = program
        program.door = self.door
        program.ask("show", EXPORT)

    def restart_first(self) -> None:
        """After it was killed."""
        self.one = Program(self.root / "one", self.size)
        self.one.ask("show", EXPORT)

    def restart_second(self) -> None:
        """After it was killed."""
        self.take_second(Program(self.root / "two", self.size))

    def attach(self, copy: str = "whole", rate: int = 0, **changed: object) -> list[str]:
        """Raises `CommandRefusedError`."""
        return self.begin_attach(copy, rate, **changed).result(PATIENCE_S)

    def attach_equal(self) -> None:
        self.attach("none")
        self.wait_equal()

    def begin_attach(self, copy: str = "whole", rate: int = 0, **changed: object) -> Future[list[str]]:
        fields: dict[str, object] = {
            "address": "127.0.0.1",
            "port": self.door.port,
            "peer": TWO,
            "uuid": UUID,
            "certificate": self.certificates[ONE],
            "authority": self.authority,
            "export": EXPORT,
            "copy": copy,
            "rate": rate,
            "line": CONNECT.decode(),
        }
        assert changed.keys() <= fields.keys()
        return self.one.commands.begin("attach", *(fields | changed).values())

    def as_primary(self) -> NbdClient:
        """A client that the secondary's program takes for the primary's."""
        sock = tls_to(self.door, self.certificates[ONE], self.authority)
        sock.sendall(CONNECT + b"\n")
        assert read_line(sock) == msgspec.json.encode(Done(export=EXPORT)) + b"\n"
        return NbdClient(sock, EXPORT, is_structured=False)

    def new_authority(self, name: str) -> tuple[Path, Path]:
        """Files of another cluster: a certificate of *name*, and the authority's."""
        other = create_authority("other.example.com")
        path = self.root / "other.pem"
        path.write_text(other.certificate)
        return self.certificate(name, other), path

    def wait_equal(self) -> None:
        wait_until(lambda: self.one.status().state == "equal", "both copies are equal")

    def images(self) -> tuple[bytes, bytes]:
        return self.one.image.read_bytes(), self.two.image.read_bytes()

    def images_are_equal(self) -> bool:
        first, second = self.images()
        return first == second

    def close(self) -> None:
        for program in (self.one, self.two):
            program.end()
        self.door.close()


def tls_to(door: Door, certificate: Path | None, authority: Path) -> ssl.SSLSocket:
    """A connection as another node's program makes it, after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if certificate is not None:
        context.load_cert_chain(certificate)
    context.load_verify_locations(authority)
    sock = socket.create_connection(("127.0.0.1", door.port), PATIENCE_S)
    sock.sendall(f"GANETI-DISK {UUID}\n".encode())
    return context.wrap_socket(sock, server_hostname=TWO)


def read_line(sock: socket.socket) -> bytes:
    """Byte by byte: what follows is NBD. Less where the other side ends."""
    line = b""
    while not line.endswith(b"\n") and (found := sock.recv(1)):
        line += found
    return line


def wait_until(done: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {within_s:g} s"
        time.sleep(0.01)
