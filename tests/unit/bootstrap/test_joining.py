# SPDX-License-Identifier: BSD-2-Clause
"""Joining: what the helpers on the new node refuse before they write, and what the master sends them."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from tests.fakes import pretend_machine as pretend

from ganeti.base.errors import CommandError, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap import file_set, join, join_input, joining_machine
from ganeti.bootstrap.daemon_setup import set_up, start_answering
from ganeti.bootstrap.prepare_join import prepare
from ganeti.node import certificates
from ganeti.tools import joining, node_daemon_setup, prepare_node_join

AUTHORITY = certificates.create_authority("cluster")
OTHER = certificates.create_authority("another")
PEM = certificates.issue_node_certificate(AUTHORITY, "node1", "cluster", ["10.77.0.1"])


def key_pair(comment: str = "root@node1") -> tuple[str, str, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return "ed25519", private, f"{public} {comment}"


KEY, SECOND = key_pair(), key_pair()


def issued_in(year: int) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_now", lambda: datetime(year, 6, 1, tzinfo=UTC))
        return certificates.issue_node_certificate(certificates.create_authority("cluster"), "node1", "cluster")


EXPIRED, EARLY = issued_in(2010), issued_in(2090)
ANOTHERS_KEY = certificates.issue_node_certificate(AUTHORITY, "node1", "cluster").partition("-----BEGIN CERT")[0]
ANOTHERS_KEY += PEM[PEM.index("-----BEGIN CERT") :]


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    return pretend.make(tmp_path)


def encoded(**fields: Any) -> bytes:
    return json.dumps({"cluster_name": "cluster"} | fields).encode()


def told(machine: Any) -> list[str]:
    """What daemons were told, without the questions whether they run."""
    return [words for words in machine.told if not words.startswith("check ")]


@pytest.fixture
def refusal(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a helper as the program that it is; gives its one sentence: its exit status is 1, nothing is written."""

    def run(program: Any, data: bytes) -> str:
        monkeypatch.setattr(joining, "this_machine", lambda name, *, loud: machine)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        before, asked = pretend.tree(tmp_path), list(machine.told)
        assert program.main([]) == 1
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n"), "Traceback" in told.err) == ("", 1, False)
        assert pretend.tree(tmp_path) == before and machine.told == asked
        name, _, sentence = told.err.strip().partition(": ")
        assert name == program.__name__.rpartition(".")[2].replace("_", "-")
        return sentence

    return run


PREPARE_REFUSALS = [
    (b"", "not one JSON object"),
    (b"[]", "Expected `object`"),
    (b'{"cluster_name": 7}', "cluster_name: Expected `str`"),
    (b"{}", "required field `cluster_name`"),
    (encoded(colour="red"), "unknown field `colour`"),
    (encoded(cluster_name=" "), "must not be empty"),
    (encoded(cluster_name="../cluster"), "cluster_name: use letters"),
    (b'{"cluster_name": "\xff"}', "not one JSON object"),
    (b'{"cluster_name": "cluster"}{}', "not one JSON object"),
    (encoded(node_daemon_certificate="nothing"), "holds no certificate"),
    (encoded(time_s=9e9), "seconds behind that of the master: set the clocks right, 300 seconds are allowed"),
    (encoded(time_s=1.0), "seconds ahead of that of the master: set the clocks right"),
    (encoded(ssh_host_key=[["dsa", "x", "y"]]), "OpenSSH does not take it"),
    (encoded(ssh_host_key=[["ed25519", KEY[1], "nonsense"]]), "public part"),
    (encoded(ssh_host_key=[["ed25519", "nonsense", KEY[2]]]), "private part"),
    (encoded(ssh_host_key=[["ed25519", KEY[1], SECOND[2]]]), "do not belong together"),
    (encoded(ssh_host_key=[list(KEY), list(KEY)]), "given twice"),
    (encoded(ssh_root_key=[["rsa", KEY[1], KEY[2]]]), "type 'rsa'"),
    (encoded(ssh_host_key=[["ed25519", KEY[1]]]), "ssh_host_key"),
    (encoded(authorized_keys={"node1": ["; rm -rf /"]}), "not a public key"),
    (encoded(authorized_keys={"node1": [f"{KEY[2]}\n{SECOND[2]}"]}), "not a public key"),
    (encoded(authorized_keys={"node1": [f"{KEY[2]}\f{SECOND[2]}"]}), "not a public key"),
    (encoded(authorized_keys={"two words": [KEY[2]]}), "not the uuid of a node"),
    (encoded(ssh_key_type="dsa"), "cannot be used"),
    (encoded(node_daemon_certificate="-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"), "cannot be read"),
]


@pytest.mark.requirement("S3.2", "S3.8", "S3.9", "S3.11")
@pytest.mark.parametrize(("data", "sentence"), PREPARE_REFUSALS)
def test_prepare_refuses_before_it_writes(refusal: Any, data: bytes, sentence: str) -> None:
    assert sentence in refusal(prepare_node_join, data)


@pytest.mark.requirement("S3.2", "S3.8", "S3.9", "S3.11")
def test_prepare_sets_keys_and_tells_sshd(machine: Any, tmp_path: Path) -> None:
    data = encoded(
        node_daemon_certificate=AUTHORITY.certificate,
        ssh_host_key=[list(KEY)],
        authorized_keys={"uuid": [SECOND[2]]},
        ssh_key_type="ed25519",
    )
    prepare(data, machine, dry_run=True)
    assert not (tmp_path / "etc/ssh/ssh_host_ed25519_key").exists()
    prepare(data, machine)
    place = tmp_path / "etc/ssh/ssh_host_ed25519_key"
    assert (place.read_text(), place.stat().st_mode & 0o777) == (KEY[1], 0o600)
    authorized = (tmp_path / "root/.ssh/authorized_keys").read_text()
    assert authorized.splitlines() == ["ssh-ed25519 AAAAadmin admin", f"{SECOND[2]} ganeti-node:uuid"]
    assert (tmp_path / "root/.ssh/id_ed25519.pub").exists()
    assert told(machine) == ["reload-ssh-keys"]
    after = pretend.tree(tmp_path)
    prepare(data, machine)
    assert (pretend.tree(tmp_path), told(machine)) == (after, ["reload-ssh-keys"])


def test_prepare_takes_back_what_it_wrote(machine: Any, tmp_path: Path) -> None:
    before = pretend.tree(tmp_path)
    machine.broken.add("reload-ssh-keys")
    with pytest.raises(CommandError):
        prepare(encoded(ssh_host_key=[list(KEY)], authorized_keys={"uuid": [SECOND[2]]}), machine)
    assert pretend.tree(tmp_path) == before


@pytest.mark.requirement("S3.8")
def test_another_clusters_machine_is_refused(machine: Any, refusal: Any) -> None:
    set_up(encoded(ssconf={"cluster_name": "cluster"}, node_daemon_certificate=PEM), machine)
    said = refusal(prepare_node_join, encoded(cluster_name="another", ssh_host_key=[list(KEY)]))
    assert "belongs to the cluster 'cluster', not to 'another'" in said
    said = refusal(prepare_node_join, encoded(node_daemon_certificate=OTHER.certificate, ssh_host_key=[list(KEY)]))
    assert "another cluster's authority" in said
    prepare(encoded(node_daemon_certificate=AUTHORITY.certificate), machine)


@pytest.mark.requirement("S3.8")
def test_prepare_sets_the_keys_of_root(machine: Any, tmp_path: Path) -> None:
    prepare(encoded(ssh_root_key=[list(KEY)]), machine)
    place = tmp_path / "root/.ssh/id_ed25519"
    assert (place.read_text(), place.stat().st_mode & 0o777) == (KEY[1], 0o600)
    assert place.with_suffix(".pub").read_text().split()[:2] == KEY[2].split()[:2]


@pytest.mark.requirement("S3.7")
def test_the_name_of_the_cluster_is_enough(machine: Any, tmp_path: Path) -> None:
    before = pretend.tree(tmp_path)
    prepare(encoded(), machine)
    set_up(encoded(), machine)
    assert "start ganeti-noded" not in machine.told
    assert not [path for path in pretend.tree(tmp_path).keys() - before.keys() if path.endswith(".pem")]


SETUP_REFUSALS = [
    (encoded(start_node_daemon="yes"), "start_node_daemon"),
    (encoded(unknown=1), "unknown field"),
    (encoded(time_s=1.0), "seconds ahead of that of the master: set the clocks right"),
    (encoded(ssconf={"cluster_name": "another"}), "must be the same"),
    (encoded(ssconf={"../evil": "x"}), "not a name of a value"),
    (encoded(ssconf={"node_list": "x" * 200_000}), "longer than"),
    (encoded(cluster_files={"passwd": "x"}), "'passwd' is not one of"),
    (encoded(cluster_files={"ca.key": AUTHORITY.key}), "'ca.key' is not one of"),
    (encoded(cluster_files={"known_hosts": ""}), "'known_hosts' must not be empty"),
    (encoded(hmac_key=" "), "hmac_key must not be empty"),
    (encoded(hmac_key="one\ntwo"), "one line of printable characters"),
    (encoded(node_daemon_certificate=PEM.replace("PRIVATE KEY", "SECRET KEY")), "0 keys and 2 certificates"),
    (encoded(node_daemon_certificate=ANOTHERS_KEY), "key and certificate do not belong together"),
    (encoded(node_daemon_certificate=EXPIRED), "which is not now"),
    (encoded(node_daemon_certificate=EARLY), "which is not now"),
    (encoded(node_name="node7"), "calls itself 'node1'"),
    (encoded(node_daemon_certificate="nothing"), "0 keys and 0 certificates"),
    (encoded(node_daemon_certificate=PEM.replace(AUTHORITY.certificate, OTHER.certificate)), "not issued by"),
    (
        encoded(
            node_daemon_certificate=certificates.issue_node_certificate(AUTHORITY, "node2", "cluster"),
            node_name="node1",
        ),
        "not of the node 'node1'",
    ),
]


@pytest.mark.requirement("S3.4", "S3.10", "S3.11")
@pytest.mark.parametrize(("data", "sentence"), SETUP_REFUSALS)
def test_set_up_refuses_before_it_writes(refusal: Any, data: bytes, sentence: str) -> None:
    assert sentence in refusal(node_daemon_setup, data)


@pytest.mark.requirement("S3.4", "S3.10")
def test_set_up_writes_and_starts(machine: Any, tmp_path: Path) -> None:
    data = encoded(
        node_daemon_certificate=PEM,
        node_name="node1",
        ssconf={"cluster_name": "cluster\n", "master_ip": "10.77.0.100"},
        hmac_key="secret\n",
        cluster_files={"known_hosts": "cluster ssh-rsa AAAA\n"},
        start_node_daemon=True,
    )
    set_up(data, machine)
    place = tmp_path / "var/lib/ganeti"
    assert (place / "server.pem").read_text() == (place / "client.pem").read_text() == PEM
    assert (place / "ssconf_master_ip").read_text() == "10.77.0.100\n"
    assert not (place / "ca.key").exists()
    assert told(machine) == ["stop ganeti-noded", "start ganeti-noded", "start ganeti-confd", "start ganeti-mond"]
    renewed = certificates.issue_node_certificate(AUTHORITY, "node1", "cluster")
    set_up(encoded(node_daemon_certificate=renewed), machine)
    assert (place / "server.pem").read_text() == renewed
    with pytest.raises(PrerequisiteError, match="certificate of the node 'node1'"):
        other = certificates.issue_node_certificate(AUTHORITY, "node3", "cluster")
        set_up(encoded(node_daemon_certificate=other), machine)


def test_set_up_takes_back_what_it_wrote(machine: Any, tmp_path: Path) -> None:
    before = pretend.tree(tmp_path)
    machine.broken.add("start ganeti-noded")
    with pytest.raises(CommandError):
        set_up(encoded(node_daemon_certificate=PEM, start_node_daemon=True), machine)
    assert pretend.tree(tmp_path) == before


def test_on_a_disk_that_is_full_at_any_file_all_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the second try does the whole work."""
    prepared = encoded(ssh_host_key=[list(KEY)], ssh_root_key=[list(KEY)], authorized_keys={"uuid": [SECOND[2]]})
    wanted = {"ssconf": {"cluster_name": "cluster", "master_ip": "10.77.0.100"}, "hmac_key": "secret"}
    whole = encoded(node_daemon_certificate=PEM, cluster_files={"known_hosts": "k\n"}, start_node_daemon=True, **wanted)

    def join_it(machine: Any) -> None:
        prepare(prepared, machine)
        set_up(whole, machine)

    join_it(pretend.make(tmp_path / "whole"))
    written = 0
    real = file_set.write_atomically

    def write(path: str, data: bytes, **words: Any) -> None:
        nonlocal written
        written += 1
        if written == stop:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        real(path, data, **words)

    monkeypatch.setattr(file_set, "write_atomically", write)
    for stop in range(1, 100):
        root, written = tmp_path / str(stop), 0
        machine = pretend.make(root)
        try:
            join_it(machine)
            break
        except GanetiError as err:
            assert "No space left" in str(err)
        join_it(machine)
        assert pretend.tree(root) == pretend.tree(tmp_path / "whole"), f"after write {stop}"
    assert stop > 10, "each file was the last one written once"


@pytest.mark.requirement("S3.3")
def test_what_the_master_sends_is_what_the_helpers_take(machine: Any, tmp_path: Path) -> None:
    place = tmp_path / "var/lib/ganeti"
    place.mkdir(parents=True)
    for name, text in (
        ("ca.pem", AUTHORITY.certificate),
        ("ca.key", AUTHORITY.key),
        ("hmac.key", "secret\n"),
        ("known_hosts", "cluster ssh-rsa AAAA\n"),
        ("cluster-domain-secret", "secret\n"),
        ("ssconf_cluster_name", "cluster\n"),
        ("ssconf_master_ip", "10.77.0.100\n"),
        ("ganeti_pub_keys", f"uuid1 {KEY[2]}\n"),
        ("config.data", json.dumps({"cluster": {"modify_ssh_setup": True, "ssh_key_type": "ed25519"}})),
    ):
        (place / name).write_text(text)
    (tmp_path / "etc/ssh/ssh_host_ed25519_key").write_text(KEY[1])
    (tmp_path / "etc/ssh/ssh_host_ed25519_key.pub").write_text(KEY[2] + "\n")
    cluster = join.ClusterFiles(machine.paths)
    request = json.dumps(join.prepare_request(cluster, force=False, setup=True)).encode()
    decoded = join_input.decode(request, join_input.PrepareJoin)
    assert decoded.ssh_host_key[0][:2] == KEY[:2]
    assert decoded.authorized_keys == {"uuid1": [KEY[2]]}
    setup = json.dumps(join.setup_request(cluster, "node2", "10.77.0.2")).encode()
    node = pretend.make(tmp_path / "node2")
    node.hostname = "node2"
    prepare(request, node)
    set_up(setup, node)
    assert (tmp_path / "node2/var/lib/ganeti/ssconf_master_ip").read_text() == "10.77.0.100\n"
    plain = join.prepare_request(cluster, force=True, setup=False)
    assert plain.keys() == {"cluster_name", "time_s"}


def test_the_master_itself_is_not_joined(machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "var/lib/ganeti"
    place.mkdir(parents=True)
    (place / "ssconf_cluster_name").write_text("cluster\n")
    (place / "config.data").write_text('{"cluster": {}}')
    monkeypatch.setattr(join.Machine, "here", classmethod(lambda cls: machine))
    machine.paths = machine.paths
    with pytest.raises(PrerequisiteError, match="'node1' is this machine"):
        join.Joining({"node_name": "node1"})
    (place / "ssconf_node_primary_ips").write_text("node1 10.77.0.1\nnode3 10.77.0.3\n")
    machine.names["node2"] = "10.77.0.3"
    with pytest.raises(PrerequisiteError, match=r"resolves to 10\.77\.0\.3, which is the address of the node node3"):
        join.Joining({"node_name": "node2"})
    machine.names["node3"] = "127.0.1.1"
    cluster = join.ClusterFiles(machine.paths)
    machine.paths = Paths()
    with pytest.raises(PrerequisiteError, match=r"resolves to the loopback address 127\.0\.1\.1"):
        join.resolve_joining(machine, cluster, "node3")


@pytest.mark.parametrize("given", ["10.77.0.3", "fd77::3", "0x7f000001"])
def test_an_address_is_no_name_of_a_node(machine: Any, tmp_path: Path, given: str) -> None:
    """Refused before a resolver is asked, which would say that it has no address of the other family."""
    place = tmp_path / "var/lib/ganeti"
    place.mkdir(parents=True)
    (place / "ssconf_cluster_name").write_text("cluster\n")
    (place / "config.data").write_text('{"cluster": {}}')
    cluster = join.ClusterFiles(machine.paths)
    with pytest.raises(PrerequisiteError, match="cannot be the name of a node: it would be read as an IP address"):
        join.resolve_joining(machine, cluster, given)


@pytest.mark.requirement("S3.10")
def test_set_up_refuses_what_differs_from_the_local_files(machine: Any, refusal: Any) -> None:
    set_up(encoded(ssconf={"cluster_name": "cluster"}, node_daemon_certificate=PEM), machine)
    said = refusal(node_daemon_setup, encoded(cluster_name="another", start_node_daemon=True))
    assert "belongs to the cluster 'cluster', not to 'another'" in said
    foreign = certificates.issue_node_certificate(OTHER, "node1", "cluster", ["10.77.0.1"])
    said = refusal(node_daemon_setup, encoded(node_daemon_certificate=foreign, start_node_daemon=True))
    assert "another cluster's authority" in said
    others = certificates.issue_node_certificate(AUTHORITY, "node3", "cluster")
    said = refusal(node_daemon_setup, encoded(node_daemon_certificate=others, start_node_daemon=True))
    assert "certificate of the node 'node1': run node-cleanup" in said


class Talk:
    """The connection to the machine that joins, whose part runs in a thread: this replaces ssh."""

    begun: list[tuple[str, ...]] = []

    def __init__(self, machine: Any, *words: str) -> None:
        self.begun.append(words)
        self.failure: GanetiError | None = None
        ours, theirs = socket.socketpair()
        self._ours, self._theirs = ours.makefile("rwb"), theirs.makefile("rwb")
        self._sockets = ours, theirs
        self._thread = threading.Thread(target=self._converse, args=(machine,))
        self._thread.start()

    def _converse(self, machine: Any) -> None:
        try:
            joining_machine.converse(machine, self._theirs, self._theirs)
        except GanetiError as err:
            self.failure = err
        self._theirs.close()
        self._sockets[1].close()

    def hear(self, timeout_s: float) -> Any:
        line = self._ours.readline()
        if not line:
            raise CommandError(str(self.failure))
        return json.loads(line)

    hear_first = hear

    def say(self, message: Any) -> None:
        self._ours.write(json.dumps(message).encode() + b"\n")
        self._ours.flush()

    def part(self, within_s: float) -> None:
        assert self.hear(within_s) == {"state": "keep"}
        self.end()

    def end(self, within_s: float = 0) -> None:
        with contextlib.suppress(OSError):
            self._sockets[0].shutdown(socket.SHUT_WR)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._ours.close()
        self._sockets[0].close()


@pytest.fixture
def node(tmp_path: Path) -> Any:
    made = pretend.make(tmp_path / "node2")
    made.hostname = "node2"
    made.broken |= {f"check ganeti-{name}" for name in ("noded", "confd", "mond")}
    return made


@pytest.fixture
def begin(machine: Any, node: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Begins a joining of node2."""
    prepared = {"ssh_host_key": [list(KEY)], "authorized_keys": {"uuid": [SECOND[2]]}}
    pem = certificates.issue_node_certificate(AUTHORITY, "node2", "cluster")
    wanted = {"node_daemon_certificate": pem, "ssconf": {"cluster_name": "cluster"}, "start_node_daemon": True}
    monkeypatch.setattr(join.Machine, "here", lambda: machine)
    monkeypatch.setattr(
        join, "ClusterFiles", lambda paths: type("Files", (), {"name": "cluster", "has": lambda name: False})
    )
    monkeypatch.setattr(join, "resolve_joining", lambda *_: ("node2", "10.77.0.2"))
    monkeypatch.setattr(join, "prepare_request", lambda *_, **__: {"cluster_name": "cluster", **prepared})
    monkeypatch.setattr(join, "setup_request", lambda *_: {"cluster_name": "cluster", "node_name": "node2", **wanted})
    monkeypatch.setattr(join, "check_answers", lambda *_: None)
    monkeypatch.setattr(join.Remote, "begin", lambda remote, *words: Talk(node, *words))
    monkeypatch.setattr(Talk, "begun", [])
    return lambda: join.Joining({"node_name": "node2"})


@pytest.mark.requirement("S3.5")
def test_one_connection_sets_everything_up(begin: Any, node: Any, tmp_path: Path) -> None:
    joining = begin()
    joining.set_up()
    joining.asks_cluster()
    joining.keep()
    joining.close()
    assert Talk.begun == [("node-daemon-setup", "--join")]
    assert (tmp_path / "node2/var/lib/ganeti/server.pem").exists()
    assert node.told[-5:] == [
        "reload-ssh-keys",
        "stop ganeti-noded",
        "start ganeti-noded",
        "start ganeti-confd",
        "start ganeti-mond",
    ]


def test_a_machine_that_obeys_a_later_master_is_refused(begin: Any, tmp_path: Path) -> None:
    """Made master without a vote, and not by this cluster's nodes: it would take no call of the one that adds it."""
    for root, epoch in ((tmp_path, 3), (tmp_path / "node2", 1263413)):
        (root / "var/lib/ganeti").mkdir(parents=True, exist_ok=True)
        (root / "var/lib/ganeti/noded-epoch.json").write_text(f'{{"epoch": {epoch}, "holder": "node2-uuid"}}')
    before = pretend.tree(tmp_path / "node2")
    joining = begin()
    with pytest.raises((CommandError, PrerequisiteError), match=r"later epoch \(1263413\).*\(3\).*node-cleanup"):
        joining.set_up()
    joining.close()
    assert pretend.tree(tmp_path / "node2") == before


def test_a_machine_that_leaves_while_its_daemons_start_has_none(node: Any) -> None:
    """ConfD and MonD start after the command has ended: another may take the node out meanwhile."""
    start_answering(node)
    assert node.told == [f"{word} ganeti-{name}" for word in ("start", "stop") for name in ("confd", "mond")]


@pytest.mark.parametrize("end", ["refused", "broken", "broken within a line", "daemon", "not asked"])
def test_a_machine_that_does_not_become_a_node_is_as_it_was(begin: Any, node: Any, tmp_path: Path, end: str) -> None:
    """Its keys, its files, and what its daemons have written meanwhile; the second try works."""
    root, data = tmp_path / "node2", tmp_path / "node2/var/lib/ganeti"
    data.mkdir(parents=True)
    (data / "notes").write_text("the administrator's")
    (root / "etc/ssh/ssh_host_ed25519_key").write_text(SECOND[1])
    before = pretend.tree(root)
    if end == "daemon":
        node.broken.add("start ganeti-noded")
    joining = begin()
    if end == "daemon":
        with pytest.raises(CommandError, match="start ganeti-noded"):
            joining.set_up()
    elif end != "not asked":
        joining.set_up()
        (data / "config.sqlite").write_text("a copy")
        if end == "refused":
            joining.asks_cluster()
            joining.take_back()
        elif end == "broken within a line":
            joining._talk._ours.write(b'{"state": "as')
            joining._talk._ours.flush()
    joining.close()
    assert pretend.tree(root) == before
    if end in ("refused", "broken", "broken within a line"):
        assert "start ganeti-confd" not in node.told
        assert node.told[-4:] == ["stop ganeti-mond", "stop ganeti-confd", "stop ganeti-noded", "reload-ssh-keys"]
    node.broken.discard("start ganeti-noded")
    again = begin()
    again.set_up()
    again.keep()
    assert (data / "server.pem").exists()


def test_a_machine_whose_job_goes_on_stays_set_up(begin: Any, tmp_path: Path) -> None:
    joining = begin()
    joining.set_up()
    joining.asks_cluster()
    joining.close()
    assert (tmp_path / "node2/var/lib/ganeti/server.pem").exists()


def test_a_node_that_comes_back_has_its_old_daemons_again(begin: Any, node: Any, tmp_path: Path) -> None:
    place = tmp_path / "node2/var/lib/ganeti"
    place.mkdir(parents=True)
    old = certificates.issue_node_certificate(AUTHORITY, "node2", "cluster")
    (place / "server.pem").write_text(old)
    node.broken.clear()
    joining = begin()
    joining.set_up()
    assert (place / "server.pem").read_text() != old
    (place / "config.sqlite").write_text("its copy")
    joining.take_back()
    assert (place / "server.pem").read_text() == old
    assert (place / "config.sqlite").exists()
    assert node.told[-3:] == ["start ganeti-noded", "start ganeti-confd", "start ganeti-mond"]


def test_one_process_of_a_master_has_a_machine_join(tmp_path: Path) -> None:
    """What it says of itself ends another one on the machine."""
    paths = Paths(str(tmp_path))
    with join.claim(paths, "node2"):
        with pytest.raises(PrerequisiteError, match="node2 is joining at this moment by another gnt-node add"):
            join.claim(paths, "node2").__enter__()
        with join.claim(paths, "node3"):
            assert len(os.listdir(paths.run_dir)) == 2
    with join.claim(paths, "node2"):
        pass
    assert os.listdir(paths.run_dir) == []
