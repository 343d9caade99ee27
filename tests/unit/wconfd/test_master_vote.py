# SPDX-License-Identifier: BSD-2-Clause
"""Who may serve as master: the vote of the candidates, asked by both daemons that only the master runs."""

import argparse
import asyncio
import json
from asyncio import run
from types import SimpleNamespace

import pytest
from tests.fakes.wconfd import GOLDEN, fast_directory, running_wconfd

from ganeti.base.errors import NodeUnreachableError
from ganeti.daemons import luxid, maintd, master_start
from ganeti.model.configuration import Configuration
from ganeti.system.daemonize import DaemonRefused
from ganeti.system.environment import Environment
from ganeti.wconfd.master_vote import VOTING_ROUNDS, add_voting_options, voting_is_settled, win_vote


def golden_config() -> Configuration:
    return Configuration.from_plain(json.loads(GOLDEN.read_bytes()))


class Voters:
    own = "node1.example.com"

    def __init__(self, *rounds: str | None) -> None:
        self.rounds = list(rounds)
        self.asked = 0

    async def call(self, node_uuid, call, /, *, deadline_s=None, **arguments):
        assert call == "promise" and arguments["ask_only"]
        if node_uuid == golden_config().cluster.master_node:
            return {"refused": None, "granted": True, "names": self.own}
        vote = self.rounds[min(self.asked, len(self.rounds) - 1)]
        self.asked += 1
        if vote is None:
            raise NodeUnreachableError("away")
        return {"refused": None, "granted": True, "names": vote}

    async def call_many(self, node_uuids, call, /, *, deadline_s=None, **arguments):
        raise AssertionError("not used")


def vote(voters: Voters, pauses: list[float]) -> None:
    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    run(win_vote(golden_config(), voters, pause))


def test_the_other_candidate_agrees():
    pauses = []
    vote(Voters("node1.example.com"), pauses)
    assert pauses == []


def test_an_answer_may_come_late():
    pauses = []
    vote(Voters(None, None, "node1.example.com"), pauses)
    assert pauses == [10.0, 10.0]


def test_without_an_answer_the_start_is_refused_with_the_way_out():
    pauses, voters = [], Voters(None)
    with pytest.raises(DaemonRefused, match=r"no answer from node2.example.com.*--no-voting --yes-do-it"):
        vote(voters, pauses)
    assert voters.asked == VOTING_ROUNDS


def test_a_single_candidate_asks_nobody():
    data = json.loads(GOLDEN.read_bytes())
    for node in data["nodes"].values():
        node["master_candidate"] = node["name"].startswith("node1.")
    voters = Voters(None)
    run(win_vote(Configuration.from_plain(data), voters))
    assert voters.asked == 0


def test_a_majority_for_another_is_exit_11():
    data = json.loads(GOLDEN.read_bytes())
    for node in data["nodes"].values():
        node |= {"master_candidate": True, "offline": False}

    async def go():
        await win_vote(Configuration.from_plain(data), Voters("node2.example.com"))

    with pytest.raises(DaemonRefused, match=r"node2.example.com names node2.example.com") as caught:
        run(go())
    assert caught.value.status == 11
    assert "does not serve as the master, run daemon-util start-master there" in caught.value.message


def test_a_node_that_is_away_does_not_hold_up_a_majority():
    data = json.loads(GOLDEN.read_bytes())
    for node in data["nodes"].values():
        node |= {"master_candidate": True, "offline": False}
    config = Configuration.from_plain(data)
    away = next(node.uuid for node in config.nodes() if node.uuid != config.cluster.master_node)

    class OneAway(Voters):
        async def call(self, node_uuid, call, /, *, deadline_s=None, **arguments):
            if node_uuid == away:
                await asyncio.Event().wait()
            return await super().call(node_uuid, call, **arguments)

    assert len(config.nodes()) == 3
    run(asyncio.wait_for(win_vote(config, OneAway("node1.example.com")), 5))


def test_a_former_master_is_told_by_a_majority_that_has_promised_itself_to_another():
    """The third candidate has heard nothing yet; the node daemon here has."""
    data = json.loads(GOLDEN.read_bytes())
    for node in data["nodes"].values():
        node |= {"master_candidate": True, "offline": False}
    config = Configuration.from_plain(data)
    me = config.cluster.master_node
    new, third = (node.uuid for node in config.nodes() if node.uuid != me)

    class Promised(Voters):
        async def call(self, node_uuid, call, /, *, deadline_s=None, **arguments):
            answer = {"refused": None, "granted": True, "names": "node1.example.com"}
            return answer if node_uuid == third else {**answer, "promised": config.position[0] + 1, "holder": new}

    with pytest.raises(DaemonRefused) as caught:
        run(win_vote(config, Promised()))
    assert caught.value.status == 11


class Newer(Voters):
    """Where WConfD, or another node that was master, has written after the configuration was read."""

    def __init__(self, epochs: int, serials: int) -> None:
        super().__init__("node1.example.com")
        epoch, serial = golden_config().position
        self.position = [epoch + epochs, serial + serials]

    async def call(self, node_uuid, call, /, *, deadline_s=None, **arguments):
        return {"refused": None, "names": "node1.example.com", "position": self.position}


def test_a_copy_that_has_got_another_masters_records_since_it_was_read_is_not_served():
    with pytest.raises(DaemonRefused, match="another's records since it was read") as caught:
        vote(Newer(1, 0), [])
    assert caught.value.status == 11


def test_jobs_may_go_on_changing_things_while_luxid_starts():
    vote(Newer(0, 1), [])


@pytest.mark.parametrize(("words", "settled"), [([], True), (["--no-voting"], False)])
def test_to_leave_the_vote_out_must_be_confirmed(words, settled, capsys):
    parser = argparse.ArgumentParser()
    add_voting_options(parser)
    assert voting_is_settled("ganeti-luxid", parser.parse_args(words)) is settled
    assert ("--yes-do-it" in capsys.readouterr().err) is not settled
    assert voting_is_settled("ganeti-luxid", parser.parse_args([*words, "--yes-do-it"]))


def serve_luxid(daemon):
    return luxid.serve(daemon, None)


@pytest.mark.requirement("S4.23")
@pytest.mark.parametrize(
    ("serve", "module", "works"), [(serve_luxid, luxid, "serve_clients"), (maintd.serve, maintd, "_look_after")]
)
@pytest.mark.parametrize("no_voting", [False, True])
def test_daemons_of_the_master_serve_only_who_has_won_the_vote(no_voting, serve, module, works, monkeypatch):
    served = []

    async def lose(config, nodes):
        raise DaemonRefused("node2.example.com names node2.example.com", 11)

    async def work(daemon, *parts):
        served.append(daemon)

    async def go(root):
        async with running_wconfd(root) as wconfd:
            daemon = SimpleNamespace(
                hold_alone=lambda directory: None,
                environment=Environment(wconfd.paths, "node1.example.com"),
                options=SimpleNamespace(no_voting=no_voting),
            )
            await serve(daemon)

    monkeypatch.setattr(master_start, "win_vote", lose)
    monkeypatch.setattr(module, works, work)
    with fast_directory() as root:
        if no_voting:
            run(go(root))
        else:
            with pytest.raises(DaemonRefused, match="names node2"):
                run(go(root))
    assert len(served) == no_voting
