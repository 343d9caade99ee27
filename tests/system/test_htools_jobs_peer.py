# SPDX-License-Identifier: BSD-2-Clause
"""What hsqueeze -X and harep submit, beside Debian's: the same jobs, in the same sets, and the same words."""

import json
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.differential.execution import ours, peer
from tests.fakes.luxi_master import GROUP, FakeMaster, fake_master, instance, node

SEEDS = range(400 if os.environ.get("GANETI_CAMPAIGN") else 8)
TAG = "ganeti:watcher:autorepair:"
UUIDS = [f"{number}1111111-1111-4111-8111-111111111111" for number in range(3)]
MOMENT = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}):([0-9]+)")
RELEASE = re.compile(r"version [0-9][0-9.~-]*")
OLD = "1700000000"
VERBS = ("fix-storage", "migrate", "failover", "reinstall")


@pytest.fixture(scope="module", autouse=True)
def beside() -> None:
    if not peer()[0]:
        pytest.skip(peer()[1])


def run(program: list[str], master: FakeMaster, *words: str) -> tuple[Any, ...]:
    """Status and words of a program, and what it submitted, without what differs between any two runs."""
    master.asked.clear()
    master.next_job = 101
    done = subprocess.run(
        [*program, f"-L{master.path}", *words],
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    submitted = [[[_plain(opcode) for opcode in job] for job in jobs] for jobs in master.submitted]
    return done.returncode, _timeless(done.stdout), submitted


def _plain(opcode: dict[str, Any]) -> dict[str, Any]:
    """An opcode without what is null, which means the same as nothing, and the moment."""
    told = {key: value for key, value in opcode.items() if value is not None}
    told["reason"] = [[source, text] for source, text, _ in told["reason"]]
    plain: dict[str, Any] = json.loads(_timeless(json.dumps(told)))
    return plain


def _timeless(text: str) -> str:
    """Text without the version, and with new ids and moments replaced."""
    return RELEASE.sub("version X", MOMENT.sub(_moment, text))


def _moment(match: re.Match[str]) -> str:
    uuid, moment = match.groups()
    return f"{uuid if uuid in UUIDS else 'ID'}:{moment if moment == OLD else 'NOW'}"


def both(tool: str, master: FakeMaster, *words: str) -> tuple[Any, Any]:
    mine = run(ours(tool), master, *words)
    return mine, run([*peer()[0], tool], master, *words)


@pytest.mark.parametrize("seed", SEEDS)
def test_hsqueeze_submits_the_same(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    count = drawn.randint(2, 6)
    names = [f"n{number}.x" for number in range(1, count + 1)]
    nodes = [node(name, mfree=drawn.choice([600, 8000, 15000])) for name in names]
    for each in nodes[1:]:
        if drawn.random() < 0.3:
            each |= {"offline": True, "tags": drawn.choice([["htools:standby:auto"], ["htools:standby:x"], []])}
    online = [each["name"] for each in nodes if not each["offline"]]
    instances = [
        instance(f"i{number}.x", drawn.choice(online), disk_template="sharedfile", disk_usage=0)
        | {"be/memory": drawn.choice([256, 1024, 3000]), "status": drawn.choice(["running", "ADMIN_down"])}
        for number in range(drawn.randint(0, 8))
    ]
    words = [f"--minimal-resources={drawn.choice([1, 2, 8])}", f"--target-resources={drawn.choice([1, 2, 20])}"]
    with fake_master(tmp_path / "socket", nodes, instances) as master:
        mine, theirs = both("hsqueeze", master, "-X", *words)
    if "'Nodes to online'" in theirs[1] and theirs[1].count(".x") == 0:
        assert theirs[2][0][0][-1]["node_names"] == []  # all nodes, by an oversight
        theirs = (theirs[0], mine[1], theirs[2][1:])
    if "'Nodes to online'" in theirs[1]:
        theirs[2][:1] = [
            [[*job[-1:], *job[:-1]] for job in jobs] for jobs in theirs[2][:1]
        ]  # it marks them online first
    assert mine == theirs


def _tags(drawn: random.Random) -> list[str]:
    tags = [TAG + drawn.choice([*VERBS, "suspend", "suspend:1000"]) for _ in range(drawn.randint(0, 2))]
    if drawn.random() < 0.4:
        uuid, verb = drawn.choice(UUIDS), drawn.choice(VERBS)
        end = drawn.choice(["pending:{}:{}:{}:", "result:{}:{}:{}:failure:", "result:{}:{}:{}:success:"])
        tags.append(TAG + end.format(verb, uuid, OLD) + drawn.choice(["5", "5+6", "7"]))
    return tags


@pytest.mark.parametrize("seed", SEEDS)
def test_harep_submits_the_same(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    flags = [drawn.choice([{}, {"offline": True}, {"drained": True}]) for _ in range(4)]
    nodes = [node("n1.x"), *(node(f"n{number}.x", **each) for number, each in enumerate(flags, 2))]
    instances = []
    for number in range(drawn.randint(1, 6)):
        primary, secondary = drawn.sample([each["name"] for each in nodes], 2)
        template = drawn.choice(["drbd", "drbd", "plain", "sharedfile"])
        found = instance(f"i{number}.x", primary, secondary if template == "drbd" else "", disk_template=template)
        instances.append(found | {"tags": _tags(drawn)})
    with fake_master(tmp_path / "socket", nodes, instances) as master:
        master.groups = [GROUP | {"tags": _tags(drawn)[:1]}]
        master.info["tags"] = _tags(drawn)[:1]
        master.statuses = {5: ["success"], 6: [drawn.choice(["error", "running", "success"])], 7: ["canceled"]}
        mine, theirs = both(
            "harep", master, *drawn.choice([[], ["--job-delay=0"], ["--job-delay=2.5"], ["--reason=why"]])
        )
    assert mine == theirs
