# SPDX-License-Identifier: BSD-2-Clause
"""What docs/operator/security.md has an administrator type when a key is lost or in wrong hands, typed word by word.

Node 1 is the master, node 2 a candidate, node 3 neither. One story: the tests run in order, and each leaves a cluster
that is whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch

import pytest
from tests.system import documented, secret_watch
from tests.system.fake_bed import SELDOM_S, FakeBed

from ganeti.node.certificates import Authority, request_certificate, sign_request
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, processes

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.story,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NODES = ("node1", "node2", "node3")
DATA = "/var/lib/ganeti"
OF_ONE_NODE = ("server.pem", "client.pem", "/root/.ssh/id_*")
"""Keys that each node has of its own: node 3 is the one that loses them."""
PASSWORDS = ("open-sesame", "shut-sesame")
REMEDIES = documented.remedies()
TYPED = [(names, command) for names, commands in REMEDIES.items() for command in commands]
ASK = 'curl -s -k -o /dev/null -w "%{http_code}" --max-time 20'
DELAY = ("gnt-debug", "delay", "-n", "node2", "-n", "node3", "0.01")


class Story:
    def __init__(self, bed: FakeBed) -> None:
        self.bed = bed

    def run(self, *words: str, node: str = "node1", expect: int | None = 0) -> str:
        return self.bed.run(*words, node=node, expect=expect)

    def add(self, node: str) -> None:
        self.run(*cluster.add_command(self.bed.layout.node(node)))

    def type(self, command: str, node: str = "node1") -> str:
        """Type a command of the page on a terminal, and yes to what it asks."""
        words = ("script", "--quiet", "--return", "--command", command, "/dev/null")
        done = machine.run(self.bed.layout, node, *words, text="y\n" * 3, timeout_s=240)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def keys(self, names: str) -> dict[tuple[str, str], str]:
        """The text of each key file by node and path, for the names in a row of the page's table."""
        patterns = " ".join(name if name.startswith("/") else f"{DATA}/{name}" for name in re.findall("`(.*?)`", names))
        found = {}
        layout = self.bed.layout
        for node in (each.name for each in layout.nodes if machine.state(layout, each) == machine.RUNNING):
            for path in self.run("sh", "-c", f"ls {patterns} 2>/dev/null; true", node=node).split():
                if not path.endswith(".pub"):
                    found[node, path] = self.run("cat", path, node=node)
        return found

    def is_whole(self) -> None:
        """Waits for node daemons that have just come: one ends the guests that others have taken over."""
        self.bed.wait(
            lambda: machine.run(self.bed.layout, "node1", "gnt-cluster", "verify").returncode == 0,
            "verify finds nothing",
            every_s=SELDOM_S,
        )
        self.run(*DELAY)

    def status(self, login: str, node: str = "node1") -> str:
        """What the remote API answers to who wants to change something."""
        return self.run("sh", "-c", f"{ASK} {login} -X PUT 'https://{node}:5080/2/tags?tag=seen'")

    def opens(self, certificate: str) -> bool:
        """Whether the node daemon of the master obeys who has this file on node 2."""
        url = "https://node1:1811/version"
        answer = self.run("sh", "-c", f"{ASK} -X POST --cert {certificate} {url}; true", node="node2")
        assert re.fullmatch(r"\d{3}", answer), answer
        return answer not in ("000", "401", "403")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    layout = testbed.up(tmp_path_factory.mktemp("lost").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        told = Story(FakeBed(layout))
        *words, name = cluster.init_command(layout)
        told.run(*words, "--candidate-pool-size=2", name)
        for node in NODES[1:]:
            told.add(node)
        cluster.wait_for_answering(layout, [layout.node(node) for node in NODES[1:]])
        told.run("gnt-cluster", "renew-crypto", "-f", "--new-spice-certificate", "--new-rapi-certificate")
        write_users(told, PASSWORDS[0])
        told.bed.open_remote_api("node1")
        yield told
    finally:
        testbed.down(layout)


def write_users(story: Story, password: str) -> None:
    """As with an editor: a new file in place of the former."""
    place = f"{DATA}/rapi"
    script = f"umask 027; mkdir -p {place}; cat >{place}/.users; mv {place}/.users {place}/users"
    done = machine.run(story.bed.layout, "node1", "sh", "-c", script, text=f"jack {password} write\n")
    assert done.returncode == 0, done.stderr


def test_every_row_of_the_page_has_a_remedy_that_is_typed_here() -> None:
    assert {names for names, commands in REMEDIES.items() if not commands} == {
        "`client-former.*.pem`",
        "`joining`",
        "`rapi/users`",
    }
    assert len(TYPED) >= 9


@pytest.mark.parametrize(("names", "command"), TYPED, ids=[command.replace(" ", "_") for _, command in TYPED])
def test_a_lost_key_is_made_anew(story: Story, names: str, command: str) -> None:
    before = story.keys(names)
    assert before, f"no node has {names}"
    only = "node3" if any(name in names for name in OF_ONE_NODE) else ""
    lost = {(node, path): text for (node, path), text in before.items() if only in ("", node)}
    if "--new-node-certificates" not in command:  # the page says that of certificates that others know
        for node, path in lost:
            story.run("rm", path, node=node)
    if " FILE" in command:
        story.run("sh", "-c", f"umask 077; cp {DATA}/spice.pem /root/mine.pem")
        command = command.replace("FILE", "/root/mine.pem")
    story.type(command.replace("NODE", "node3"))
    after = story.keys(names)
    assert after.keys() >= lost.keys()
    modes = {name: wanted.split()[0] for name, wanted in documented.key_files().items() if f"`{name}`" in names}
    for node, path in lost:
        [wanted] = {mode for name, mode in modes.items() if fnmatch(path, name if name[0] == "/" else f"{DATA}/{name}")}
        assert story.run("stat", "-c", "%a", path, node=node).strip() == wanted, f"{path} on {node}"
    assert {place for place, text in lost.items() if after[place] == text} == set()
    story.is_whole()


def test_a_known_password_is_changed_in_the_file(story: Story) -> None:
    former, fresh = (f"-u jack:{password}" for password in PASSWORDS)
    assert (story.status(former), story.status(fresh)) == ("200", "401")
    write_users(story, PASSWORDS[1])
    story.bed.wait(lambda: story.status(fresh) == "200", "the remote API to read the file again", every_s=0.2)
    assert story.status(former) == "401"


def take_out(story: Story, node: str) -> None:
    """The first step of the page for a node in wrong hands."""
    out, *rest = documented.steps_after_a_theft()
    assert [command.split()[1] for command in out] == ["modify", "failover", "remove"] and len(rest) == 3
    for command in out:
        story.type(command.replace("NODE", node))


def test_an_ordinary_node_is_in_wrong_hands(story: Story) -> None:
    layout = story.bed.layout
    story.run("gnt-instance", "add", "-o", "noop+default", "-t", "diskless", "--no-name-check", "-n", "node3", "web1")
    stolen = story.keys("`hmac.key` `cluster-domain-secret` `rapi.pem` `spice.pem`")
    take_out(story, "node3")
    machine.kill(layout, layout.node("node3"))
    where, status = story.run("gnt-instance", "list", "--no-headers", "-o", "pnode,status", "web1").split()
    assert where in ("node1", "node2") and status == "running"
    renew, *_ = documented.steps_after_a_theft()[1]
    story.type(renew)
    now = story.keys("`hmac.key` `cluster-domain-secret` `rapi.pem` `spice.pem`")
    kept = {place for place, text in stolen.items() if now.get(place) == text and place[0] != "node3"}
    assert kept == set()
    machine.start(layout, layout.node("node3"))
    story.add("node3")
    cluster.wait_for_answering(layout, [layout.node("node3")])
    story.is_whole()


def test_a_candidate_is_in_wrong_hands(story: Story) -> None:
    """The thief has copies of everything on it, and a token that somebody has left there."""
    story.run(
        "sh", "-c", f"umask 077; cp {DATA}/client.pem /root/stolen.pem; cp /root/.ssh/id_rsa /root/", node="node2"
    )
    authority = Authority(*(story.run("cat", f"{DATA}/{name}", node="node2") for name in ("ca.key", "ca.pem")))
    token = story.run("gnt-cluster", "token", "--role", "administrator", "add", "deploy")
    [token] = re.findall(r"gnt_\S+", token)
    secret_watch.keep(story.bed.layout, "token of the test", token)
    bearer = f'-H "Authorization: Bearer {token}"'
    story.bed.wait(lambda: story.status(bearer) == "200", "the token to be good", every_s=0.2)
    assert story.opens("/root/stolen.pem")

    take_out(story, "node2")
    assert not story.opens("/root/stolen.pem")
    _, (renew, *more), change, _ = documented.steps_after_a_theft()
    assert len(more) == 1 and change == ["gnt-cluster token"]
    story.type(f"{renew} {more[0]}")
    story.type(f"{change[0]} list")
    story.type(f"{change[0]} revoke deploy")
    story.bed.wait(lambda: story.status(bearer) == "401", "the token to be refused", every_s=0.2)

    key, request = request_certificate()
    name = story.run("gnt-cluster", "info").split("Cluster name: ")[1].split()[0]
    forged = key + sign_request(authority, request, "node3", name, [story.bed.layout.node("node3").address], days=10)
    put = ("sh", "-c", "umask 077; cat >/root/forged.pem")
    assert machine.run(story.bed.layout, "node2", *put, text=forged).returncode == 0
    assert not story.opens("/root/forged.pem")
    ssh = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o IdentitiesOnly=yes -i /root/id_rsa node3 true"
    story.run("sh", "-c", ssh, node="node2", expect=255)


def test_a_node_that_has_lost_everything(story: Story) -> None:
    *_, (readd, *_) = documented.steps_after_a_theft()
    assert fnmatch(readd, "gnt-node add --readd NODE")
    layout = story.bed.layout
    machine.kill(layout, layout.node("node2"))  # the page has it powered off: a guest without disks does not end itself
    machine.start(layout, layout.node("node2"))
    story.run("node-cleanup", "--yes-do-it", node="node2")
    story.add("node2")
    script = f"/usr/lib/ganeti/daemon-util stop-all; rm -rf {DATA}/* /root/.ssh/id_rsa* /root/.ssh/id_ed25519*"
    story.run("sh", "-c", script, node="node3")
    story.type(readd.replace("NODE", "node3"))
    cluster.wait_for_answering(layout, [layout.node(node) for node in ("node2", "node3")])
    story.run("gnt-cluster", "modify", "--candidate-pool-size=3")  # two that vote when the master is lost
    story.is_whole()


def test_the_master_is_lost_with_everything_on_it(story: Story) -> None:
    *_, (_, failover) = documented.steps_after_a_theft()
    assert failover == "gnt-cluster master-failover"
    layout = story.bed.layout
    machine.kill(layout, layout.node("node1"))
    story.type(failover, node="node2")
    processes.wait_for(
        lambda: machine.run(layout, "node2", "gnt-debug", "delay", "-n", "node3", "0.01").returncode == 0,
        60,
        "jobs of the new master",
    )
