# SPDX-License-Identifier: BSD-2-Clause
"""A Ceph cluster that does not answer is asked by one question at a time; the others fail at once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.node.storage.ceph_silence import ASKED_AGAIN_S, CephSilence

LIMIT_S = 0.05


class Cluster:
    """Answers, or keeps silent until the limit of each question."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked = 0
        self.answer: str | Exception | None = "yes"
        """None: it does not answer."""
        self.silence = CephSilence(LIMIT_S, lambda: self.now_s)

    async def question(self, *, limit_s: float) -> str:
        self.asked += 1
        if self.answer is None:
            await asyncio.sleep(limit_s)
            self.now_s += limit_s
            raise CommandError(f"rbd did not end within {limit_s:g} seconds and was stopped")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def ask(self, pool: str = "rbd", times: int = 1) -> list[str]:
        """What each of several questions at once ends with."""

        async def one() -> str:
            try:
                return await self.silence.ask(pool, self.question)
            except BlockDeviceError as err:
                return str(err)

        async def all_of_them() -> list[str]:
            return list(await asyncio.gather(*(one() for _ in range(times))))

        return asyncio.run(all_of_them())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_one_question_waits_and_the_later_ones_fail_at_once_with_its_sentence(cluster: Cluster) -> None:
    cluster.answer = None
    (first,) = cluster.ask()
    assert "did not end within 0.05 seconds and was stopped: the Ceph cluster does not answer this node" in first
    assert [cluster.ask()[0] for _ in range(100)] == [first] * 100
    assert cluster.asked == 1
    cluster.answer = "yes"
    assert cluster.ask("other") == ["yes"], "another pool of the cluster may answer"


def test_after_a_while_one_question_waits_again(cluster: Cluster) -> None:
    cluster.answer = None
    (first,) = cluster.ask()
    cluster.now_s += ASKED_AGAIN_S
    assert cluster.ask(times=5) == [first] * 5
    assert cluster.asked == 2, "the four others do not wait for it"
    cluster.now_s += ASKED_AGAIN_S
    cluster.answer = "yes"
    assert cluster.ask() == ["yes"]
    assert cluster.ask(times=3) == ["yes"] * 3


@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        (CommandError("rbd ended with status 2: error opening image"), False),
        (CommandError("rbd ended with status 1: couldn't connect to the cluster: (110) Connection timed out"), True),
    ],
)
def test_an_error_message_is_an_answer_unless_it_says_that_there_was_none(
    cluster: Cluster, answer: Exception, silent: bool
) -> None:
    cluster.answer = answer
    assert str(answer) in cluster.ask()[0]
    cluster.answer = "yes"
    assert (cluster.ask() == ["yes"]) is not silent


def test_a_question_that_is_given_up_leaves_the_next_one_to_find_out(cluster: Cluster) -> None:
    cluster.answer = None
    cluster.ask()
    cluster.now_s += ASKED_AGAIN_S

    async def given_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(LIMIT_S / 10):
                await cluster.silence.ask("rbd", cluster.question)

    asyncio.run(given_up())
    cluster.answer = "yes"
    assert cluster.ask() == ["yes"]


def ask_long(cluster: Cluster, work: Callable[[], Awaitable[str]]) -> str:
    async def question(*, limit_s: float) -> str:
        return await work()

    return asyncio.run(cluster.silence.ask_long("rbd", question, cluster.question, 1800.0))


def test_a_long_question_goes_on_while_the_cluster_answers_others(cluster: Cluster) -> None:
    cluster.answer = CommandError("rbd ended with status 2: error opening image")

    async def work() -> str:
        await asyncio.sleep(5 * LIMIT_S)
        return "removed"

    assert ask_long(cluster, work) == "removed"
    assert cluster.asked > 1


def test_a_long_question_ends_when_the_cluster_falls_silent(cluster: Cluster) -> None:
    cluster.answer = None
    ended = []

    async def work() -> str:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    with pytest.raises(BlockDeviceError, match="does not answer this node"):
        ask_long(cluster, work)
    assert ended
    with pytest.raises(BlockDeviceError, match="does not answer this node"):
        ask_long(cluster, work)
    assert cluster.asked == 1 and len(ended) == 1, "what is known to be silent is not asked for long"
