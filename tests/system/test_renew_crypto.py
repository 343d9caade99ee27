# SPDX-License-Identifier: BSD-2-Clause
"""Certificates, keys and secrets of a running cluster are made anew: nothing restarts, no job fails, no call is lost.

One testbed, one story: the tests of this file run in order, each from where the one before has left the cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from tests.system.fake_bed import FakeBed
from tests.system.killing import finish, kill_at, make_jobs_stop

from ganeti.node.certificates import Authority, create_authority, digest, issuer_in, request_certificate, sign_request
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, processes
from ganeti.tools.testbed.layout import Layout

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.story,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
NODES = ("node1", "node2", "node3")
CANDIDATES = ("node1", "node2")
ALL_NEW = (
    *("--new-cluster-certificate", "--new-rapi-certificate", "--new-confd-hmac-key", "--new-cluster-domain-secret"),
    *("--new-spice-certificate", "--new-ssh-keys", "--ssh-key-type=ed25519"),
)
SUBMIT = """import json, sys
from ganeti.wire.framing_sync import ask
print(json.dumps(ask(sys.argv[1], 60.0, "SubmitJob", json.loads(sys.argv[2]))))"""
RENEW_ALL = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "cluster_certificate": True, "renew_ssh_keys": True}
RENEWED_WITHIN_S = 180.0
EVERY_STOP = 1 if os.environ.get("GANETI_CAMPAIGN") else 11


class Story:
    def __init__(self, bed: FakeBed) -> None:
        self.bed = bed

    def run(self, *words: str, node: str = "node1", expect: int | None = 0) -> str:
        return self.bed.run(*words, node=node, expect=expect)

    def text(self, node: str, name: str) -> str:
        return (self.bed.data(node) / name).read_text()

    def digests(self) -> dict[str, str]:
        return {node: digest(self.text(node, "client.pem")) for node in NODES}

    def secrets(self) -> dict[str, str]:
        """Everything that is renewed, as the master has it."""
        names = ("hmac.key", "cluster-domain-secret", "spice.pem", "spice-ca.pem", "rapi.pem", "ca.pem", "ca.key")
        found = {name: self.text("node1", name) for name in names if (self.bed.data("node1") / name).exists()}
        return found | {f"certificate of {node}": value for node, value in self.digests().items()}

    def spares(self, node: str) -> bool:
        """Whether the node takes a former certificate of its master."""
        return bool(self.run("find", "/run/ganeti", "-name", "spared-certificate.json", node=node))

    def last_job(self) -> int:
        """The newest job that renews certificates."""
        said = self.run("gnt-job", "list", "--no-headers", "-o", "id,summary")
        return max(int(line.split()[0]) for line in said.splitlines() if "CLUSTER_RENEW_CRYPTO" in line)

    def daemons(self) -> dict[str, str]:
        """Process ids of all daemons, by node and name."""
        found = {}
        for node in NODES:
            for line in self.run("sh", "-c", "grep -H . /run/ganeti/ganeti-*.pid", node=node).splitlines():
                path, _, pid = line.partition(":")
                found[f"{node} {path.rpartition('/')[2].removesuffix('.pid')}"] = pid.strip()
        assert {f"{node} ganeti-{name}" for node in NODES for name in ("noded", "confd", "mond")} <= set(found)
        return found

    def shown(self, port: int) -> str:
        """The digest of the certificate that the master shows at *port* to a stranger."""
        script = f"import ssl;print(ssl.get_server_certificate(('127.0.0.1', {port})))"
        return digest(self.run(sys.executable, "-c", script))

    def address(self, node: str) -> str:
        return str(self.bed.layout.node(node).address)

    def findings(self) -> list[str]:
        said = self.run("gnt-cluster", "verify", expect=None)
        words = ("CERT", "FILECHECK", "SSH", "certificate", "ca.pem", "ca.key", "hmac")
        return [
            line for line in said.splitlines() if "ERROR" in line + "WARNING" and any(word in line for word in words)
        ]

    def everything_fits(self) -> None:
        """Every node shows the certificate it is known by, trusts one authority, and has what the master has."""
        config = self.bed.config()
        uuids = {node["name"].split(".")[0]: uuid for uuid, node in config["nodes"].items()}
        known = config["cluster"]["candidate_certs"]
        assert known == {uuids[node]: self.digests()[node] for node in CANDIDATES}
        trusted = {self.text(node, "ca.pem") for node in NODES}
        assert len(trusted) == 1 and trusted.pop().count("BEGIN CERTIFICATE") == 1
        assert self.text("node1", "ca.key") == self.text("node2", "ca.key")
        for node in NODES:
            assert self.text(node, "server.pem") == self.text(node, "client.pem")
            assert issuer_in(self.text(node, "client.pem"), self.text("node1", "ca.pem")) is not None
            names = {path.name for path in self.bed.data(node).iterdir()}
            assert not {name for name in names if "renewed" in name or "former" in name}, node
            for name in ("hmac.key", "cluster-domain-secret"):
                assert self.text(node, name) == self.text("node1", name)

    def ssh(self, source: str, target: str, key: str) -> bool:
        words = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        words += ["-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes", "-i", f"/root/.ssh/{key}", target, "hostname"]
        return self.run(*words, node=source, expect=None).strip().endswith(target)


class Watch:
    """Looks at the command lines of all processes of the testbed, as long as it is told to."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.lines: set[bytes] = set()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for node in self._layout.nodes:
                init = machine.running_pid(self._layout, node)
                for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
                    with contextlib.suppress(OSError):
                        self.lines.add(Path(f"/proc/{pid}/cmdline").read_bytes())


def secret_words(story: Story) -> set[bytes]:
    """Lines of private keys, and the secrets, of all nodes as they are now."""
    found: set[bytes] = set()
    for node in NODES:
        root = story.bed.layout.node(node).upper / "root/.ssh"
        keys = [path for path in root.glob("id_*") if path.suffix != ".pub"]
        data = story.bed.data(node)
        keys += [data / name for name in ("ca.key", "server.pem", "client.pem", "rapi.pem", "spice.pem")]
        for path in keys:
            text = path.read_text() if path.exists() else ""
            for part in text.split("-----BEGIN ")[1:]:
                if "PRIVATE KEY" in part.splitlines()[0]:
                    body = part.partition("-----END")[0].splitlines()[1:]
                    found |= {line.encode() for line in body if len(line) > 40 and not line.startswith("b3BlbnNzaC")}
        for name in ("hmac.key", "cluster-domain-secret"):
            found.add((data / name).read_bytes().strip())
    return found


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    layout = testbed.up(tmp_path_factory.mktemp("crypto").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        told = Story(FakeBed(layout))
        *words, name = cluster.init_command(layout)
        told.run(*words, "--candidate-pool-size=2", name)
        for node in NODES[1:]:
            told.bed.wait(lambda node=node: ":22 " in told.run("ss", "-ltn", node=node), f"sshd of {node} listens")  # type: ignore[misc]
            told.run(*cluster.add_command(layout.node(node)))
        cluster.wait_for_answering(layout, [layout.node(node) for node in NODES[1:]])
        told.run("daemon-util", "start", "ganeti-rapi")
        yield told
    finally:
        testbed.down(layout)


class Load:
    """Jobs that call nodes, one after the other, until told to stop."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.jobs = 0
        self.failures: list[str] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            done = machine.run(
                self._story.bed.layout, "node1", "gnt-debug", "delay", "-n", "node2", "-n", "node3", "0.02"
            )
            self.jobs += 1
            if done.returncode:
                self.failures.append(done.stdout + done.stderr)

    def wait(self, jobs: int) -> None:
        self._story.bed.wait(lambda: self.jobs >= jobs, f"{jobs} jobs")


def refusals(story: Story) -> list[str]:
    lines = []
    for node in NODES:
        log = story.bed.layout.node(node).upper / "var/log/ganeti/node-daemon.log"
        lines += [line for line in log.read_text().splitlines() if " refused: " in line]
    return lines


def test_everything_at_once_under_load(story: Story) -> None:
    before, daemons, shown = story.secrets(), story.daemons(), story.shown(5080)
    old_key = (story.bed.layout.node("node2").upper / "root/.ssh/id_rsa.pub").read_text()
    with Load(story) as load:
        load.wait(2)
        said = story.run("gnt-cluster", "renew-crypto", "--force", *ALL_NEW)
        load.wait(load.jobs + 2)
    assert load.failures == [] and refusals(story) == []
    assert "hmac.key is new" in said
    after = story.secrets()
    assert {name for name in after if after[name] == before.get(name)} == set()
    assert story.daemons() == daemons
    assert story.shown(5080) == digest(story.text("node1", "rapi.pem")) != shown
    story.everything_fits()
    assert story.findings() == []
    assert story.ssh("node2", "node3", "id_ed25519") and not story.ssh("node2", "node3", "id_rsa")
    assert old_key.split()[1] not in (story.bed.layout.node("node3").upper / "root/.ssh/authorized_keys").read_text()
    assert story.bed.config()["cluster"]["ssh_key_type"] == "ed25519"


def test_confd_takes_the_new_key_and_for_a_while_the_old_one(story: Story) -> None:
    ask = """import json,socket,sys,time
from ganeti.wire.confd import Kind, Question, read_reply, request
key = sys.argv[1].encode()
asked = Question(Kind.PING, None, "token")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
s.sendto(request(asked, time.time(), key), ("127.0.0.1", 1814))
try: print(read_reply(s.recv(65536), asked, [key]) is not None)
except TimeoutError: print(False)"""
    former = story.text("node1", "hmac.key").strip()
    assert "True" in story.run(sys.executable, "-c", ask, former, node="node2")
    story.run("gnt-cluster", "renew-crypto", "-f", "--new-confd-hmac-key")
    fresh = story.text("node1", "hmac.key").strip()
    answers = {
        key: "True" in story.run(sys.executable, "-c", ask, key, node="node2") for key in (former, fresh, "0" * 40)
    }
    assert answers == {former: True, fresh: True, "0" * 40: False}


def test_files_are_taken_as_they_are_given(story: Story) -> None:
    root = Path("/root")
    place = story.bed.layout.node("node1").upper / "root"
    (place / "secret").write_text("between friends\n")
    (place / "rapi").write_text(story.text("node1", "spice.pem"))
    (place / "certificate").write_text(story.text("node1", "spice-ca.pem"))
    (place / "other").write_text(story.text("node1", "ca.pem"))
    before = story.secrets()
    for words, complaint in (
        (("--rapi-certificate", f"{root}/certificate"), "must hold a certificate and the key"),
        (("--rapi-certificate", f"{root}/missing"), "cannot be read"),
        (("--spice-certificate", f"{root}/rapi"), "belong together"),
        (("--spice-certificate", f"{root}/rapi", "--spice-ca-certificate", f"{root}/other"), "has not signed"),
        (("--new-rapi-certificate", "--rapi-certificate", f"{root}/rapi"), "give one of them"),
        (("--new-rapi-certificate", "--ssh-key-type=ed25519"), "add --new-ssh-keys"),
        (("--new-ssh-keys", "--ssh-key-type=dsa"), "not a type of ssh key"),
        (("--new-ssh-keys", "--ssh-key-type=rsa", "--ssh-key-bits=7"), "cannot have 7 bits"),
        ((), "Nothing is named"),
    ):
        said = story.run("gnt-cluster", "renew-crypto", "-f", *words, expect=None)
        assert complaint in said and "Traceback" not in said, said
    assert story.secrets() == before
    words = ("--rapi-certificate", f"{root}/rapi", "--cluster-domain-secret", f"{root}/secret")
    words += ("--spice-certificate", f"{root}/rapi", "--spice-ca-certificate", f"{root}/certificate")
    story.run("gnt-cluster", "renew-crypto", "-f", *words)
    for node in NODES:
        assert story.text(node, "cluster-domain-secret") == "between friends\n"
        assert story.text(node, "rapi.pem") == (place / "rapi").read_text()


def test_a_node_that_slept_rejoins_by_its_former_certificate(story: Story) -> None:
    asleep = story.digests()["node3"]
    story.run("daemon-util", "stop", "ganeti-noded", node="node3")
    for _ in range(2):
        said = story.run("gnt-cluster", "renew-crypto", "-f", "--new-cluster-certificate")
        assert "stay good for node3" in said
    assert story.digests()["node3"] == asleep
    story.run("daemon-util", "start", "ganeti-noded", node="node3")
    story.run("gnt-cluster", "add-tags", "awake")  # a change is sent at once, with the list
    listed = "ssconf_master_candidates_certs"
    story.bed.wait(
        lambda: story.text("node3", listed) == story.text("node1", listed), "node3 has today's list", RENEWED_WITHIN_S
    )
    story.run("gnt-debug", "delay", "-n", "node3", "0.01")
    for action in ("stop", "start"):
        story.run("daemon-util", action, "ganeti-noded", node="node3")
    story.run("gnt-debug", "delay", "-n", "node3", "0.01")
    assert story.digests()["node3"] == asleep and story.spares("node3")
    story.run("ganeti-watcher", "--ignore-pause")
    story.bed.wait(lambda: story.digests()["node3"] != asleep, "the watcher has node3 renewed", RENEWED_WITHIN_S)
    story.run("gnt-job", "wait", str(story.last_job()))
    assert not story.spares("node3")
    story.run("gnt-cluster", "redist-conf")
    story.everything_fits()
    assert story.findings() == []
    assert renew_due(story) == []


def test_a_candidate_with_a_former_key_of_the_authority_gets_the_present_one(story: Story) -> None:
    """As one has it that slept while the authority was renewed."""
    path = story.bed.data("node2") / "ca.key"
    path.chmod(0o600)
    path.write_text(create_authority("former").key)
    assert len(renew_due(story)) == 1
    story.everything_fits()
    assert renew_due(story) == []


def renew_due(story: Story) -> list[list]:
    """Do what the watcher does once a day; gives the jobs that it took."""
    result = wait_for(story, submit(story, {"OP_ID": "OP_CLUSTER_RENEW_DUE"}))
    jobs = [int(each) for ok, each in result["jobs"] if ok]
    for each in jobs:
        wait_for(story, each)
    return jobs


def wait_for(story: Story, job: int) -> dict:
    story.run("gnt-job", "wait", str(job))
    (op,) = json.loads((story.bed.data("node1") / f"queue/job-{job}").read_text())["ops"]
    assert op["status"] == "success", op["result"]
    return op["result"]


def test_what_expires_soon_is_renewed_by_itself(story: Story) -> None:
    """A certificate with ten days left, as the authority could have issued it."""
    authority = Authority(story.text("node1", "ca.key"), story.text("node1", "ca.pem"))
    key, request = request_certificate()
    node = next(node for node in story.bed.config()["nodes"].values() if node["name"].startswith("node3"))
    cluster_name = story.bed.config()["cluster"]["cluster_name"]
    pem = key + sign_request(authority, request, node["name"], cluster_name, [story.address("node3")], days=10)
    for name in ("server.pem", "client.pem"):
        path = story.bed.data("node3") / name
        path.chmod(0o600)
        path.write_text(pem)
    for action in ("stop", "start"):
        story.run("daemon-util", action, "ganeti-noded", node="node3")
    assert any("expires on" in line for line in story.run("gnt-cluster", "verify", expect=None).splitlines())
    assert len(renew_due(story)) == 1
    left_s = x509.load_pem_x509_certificate(story.text("node3", "client.pem").encode()).not_valid_after_utc.timestamp()
    assert left_s - time.time() > 1000 * 86400
    story.everything_fits()


def test_nodes_speak_tls_1_3_alone(story: Story) -> None:
    script = f"""import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.maximum_version = ssl.TLSVersion.TLSv1_2
try: context.wrap_socket(socket.create_connection(("{story.address("node2")}", 1811))); print("connected")
except ssl.SSLError as err: print("refused", err)"""
    assert "refused" in story.run(sys.executable, "-c", script)


def test_no_secret_is_shown(story: Story) -> None:
    """Not in a command line, in a log, or in a file that others may read."""
    words = secret_words(story)
    with Watch(story.bed.layout) as watch:
        story.run("gnt-cluster", "renew-crypto", "--force", *ALL_NEW)
        story.run("gnt-node", "add", "--readd", "--no-ssh-key-check", "node3")
        words |= secret_words(story)
    assert len(watch.lines) > 10 and any(b"renew-crypto" in line for line in watch.lines)
    for line in watch.lines:
        assert not [word for word in words if word in line], line
    for node in NODES:
        upper = story.bed.layout.node(node).upper
        for top in ("var/lib/ganeti", "var/log/ganeti", "run/ganeti"):
            for path in (upper / top).rglob("*"):
                if path.is_file() and not path.is_symlink():
                    is_open = path.stat().st_mode & 0o007
                    if is_open or top == "var/log/ganeti" or "queue" in path.parts:
                        text = path.read_bytes()
                        assert not [word for word in words if word in text], path
    story.everything_fits()


def test_interrupted_at_any_step_it_works_again(story: Story) -> None:
    make_jobs_stop(story.bed)
    stop, killed = 1, 0
    while True:
        job = submit(story, RENEW_ALL)
        if not kill_at(story.bed, job, stop):
            break
        finish(story.bed, job)
        assert (
            finish(story.bed, story.bed.submit("gnt-debug", "delay", "-n", "node2", "-n", "node3", "0.01")) == "success"
        )
        stop, killed = stop + EVERY_STOP, killed + 1
    assert killed >= 3
    assert finish(story.bed, job) == "success"
    story.everything_fits()
    assert story.ssh("node2", "node3", "id_ed25519")


def submit(story: Story, opcode: dict) -> int:
    """Submit what no command submits."""
    words = (sys.executable, "-c", SUBMIT, "/run/ganeti/socket/ganeti-query", json.dumps([opcode]))
    return int(json.loads(story.run(*words)))
