# SPDX-License-Identifier: BSD-2-Clause
"""Two storage daemons of a mirrored disk: attached, made equal, detached; whom they trust, and what they are asked."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.nbd_client import FLUSH, FUA, NO_HOLE, TRIM, WRITE, WRITE_ZEROES, NbdClient, finish, pump, request
from tests.real.storage_program import (
    BLOCK,
    CONNECT,
    EXPORT,
    MIB,
    ONE,
    TWO,
    UUID,
    CommandRefusedError,
    Pair,
    read_line,
    tls_to,
    wait_until,
)

pytestmark = pytest.mark.real
SIZE = 8 * MIB
ATTACH_S = 2.0
RESIDENT_BYTES_MAX = 25_000_000
RATE_BYTES = 4 * MIB


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Neither copy is attached; both are zero."""
    made = Pair(tmp_path, SIZE)
    yield made
    ended = [(program.end(), program.name) for program in (made.one, made.two)]
    made.close()
    assert ended == [(0, "one"), (0, "two")]


def scribble(pair: Pair, seed: int) -> None:
    """Data with holes between in the first copy, other data in the second."""
    draw = random.Random(seed)
    for program in (pair.one, pair.two):
        with program.image.open("r+b") as image:
            for _ in range(12):
                image.seek(draw.randrange(SIZE // BLOCK - 100) * BLOCK)
                image.write(draw.randbytes(draw.randrange(1, 100) * BLOCK))


def write_somewhere(client: NbdClient, draw: random.Random) -> None:
    """Begun only: any change of up to 40 blocks."""
    block, count = draw.randrange(SIZE // BLOCK), draw.choice([1, 1, 1, 2, 7, 40])
    start = block * BLOCK
    length = min(count * BLOCK, SIZE - start)
    kind = draw.choice([WRITE, WRITE, WRITE, TRIM, WRITE_ZEROES, FLUSH])
    if kind == WRITE:
        client.begin(WRITE, start, data=draw.randbytes(length), flags=draw.choice([0, FUA]))
    elif kind == FLUSH:
        client.begin(FLUSH)
    else:
        client.begin(kind, start, length, flags=draw.choice([0, NO_HOLE]) if kind == WRITE_ZEROES else 0)


def test_the_other_copy_is_made_equal(pair: Pair) -> None:
    scribble(pair, 1)
    pair.attach("whole")
    [(names, asked)] = pair.door.asked
    assert names.split(",")[0] == ONE and "cluster.example.com" in names.split(",")
    assert (asked.uuid, asked.generation) == (UUID, 7)
    pair.wait_equal()
    assert pair.images_are_equal()
    state = pair.one.status()
    assert (state.state, state.done, state.export) == ("equal", state.total, EXPORT)
    allocated = [program.image.stat().st_blocks * 512 for program in (pair.one, pair.two)]
    assert allocated[1] <= allocated[0] + 64 * 1024, "holes stay holes"


def test_copies_that_are_equal_are_not_copied(pair: Pair) -> None:
    pair.attach_equal()
    assert pair.one.status().total == 0
    assert pair.door.received_bytes() < 8 * BLOCK
    assert pair.one.ask("detach") == ["equal"]


def test_where_nothing_is_kept_everything_is_copied(pair: Pair) -> None:
    scribble(pair, 1)
    pair.attach("kept")
    pair.wait_equal()
    assert pair.images_are_equal()


def test_every_kind_of_change_goes_to_both(pair: Pair) -> None:
    pair.attach_equal()
    client = pair.one.client()
    for flags in (0, FUA):
        client.write(0, bytes([1]) * MIB, flags)
        client.change(TRIM, BLOCK, 2 * BLOCK, flags=flags)
        client.change(WRITE_ZEROES, 8 * BLOCK, BLOCK, flags=flags)
        client.change(WRITE_ZEROES, 2 * MIB, MIB, flags=NO_HOLE | flags)
        client.change(FLUSH)
        assert pair.images_are_equal()
    client.write(SIZE - MIB, bytes([2]) * MIB)
    assert pair.images_are_equal()
    assert pair.images()[1][BLOCK : 4 * BLOCK] == bytes(2 * BLOCK) + bytes([1]) * BLOCK
    client.leave()


def test_the_rate_of_copying_holds_and_its_progress_is_told(pair: Pair) -> None:
    pair.one.image.write_bytes(random.Random(1).randbytes(SIZE))
    started = time.monotonic()
    pair.attach("whole", RATE_BYTES)
    told = []
    while (state := pair.one.status()).state == "copying":
        told.append(state)
        time.sleep(0.05)
    took_s = time.monotonic() - started
    assert 0.8 * SIZE / RATE_BYTES <= took_s <= 1.5 * SIZE / RATE_BYTES + 0.5
    assert {state.total for state in told} == {SIZE}
    assert [state.done for state in told] == sorted(state.done for state in told)
    half = told[len(told) // 2]
    assert 0.3 * SIZE <= half.done <= 0.7 * SIZE
    assert pair.images_are_equal()


def test_the_rate_may_change_meanwhile(pair: Pair) -> None:
    pair.one.image.write_bytes(random.Random(1).randbytes(SIZE))
    pair.attach("whole", 64 * 1024)
    time.sleep(0.3)
    assert pair.one.status().done <= MIB
    pair.one.ask("rate", 0)
    wait_until(lambda: pair.one.status().state == "equal", "it goes on without a limit", 5)
    assert pair.images_are_equal()


@pytest.mark.parametrize("seed", range(5))
def test_changes_during_the_copying_reach_both(pair: Pair, seed: int) -> None:
    scribble(pair, seed)
    draw = random.Random(seed)
    client = pair.one.client()
    pair.attach("whole", 16 * MIB)
    while pair.one.status().state == "copying":
        for _ in range(16):
            write_somewhere(client, draw)
        finish(client)
    assert pair.images_are_equal()
    client.leave()


def test_a_guest_is_quick_while_a_slow_copying_goes_on(pair: Pair) -> None:
    pair.one.image.write_bytes(random.Random(1).randbytes(SIZE))
    pair.attach("whole", 1 * MIB)
    client = pair.one.client()
    longest_s = 0.0
    for number in range(100):
        started = time.monotonic()
        client.write(number * 20 * BLOCK, bytes([1]) * BLOCK)
        longest_s = max(longest_s, time.monotonic() - started)
    assert pair.one.status().state == "copying"
    assert longest_s < 0.5
    client.leave()


def test_what_the_guest_has_written_meanwhile_is_not_copied(pair: Pair) -> None:
    pair.one.image.write_bytes(random.Random(1).randbytes(SIZE))
    pair.attach("whole", 256 * 1024)
    client = pair.one.client()
    for place in range(0, SIZE, MIB):
        client.write(place, random.Random(place).randbytes(MIB))
    wait_until(lambda: pair.one.status().state == "equal", "nothing is left to copy", 5)
    assert pair.images_are_equal()
    client.leave()


def test_what_is_detached_is_written_alone(pair: Pair) -> None:
    pair.attach_equal()
    client = pair.one.client()
    client.write(0, bytes([1]) * BLOCK)
    assert pair.one.ask("detach") == ["equal"]
    assert pair.images_are_equal()
    assert pair.one.status() == ("alone", 0, 0, EXPORT)
    client.write(0, bytes([2]) * BLOCK)
    assert pair.images()[1][:BLOCK] == bytes([1]) * BLOCK
    assert pair.one.ask("detach") == ["unequal"]
    pair.attach("whole")
    pair.wait_equal()
    assert pair.images_are_equal()
    assert pair.one.commands.losses.empty()
    client.leave()


def test_one_that_is_detached_while_copying_is_a_loss(pair: Pair) -> None:
    """Whether the other copy counted as equal only ganeti-mirrord knows."""
    pair.one.image.write_bytes(random.Random(1).randbytes(SIZE))
    client = pair.one.client()
    pair.attach("whole", 256 * 1024)
    for number in range(32):
        client.begin(WRITE, number * BLOCK, data=bytes([1]) * BLOCK)
    client.turn()
    assert pair.one.ask("detach") == ["unequal"]
    assert "before it is equal" in pair.one.commands.next_loss(3)
    held = client.begin(WRITE, 0, data=bytes([2]) * BLOCK)
    assert not pump([client], lambda: held.done, 0.3)
    pair.one.ask("noted")
    finish(client)
    assert pair.one.status() == ("alone", 0, 0, EXPORT)
    client.leave()


@pytest.mark.parametrize("seed", range(6))
def test_detaching_beneath_a_busy_guest_leaves_equal_copies(pair: Pair, seed: int) -> None:
    """Blocks are written once each: what the other copy lacks was written after the last one that it has."""
    draw = random.Random(seed)
    pair.attach_equal()
    client = pair.one.client()
    blocks = draw.sample(range(SIZE // BLOCK), 600)
    begun = [(block, client.begin(WRITE, block * BLOCK, data=bytes([1]) * BLOCK)) for block in blocks]
    pump([client], lambda: sum(answer.done for _, answer in begun) > 100 + 50 * seed)
    detaching = pair.one.commands.begin("detach")
    pump([client], lambda: detaching.done())
    acknowledged_before = [block for block, answer in begun if answer.done]
    assert detaching.result() == ["equal"]
    finish(client)
    first, second = pair.images()
    assert all(first[block * BLOCK] for block in blocks)
    there = [bool(second[block * BLOCK]) for block in blocks]
    assert there == sorted(there, reverse=True), "it lacks one of before the end, and has one of after"
    assert sum(there) >= min(len(acknowledged_before), 100)
    client.leave()


def test_one_that_is_attached_is_not_attached_again(pair: Pair) -> None:
    pair.attach_equal()
    with pytest.raises(CommandRefusedError):
        pair.attach("none")
    assert pair.one.status().state == "equal"
    with pytest.raises(CommandRefusedError):
        pair.one.ask("size", 2 * SIZE)


def test_both_copies_get_another_size(pair: Pair) -> None:
    """The guest's QEMU is away for a moment, and the connection between the nodes is made anew."""
    pair.attach_equal()
    pair.one.ask("hide")
    with pytest.raises(CommandRefusedError):
        pair.one.ask("size", 2 * SIZE)
    assert pair.one.ask("detach") == ["equal"]
    for program in (pair.one, pair.two):
        program.ask("hide")
        program.ask("size", 2 * SIZE)
        program.ask("show", EXPORT)
    pair.attach_equal()
    client = pair.one.client()
    client.write(2 * SIZE - BLOCK, bytes([1]) * BLOCK)
    assert pair.images_are_equal()
    assert len(pair.images()[1]) == 2 * SIZE
    client.leave()


def test_copies_of_other_sizes_are_not_attached(pair: Pair) -> None:
    pair.two.ask("hide")
    pair.two.ask("size", SIZE // 2)
    pair.two.ask("show", EXPORT)
    with pytest.raises(CommandRefusedError, match=str(SIZE // 2)):
        pair.attach("whole")
    assert pair.one.status().state == "alone"
    wait_until(lambda: pair.two.connections() == 0, "the other node has ended the connection, too")


def refused(pair: Pair, **changed: object) -> CommandRefusedError:
    """Why it cannot be attached, while a guest goes on; afterwards it can be."""
    client = pair.one.client()
    started = time.monotonic()
    attaching = pair.begin_attach(**changed)  # type: ignore[arg-type]
    while not attaching.done():
        client.write(0, bytes([1]) * BLOCK)
    assert time.monotonic() - started < ATTACH_S + 0.7
    assert pair.one.status().state == "alone"
    error = attaching.exception()
    assert isinstance(error, CommandRefusedError)
    client.leave()
    return error


def check_good(pair: Pair) -> None:
    pair.attach("whole")
    pair.wait_equal()
    assert pair.one.commands.losses.empty()


def test_a_certificate_of_another_authority_is_refused(pair: Pair) -> None:
    certificate, authority = pair.new_authority(ONE)
    refused(pair, certificate=certificate)
    assert pair.door.asked == []
    refused(pair, authority=authority)
    assert pair.door.asked == []
    check_good(pair)


def test_a_node_of_another_name_is_refused(pair: Pair) -> None:
    refused(pair, peer="node3.example.com")
    assert pair.door.asked == []
    refused(pair, peer="")
    assert pair.door.asked == []
    check_good(pair)


def test_a_certificate_that_cannot_be_read_is_named(pair: Pair) -> None:
    useless = pair.root / "useless.pem"
    useless.write_text("nothing\n")
    for changed in ({"certificate": pair.root / "missing.pem"}, {"certificate": useless}, {"authority": useless}):
        assert refused(pair, **changed).line == ""
    check_good(pair)


def test_where_nobody_listens_it_is_refused_at_once(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    started = time.monotonic()
    refused(pair, port=port)
    assert time.monotonic() - started < 0.5
    refused(pair, port="none")
    refused(pair, address="node2.example.com")
    check_good(pair)


def test_a_node_that_says_nothing_is_refused_soon(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused(pair, port=silent.getsockname()[1])
    check_good(pair)


def test_a_node_that_does_not_answer_the_line_is_refused_soon(pair: Pair) -> None:
    pair.door.answers = False
    assert refused(pair).line == ""
    pair.door.answers = True
    check_good(pair)


def test_a_refusal_of_the_other_node_comes_with_its_words(pair: Pair) -> None:
    pair.door.refusal = 'its copy is newer: "generation 8"'
    error = refused(pair)
    assert error.line == '{"error":"its copy is newer: \\"generation 8\\""}'
    pair.door.refusal = ""
    wait_until(lambda: pair.two.connections() == 0, "the connection has ended")
    check_good(pair)


def test_an_export_that_the_other_node_does_not_show_is_refused(pair: Pair) -> None:
    refused(pair, export="other")
    check_good(pair)


def test_nobody_is_asked_of_who_has_no_certificate(pair: Pair) -> None:
    before = pair.two.descriptors()
    with contextlib.suppress(OSError), tls_to(pair.door, None, pair.authority) as sock:
        sock.sendall(CONNECT + b"\n")
        assert sock.recv(1) == b""
    certificate, _ = pair.new_authority(ONE)
    with contextlib.suppress(OSError), tls_to(pair.door, certificate, pair.authority) as sock:
        sock.sendall(CONNECT + b"\n")
        assert sock.recv(1) == b""
    with socket.create_connection(("127.0.0.1", pair.door.port)) as plain:
        plain.sendall(f"GANETI-DISK {UUID}\n".encode() + bytes(100))
        with contextlib.suppress(OSError):
            while plain.recv(100):
                pass
    assert pair.door.asked == []
    wait_until(lambda: pair.two.descriptors() == before, "all are closed")


def test_an_older_tls_is_refused(pair: Pair) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pair.certificates[ONE])
    context.load_verify_locations(pair.authority)
    with socket.create_connection(("127.0.0.1", pair.door.port)) as sock:
        sock.sendall(f"GANETI-DISK {UUID}\n".encode())
        with pytest.raises(OSError):
            context.wrap_socket(sock, server_hostname=TWO)


def test_a_connection_that_nobody_answers_for_is_ended(pair: Pair) -> None:
    before = pair.two.descriptors()
    pair.door.answers = False
    started = time.monotonic()
    with tls_to(pair.door, pair.certificates[ONE], pair.authority) as sock:
        sock.sendall(CONNECT + b"\n")
        with contextlib.suppress(OSError):
            assert sock.recv(1) == b""
    assert 9 < time.monotonic() - started < 12
    wait_until(lambda: pair.two.descriptors() == before, "its descriptor is closed")


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x10\x00" + bytes(100)], ids=["nothing", "a byte now and then"])
def test_many_that_say_nothing_keep_nobody_away_for_long(pair: Pair, said: bytes) -> None:
    silent = []
    for _ in range(20):
        sock = socket.create_connection(("127.0.0.1", pair.door.port))
        sock.sendall(f"GANETI-DISK {UUID}\n".encode())
        silent.append(sock)
    wait_until(lambda: pair.two.connections() >= 8, "they were taken")
    left = iter(said)

    def is_attached() -> bool:
        for sock, byte in [(sock, byte) for byte in itertools.islice(left, 1) for sock in silent]:
            with contextlib.suppress(OSError):
                sock.send(bytes([byte]))
        with contextlib.suppress(CommandRefusedError):
            pair.attach("none")
        return pair.one.status().state != "alone"

    wait_until(is_attached, "the other node has its turn", 5)
    for sock in silent:
        sock.close()


def test_more_connections_than_there_is_room_for_harm_nobody(pair: Pair) -> None:
    guests = []
    with contextlib.suppress(OSError):
        guests.extend(pair.two.client() for _ in range(80))
    nodes = []
    with contextlib.suppress(OSError, AssertionError):
        nodes.extend(pair.as_primary() for _ in range(12))
    for client in (*guests, *nodes):
        with contextlib.suppress(AssertionError, OSError):
            client.begin(WRITE, 0, data=bytes([1]) * BLOCK)
            pump([client], lambda client=client: not client.pending, 5)
        client.close()
    pair.two.lives()
    check_good(pair)


def test_the_other_node_reads_and_writes_as_a_client(pair: Pair) -> None:
    client = pair.as_primary()
    client.write(0, bytes([5]) * MIB, FUA)
    client.change(TRIM, 0, BLOCK)
    assert client.read(0, 2 * BLOCK) == bytes(BLOCK) + bytes([5]) * BLOCK
    client.leave()


def test_hiding_ends_no_connection_of_the_other_node(pair: Pair) -> None:
    pair.attach_equal()
    pair.two.ask("hide")
    client = pair.one.client()
    client.write(0, bytes([1]) * BLOCK)
    assert pair.one.status().state == "equal"
    assert pair.images_are_equal()
    client.leave()


def test_cut_ends_a_connection_after_what_was_begun(pair: Pair) -> None:
    local = pair.two.client()
    with tls_to(pair.door, pair.certificates[ONE], pair.authority) as sock:
        sock.sendall(CONNECT + b"\n")
        assert read_line(sock)
        client = NbdClient(sock, EXPORT, is_structured=False)
        for number in range(50):
            client.begin(WRITE, number * BLOCK, data=bytes([number + 1]) * BLOCK)
        client.send_raw(request(WRITE, 1000, 100 * BLOCK, 2 * BLOCK) + bytes([255]) * BLOCK)
        pump([client], lambda: len(client.pending) <= 40)
        acknowledged = 50 - len(client.pending)
        pair.two.ask("cut")
        written = pair.two.image.read_bytes()
        assert pair.two.connections() == 0
        with contextlib.suppress(OSError, AssertionError):
            client.begin(WRITE, 200 * BLOCK, data=bytes([255]) * BLOCK)
            client.turn()
        time.sleep(0.3)
        assert pair.two.image.read_bytes() == written
    there = [written[number * BLOCK] for number in range(50)]
    whole = there.index(0) if 0 in there else 50
    assert there == [*range(1, whole + 1), *[0] * (50 - whole)]
    assert whole >= acknowledged
    assert not any(written[50 * BLOCK :])
    assert local.read(0, BLOCK) == bytes([1]) * BLOCK  # of this node's clients none is ended
    local.leave()


def test_cut_of_a_busy_primary_is_answered_soon(pair: Pair) -> None:
    pair.attach_equal()
    client = pair.one.client()
    for number in range(200):
        client.begin(WRITE, number * 8 * BLOCK, data=bytes([1]) * 8 * BLOCK)
    pump([client], lambda: len(client.pending) < 150)
    started = time.monotonic()
    pair.two.ask("cut")
    assert time.monotonic() - started < 1
    before = pair.two.image.read_bytes()
    pair.one.commands.next_loss(5)
    pair.one.ask("noted")
    finish(client)
    assert pair.two.image.read_bytes() == before
    client.leave()


def test_half_a_record_of_the_other_node_costs_nothing(pair: Pair) -> None:
    client = pair.as_primary()
    with contextlib.closing(client):
        client.write(0, bytes(BLOCK))
        raw = socket.socket(fileno=socket.dup(client.fileno()))
        with raw:
            raw.send(b"\x17\x03\x03\x40\x00" + bytes(100))  # a record's header, and some of its 16 KiB
            time.sleep(0.2)
            before = pair.two.processor_s()
            time.sleep(1)
            assert pair.two.processor_s() - before <= 0.02
    pair.two.client().leave()


def test_nonsense_of_the_other_node_ends_its_connection_alone(pair: Pair) -> None:
    before = pair.two.descriptors()
    draw = random.Random(1)
    for _ in range(40):
        client = pair.as_primary()
        with contextlib.suppress(KeyError, AssertionError, OSError):
            if draw.random() < 0.5:
                client.send_raw(draw.randbytes(draw.randrange(1, 3000)))
            else:
                kind, offset, length = draw.randrange(12), draw.getrandbits(64), draw.getrandbits(32)
                client.send_raw(request(kind, 1, offset, length) + draw.randbytes(100))
            client.turn()
            pump([client], lambda client=client: client.has_ended, 0.02)
        client.close()
        pair.two.lives()
    wait_until(lambda: pair.two.descriptors() == before, "all are closed")
    check_good(pair)


def test_nothing_is_left_after_many_connections(pair: Pair) -> None:
    pair.attach_equal()
    assert pair.one.ask("detach") == ["equal"]
    wait_until(lambda: pair.two.connections() == 0, "the first one has ended")
    before = [(program.descriptors(), program.threads()) for program in (pair.one, pair.two)]
    for _ in range(30):
        pair.attach("whole")
        pair.wait_equal()
        assert pair.one.ask("detach") == ["equal"]
    for _ in range(10):
        with pytest.raises(CommandRefusedError):
            pair.attach("none", export="other")
    wait_until(lambda: pair.two.connections() == 0, "all have ended")
    wait_until(
        lambda: [(program.descriptors(), program.threads()) for program in (pair.one, pair.two)] == before,
        "descriptors and threads are as before",
        5,
    )
    assert max(program.resident_bytes() for program in (pair.one, pair.two)) <= RESIDENT_BYTES_MAX


def test_memory_is_small_after_heavy_load_on_both(pair: Pair) -> None:
    pair.attach("whole")
    clients = [pair.one.client() for _ in range(4)]
    for _ in range(6):
        for place in range(32):
            clients[place % 4].begin(WRITE, place % 8 * MIB, data=bytes([place]) * MIB)
        finish(*clients)
    assert pair.one.commands.losses.empty()
    assert pair.images_are_equal()
    for client in clients:
        client.leave()
    for program in (pair.one, pair.two):
        assert program.resident_bytes() <= RESIDENT_BYTES_MAX, program.name


def test_two_that_are_attached_do_nothing_while_they_are_idle(pair: Pair) -> None:
    client = pair.one.client()
    pair.attach("whole")
    pair.wait_equal()
    client.write(0, bytes(BLOCK))
    before = [program.processor_s() for program in (pair.one, pair.two)]
    time.sleep(2)
    used = [program.processor_s() for program in (pair.one, pair.two)]
    assert max(after - start for start, after in zip(before, used, strict=True)) <= 0.02
    assert pair.one.status().state == "equal", "silence without an answer that is due is no loss"
    client.leave()


def test_what_is_written_while_one_is_attached_is_copied(pair: Pair) -> None:
    pair.door.answers_after_s = 0.5
    client = pair.one.client()
    attaching = pair.begin_attach("none")
    time.sleep(0.2)
    client.write(0, bytes([1]) * BLOCK)
    attaching.result(5)
    pair.wait_equal()
    assert pair.images_are_equal()
    client.leave()
