# SPDX-License-Identifier: BSD-2-Clause
"""Verification of the copies: every candidate that is not in sync is named, with why and what to do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.master.operations.cluster.verify_config import VerifyConfiguration
from ganeti.model.copies import Copy
from ganeti.model.objects import CLUSTER_KEY

NOW_S = 1000.0


class Cluster:
    """Three candidates (unless *candidates* says otherwise), of which some are not in sync."""

    def __init__(self, candidates: int = 3, **copies: Copy) -> None:
        self.ctx = FakeContext(configuration(4), catalogue())
        self.ctx.time_s = NOW_S
        self.ctx.config.not_in_sync = {f"uuid-{name}": copy for name, copy in copies.items()}
        config = self.ctx.config.config
        for index in range(candidates + 1, 5):
            node = config.node(f"uuid-node{index}")
            config.put("nodes", node.uuid, replace(node, master_candidate=False))
        cluster = replace(config.cluster, candidate_pool_size=candidates, hvparams={"pretend": {}})
        config.put("cluster", CLUSTER_KEY, cluster)
        paths = Paths()
        answer = {"filelist": dict.fromkeys([paths.server_cert, paths.client_cert, paths.authority_cert], "sum")}
        self.ctx.nodes.handlers["node_verify"] = lambda name, checks: answer

    def told(self) -> list[str]:
        """What is said of copies, without the indentation."""
        run(VerifyConfiguration(error_codes=True), self.ctx)
        lines = self.ctx.lines
        begin = lines.index("* Verifying copies of the configuration") + 1
        return [line.removeprefix("  - ") for line in lines[begin : lines.index("* Verifying hypervisor parameters")]]


def refusing(cluster: Cluster, **words: str) -> Cluster:
    """Nodes that answer `replica_state` with these words."""
    answers = {name: {"refused": word, "sentence": "as told"} for name, word in words.items()}
    cluster.ctx.nodes.handlers["replica_state"] = lambda name, **_: answers.get(name, {"refused": None})
    return cluster


def behind(reason: str) -> Copy:
    return Copy(state="behind", position=(1, 4), reason=reason, since_s=NOW_S - 130)


COPY = "its copy of the configuration and the queue"
LATE = "has been behind for 2 min 10 s (it is at record 1.4, the master at 1.9)"


def test_where_all_are_in_sync_nothing_is_said() -> None:
    cluster = Cluster()
    assert cluster.told() == []
    assert not any("no-voting" in line for line in cluster.ctx.lines)


@pytest.mark.parametrize(
    ("copy", "line"),
    [
        (behind("disk"), f"ERROR:ENODESETUP:node:node3:{COPY} {LATE}: disk is full or fails; where "),
        (behind("clock"), f"ERROR:ENODETIME:node:node3:{COPY} {LATE}: clock is wrong; set its clock right"),
        (behind("software"), f"ERROR:ENODEVERSION:node:node3:{COPY} {LATE}: other software; install"),
        (behind("cluster"), f"ERROR:ENODESETUP:node:node3:{COPY} {LATE}: copy of another cluster; "),
        (behind("damaged"), f"ERROR:ENODEFILECHECK:node:node3:{COPY} {LATE}: copy is damaged; "),
        (behind("epoch"), f"ERROR:ENODESETUP:node:node3:{COPY} {LATE}: another master was promised; "),
        (behind("master"), f"ERROR:ENODESETUP:node:node3:{COPY} {LATE}: acts as master itself; stop"),
        (behind("its queue differs"), f"ERROR:ENODEFILECHECK:node:node3:{COPY} {LATE}: its queue differs"),
        (behind(""), f"ERROR:ENODEFILECHECK:node:node3:{COPY} {LATE}"),
        (
            Copy(state="away", reason="it does not answer", since_s=NOW_S - 7200),
            f"WARNING:ENODERPC:node:node3:{COPY} has been left out for 2 h: it does not answer; once the node answers",
        ),
        (Copy(state="away"), f"WARNING:ENODERPC:node:node3:{COPY} has been left out; once the node answers"),
        (
            Copy(state="catching-up", position=(1, 4), since_s=NOW_S - 2),
            f"WARNING:ENODEFILECHECK:node:node3:{COPY} has been catching up for 2 s (it is at record 1.4, the",
        ),
    ],
)
def test_each_candidate_that_is_not_in_sync_is_named(copy: Copy, line: str) -> None:
    told = Cluster(node3=copy).told()
    assert len(told) == 1 and told[0].startswith(line), told


@pytest.mark.parametrize(
    ("word", "code"), [("clock", "ENODETIME"), ("software", "ENODEVERSION"), ("cluster", "ENODESETUP")]
)
def test_a_sentence_of_the_node_stands_for_itself_and_its_word_gives_the_code(word: str, code: str) -> None:
    told = refusing(Cluster(4, node2=behind("The clock is off: set it"), node3=behind("")), node2=word).told()
    assert told == [
        f"ERROR:{code}:node:node2:{COPY} {LATE}: The clock is off: set it",
        f"ERROR:ENODEFILECHECK:node:node3:{COPY} {LATE}",
    ]


def test_what_the_system_says_of_a_disk_gets_a_remedy() -> None:
    (told,) = refusing(Cluster(node3=behind("config.sqlite cannot be used: disk I/O error")), node3="disk").told()
    assert told.startswith(f"ERROR:ENODESETUP:node:node3:{COPY} {LATE}: config.sqlite cannot be used: disk I/O error; ")
    assert "make room" in told


def test_a_node_that_is_away_is_not_asked_again() -> None:
    cluster = refusing(Cluster(node2=Copy(state="away"), node3=behind("no room")))
    cluster.ctx.nodes.dead.add("node3")
    assert cluster.told()[-1] == f"ERROR:ENODEFILECHECK:node:node3:{COPY} {LATE}: no room"
    assert [line for line in cluster.ctx.story if line.endswith("replica_state")] == ["node3 replica_state"]


@pytest.mark.parametrize("copy", [behind("disk"), Copy(state="away"), Copy(state="catching-up", position=None)])
def test_a_warning_leaves_the_result_good_and_an_error_does_not(copy: Copy) -> None:
    cluster = Cluster(node3=copy)
    assert run(VerifyConfiguration(), cluster.ctx) is (copy.state != "behind")


def test_to_have_no_second_copy_is_an_error_although_each_comes_back() -> None:
    away = Copy(state="away", reason="it does not answer")
    cluster = Cluster(node2=away, node3=Copy(state="catching-up"))
    told = cluster.told()
    assert told[0] == (
        "ERROR:ECLUSTERFILECHECK:cluster:None:only the master has everything that was acknowledged: no other master "
        "candidate (node2 and node3) is in sync, and what the master's disk loses is lost"
    )
    assert [line.split(":")[3] for line in told[1:]] == ["node2", "node3"]
    assert run(VerifyConfiguration(), cluster.ctx) is False


def test_a_master_without_other_candidates_has_nobody_to_wait_for() -> None:
    assert Cluster(candidates=1).told() == []


def test_two_candidates_are_told_what_a_failover_will_need() -> None:
    cluster = Cluster(candidates=2)
    assert cluster.told() == []
    assert [line for line in cluster.ctx.lines if "--no-voting" in line]


def test_offline_nodes_and_those_that_are_no_candidates_are_nobodys_copies() -> None:
    cluster = Cluster(candidates=3, node4=behind("disk"), node3=behind("disk"))
    config = cluster.ctx.config.config
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), offline=True))
    assert cluster.told() == []


def test_a_candidate_that_is_not_spoken_of() -> None:
    cluster = Cluster(candidates=3)
    config = cluster.ctx.config.config
    config.put("nodes", "uuid-node4", replace(config.node("uuid-node4"), master_candidate=True, name="node4"))
    told_of = cluster.ctx.config.copies

    async def without_node4():  # type: ignore[no-untyped-def]
        answer = await told_of()
        return replace(answer, nodes={uuid: copy for uuid, copy in answer.nodes.items() if uuid != "uuid-node4"})

    cluster.ctx.config.copies = without_node4  # type: ignore[method-assign]
    assert cluster.told() == [f"WARNING:ENODEFILECHECK:node:node4:nothing is known yet of {COPY}"]


def test_where_nobody_can_say_that_is_said() -> None:
    cluster = Cluster()
    cluster.ctx.config.copies_error = TransportError("the configuration daemon does not answer")
    assert cluster.told() == [
        "WARNING:ECLUSTERFILECHECK:cluster:None:it cannot be said which nodes have copies: the configuration daemon "
        "does not answer"
    ]
