# SPDX-License-Identifier: BSD-2-Clause
"""ConfD's port: answered is who knows the key and the time, from the newest copy, whatever else arrives."""

import asyncio
import json
import os
import random
import socket
import time
from pathlib import Path

import pytest
from tests.fakes.wconfd import until

from ganeti.base.paths import Paths
from ganeti.confd import copy
from ganeti.confd.copy import Copy
from ganeti.confd.server import Server, keys_of
from ganeti.wire.confd import LARGEST_REPLY_BYTES, MAGIC, Kind, Question, read_reply, read_request, reply, request

KEY = b"0123456789abcdef\n"
CONFIG = json.loads((Path(__file__).parents[2] / "golden/config/config-3.1.json").read_text())
NODE = "node1.example.com"

pytestmark = pytest.mark.requirement("S2.14")


class Port:
    """A server on loopback, with a client."""

    def __init__(self, directory: Path) -> None:
        self.paths = Paths(str(directory))
        os.makedirs(self.paths.data_dir)
        Path(self.paths.ssconf_file("master_candidates")).write_text(f"{NODE}\nnode2.example.com\n")
        self.copy = Copy(self.paths, NODE)
        self.server = Server(self.copy, lambda: keys_of(KEY))
        self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.client.setblocking(False)

    def write(self, **changes: object) -> None:
        fresh = Path(f"{self.paths.config_file}.new")
        fresh.write_text(json.dumps({**CONFIG, **changes}))
        fresh.rename(self.paths.config_file)

    async def __aenter__(self) -> "Port":
        await self.copy.start()
        await self.server.listen("127.0.0.1", 0)
        self.client.connect(("127.0.0.1", self.server.port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.copy.close()
        self.client.close()

    async def exchange(self, datagram: bytes, within_s: float = 5.0) -> bytes | None:
        loop = asyncio.get_running_loop()
        self.client.send(datagram)
        try:
            async with asyncio.timeout(within_s):
                return await loop.sock_recv(self.client, LARGEST_REPLY_BYTES + 1)
        except TimeoutError:
            return None

    async def ask(self, kind: int, query: object = None, key: bytes = KEY) -> object:
        question = Question(kind, query, f"token{random.random()}")
        datagram = await self.exchange(request(question, time.time(), key))
        assert datagram is not None
        found = read_reply(datagram, question, [key])
        assert found is not None
        return found.answer

    async def until(self, wanted: object, kind: int, query: object = None) -> None:
        async with asyncio.timeout(10):
            while True:
                if await self.ask(kind, query) == wanted:
                    return
                await asyncio.sleep(0.01)


def play(tmp_path, story, **changes):
    async def whole():
        port = Port(tmp_path)
        if changes.pop("written", True):
            port.write(**changes)
        async with port:
            await story(port)

    asyncio.run(whole())


def test_answers_by_either_reading_of_the_key(tmp_path):
    async def story(port):
        assert await port.ask(Kind.PING) == CONFIG["version"]
        assert await port.ask(Kind.PING, key=KEY.strip()) == CONFIG["version"]

    play(tmp_path, story)


def test_the_newest_copy_is_told_as_soon_as_it_is_there(tmp_path):
    async def story(port):
        port.write(cluster={**CONFIG["cluster"], "cluster_name": "renamed.example.com"})
        await port.until("renamed.example.com", Kind.CONFIG, "/cluster/cluster_name")

    play(tmp_path, story)


def test_what_nobody_asks_for_is_read_with_the_next_question(tmp_path, monkeypatch):
    async def story(port):
        reads, read = [], port.copy._read
        monkeypatch.setattr(port.copy, "_read", lambda: reads.append(1) or read())
        for number in range(3):
            port.write(cluster={**CONFIG["cluster"], "cluster_name": f"name{number}.example.com"})
            await until(lambda: port.copy._rest is not None)
        assert not reads
        assert await port.ask(Kind.CONFIG, "/cluster/cluster_name") == "name2.example.com"
        assert len(reads) == 1
        port.write()
        await port.until(CONFIG["cluster"]["cluster_name"], Kind.CONFIG, "/cluster/cluster_name")
        assert len(reads) == 2, "while somebody asks, what changes is read at once"

    play(tmp_path, story)


def test_what_nobody_asks_for_is_read_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(copy, "LOOK_S", 0.05)

    async def story(port):
        before = port.copy.picture
        port.write()
        await until(lambda: port.copy.picture is not before)

    play(tmp_path, story)


def test_a_node_without_a_copy_says_so(tmp_path):
    async def story(port):
        question = Question(Kind.MASTER, None, "t")
        datagram = await port.exchange(request(question, time.time(), KEY))
        assert "there is no copy of the configuration yet" in datagram.decode()
        port.write()
        await port.until(NODE, Kind.MASTER)
        Path(port.paths.ssconf_file("master_candidates")).write_text("node2.example.com\n")
        port.write()
        await port.until(None, Kind.MASTER)
        datagram = await port.exchange(request(question, time.time(), KEY))
        assert f"node {NODE} is no master candidate" in datagram.decode()

    play(tmp_path, story, written=False)


def test_what_is_not_signed_or_not_of_now_gets_no_answer(tmp_path):
    async def story(port):
        now_s = time.time()
        ping = Question(Kind.PING, None, "t")
        good = request(ping, now_s, KEY)
        for wrong in (
            request(ping, now_s, b"another"),
            request(ping, now_s - 301, KEY),
            request(ping, now_s + 301, KEY),
            request(Question(12, None, "t"), now_s, KEY),
            good.replace(MAGIC, b"plj1"),
            good[:-3],
            good.replace(b"protocol", b"protokol"),
            b"",
            MAGIC + b"[" * 4000,
            good + b" " * 4096,
            request(Question(Kind.PING, "\ud800" * 10, "t"), now_s, KEY)[:-10],
        ):
            port.client.send(wrong)
        assert await port.ask(Kind.PING) == CONFIG["version"]  # the first answer is the one to the last question

    play(tmp_path, story)


def test_garbage_of_all_kinds(tmp_path):
    drawn = random.Random(1814)
    good = request(Question(Kind.CONFIG, "/cluster", "t"), time.time(), KEY)

    def damaged():
        data = bytearray(good)
        for _ in range(drawn.randint(1, 5)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        return bytes(data[: drawn.randint(1, len(data))])

    for _ in range(20_000):
        datagram = damaged()
        asked = read_request(datagram, time.time(), keys_of(KEY))
        assert asked is None or (asked[0].kind, asked[0].query) == (Kind.CONFIG, "/cluster")


def test_an_answer_that_is_too_long_is_a_sentence():
    question = Question(Kind.CONFIG, "", "t")
    datagram = reply(question, "x" * LARGEST_REPLY_BYTES, 5, KEY)
    assert len(datagram) < 400
    assert b"too long for a datagram" in datagram
    assert read_reply(datagram, question, [KEY]).answer is None


@pytest.mark.parametrize(("key", "told"), [(KEY, 1), (b"another", 0)])
def test_a_wrong_clock_is_told_once_and_no_strangers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: bytes, told: int
) -> None:
    async def story() -> None:
        async with Port(tmp_path) as port:
            port.write()
            for _ in range(3):
                assert await port.exchange(request(Question(Kind.PING, None, "t"), time.time() + 400, key), 0.1) is None

    asyncio.run(story())
    lines = [line for line in caplog.messages if "seconds ahead of that of this node: set the clocks right" in line]
    assert len(lines) == told
