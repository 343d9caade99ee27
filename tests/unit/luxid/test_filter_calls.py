# SPDX-License-Identifier: BSD-2-Clause
"""ReplaceFilter and DeleteFilter: what is read from their arguments, what is refused, what is waited for."""

import asyncio
from typing import Any

import pytest
from tests.fakes.wconfd import fast_directory, running_wconfd

from ganeti.base.errors import GanetiError, ParameterError, PrerequisiteError
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.calls.serving import handlers_of
from ganeti.luxid.filter_calls import FilterCalls
from ganeti.master import operations
from ganeti.model.objects import FilterRule
from ganeti.stores.config_view import ConfigReader
from ganeti.system.livelock import LiveLock

operations.load()
GIVEN = "0000000b-0000-4000-8000-000000000000"
TRAIL = [["gnt:user", "why", 7]]


class View:
    """A view of the configuration that follows at once, or never."""

    def __init__(self, *, follows: bool = True) -> None:
        self.follows = follows
        self.asked: list[Any] = []

    async def reached(self, position: tuple[int, int], timeout_s: float) -> bool:
        self.asked.append(position)
        return self.follows


def run(scenario, view=None):
    async def go():
        with fast_directory() as root:
            async with running_wconfd(root) as daemon:
                lock = LiveLock(f"{daemon.paths.livelock_dir}/luxi_1")
                commits = DaemonCommits(daemon.client, lock.path)
                calls = FilterCalls(daemon.client, commits, view or View(), lambda: 41)
                try:
                    await scenario(
                        handlers_of(calls), lambda: ConfigReader(daemon.paths.config_database).view().filters()
                    )
                finally:
                    lock.close()

    asyncio.run(go())


def test_a_rule_lives():
    view = View()

    async def scenario(calls, rules):
        before = len(rules())
        made = await calls["ReplaceFilter"]([None, 3, [["jobid", ["<", "id", "watermark"]]], "PAUSE", TRAIL])
        (rule,) = [each for each in rules() if each.uuid == made]
        assert rule == FilterRule(
            uuid=made,
            watermark=41,
            priority=3,
            predicates=[["jobid", ["<", "id", "watermark"]]],
            action="PAUSE",
            reason_trail=TRAIL,
        )
        assert await calls["ReplaceFilter"]([made, 0, [], ["RATE_LIMIT", 1], []]) == made
        assert await calls["ReplaceFilter"]([GIVEN, 0, [], "ACCEPT", []]) == GIVEN
        assert {each.uuid: each.action for each in rules()}[made] == ["RATE_LIMIT", 1]
        assert len(rules()) == before + 2
        for uuid in (made, GIVEN):
            assert await calls["DeleteFilter"]([uuid]) is None
        assert len(rules()) == before
        with pytest.raises(PrerequisiteError, match="no filter rule"):
            await calls["DeleteFilter"]([GIVEN])
        assert len(view.asked) == 5

    run(scenario, view)


def test_what_is_committed_is_answered_although_it_is_not_seen_yet():
    async def scenario(calls, rules):
        assert await calls["ReplaceFilter"]([GIVEN, 0, [], "ACCEPT", []]) == GIVEN

    run(scenario, View(follows=False))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([5, 0, [], "PAUSE", []], "must be text, or null"),
        (["mine", 0, [], "PAUSE", []], "is not the UUID of a rule"),
        ([None, "0", [], "PAUSE", []], "whole number"),
        ([None, True, [], "PAUSE", []], "whole number"),
        ([None, None, [], "PAUSE", []], "whole number"),
        ([None, -1, [], "PAUSE", []], "0 or more"),
        ([None, 2**70, [], "PAUSE", []], "too large"),
        ([None, 0, {}, "PAUSE", []], "must be a list"),
        ([None, 0, None, "PAUSE", []], "must be a list"),
        ([None, 0, ["x"], "PAUSE", []], "is not a predicate"),
        ([None, 0, [], "WAIT", []], "is not an action"),
        ([None, 0, [], None, []], "is not an action"),
        ([None, 0, [], ["RATE_LIMIT", 0], []], "1 or more"),
        ([None, 0, [], "PAUSE", None], "source, reason, timestamp"),
        ([None, 0, [], "PAUSE", [["a", "b"]]], "source, reason, timestamp"),
        ([None, 0, [], "PAUSE", [["a", "b", "c"]]], "source, reason, timestamp"),
    ],
)
def test_each_fault_has_its_sentence(arguments, sentence):
    nobody: Any = None
    calls = handlers_of(FilterCalls(nobody, nobody, View(), lambda: 1))
    with pytest.raises(ParameterError) as refused:
        asyncio.run(calls["ReplaceFilter"](arguments))
    assert sentence in str(refused.value)


def test_calls_with_wrong_arguments_change_nothing():
    async def scenario(calls, rules):
        before = rules()
        for method, arguments in (
            ("ReplaceFilter", []),
            ("ReplaceFilter", [None, 0, [], "WAIT", []]),
            ("DeleteFilter", []),
            ("DeleteFilter", [None]),
            ("DeleteFilter", ["nosuch"]),
        ):
            with pytest.raises(GanetiError):
                await calls[method](arguments)
        assert rules() == before

    run(scenario)
