# SPDX-License-Identifier: BSD-2-Clause
"""The storage daemon of a mirrored disk serves one image: what a guest, other programs and nonsense get from it."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples
from tests.real import nbd_client
from tests.real.nbd_client import (
    BLOCK_STATUS,
    CACHE,
    FLUSH,
    FUA,
    GO,
    IS_HOLE,
    IS_ZERO,
    NO_HOLE,
    READ,
    SET_META_CONTEXT,
    STRUCTURED_REPLY,
    TRIM,
    UNKNOWN,
    WRITE,
    WRITE_ZEROES,
    Answer,
    ExportRefusedError,
    Handshake,
    NbdClient,
    connected,
    finish,
    pump,
    request,
)
from tests.real.storage_program import BLOCK, EXPORT, MIB, CommandRefusedError, Program, wait_until

from ganeti.mirrord.data_path import PROGRAM

pytestmark = pytest.mark.real
SIZE = 8 * MIB
RESIDENT_BYTES_MAX = 25_000_000


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """It shows its export, and ends well when it is told to."""
    made = Program(tmp_path / "one", SIZE)
    made.ask("show", EXPORT)
    yield made
    assert (made.end(), made.said) == (0, "")


def pattern(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def test_only_the_export_that_is_shown_is_served(program: Program) -> None:
    with connected(program.socket_path) as sock:
        assert Handshake(sock).exports() == [EXPORT]
    for name in ("other", "", EXPORT + "2", "x" * 4000):
        with pytest.raises(ExportRefusedError) as refused:
            NbdClient.at(program.socket_path, name, has_allocation=False)
        assert refused.value.code == UNKNOWN
    with connected(program.socket_path) as sock:
        handshake = Handshake(sock)
        with pytest.raises(ExportRefusedError):
            handshake.go("other")
        assert handshake.go(EXPORT, nbd_client.INFO)[nbd_client.INFO_EXPORT][:8] == struct.pack(">Q", SIZE)
        told = handshake.go(EXPORT)  # after a refusal the client may ask for another one
        assert struct.unpack(">III", told[nbd_client.INFO_BLOCK_SIZE])[::2] == (BLOCK, MIB)


def test_an_old_client_asks_by_the_name_alone(program: Program) -> None:
    with connected(program.socket_path) as sock:
        size, flags = struct.unpack(">QH", Handshake(sock).by_name(EXPORT))
        wanted = nbd_client.CAN_FLUSH | nbd_client.CAN_FUA | nbd_client.CAN_TRIM | nbd_client.CAN_WRITE_ZEROES
        assert (size, flags & wanted) == (SIZE, wanted)
    with connected(program.socket_path) as sock, pytest.raises(ConnectionResetError):
        Handshake(sock).by_name("other")


def test_what_is_hidden_is_served_to_nobody_until_it_is_shown_again(program: Program) -> None:
    clients = [program.client() for _ in range(3)]
    program.ask("hide")
    assert pump(clients, lambda: all(client.has_ended for client in clients))
    with connected(program.socket_path) as sock:
        assert Handshake(sock).exports() == []
    with pytest.raises(ExportRefusedError):
        program.client()
    assert program.status().export == ""
    program.ask("show", "another")
    assert program.status().export == "another"
    with pytest.raises(ExportRefusedError):
        program.client()
    NbdClient.at(program.socket_path, "another").leave()


def test_hiding_ends_a_client_after_what_was_begun(program: Program) -> None:
    client = program.client()
    for block in range(100):
        client.begin(WRITE, block * BLOCK, data=bytes([block + 1]) * BLOCK)
    client.send_raw(request(WRITE, 999, 100 * BLOCK, BLOCK) + bytes([255]) * 100)  # not whole
    pump([client], lambda: len(client.pending) <= 80)
    acknowledged = 100 - len(client.pending)
    program.ask("hide")
    written = program.image.read_bytes()
    there = [written[block * BLOCK] for block in range(100)]
    begun = there.index(0) if 0 in there else 100
    assert there == [*range(1, begun + 1), *[0] * (100 - begun)]
    assert begun >= acknowledged
    assert not any(written[begun * BLOCK :])
    time.sleep(0.2)
    assert program.image.read_bytes() == written
    client.close()


def test_a_client_in_the_midst_of_its_options_is_hidden_from_too(program: Program) -> None:
    with connected(program.socket_path) as sock:
        Handshake(sock)
        program.ask("hide")
        with contextlib.suppress(OSError):
            assert sock.recv(1) == b""


BLOCKS = SIZE // BLOCK
STEPS = st.tuples(
    st.integers(0, 2),
    st.sampled_from([READ, WRITE, WRITE, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS]),
    st.integers(0, BLOCKS - 1),
    st.sampled_from([1, 1, 2, 3, 16, 100, 256]),
    st.sampled_from([0, FUA, NO_HOLE]),
    st.integers(0, 1 << 32),
)


class Model:
    """What the image must hold, and the requests that are on their way: none of these overlap."""

    def __init__(self, clients: list[NbdClient]) -> None:
        self.held = bytearray(SIZE)
        self._clients = clients
        self._due: list[tuple[Answer, bytes]] = []
        self._busy: list[tuple[int, int]] = []

    def step(self, which: int, kind: int, block: int, count: int, flags: int, seed: int) -> None:
        start, end = block * BLOCK, min(block + count, BLOCKS) * BLOCK
        if any(start < until and since < end for since, until in self._busy):
            self.settle()
        if kind == FLUSH:
            self._due.append((self._clients[which].begin(FLUSH), b""))
            return
        allowed = {READ: 0, BLOCK_STATUS: 0, WRITE: FUA, TRIM: FUA, WRITE_ZEROES: FUA | NO_HOLE}[kind]
        data = pattern(seed, end - start) if kind == WRITE else b""
        answer = self._clients[which].begin(kind, start, end - start, data, flags & allowed)
        self._busy.append((start, end))
        if kind in (WRITE, TRIM, WRITE_ZEROES):
            self.held[start:end] = data or bytes(end - start)
        self._due.append((answer, bytes(self.held[start:end])))

    def settle(self) -> None:
        finish(*self._clients)
        for answer, held in self._due:
            assert answer.error == 0, answer
            if answer.kind == READ:
                assert answer.data == held
            if answer.kind == BLOCK_STATUS:
                self._check_extents(answer.extents, held)
        self._due, self._busy = [], []

    def _check_extents(self, extents: list[tuple[int, int]], held: bytes) -> None:
        at = 0
        assert extents
        for length, flags in extents:
            assert length > 0
            assert not flags & IS_ZERO or not any(held[at : at + length])
            at += length


@settings(max_examples=examples(60, quick=20, campaign=3000), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=60))
def check_requests(clients: list[NbdClient], image: Path, steps: list[tuple[int, int, int, int, int, int]]) -> None:
    clients[0].change(TRIM, 0, SIZE)
    model = Model(clients)
    for step in steps:
        model.step(*step)
    model.settle()
    assert image.read_bytes() == model.held


def test_any_requests_of_several_clients_leave_what_they_say(program: Program) -> None:
    clients = [program.client() for _ in range(2)]
    clients.append(NbdClient.at(program.socket_path, EXPORT))
    check_requests(clients, program.image)
    for client in clients:
        client.leave()


def test_a_client_without_structured_answers_is_served_too(program: Program) -> None:
    client = program.client(is_structured=False)
    data = pattern(1, MIB)
    client.write(BLOCK, data)
    assert client.read(0, MIB) == bytes(BLOCK) + data[:-BLOCK]
    assert client.do(BLOCK_STATUS, 0, BLOCK).error
    client.leave()


def test_writes_of_a_client_to_one_place_are_done_in_their_order(program: Program) -> None:
    client = program.client()
    for round_number in range(20):
        for number in range(30):
            client.begin(WRITE, 0, data=bytes([number]) * 16 * BLOCK)
        finish(client)
        assert set(client.read(0, 16 * BLOCK)) == {29}, f"round {round_number}"
    client.leave()


def test_parts_that_are_freed_are_holes(program: Program) -> None:
    client = program.client()
    client.write(0, pattern(1, MIB))
    assert client.do(BLOCK_STATUS, 0, 4 * BLOCK).extents[0][1] == 0
    client.change(TRIM, 0, MIB)
    client.change(WRITE_ZEROES, MIB, 2 * MIB)
    client.change(WRITE_ZEROES, 3 * MIB, MIB, flags=NO_HOLE)
    [(length, flags), *_] = client.do(BLOCK_STATUS, 0, 3 * MIB).extents
    assert (length >= MIB, flags) == (True, IS_HOLE | IS_ZERO)
    assert program.image.stat().st_blocks * 512 <= MIB + 64 * 1024, "only what may be no hole is allocated"
    client.change(WRITE_ZEROES, 0, SIZE)
    assert not any(client.read(3 * MIB, MIB))
    client.leave()


WRONG = {
    "offset that is no multiple": (READ, 512, BLOCK, b""),
    "length that is no multiple": (READ, 0, 100, b""),
    "write at no multiple": (WRITE, 1, BLOCK, bytes([1]) * BLOCK),
    "short write": (WRITE, 0, 100, bytes([1]) * 100),
    "too long a read": (READ, 0, MIB + BLOCK, b""),
    "too long a write": (WRITE, 0, 2 * MIB, bytes([1]) * 2 * MIB),
    "read past the end": (READ, SIZE, BLOCK, b""),
    "read over the end": (READ, SIZE - BLOCK, 2 * BLOCK, b""),
    "write past the end": (WRITE, SIZE, BLOCK, bytes([1]) * BLOCK),
    "write over the end": (WRITE, SIZE - BLOCK, 2 * BLOCK, bytes([1]) * 2 * BLOCK),
    "trim over the end": (TRIM, SIZE - BLOCK, 2 * BLOCK, b""),
    "zeroes over the end": (WRITE_ZEROES, SIZE - BLOCK, 2 * BLOCK, b""),
    "status over the end": (BLOCK_STATUS, SIZE - BLOCK, 2 * BLOCK, b""),
    "offset near the last number": (READ, (1 << 64) - BLOCK, BLOCK, b""),
    "write that wraps": (WRITE, (1 << 64) - BLOCK, 2 * BLOCK, bytes([1]) * 2 * BLOCK),
    "zeroes that wrap": (WRITE_ZEROES, (1 << 64) - BLOCK, 2 * BLOCK, b""),
    "trim of the longest": (TRIM, 0, (1 << 32) - BLOCK, b""),
    "cache": (CACHE, 0, BLOCK, b""),
    "unknown kind": (77, 0, BLOCK, b""),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_an_error_and_changes_nothing(program: Program, name: str) -> None:
    kind, offset, length, data = WRONG[name]
    for is_structured in (True, False):
        client = program.client(is_structured=is_structured)
        answer = client.begin(kind, offset, length, data)
        assert pump([client], lambda client=client: client.has_ended or not client.pending)
        assert client.has_ended or answer.error
        if not client.has_ended:  # then it is as useful as before
            assert client.read(SIZE - BLOCK, BLOCK) == bytes(BLOCK)
        client.close()
    assert not any(program.image.read_bytes())
    program.lives()


@pytest.mark.parametrize("kind", [READ, WRITE, TRIM, WRITE_ZEROES, BLOCK_STATUS])
def test_a_request_for_nothing_harms_nobody(program: Program, kind: int) -> None:
    client = program.client()
    client.begin(kind, 0, 0)
    assert pump([client], lambda: client.has_ended or not client.pending)
    client.close()
    program.client().leave()


def test_flags_that_nobody_promised_harm_nobody(program: Program) -> None:
    client = program.client()
    for bit in range(16):
        for kind in (READ, WRITE, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS):
            if client.has_ended:
                client.close()
                client = program.client()
            client.begin(kind, 0, 0 if kind == FLUSH else BLOCK, bytes(BLOCK) if kind == WRITE else b"", 1 << bit)
            assert pump([client], lambda: client.has_ended or not client.pending)  # noqa: B023
    client.close()
    program.client().leave()


@settings(max_examples=examples(120, quick=40, campaign=20000), suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 4), st.binary(min_size=1, max_size=200), st.integers(0, 1 << 32))
def check_nonsense(program: Program, stage: int, nonsense: bytes, seed: int) -> None:
    with connected(program.socket_path) as sock, contextlib.suppress(OSError):
        sock.settimeout(0.02)
        draw = random.Random(seed)
        if stage:
            handshake = Handshake(sock)
        if stage == 2:
            handshake.send(draw.choice([*range(12), draw.getrandbits(32)]), nonsense)
        elif stage >= 3:
            handshake.go(EXPORT)
            if stage == 4:
                sock.sendall(
                    request(draw.randrange(9), draw.getrandbits(64), draw.getrandbits(63), draw.getrandbits(32))
                )
        sock.sendall(nonsense)
        sock.recv(100)
    program.lives()


def test_nonsense_ends_a_client_and_nothing_else(program: Program) -> None:
    bystander = program.client()
    before = program.descriptors()
    check_nonsense(program)
    bystander.write(0, bytes([7]) * BLOCK)
    assert bystander.read(0, BLOCK) == bytes([7]) * BLOCK
    wait_until(lambda: program.descriptors() == before, "the descriptors of all others are closed")
    bystander.leave()
    assert program.resident_bytes() <= RESIDENT_BYTES_MAX


def test_options_that_are_too_long_are_refused(program: Program) -> None:
    for number in (STRUCTURED_REPLY, GO, SET_META_CONTEXT, nbd_client.LIST, 4711):
        for length in (1, 5, 70_000, 1 << 20, (1 << 32) - 1):
            with connected(program.socket_path) as sock, contextlib.suppress(OSError):
                sock.settimeout(0.05)
                Handshake(sock)
                sock.sendall(nbd_client.OPTIONS + struct.pack(">II", number, length))
                for _ in range(min(length, 1 << 20) // 4096 + 1):
                    sock.sendall(b"\xff" * 4096)
            program.lives()
    program.client().leave()


def test_half_a_request_is_never_carried_out(program: Program) -> None:
    before = program.descriptors()
    whole = request(WRITE, 1, 0, 8 * BLOCK) + bytes([1]) * 8 * BLOCK
    for length in (1, 27, 28, 29, 28 + BLOCK, len(whole) - 1):
        with connected(program.socket_path) as sock:
            Handshake(sock).go(EXPORT)
            sock.sendall(whole[:length])
    wait_until(lambda: program.descriptors() == before, "their descriptors are closed")
    assert not any(program.image.read_bytes())


def test_a_client_that_reads_no_answers_stops_nobody(program: Program) -> None:
    with connected(program.socket_path) as deaf:
        Handshake(deaf).go(EXPORT)
        deaf.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for number in range(200_000):
                deaf.sendall(request(READ, number, 0, MIB))
        client = program.client()
        started = time.monotonic()
        for number in range(50):
            client.write(number * BLOCK, bytes([number]) * BLOCK)
        assert time.monotonic() - started < 5
        client.leave()
        assert program.resident_bytes() <= RESIDENT_BYTES_MAX
        before = program.processor_s()
        time.sleep(0.5)
        assert program.processor_s() - before <= 0.02
    program.client().leave()


def test_clients_that_send_half_a_write_stop_nobody(program: Program) -> None:
    """Each has room for a request's data, and there is not room for all of them."""
    slow = []
    for _ in range(40):
        sock = connected(program.socket_path)
        Handshake(sock).go(EXPORT)
        sock.sendall(request(WRITE, 1, 0, MIB) + bytes(BLOCK))
        slow.append(sock)
    client = program.client()
    answer = client.begin(WRITE, 4 * MIB, data=bytes([3]) * BLOCK)
    served = pump([client], lambda: answer.done, 5)
    for sock in slow:
        sock.close()
    assert served, "a guest's write waits for clients that say no more"
    client.leave()


def tool(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_qemu_img_converts_compares_and_maps(program: Program, tmp_path: Path) -> None:
    source = tmp_path / "source"
    held = bytearray(SIZE)
    held[MIB : 3 * MIB] = pattern(1, 2 * MIB)
    held[SIZE - BLOCK :] = pattern(2, BLOCK)
    with source.open("wb") as file:
        file.truncate(SIZE)
        for start, end in ((MIB, 3 * MIB), (SIZE - BLOCK, SIZE)):
            file.seek(start)
            file.write(held[start:end])
    tool("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(source), program.url)
    assert program.image.read_bytes() == held
    tool("qemu-img", "compare", "-f", "raw", "-F", "raw", str(source), program.url)
    told = tool("qemu-img", "map", "-f", "raw", "--output=json", program.url)
    assert re.findall(r'"start": (\d+), "length": (\d+).*?"data": (\w+)', told) == [
        ("0", str(MIB), "false"),
        (str(MIB), str(2 * MIB), "true"),
        (str(3 * MIB), str(SIZE - BLOCK - 3 * MIB), "false"),
        (str(SIZE - BLOCK), str(BLOCK), "true"),
    ]
    made = tmp_path / "made.qcow2"
    tool("qemu-img", "convert", "-f", "raw", "-O", "qcow2", program.url, str(made))
    tool("qemu-img", "compare", "-f", "qcow2", "-F", "raw", str(made), str(source))


def test_qemu_io_writes_reads_frees_and_zeroes(program: Program) -> None:
    words = [
        *("write -f -P 17 0 64k", "write -P 18 1M 2M", "write -z 512 512", "write -P 19 700 100", "flush"),
        *("read -P 17 0 512", "read -P 0 512 188", "read -P 19 700 100", "read -P 18 1M 2M"),
        *("discard 1M 1M", "read -P 0 1M 1M", "write -z -u 2M 1M", "read -P 0 2M 1M"),
        *("aio_write -P 5 3M 1M", "aio_write -P 5 4M 1M", "aio_flush", "read -P 5 3M 2M"),
    ]
    for cache in ("writeback", "none", "writethrough"):
        told = tool("qemu-io", "-f", "raw", "--cache", cache, *(f"-c{word}" for word in words), program.url)
        assert "failed" not in told and "error" not in told, told
    assert program.image.read_bytes()[3 * MIB : 5 * MIB] == bytes([5]) * 2 * MIB


def test_an_error_of_reading_reaches_the_client(program: Program) -> None:
    client = program.client()
    os.truncate(program.image, SIZE // 2)  # as a device that lacks its second half
    assert client.do(READ, SIZE - BLOCK, BLOCK).error == 5
    assert client.do(READ, SIZE // 2 - BLOCK, 2 * BLOCK).error == 5
    assert client.read(0, BLOCK) == bytes(BLOCK)
    client.leave()


def on_a_small_file_system(directory: Path, size: int) -> Program:
    """The image has room for the first MiB; the file system goes with the process that sees it."""
    (directory / "full").mkdir(parents=True)
    script = f'mount -t tmpfs -o size=1m none full && truncate -s {size} full/image && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh"]
    return Program(directory, size, words=words, image=directory / "full/image")


def test_a_full_file_system_is_an_error_of_the_write_alone(tmp_path: Path) -> None:
    program = on_a_small_file_system(tmp_path / "one", SIZE)
    program.ask("show", EXPORT)
    client = program.client()
    errors = {client.do(WRITE, place * MIB // 4, data=bytes([1]) * (MIB // 4)).error for place in range(8)}
    assert errors == {0, 28}
    assert client.do(WRITE_ZEROES, 0, SIZE, flags=NO_HOLE).error == 28
    assert client.do(TRIM, 0, SIZE).error == 0
    client.write(0, bytes([2]) * BLOCK)
    client.change(FLUSH)
    client.leave()
    assert program.end() == 0


def test_a_hidden_image_gets_another_size(program: Program) -> None:
    with pytest.raises(CommandRefusedError):
        program.ask("size", 2 * SIZE)
    program.ask("hide")
    for wrong in ("", "nothing", "-4096", "99999999999999999999999"):
        with pytest.raises(CommandRefusedError):
            program.ask("size", wrong)
    program.ask("size", 2 * SIZE)
    assert program.image.stat().st_size == 2 * SIZE
    program.ask("show", EXPORT)
    client = program.client()
    assert client.size == 2 * SIZE
    client.write(2 * SIZE - BLOCK, bytes([9]) * BLOCK)
    client.leave()


@pytest.mark.parametrize(
    "message",
    [
        *(
            b"",
            b"\n",
            b"1",
            b"x\nstatus",
            b"-1\nstatus",
            b"99999999999999999999999999\nstatus",
            b"1\nnonsense",
            b"1\nshow",
        ),
        *(b"1\nattach", b"1\nattach\n" + b"\n" * 40, b"1\ntake\na\nb", b"1\nrate\nx", b"1\nanswer\n99\nserve\n{}"),
        *(b"1\nshow\n" + b"x" * 60_000, b"\xff\xfe\n\x00", b"1\nstatus\n" + b"\n" * 3000, b"0\nstatus", b"1\nsize\n0"),
    ],
)
def test_wrong_commands_are_errors(program: Program, message: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(1)
        sock.connect(str(program.directory / "disk.cmd"))
        sock.send(message)
        with contextlib.suppress(OSError):
            answer = sock.recv(1 << 16)
            assert not answer or b"error" in answer or message.startswith(b"1\nstatus")
    program.commands = program.new_client()
    assert program.status().state == "alone"


def test_commands_without_a_disk_to_mirror_are_harmless(program: Program) -> None:
    assert program.ask("detach") == ["unequal"]
    program.ask("noted")
    program.ask("cut")
    program.ask("rate", 1000)
    assert program.status() == ("alone", 0, 0, EXPORT)


def test_descriptors_that_are_not_wanted_are_closed(program: Program) -> None:
    before = program.descriptors()
    with open("/dev/null") as useless:
        for word in ("status", "rate", "take"):
            for _ in range(10):
                with contextlib.suppress(CommandRefusedError):
                    program.commands.ask(word, sockets=[useless, useless])  # type: ignore[list-item]
    wait_until(lambda: program.descriptors() == before, "they are closed")


def test_a_new_command_client_replaces_the_former(program: Program) -> None:
    former = program.commands
    before = program.descriptors()
    program.commands = program.new_client()
    assert former.ended.wait(5)
    assert program.status().export == EXPORT
    for _ in range(30):
        program.commands = program.new_client()
        assert program.status().export == EXPORT
    former.close()
    assert program.descriptors() == before


def test_it_serves_on_without_a_command_client(program: Program) -> None:
    program.commands.close()
    client = program.client()
    client.write(0, bytes([1]) * BLOCK)
    client.leave()
    program.commands = program.new_client()


def test_it_says_why_it_does_not_start(tmp_path: Path) -> None:
    for words in ([], ["image"], [str(tmp_path / "missing"), "a.cmd", "a.nbd"], [str(tmp_path), "a.cmd", "a.nbd"]):
        done = subprocess.run([PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, timeout=10)
        assert done.returncode in (1, 2), words
        assert re.fullmatch(r"[^\n]+\n", done.stderr), done.stderr
        assert done.stdout == ""


def test_it_takes_the_place_of_sockets_that_nobody_serves(program: Program) -> None:
    program.kill()
    again = Program(program.directory, SIZE)
    program.process, program.commands = again.process, again.commands
    program.ask("show", EXPORT)
    program.client().leave()


def test_what_is_begun_is_carried_out_before_it_ends(program: Program) -> None:
    client = program.client()
    for number in range(16):
        client.begin(WRITE, number * BLOCK, data=bytes([number + 1]) * BLOCK)
    client.turn()
    program.signal(signal.SIGTERM)
    assert program.process.wait(10) == 0
    written = program.image.read_bytes()
    pump([client], lambda: client.has_ended)
    acknowledged = 16 - len(client.pending)
    assert [written[number * BLOCK] for number in range(acknowledged)] == list(range(1, acknowledged + 1))
    client.close()


def test_memory_is_small_after_heavy_load(program: Program) -> None:
    clients = [program.client() for _ in range(4)]
    for _ in range(4):
        for place in range(32):
            clients[place % 4].begin(WRITE, place % 8 * MIB, data=bytes([place]) * MIB)
        finish(*clients)
        for place in range(32):
            clients[place % 4].begin(READ, place % 8 * MIB, MIB)
        finish(*clients)
    for client in clients:
        client.leave()
    assert program.resident_bytes() <= RESIDENT_BYTES_MAX


def test_it_does_nothing_while_it_is_idle(program: Program) -> None:
    client = program.client()
    client.write(0, bytes(BLOCK))
    before = program.processor_s()
    time.sleep(2)
    assert program.processor_s() - before <= 0.02
    client.leave()


def test_no_descriptor_is_left_of_clients(program: Program) -> None:
    program.client().leave()
    before = program.descriptors()
    for number in range(100):
        client = program.client()
        if number % 2:
            client.begin(WRITE, 0, data=bytes(MIB))
            client.turn()
            client.close()
        else:
            client.leave()
    wait_until(lambda: program.descriptors() == before, "all are closed")
