# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node list-drbd: what a ConfD tells is a table; without an answer there is a sentence."""

import socket
import threading
import time

import pytest

from ganeti.cli.commands.node import minors as node_minors
from ganeti.wire.confd import Kind, Status, read_request, reply

KEY = b"cluster key"


def cells(*rows):
    return {"fields": [], "data": [[[0, value] for value in row] for row in rows]}


@pytest.fixture
def confd(tmp_path, monkeypatch):
    """A ConfD on this machine that gives `answers`; the first datagram of each question is lost."""
    (tmp_path / "root/var/lib/ganeti").mkdir(parents=True)
    (tmp_path / "root/var/lib/ganeti/hmac.key").write_bytes(KEY + b"\n")
    answers = []
    asked = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind(("127.0.0.1", 0))
        monkeypatch.setattr(node_minors, "PORT", here.getsockname()[1])
        monkeypatch.setattr(node_minors, "_TRY_S", 0.1)

        def serve():
            while True:
                datagram, place = here.recvfrom(4096)
                if datagram == b"end":
                    return
                found = read_request(datagram, time.time(), [KEY])
                if found is None:
                    continue
                asked.append(found[0])
                if len(asked) > 1 and answers:
                    here.sendto(reply(found[0], answers[0], 3, KEY, answers[1]), place)

        thread = threading.Thread(target=serve)
        thread.start()
        yield answers, asked
        here.sendto(b"end", here.getsockname())
        thread.join()


@pytest.fixture
def nodes(master):
    def query(what, fields, condition):
        if fields == ["name"]:
            return cells(["n1.example.com"])
        return cells(["127.0.0.1", True])

    master.answers["Query"] = query


def test_minors_are_a_table(gnt, nodes, confd):
    answers, asked = confd
    answers += [[["n1.example.com", 10, "web1", "disk/0", "primary", "n2.example.com"]], Status.OK]
    ran = gnt("gnt-node list-drbd n1")
    assert (ran.status, ran.out) == (
        0,
        "Node           Minor Instance Disk   Role    PeerNode\n"
        "n1.example.com    10 web1     disk/0 primary n2.example.com\n",
    )
    assert (asked[0].kind, asked[0].query) == (Kind.NODE_MINORS, "n1.example.com")
    answers[0] = []
    assert gnt("gnt-node list-drbd --no-headers n1").out == ""


@pytest.mark.parametrize("said", [[], ["no copy yet", Status.ERROR]])
def test_without_an_answer(gnt, nodes, confd, said):
    confd[0].extend(said)
    ran = gnt("gnt-node list-drbd n1")
    assert (ran.status, ran.out) == (1, "")
    assert "No candidate tells the minors of node n1.example.com: see 'daemon-util check ganeti-confd'" in ran.err


def test_a_key_that_cannot_be_read(gnt, nodes):
    assert "hmac.key cannot be read" in gnt("gnt-node list-drbd n1").err
