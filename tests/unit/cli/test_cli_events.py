# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug events: the sentence of each event."""

import pytest

from ganeti.cli.commands.debug.events import line_of, sentence

CLIENT = [7, "/lock", 1]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            {
                "event": "job",
                "what": "submitted",
                "id": 7,
                "priority": 10,
                "summary": ["A(x)", "B"],
                "status": "queued",
            },
            "Job 7 was submitted with priority 10: A(x), B",
        ),
        (
            {"event": "job", "what": "status", "id": 7, "status": "running", "was": "waiting"},
            "is running, it was waiting",
        ),
        ({"event": "job", "what": "status", "id": 7, "status": "error", "was": "running"}, "Job 7 has ended: error"),
        ({"event": "job", "what": "priority", "id": 7, "priority": -10, "was": 0}, "has priority -10, it had 0"),
        (
            {"event": "job", "what": "log", "id": 7, "serial": 1, "type": "message", "text": "hello"},
            "Job 7 says: hello",
        ),
        ({"event": "job", "what": "log", "id": 7, "serial": 1, "type": "x", "text": {"a": 1}}, 'Job 7 says: {"a": 1}'),
        ({"event": "job", "what": "archived", "id": 7}, "Job 7 was archived"),
        (
            {
                "event": "config",
                "commit": [1, 9],
                "put": [["instances", "u", "web1", 2], ["cluster", "cluster", "c", 3], ["disks", "d-uuid", None, 1]],
                "remove": [["nodegroups", "g", "old", 1]],
            },
            "Configuration 1.9: changed instance web1, the cluster, disk d-uuid; removed group old",
        ),
        (
            {"event": "config", "commit": [1, 9], "put": [["nodes", "u", f"n{n}", 1] for n in range(7)], "remove": []},
            "changed node n0, node n1, node n2, node n3, node n4 and 2 more",
        ),
        ({"event": "config", "commit": [1, 9], "put": [], "remove": []}, "Configuration 1.9: no object has changed"),
        (
            {
                "event": "lock",
                "what": "waiting",
                "client": CLIENT,
                "locks": {"node/b": "shared", "node/a": "exclusive"},
            },
            "Job 7 waits for node/a (exclusive), node/b (shared)",
        ),
        (
            {"event": "lock", "what": "granted", "client": [7, "/luxid", 0], "locks": {"node/a": "shared"}},
            "Job 7 (no process yet) holds node/a (shared)",
        ),
        ({"event": "lock", "what": "freed", "client": ["watcher", "/l", 1], "locks": {}}, "watcher has freed nothing"),
        ({"event": "lock", "what": "table", "held": [1, 2], "waiting": []}, "2 locks are held, 0 requests wait"),
        (
            {"event": "node", "what": "changed", "uuid": "u", "name": "n1", "role": "D"},
            "Node n1 was changed, it is drained",
        ),
        (
            {"event": "node", "what": "added", "uuid": "u", "name": "n1", "role": "C"},
            "was added, it is master candidate",
        ),
        ({"event": "node", "what": "removed", "uuid": "u", "name": "n1"}, "Node n1 was removed"),
        ({"event": "node", "what": "unreachable", "uuid": "u", "name": None}, "Node u does not answer"),
        ({"event": "node", "what": "reachable", "uuid": "u", "name": "n1"}, "Node n1 answers again"),
        (
            {
                "event": "snapshot",
                "config": {"commit": [1, 9], "objects": [[]] * 4},
                "job": [[1, "success", None, None], [2, "running", [], 0]],
                "lock": {"held": [], "waiting": []},
                "node": [{"reachable": False}, {"reachable": True}],
            },
            "What is there now: configuration 1.9 with 4 objects; 2 jobs, 1 of them unfinished; "
            "0 locks are held, 0 requests wait; 2 nodes, 1 of them silent",
        ),
        ({"event": "of a later version", "x": 1}, '{"event": "of a later version", "x": 1}'),
    ],
)
def test_sentences(event, text):
    assert text in sentence(event)
    assert line_of({**event, "time": 0}).endswith(sentence({**event, "time": 0}))


def test_locks_beyond_five_are_counted():
    event = {"event": "lock", "what": "granted", "client": CLIENT, "locks": {f"node/{n}": "shared" for n in range(8)}}
    assert sentence(event).endswith("node/4 (shared) and 3 more")


def test_wrong_kinds_are_refused_before_anybody_is_asked(gnt):
    ran = gnt("gnt-debug events --kinds=job,bogus")
    assert ran.status == 2 and "there are config, job, lock, node" in ran.err
