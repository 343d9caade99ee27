# SPDX-License-Identifier: BSD-2-Clause
"""Two storage daemons of a mirrored disk lose each other: no answer before the loss is noted, and no data are lost."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.real import storage_program
from tests.real.false_second import FalseSecond, Wrong, good_answer
from tests.real.nbd_client import (
    DISCONNECT,
    FLUSH,
    FUA,
    NO_HOLE,
    READ,
    TRIM,
    WRITE,
    WRITE_ZEROES,
    Answer,
    NbdClient,
    finish,
    pump,
)
from tests.real.slow_disk import held_writes
from tests.real.storage_program import (
    BLOCK,
    EXPORT,
    MIB,
    SILENCE_S,
    TWO,
    CommandRefusedError,
    Pair,
    Program,
    wait_until,
)

from ganeti.mirrord.data_path import PROGRAM

pytestmark = pytest.mark.real
SIZE = 8 * MIB
HELD_S = 0.3


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Attached, both copies zero and equal."""
    made = Pair(tmp_path, SIZE)
    made.attach_equal()
    yield made
    made.close()
    assert made.one.process.returncode == 0


@pytest.fixture
def client(pair: Pair) -> NbdClient:
    return pair.one.client()


def fill(client: NbdClient, first: int, count: int, byte: int = 1) -> list[Answer]:
    """Begin to write blocks, each by a request of its own."""
    return [client.begin(WRITE, block * BLOCK, data=bytes([byte]) * BLOCK) for block in range(first, first + count)]


def kill(pair: Pair) -> None:
    pair.two.kill()


def stop(pair: Pair) -> None:
    pair.two.signal(signal.SIGSTOP)


def cut(pair: Pair) -> None:
    pair.door.cut()


@pytest.mark.parametrize("lose", [kill, stop, cut])
def test_no_change_is_answered_before_the_loss_is_noted(
    pair: Pair, client: NbdClient, lose: Callable[[Pair], None]
) -> None:
    client.write(0, bytes([1]) * BLOCK)
    lose(pair)
    begun_s = time.monotonic()
    changes = [
        *fill(client, 1, 40),
        client.begin(TRIM, 100 * BLOCK, BLOCK),
        client.begin(WRITE_ZEROES, 101 * BLOCK, BLOCK),
        client.begin(FLUSH),
        client.begin(WRITE, 110 * BLOCK, data=bytes([1]) * BLOCK, flags=FUA),
    ]
    heard: queue.Queue[str] = pair.one.commands.losses
    assert pump([client], lambda: not heard.empty(), 3)
    lost_s = time.monotonic() - begun_s
    assert heard.get()
    if lose is stop:
        assert 0.9 * SILENCE_S <= lost_s <= SILENCE_S + 0.4
    read = client.begin(READ, 0, BLOCK)
    late = client.begin(WRITE, 120 * BLOCK, data=bytes([1]) * BLOCK)
    assert not pump([client], lambda: any(answer.done for answer in (*changes, late)), HELD_S)
    assert read.done and read.data == bytes([1]) * BLOCK, "reads go on"
    assert pair.one.status().state == "losing"
    pair.one.ask("noted")
    finish(client)
    assert {answer.error for answer in (*changes, late)} == {0}
    assert pair.one.status().state == "lost"
    first = pair.one.image.read_bytes()
    assert all(first[block * BLOCK] == 1 for block in (*range(41), 110, 120))
    assert heard.empty(), "a loss is told once"
    client.write(0, bytes([2]) * BLOCK)
    if lose is stop:
        pair.two.signal(signal.SIGCONT)
    client.leave()


@pytest.mark.parametrize("lose", [kill, cut])
def test_the_end_of_the_connection_is_heard_without_a_write(pair: Pair, lose: Callable[[Pair], None]) -> None:
    lose(pair)
    pair.one.commands.next_loss(1)
    assert pair.one.status().state == "losing"


def test_silence_of_a_node_from_which_nothing_is_due_is_no_loss(pair: Pair, client: NbdClient) -> None:
    stop(pair)
    started = time.monotonic()
    while time.monotonic() - started < 2 * SILENCE_S:
        assert client.read(0, BLOCK) == bytes(BLOCK)
        time.sleep(0.01)
    assert pair.one.status().state == "equal"
    pair.two.signal(signal.SIGCONT)
    client.write(0, bytes([1]) * BLOCK)
    assert pair.images_are_equal()
    assert pair.one.commands.losses.empty()


def test_a_node_that_is_slow_and_answers_is_not_lost(pair: Pair, client: NbdClient) -> None:
    for _ in range(4):
        begun = fill(client, 0, 100)
        stop(pair)
        pump([client], lambda begun=begun: all(answer.done for answer in begun), 0.5)  # type: ignore[misc]
        pair.two.signal(signal.SIGCONT)
        finish(client)
    assert pair.one.status().state == "equal"


def test_a_node_that_was_stopped_itself_loses_nobody(pair: Pair, client: NbdClient) -> None:
    """It looks for the answers that have come before it counts the seconds."""
    for _ in range(5):
        fill(client, 0, 50)
        client.turn()
        pair.one.signal(signal.SIGSTOP)
        time.sleep(1.5 * SILENCE_S)
        pair.one.signal(signal.SIGCONT)
        finish(client)
    assert pair.one.status().state == "equal"
    assert pair.one.commands.losses.empty()
    assert pair.images_are_equal()


def test_only_what_changed_is_copied_after_a_loss(pair: Pair, client: NbdClient) -> None:
    client.write(0, bytes([1]) * 4 * BLOCK)
    cut(pair)
    pair.one.commands.next_loss()
    pair.one.ask("noted")
    client.write(0, bytes([2]) * BLOCK)
    client.write(4 * MIB, bytes([3]) * 64 * BLOCK)
    client.change(TRIM, 5 * MIB, 4 * BLOCK)
    client.write(0, bytes([4]) * BLOCK)
    wait_until(lambda: pair.door.connections() == 0, "the secondary has seen the end")
    pair.attach("kept")
    pair.wait_equal()
    state = pair.one.status()
    assert (state.done, state.total) == (69 * BLOCK, 69 * BLOCK)
    assert pair.door.received_bytes() <= 65 * BLOCK + 32 * 1024, "of the hole no byte is sent"
    assert pair.images_are_equal()
    client.leave()


@pytest.mark.parametrize("lose", [kill, stop, cut])
def test_what_was_under_way_at_a_loss_is_copied_afterwards(
    pair: Pair, client: NbdClient, lose: Callable[[Pair], None]
) -> None:
    """Nobody knows which of these the other node has."""
    fill(client, 0, 100, byte=7)
    pump([client], lambda: len(client.pending) < 60)
    lose(pair)
    fill(client, 100, 20, byte=8)
    assert pump([client], lambda: not pair.one.commands.losses.empty(), 3)
    pair.one.ask("noted")
    finish(client)
    total = pair.one.status().total
    assert 20 * BLOCK <= total <= 120 * BLOCK
    if lose is kill:
        pair.restart_second()
    elif lose is stop:
        pair.two.signal(signal.SIGCONT)
    wait_until(lambda: pair.door.connections() == 0, "the secondary has seen the end")
    pair.attach("kept")
    assert pair.one.status().total == total
    pair.wait_equal()
    assert pair.images_are_equal()
    client.leave()


def test_a_loss_in_the_midst_of_the_copying_keeps_what_was_copied(pair: Pair, client: NbdClient) -> None:
    assert pair.one.ask("detach") == ["equal"]
    client.write(0, b"".join(os.urandom(BLOCK) for _ in range(MIB // BLOCK)))
    pair.one.image.write_bytes(os.urandom(SIZE))
    pair.attach("whole", 8 * MIB)
    wait_until(lambda: pair.one.status().done >= 3 * MIB, "a part is copied")
    cut(pair)
    pair.one.commands.next_loss()
    pair.one.ask("noted")
    client.write(0, bytes([1]) * BLOCK)
    wait_until(lambda: pair.door.connections() == 0, "the secondary has seen the end")
    pair.attach("kept", 0)
    assert pair.one.status().total <= 6 * MIB
    pair.wait_equal()
    assert pair.images_are_equal()
    client.leave()


def test_a_new_command_client_hears_of_the_loss_again(pair: Pair, client: NbdClient) -> None:
    fill(client, 0, 5)
    kill(pair)
    first = pair.one.commands.next_loss()
    pair.one.commands.close()
    assert not pump([client], lambda: len(client.pending) < 5, HELD_S) or len(client.pending) == 5
    for _ in range(3):
        pair.one.commands = pair.one.new_client()
        assert pair.one.commands.next_loss() == first
    held = len(client.pending)
    assert not pump([client], lambda: len(client.pending) < held, HELD_S)
    pair.one.ask("noted")
    finish(client)
    pair.one.commands = pair.one.new_client()
    assert pair.one.status().state == "lost"
    assert pair.one.commands.losses.empty()
    client.leave()


def test_a_loss_while_nobody_listens_is_told_to_the_next_one(pair: Pair, client: NbdClient) -> None:
    pair.one.commands.close()
    fill(client, 0, 5)
    kill(pair)
    fill(client, 5, 5)
    assert not pump([client], lambda: not client.pending, 2 * SILENCE_S)
    pair.one.commands = pair.one.new_client()
    pair.one.commands.next_loss()
    pair.one.ask("noted")
    finish(client)
    client.leave()


def test_nothing_is_attached_before_the_loss_is_noted(pair: Pair) -> None:
    cut(pair)
    pair.one.commands.next_loss()
    with pytest.raises(CommandRefusedError):
        pair.attach("kept")
    pair.one.ask("noted")
    pair.attach("kept")
    pair.wait_equal()


def test_a_lost_copy_may_be_left(pair: Pair, client: NbdClient) -> None:
    kill(pair)
    pair.one.commands.next_loss()
    pair.one.ask("noted")
    client.write(0, bytes([1]) * BLOCK)
    assert pair.one.status().total == BLOCK
    assert pair.one.ask("detach") == ["unequal"]
    assert pair.one.status() == ("alone", 0, 0, EXPORT)
    client.write(BLOCK, bytes([1]) * BLOCK)
    pair.restart_second()
    pair.attach("kept")  # nothing is kept any more, so everything is copied
    pair.wait_equal()
    assert pair.images_are_equal()
    client.leave()


def test_a_detach_that_the_other_node_does_not_answer_ends(pair: Pair, client: NbdClient) -> None:
    """The copies were equal, and the other node may have it noted so: new writes are held until the loss is."""
    client.write(0, bytes([1]) * BLOCK)
    stop(pair)
    started = time.monotonic()
    assert pair.one.ask("detach") == ["unequal"]
    assert time.monotonic() - started < 5
    pair.one.commands.next_loss(1)
    held = client.begin(WRITE, 0, data=bytes([3]) * BLOCK)
    assert not pump([client], lambda: held.done, HELD_S)
    pair.one.ask("noted")
    finish(client)
    pair.two.signal(signal.SIGCONT)
    client.write(0, bytes([2]) * BLOCK)
    client.leave()


def test_hiding_during_a_loss_waits_for_the_answers_that_are_held(pair: Pair, client: NbdClient) -> None:
    fill(client, 0, 5)
    client.turn()
    stop(pair)
    fill(client, 5, 5)
    assert pump([client], lambda: not pair.one.commands.losses.empty(), 3)
    hiding = pair.one.commands.begin("hide")
    pump([client], hiding.done, HELD_S)
    pair.one.ask("noted")
    hiding.result(5)
    pair.two.signal(signal.SIGCONT)
    first = pair.one.image.read_bytes()
    assert all(first[block * BLOCK] == 1 for block in range(10))


def full_after_a_mib(directory: Path, size: int) -> Program:
    (directory / "full").mkdir(parents=True, exist_ok=True)
    script = f'mount -t tmpfs -o size=1m none full && truncate -s {size} full/image && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh"]
    return Program(directory, size, words=words, image=directory / "full/image")


def test_a_full_disk_of_the_other_node_is_a_loss(tmp_path: Path) -> None:
    pair = Pair(tmp_path, SIZE, two=full_after_a_mib)
    client = pair.one.client()
    pair.attach_equal()
    begun = [client.begin(WRITE, number * MIB // 2, data=bytes([1]) * (MIB // 2)) for number in range(8)]
    assert pump([client], lambda: not pair.one.commands.losses.empty(), 5)
    assert "28" in pair.one.commands.losses.get()
    assert not pump([client], lambda: all(answer.done for answer in begun), HELD_S)
    pair.one.ask("noted")
    finish(client)
    assert {answer.error for answer in begun} == {0}
    client.leave()
    pair.close()


def with_a_small_own_disk(directory: Path) -> tuple[Pair, NbdClient]:
    pair = Pair(directory, SIZE)
    pair.one.end()
    pair.one = full_after_a_mib(directory / "small", SIZE)
    pair.one.ask("show", EXPORT)
    client = pair.one.client()
    pair.attach_equal()
    return pair, client


def test_an_error_of_the_own_image_reaches_the_guest_and_the_other_copy_gets_what_is_there(tmp_path: Path) -> None:
    pair, client = with_a_small_own_disk(tmp_path)
    begun = [client.begin(WRITE, number * MIB // 2, data=bytes([1]) * (MIB // 2)) for number in range(8)]
    finish(client)
    assert {answer.error for answer in begun} == {0, 28}
    assert pair.one.commands.losses.empty()
    client.change(TRIM, 0, SIZE // 2)
    pair.wait_equal()
    client.change(TRIM, SIZE // 2, SIZE // 2)
    pair.wait_equal()
    held = Path(f"/proc/{pair.one.pid}/root{pair.one.image}").read_bytes()
    assert pair.two.image.read_bytes() == held
    client.leave()
    pair.close()


def test_what_failed_here_is_made_equal_there(tmp_path: Path) -> None:
    """The other node has written what this one could not."""
    pair, client = with_a_small_own_disk(tmp_path)
    for number in range(8):
        client.do(WRITE, number * MIB // 2, data=bytes([1]) * (MIB // 2))
    pair.wait_equal()
    held = Path(f"/proc/{pair.one.pid}/root{pair.one.image}").read_bytes()
    assert pair.two.image.read_bytes() == held
    assert client.read(0, MIB) == held[:MIB]
    client.leave()
    pair.close()


STRAY = struct.pack(">IIQ", 0x67446698, 0, 1 << 40)
LOSING_ANSWERS: dict[str, Callable[[int, int], bytes]] = {
    "error": lambda kind, cookie: good_answer(cookie, 5),
    "unknown error": lambda kind, cookie: good_answer(cookie, 0xFFFFFFFF),
    "nonsense": lambda kind, cookie: b"nonsense" * 100,
    "an answer to nothing": lambda kind, cookie: STRAY,
    "an answer twice": lambda kind, cookie: good_answer(cookie) * 2,
    "half an answer": lambda kind, cookie: good_answer(cookie)[:7],
    "an end": lambda kind, cookie: b"",
}


@pytest.fixture
def false_second(tmp_path: Path) -> Iterator[tuple[Pair, FalseSecond]]:
    pair = Pair(tmp_path, SIZE)
    second = FalseSecond(pair.certificates[TWO], pair.authority, SIZE)
    yield pair, second
    pair.close()
    second.close()
    assert pair.one.process.returncode == 0


@pytest.mark.parametrize("name", LOSING_ANSWERS)
def test_a_node_that_answers_wrong_is_lost(false_second: tuple[Pair, FalseSecond], name: str) -> None:
    pair, second = false_second
    client = pair.one.client()
    wrong = second.wrong = Wrong()
    pair.attach("none", port=second.port)
    pair.wait_equal()
    wrong.answer = LOSING_ANSWERS[name]
    begun = fill(client, 0, 8)
    assert pump([client], lambda: not pair.one.commands.losses.empty(), 3)
    assert not pump([client], lambda: all(answer.done for answer in begun), HELD_S)
    pair.one.ask("noted")
    finish(client)
    assert pair.one.image.read_bytes()[: 8 * BLOCK] == bytes([1]) * 8 * BLOCK
    before = pair.one.status()
    assert (before.state, before.total >= 7 * BLOCK) == ("lost", True)
    client.leave()
    pair.attach("kept")
    pair.wait_equal()
    assert pair.images()[1][BLOCK : 8 * BLOCK] == bytes([1]) * 7 * BLOCK


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong(greeting=b"NOT NBD AT ALL, BUT AS LONG"),
        Wrong(size=SIZE // 2),
        Wrong(size=2 * SIZE),
        Wrong(size=(1 << 64) - BLOCK),
        Wrong(flags=1),
        Wrong(flags=0xFFFF & ~2, size=0),
        Wrong(knows_export=False),
        Wrong(line=b"x" * (1 << 17)),
        Wrong(line=b'{"error":"' + b"y" * 60_000 + b'"}\n'),
        Wrong(line=b'{"error"\n'),
    ],
    ids=range(10),
)
def test_a_node_that_meets_wrong_is_not_attached(false_second: tuple[Pair, FalseSecond], wrong: Wrong) -> None:
    pair, second = false_second
    second.wrong = wrong
    try:
        with pytest.raises(CommandRefusedError):
            pair.attach("none", port=second.port)
    finally:
        pair.one.lives()
    assert pair.one.status().state == "alone"
    pair.attach_equal()
    assert pair.one.commands.losses.empty()


def test_an_error_while_copying_is_a_loss(false_second: tuple[Pair, FalseSecond]) -> None:
    pair, second = false_second
    pair.one.image.write_bytes(os.urandom(SIZE))
    second.wrong = Wrong(answer=lambda kind, cookie: good_answer(cookie, 28 if kind == WRITE else 0))
    pair.attach("whole", port=second.port)
    assert "28" in pair.one.commands.next_loss(3)
    pair.one.ask("noted")
    pair.attach("kept")
    assert pair.one.status().total == SIZE
    pair.wait_equal()
    assert pair.images_are_equal()


def test_copies_count_as_equal_when_what_was_copied_is_durable(false_second: tuple[Pair, FalseSecond]) -> None:
    pair, second = false_second
    may_flush = threading.Event()

    def answer(kind: int, cookie: int) -> bytes:
        assert kind != FLUSH or may_flush.wait(5)
        return good_answer(cookie)

    second.wrong = Wrong(answer=answer)
    pair.attach("whole", port=second.port)
    wait_until(lambda: second.asked[-1:] == [(FLUSH, 0, 0)], "what was copied is flushed", 5)
    time.sleep(0.1)
    assert pair.one.status().state == "copying"
    may_flush.set()
    pair.wait_equal()


def test_what_is_to_be_durable_is_durable_there_too(false_second: tuple[Pair, FalseSecond]) -> None:
    """What the own disk does for that no test can see; the other node is asked for it."""
    pair, second = false_second
    pair.one.image.write_bytes(os.urandom(MIB))
    os.truncate(pair.one.image, SIZE)
    pair.attach("whole", port=second.port)
    pair.wait_equal()
    assert {kind for kind, _, length in second.asked if length} == {WRITE, WRITE_ZEROES}
    client = pair.one.client()
    for kind, flags, wanted in (
        (WRITE, 0, (WRITE, 0, BLOCK)),
        (WRITE, FUA, (WRITE, FUA, BLOCK)),
        (TRIM, 0, (WRITE_ZEROES, 0, BLOCK)),
        (TRIM, FUA, (WRITE_ZEROES, FUA, BLOCK)),
        (WRITE_ZEROES, NO_HOLE, (WRITE_ZEROES, NO_HOLE, BLOCK)),
        (WRITE_ZEROES, FUA | NO_HOLE, (WRITE_ZEROES, FUA | NO_HOLE, BLOCK)),
        (FLUSH, 0, (FLUSH, 0, 0)),
    ):
        second.asked.clear()
        data = bytes(BLOCK) if kind == WRITE else b""
        client.change(kind, 0, 0 if kind in (WRITE, FLUSH) else BLOCK, data, flags)
        assert second.asked == [wanted], "of one that is answered"
    second.asked.clear()
    assert pair.one.ask("detach") == ["equal"]
    wait_until(lambda: [kind for kind, _, _ in second.asked] == [FLUSH, DISCONNECT], "it is left with durable data", 2)
    client.leave()


@contextlib.contextmanager
def own_disk_holds_writes(pair: Pair) -> Iterator[None]:
    """For a moment longer than this; skips where the machine has no means for it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held_writes(pair.one.pid, pair.one.image))
        except OSError as err:
            pytest.skip(f"no disk of this machine can be slowed: {err}")
        yield


def test_a_change_that_the_former_copy_had_is_copied_to_a_new_one(pair: Pair, client: NbdClient) -> None:
    """It ends after another copy was attached: that the former one had answered says nothing of this one."""
    for place in range(0, SIZE, MIB):
        client.write(place, bytes([9]) * MIB)
    with own_disk_holds_writes(pair):
        fill(client, (SIZE - MIB) // BLOCK, 6)
        pump([client], lambda: False, 0.3)
        assert len(client.pending) >= 5
        pair.two.kill()
        pair.one.commands.next_loss()
        pair.one.ask("noted")
        pair.two.image.write_bytes(bytes(SIZE))
        pair.restart_second()
        pair.attach("whole", 256 * 1024)
        assert client.pending
    finish(client)
    pair.one.ask("rate", 0)
    pair.wait_equal()
    assert pair.images_are_equal()
    client.leave()


def test_a_change_that_is_begun_when_copies_are_joined_is_copied(pair: Pair, client: NbdClient) -> None:
    client.write(0, bytes([9]) * MIB)
    assert pair.one.ask("detach") == ["equal"]
    with own_disk_holds_writes(pair):
        fill(client, 0, 6)
        pump([client], lambda: False, 0.3)
        pair.attach("none")
        assert client.pending
    finish(client)
    pair.wait_equal()
    assert pair.images_are_equal()
    client.leave()


def built(directory: Path, option: str) -> str:
    """A build with another limit than that of production."""
    build = str(directory / "storage-daemon")
    sources = map(str, Path(PROGRAM).parent.glob("*.c"))
    subprocess.run(
        ["cc", "-std=c11", "-O1", option, "-o", build, *sources, "-pthread", "-lssl", "-lcrypto"], check=True
    )
    return build


def test_one_answer_that_never_comes_is_a_loss_while_others_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 10 s; in this build after one."""
    monkeypatch.setattr(storage_program, "STORAGE_DAEMON", built(tmp_path, "-DSLOW_S=1.0"))
    pair = Pair(tmp_path, SIZE)
    second = FalseSecond(pair.certificates[TWO], pair.authority, SIZE)
    forgotten: list[int] = []

    def answer(kind: int, cookie: int) -> bytes | None:
        if kind == WRITE and not forgotten:
            forgotten.append(cookie)
        return None if cookie in forgotten else good_answer(cookie)

    try:
        second.wrong = Wrong(answer=answer)
        pair.attach("none", port=second.port)
        pair.wait_equal()
        client = pair.one.client()
        begun = time.monotonic()
        first = client.begin(WRITE, 0, data=bytes(BLOCK))
        number = 1
        while pair.one.commands.losses.empty():
            assert time.monotonic() - begun < 3
            each = client.begin(WRITE, number * BLOCK, data=bytes(BLOCK))
            pump([client], lambda each=each: each.done, 0.2)
            number += 1
        assert number > 20 and not first.done
        pair.one.ask("noted")
        finish(client)
    finally:
        pair.close()
        second.close()


def test_reads_go_on_while_large_writes_wait_for_a_loss_to_be_noted(pair: Pair) -> None:
    pair.two.process.kill()
    pair.one.commands.next_loss(3)
    client = pair.one.client()
    held = [client.begin(WRITE, number * MIB // 2, data=bytes(MIB // 2)) for number in range(16)]
    pump([client], lambda: False, 0.3)
    other = pair.one.client()
    read = other.begin(READ, 0, BLOCK)
    assert pump([other], lambda: read.done, 3)
    assert not any(answer.done for answer in held)
    pair.one.ask("noted")
    finish(client)


def test_one_that_copies_ends_at_once_when_it_is_told_to(pair: Pair) -> None:
    assert pair.one.ask("detach") == ["equal"]
    pair.one.image.write_bytes(os.urandom(SIZE))
    pair.attach("whole", 256 * 1024)
    begun = time.monotonic()
    pair.one.process.terminate()
    assert pair.one.process.wait(5) == 0
    assert time.monotonic() - begun < 2


def test_keys_are_renewed_before_they_have_carried_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 64 GiB; that of this build after 100,000 bytes."""
    monkeypatch.setattr(storage_program, "STORAGE_DAEMON", built(tmp_path, "-DKEY_BYTES=100000"))
    pair = Pair(tmp_path, SIZE)
    second = FalseSecond(pair.certificates[TWO], pair.authority, SIZE)
    try:
        pair.one.image.write_bytes(os.urandom(SIZE))
        pair.attach("whole", port=second.port)
        pair.wait_equal()
        assert SIZE // 150_000 < second.key_updates <= SIZE // 100_000
        assert pair.one.ask("detach") == ["equal"]
        pair.attach("whole")
        pair.wait_equal()
        assert pair.images_are_equal()
    finally:
        pair.close()
        second.close()
