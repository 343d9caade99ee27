# SPDX-License-Identifier: BSD-2-Clause
"""Transfers of a disk: the same bytes on the other side, and no transfer that looks delivered and is not."""

import os
import re
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from ganeti.node.certificates import transfer_certificate
from ganeti.tools.import_export import command, tunnel
from ganeti.wire.transfer_files import CONFIRMED, RECEIVE, SEND, Program, Status, Task, read_status


class Sides:
    """Both sides, each in a thread of this process with a directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.codes: dict[str, int] = {}
        self.source, self.target = place / "source", place / "target"
        self.source.write_bytes(os.urandom(700_000) + bytes(300_000))
        for side in (SEND, RECEIVE, "stranger"):
            (place / side).mkdir()
            key, certificate = transfer_certificate("ganeti.example.com", 600)
            (place / side / "key").write_text(key)
            (place / side / "cert").write_text(certificate)

    def task(self, mode: str, shows: str, **changes: Any) -> Task:
        other = SEND if mode == RECEIVE else RECEIVE
        fields: dict[str, Any] = {
            "mode": mode,
            "key": f"{self.place / shows}/key",
            "certificate": f"{self.place / shows}/cert",
            "authority": f"{self.place / other}/cert",
            "magic": "magic-1",
            "bind": "127.0.0.1",
            "host": "127.0.0.1",
            "connect_timeout_s": 5,
        }
        if mode == SEND:
            fields["program"] = Program(argv=["cat", str(self.source)])
        else:
            fields["program"] = Program(argv=["dd", f"of={self.target}", "iflag=fullblock", "status=none"])
        return Task(**(fields | changes))

    def start(self, mode: str, shows: str = "", **changes: Any) -> threading.Thread:
        transfer = command.Transfer(self.task(mode, shows or mode, **changes), f"{self.place / mode}/status")
        thread = threading.Thread(target=lambda: self.codes.update({mode: transfer.run()}))
        thread.start()
        return thread

    def status(self, mode: str) -> Status:
        try:
            return read_status((self.place / mode / "status").read_bytes())
        except FileNotFoundError:
            return Status()

    def until(self, mode: str, what: str) -> Any:
        for _ in range(500):
            if value := getattr(self.status(mode), what):
                return value
            threading.Event().wait(0.01)
        raise AssertionError(f"{mode} has not come to {what}: {self.status(mode)}")

    def both(self, sender: dict[str, Any] | None = None, receiver: dict[str, Any] | None = None) -> None:
        receiving = self.start(RECEIVE, **(receiver or {}))
        sending = self.start(SEND, port=self.until(RECEIVE, "listen_port"), **(sender or {}))
        sending.join(20)
        receiving.join(20)


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


@pytest.mark.parametrize("compress", ["none", "gzip-fast", "gzip"])
def test_the_same_bytes_arrive(sides: Sides, compress: str) -> None:
    sides.both({"compress": compress}, {"compress": compress})
    assert sides.codes == {SEND: 0, RECEIVE: 0}
    assert sides.target.read_bytes() == sides.source.read_bytes()
    assert sides.status(SEND).progress_mbytes == pytest.approx(1_000_000 / 1024 / 1024)


def test_a_dump_is_sent_and_the_foretold_size_gives_a_percentage(sides: Sides) -> None:
    sides.both({"program": None, "file": str(sides.source)})
    assert sides.target.read_bytes() == sides.source.read_bytes()
    for mode in (SEND, RECEIVE):
        (sides.place / mode / "status").unlink()
    script = f"printf 2000000 >&$EXP_SIZE_FD; cat {sides.source}"
    sides.both({"program": Program(argv=["dash", "-c", script], tells_size=True)})
    assert sides.status(SEND).progress_percent == pytest.approx(50)


def test_the_sender_hears_of_success_when_the_instance_is_kept(sides: Sides) -> None:
    receiving = sides.start(RECEIVE, waits_for_confirmation=True)
    sending = sides.start(SEND, port=sides.until(RECEIVE, "listen_port"))
    sides.until(RECEIVE, "received")
    sending.join(0.3)
    assert SEND not in sides.codes and RECEIVE not in sides.codes
    (sides.place / RECEIVE / CONFIRMED).touch()
    sending.join(10)
    receiving.join(10)
    assert sides.codes == {SEND: 0, RECEIVE: 0}


@pytest.mark.parametrize("compress", ["none", "gzip"])
@pytest.mark.parametrize(
    ("sender", "receiver", "who", "sentence"),
    [
        ({"magic": "other-1"}, {}, RECEIVE, "not the data of this disk"),
        ({"program": Program(argv=["false"])}, {}, SEND, "false ended with status 1"),
        (
            {"program": Program(argv=["sh", "-c", "head -c 500000 /dev/zero; exit 4"])},
            {},
            SEND,
            "sh ended with status 4",
        ),
        ({}, {"program": Program(argv=["sh", "-c", "cat >/dev/null; exit 3"])}, RECEIVE, "sh ended with status 3"),
        ({}, {"program": Program(argv=["sh", "-c", "exit 3"])}, RECEIVE, "sh ended with status 3"),
        ({}, {"program": Program(argv=["/no/program"])}, RECEIVE, "/no/program cannot be started"),
    ],
)
def test_a_failure_of_one_side_is_one_of_both(
    sides: Sides, sender: dict[str, Any], receiver: dict[str, Any], who: str, sentence: str, compress: str
) -> None:
    sides.both({"compress": compress} | sender, {"compress": compress} | receiver)
    assert sides.codes == {SEND: 1, RECEIVE: 1}
    assert sentence in (sides.status(who).error_message or "")


def test_a_stranger_gets_nothing_and_is_no_obstacle(sides: Sides) -> None:
    receiving = sides.start(RECEIVE)
    port = sides.until(RECEIVE, "listen_port")
    sides.start(SEND, "stranger", port=port).join(10)
    assert sides.codes == {SEND: 1}
    (sides.place / SEND / "status").unlink()
    sides.start(SEND, port=port).join(10)
    receiving.join(10)
    assert sides.codes == {SEND: 0, RECEIVE: 0}
    assert sides.target.read_bytes() == sides.source.read_bytes()


def test_who_is_refused_after_all_was_sent_has_delivered_nothing(sides: Sides) -> None:
    """In TLS 1.3 a sender sends before it knows what the receiver says to its certificate."""
    sides.source.write_bytes(b"little")
    context = tunnel.context_of(sides.task(RECEIVE, RECEIVE), ssl.PROTOCOL_TLS_SERVER)
    come, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(come, goes, server_side=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending = sides.start(SEND, "stranger", port=listener.getsockname()[1])
        connection = listener.accept()[0]
    with connection, connection.makefile("rb") as records:
        come.write(_record(records))
        with pytest.raises(ssl.SSLWantReadError):
            server.do_handshake()
        connection.sendall(goes.read())
        while len(record := _record(records)) != CLOSING:
            come.write(record)
        with pytest.raises(ssl.SSLCertVerificationError):
            server.do_handshake()
        connection.sendall(goes.read())
        sending.join(10)
    assert sides.codes == {SEND: 1}
    assert "The receiver has broken the connection off at its end" in (sides.status(SEND).error_message or "")


CLOSING = 5 + 2 + 1 + 16
"""Bytes of a record of TLS 1.3 that ends one direction: its head, the alert, the kind of content, the seal."""


def _record(records: BinaryIO) -> bytes:
    head = records.read(5)
    return head + records.read(int.from_bytes(head[3:]))


def test_strangers_that_say_nothing_are_no_obstacle(sides: Sides) -> None:
    """Whoever reaches the port could otherwise keep every transfer from beginning."""
    receiving = sides.start(RECEIVE)
    port = sides.until(RECEIVE, "listen_port")
    silent = [socket.create_connection(("127.0.0.1", port), timeout=3) for _ in range(tunnel.STRANGERS_MAX + 3)]
    sides.start(SEND, port=port).join(10)
    receiving.join(10)
    for each in silent:
        each.close()
    assert sides.codes == {SEND: 0, RECEIVE: 0}
    assert sides.target.read_bytes() == sides.source.read_bytes()
    assert not [each for each in threading.enumerate() if each.name == tunnel.HANDSHAKE]


def test_who_is_not_reached_is_named(sides: Sides) -> None:
    sides.start(SEND, port=1).join(10)
    assert "127.0.0.1 port 1 cannot be reached" in (sides.status(SEND).error_message or "")
    sides.start(RECEIVE, connect_timeout_s=0.1).join(10)
    assert "The sender has not connected within 0 seconds" in (sides.status(RECEIVE).error_message or "")


def test_a_connection_that_breaks_off_is_told_in_plain_words(sides: Sides) -> None:
    receiving = sides.start(RECEIVE)
    connection = tunnel.connect(sides.task(SEND, SEND, port=sides.until(RECEIVE, "listen_port")))
    connection.sendall(b"M=magic-1 and a part")
    connection.close()
    receiving.join(10)
    told = sides.status(RECEIVE).error_message or ""
    assert sides.codes == {RECEIVE: 1}
    assert re.fullmatch(
        r"The connection broke off before all data had come \(\w[^\[_]*\): is the network .* up\?", told
    )


def test_a_task_is_removed_before_it_is_done(tmp_path: Path) -> None:
    """It may hold private OS parameters."""
    task = Task(mode=SEND, key="k", certificate="c", authority="a", host="127.0.0.1", port=1)
    (tmp_path / "task").write_bytes(msgspec.json.encode(task))
    assert command.main([f"{tmp_path}/status", "export", "--task"]) == 1
    assert sorted(os.listdir(tmp_path)) == ["lock", "status"]


_KEYS = ["--key=k", "--cert=c", "--ca=a"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["status", "export"], "must be named by its full path"),
        (["/nowhere/status", "export"], "there is no directory /nowhere for the status file: make it first"),
        (["{}/status", "export", *_KEYS, "--port=1"], "--host is missing"),
        (["{}/status", "export", *_KEYS, "--host=x", "--port=70000"], "--port 70000 is no port"),
        (["{}/status", "import", "--cert=c", "--ca=a"], "--key is missing"),
        (["{}/status", "import", *_KEYS, "--cmd-suffix=| cat > /etc/x"], "must be one command without '>'"),
        (["{}/status", "import", *_KEYS, "--cmd-suffix='cat"], "--cmd-suffix cannot be read as a command"),
    ],
)
def test_bad_words_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert command.main([word.format(tmp_path) for word in words]) == 1
    assert sentence in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
