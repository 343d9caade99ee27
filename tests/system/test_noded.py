# SPDX-License-Identifier: BSD-2-Clause
"""The real node daemon and the real client over mutual TLS, on loopback: what jobs rely on when daemons are killed."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import (
    BlockDeviceError,
    ExecutionError,
    NodeCallError,
    NodeTimeoutError,
    NodeUnreachableError,
    OtherReleaseError,
    ParameterError,
)
from ganeti.base.paths import Paths
from ganeti.calls import node_client
from ganeti.calls.node_client import NodeClient
from ganeti.calls.node_requests import TextOfFile
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.node import Version
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import CONFIG_VERSION, Node
from ganeti.node.certificates import create_authority, digest, issue_node_certificate

NODE = "node1.example.com"
CLUSTER = "cluster.example.com"
START_S = 20.0


class Noded:
    """One node of a virtual cluster, with its daemon."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(str(root))
        self.config = Configuration()
        self.config.position = (1, 1)
        self.config.put(
            "nodes", "uuid-1", Node(uuid="uuid-1", name=NODE, primary_ip="127.0.0.1", secondary_ip="", group="")
        )
        self.port = _free_port()
        self.authority = create_authority(CLUSTER)
        self.process: subprocess.Popen[bytes] | None = None
        for directory in (self.paths.data_dir, self.paths.sysconf_dir, self.paths.under("/srv/disks")):
            Path(directory).mkdir(parents=True)
        self.pem = issue_node_certificate(self.authority, NODE, CLUSTER, ["127.0.0.1"])
        for path, text in (
            (self.paths.server_cert, self.pem),
            (self.paths.client_cert, self.pem),
            (self.paths.authority_cert, self.authority.certificate),
            (self.paths.file_storage_paths_file, "/srv/disks\n"),
        ):
            Path(path).write_text(text)
        self.steps = 0

    def start(self) -> None:
        arguments = ["-f", "-p", str(self.port), "-b", "127.0.0.1", "--no-mlock"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ganeti.daemons.noded", *arguments],
            env={**os.environ, "GANETI_ROOTDIR": self.paths.root, "GANETI_HOSTNAME": NODE},
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        said = b""
        for line in self.process.stderr:
            said += line
            if b"is ready" in line:
                break
        else:
            raise AssertionError(said.decode())

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(START_S)
            assert self.process.stderr is not None
            self.process.stderr.close()
            self.process = None

    def client(self, job: int = 7, attempt: int = 1) -> NodeClient:
        return NodeClient(self.paths, lambda: self.config, job, attempt, self._next_step, port=self.port)

    def run(self, work: Callable[[NodeClient], Coroutine[Any, Any, Any]], job: int = 7, attempt: int = 1) -> Any:
        async def whole() -> Any:
            client = self.client(job, attempt)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(whole())

    def call(self, name: str, *, job: int = 7, attempt: int = 1, **arguments: Any) -> Any:
        return self.run(lambda client: client.call("uuid-1", name, **arguments), job, attempt)

    def log(self) -> str:
        return Path(self.paths.log_dir, "node-daemon.log").read_text()

    def _next_step(self) -> int:
        self.steps += 1
        return self.steps


def _free_port() -> int:
    """Give a port that no connection is given as its own: the daemon is started on it again and again."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("all ports are taken")


@pytest.fixture
def noded(tmp_path: Path) -> Iterator[Noded]:
    node = Noded(tmp_path)
    node.start()
    try:
        yield node
    finally:
        node.end(signal.SIGKILL)


def disk(size_mib: int = 8, **params: Any) -> DiskSpec:
    return DiskSpec(
        uuid="d0",
        template="file",
        logical_id=["loop", "/srv/disks/web1/d0.file.disk0"],
        size_mib=size_mib,
        index=0,
        params=params,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process does; one that waits for its parent to ask how it ended does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def install_os(noded: Noded, create: str) -> InstanceSpec:
    directory = Path(noded.paths.under("/srv/ganeti/os"), "test")
    directory.mkdir(parents=True)
    (directory / "ganeti_api_version").write_text("15\n")
    for script in ("create", "import", "export", "rename"):
        path = directory / script
        path.write_text(f"#!/bin/sh\n{create if script == 'create' else ''}\n")
        path.chmod(0o755)
    return InstanceSpec(
        name="web1",
        uuid="i1",
        hypervisor="fake",
        os="test",
        primary_node=NODE,
        primary_node_uuid="uuid-1",
        hvparams={},
        beparams={"maxmem": 128},
    )


def test_answers_version_over_mutual_tls(noded: Noded) -> None:
    assert noded.call("version") == CONFIG_VERSION
    assert f"node daemon of {NODE} listens on port {noded.port}" in noded.log()


def test_a_disk_is_made_found_and_removed(noded: Noded) -> None:
    noded.call("blockdev_create", disk=disk())
    assert noded.call("blockdev_find", disk=disk())["size_mib"] == 8
    noded.call("blockdev_remove", disk=disk())
    assert noded.call("blockdev_find", disk=disk()) is None
    assert os.listdir(noded.paths.under("/srv/disks")) == []


def test_errors_keep_their_class_and_name_the_node(noded: Noded) -> None:
    with pytest.raises(BlockDeviceError, match=f"Node {NODE}: Unknown disk template 'paper'"):
        noded.call("blockdev_find", disk=DiskSpec(uuid="x", template="paper", logical_id=[], size_mib=1, index=0))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("blockdev_create", {}, "missing required field `disk`"),
        ("test_delay", {"duration": "long"}, "Expected `float`"),
        ("test_delay", {"duration": 0.1, "colour": 1}, "unknown field `colour`"),
        ("no_such_call", {}, "'no_such_call' is not known"),
    ],
)
def test_requests_are_checked_at_the_door(noded: Noded, name: str, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ParameterError, OtherReleaseError), match=sentence):
        noded.call(name, **arguments)


def test_a_certificate_of_another_authority_is_refused(noded: Noded) -> None:
    other = create_authority(CLUSTER)
    Path(noded.paths.client_cert).write_text(issue_node_certificate(other, NODE, CLUSTER))
    with pytest.raises(NodeUnreachableError):
        noded.call("version", job=0)


def test_a_server_with_another_nodes_certificate_is_not_believed(noded: Noded) -> None:
    stranger = Node(uuid="uuid-2", name="node2.example.com", primary_ip="127.0.0.1", secondary_ip="", group="")
    noded.config.put("nodes", "uuid-2", stranger)
    with pytest.raises(NodeUnreachableError, match="certificate that is not this node's"):
        noded.run(lambda client: client.call("uuid-2", "version"), job=0)


def test_only_candidates_are_served_once_there_is_a_list(noded: Noded) -> None:
    ssconf = Path(noded.paths.ssconf_file("master_candidates_certs"))
    ssconf.write_text("uuid-9=" + "00" * 32 + "\n")
    with pytest.raises(NodeCallError, match="master candidates"):
        noded.call("version")
    ssconf.write_text(f"uuid-1={digest(noded.pem).upper()}\n")
    assert noded.call("version") == CONFIG_VERSION


def test_a_list_that_names_nobody_admits_nobody(noded: Noded) -> None:
    Path(noded.paths.ssconf_file("master_candidates_certs")).write_text("")
    with pytest.raises(NodeCallError, match="master candidates"):
        noded.call("version")


def test_plain_http_and_older_tls_get_no_answer(noded: Noded) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", noded.port), timeout=5) as plain, pytest.raises(OSError):
        context.wrap_socket(plain)
    with socket.create_connection(("127.0.0.1", noded.port), timeout=5) as plain:
        plain.sendall(b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        with contextlib.suppress(ConnectionResetError):
            assert b"200" not in plain.recv(4096)


def test_a_repeated_call_is_answered_without_being_run_again(noded: Noded, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    instance = install_os(noded, f"echo x >> {counter}")
    noded.steps = 40
    noded.call("instance_os_add", instance=instance)
    noded.steps = 40
    noded.call("instance_os_add", instance=instance)
    noded.end(signal.SIGKILL)
    noded.start()
    noded.steps = 40
    noded.call("instance_os_add", instance=instance)
    assert counter.read_text() == "x\n"
    noded.steps = 40
    with pytest.raises(ParameterError, match="a number stands for one call"):
        noded.call("blockdev_create", disk=disk())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_call_survives_a_restart_of_the_daemon(noded: Noded, tmp_path: Path, number: signal.Signals) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    os.mkfifo(gate)
    instance = install_os(noded, f"echo $$ >> {begun}; read line < {gate}")

    async def work(client: NodeClient) -> Any:
        call = asyncio.create_task(client.call("uuid-1", "instance_os_add", instance=instance))
        await asyncio.to_thread(wait_for, lambda: begun.exists() and begun.read_text().count("\n") == 1)
        await asyncio.to_thread(noded.end, number)
        await asyncio.to_thread(noded.start)
        await asyncio.to_thread(wait_for, lambda: begun.read_text().count("\n") == 2)
        first, second = begun.read_text().split()
        assert not runs(int(first)), "what a killed daemon left behind has ended"
        assert runs(int(second))
        await asyncio.to_thread(gate.write_text, "go\n")
        return await call

    noded.run(work)
    assert "was interrupted when the daemon ended" in noded.log()
    assert ("1 process groups that a killed daemon had left behind" in noded.log()) is (number == signal.SIGKILL)


def test_an_aborted_attempt_ends_with_its_programs_and_is_refused_from_then_on(noded: Noded, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    instance = install_os(noded, f"sleep 600 & echo $! > {begun}.new; mv {begun}.new {begun}; wait")

    async def work(client: NodeClient) -> None:
        call = asyncio.create_task(client.call("uuid-1", "instance_os_add", instance=instance))
        await asyncio.to_thread(wait_for, begun.exists)
        successor = noded.client(attempt=2)
        assert await successor.call("uuid-1", "abort_attempt", job=7, attempt=1) == 1
        grandchild = int(begun.read_text())
        assert not runs(grandchild)
        with pytest.raises(NodeCallError, match="superseded"):
            await call
        await successor.call("uuid-1", "blockdev_create", disk=disk())
        await successor.close()

    noded.run(work)
    noded.end(signal.SIGKILL)
    noded.start()
    with pytest.raises(NodeCallError, match="Attempt 1 of job 7 has been superseded"):
        noded.call("blockdev_remove", disk=disk())
    assert noded.call("blockdev_find", disk=disk()) is not None


def test_a_lower_epoch_is_refused_also_after_a_restart(noded: Noded) -> None:
    noded.config.position = (5, 1)
    noded.call("blockdev_create", disk=disk())
    noded.end(signal.SIGKILL)
    noded.start()
    noded.config.position = (4, 99)
    with pytest.raises(NodeCallError, match="epoch 4, which is over"):
        noded.call("blockdev_remove", disk=disk())
    assert noded.call("version") == CONFIG_VERSION


def test_a_call_that_outlasts_its_time_is_stopped(noded: Noded, tmp_path: Path) -> None:
    instance = install_os(noded, "echo waiting; sleep 600")
    with pytest.raises(ExecutionError, match=r"did not end within 0.3 seconds"):
        noded.call("instance_os_add", instance=instance, timeout_s=0.3)


def test_a_hanging_node_is_noticed_while_a_call_runs(noded: Noded, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WATCH_AFTER_S", 0.2), ("PROBE_S", 0.2), ("PROBE_EVERY_S", 0.05)):
        monkeypatch.setattr(node_client, name, value)

    async def work(client: NodeClient) -> None:
        await client.call("uuid-1", "version")
        assert noded.process is not None
        noded.process.send_signal(signal.SIGSTOP)
        with pytest.raises(NodeTimeoutError, match="does not answer any more"):
            await client.call("uuid-1", "test_delay", duration=0.0)
        noded.process.send_signal(signal.SIGCONT)

    noded.run(work)


def test_a_call_that_only_takes_long_is_left_alone(noded: Noded, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WATCH_AFTER_S", 0.05), ("PROBE_EVERY_S", 0.05)):
        monkeypatch.setattr(node_client, name, value)
    assert noded.call("test_delay", duration=0.6) is None


def test_an_offline_node_is_not_called_and_a_missing_daemon_is_named(noded: Noded) -> None:
    noded.end()
    with pytest.raises(NodeUnreachableError, match="Connection refused, is its node daemon running"):
        noded.call("version", job=0)
    node = Node(uuid="uuid-1", name=NODE, primary_ip="127.0.0.1", secondary_ip="", group="", offline=True)
    noded.config.put("nodes", "uuid-1", node)
    with pytest.raises(NodeUnreachableError, match="marked offline"):
        noded.call("test_delay", job=0, duration=0.0)
    assert Version.reaches_offline, "a node is asked before it is no more offline"
    with pytest.raises(NodeUnreachableError, match="Connection refused"):
        noded.call("version", job=0)


def test_many_nodes_are_asked_at_once_and_errors_are_values(noded: Noded) -> None:
    answers = noded.run(lambda client: client.call_many(["uuid-1", "uuid-9"], "version"))
    assert answers[0].value == CONFIG_VERSION
    assert "uuid-9" in str(answers[1].error)


def test_ssconf_of_another_cluster_is_refused(noded: Noded) -> None:
    noded.call("write_ssconf_files", values={"cluster_name": CLUSTER, "master_node": NODE}, job=0)
    assert noded.call("master_node_name") == NODE
    with pytest.raises(ParameterError, match=f"belongs to cluster {CLUSTER}"):
        noded.call("write_ssconf_files", values={"cluster_name": "other", "master_node": "x"}, job=0)
    path = Path(noded.paths.ssconf_file("cluster_name"))
    assert (path.read_text(), path.stat().st_mode & 0o777) == (CLUSTER + "\n", 0o444)


def test_files_are_uploaded_to_known_places_only(noded: Noded) -> None:
    noded.call("upload_file", path="/var/lib/ganeti/config.data", content="{}", mode=0o640)
    assert Path(noded.paths.config_file).read_text() == "{}"
    for path, mode in (("/etc/passwd", 0o644), ("/var/lib/ganeti/config.data", 0o666)):
        with pytest.raises(ParameterError):
            noded.call("upload_file", path=path, content="", mode=mode)


def test_a_long_file_comes_as_it_is(noded: Noded, tmp_path: Path) -> None:
    text = '{"name": "k\u00f6ln \\\\ \U0001f600"}\r\n' * 100_000
    source = tmp_path / "source"
    source.write_bytes(text.encode())
    for content in (text, TextOfFile(str(source))):
        noded.call("upload_file", path="/var/lib/ganeti/config.data", content=content, mode=0o640)
        assert Path(noded.paths.config_file).read_bytes() == text.encode()
        Path(noded.paths.config_file).unlink()


def test_leaving_the_cluster_forgets_it_and_ends_the_daemon(noded: Noded) -> None:
    noded.call("node_leave_cluster")
    assert noded.process is not None
    assert noded.process.wait(START_S) == 0
    assert [name for name in os.listdir(noded.paths.data_dir) if not name.startswith("noded")] == []
    # Another cluster's jobs have the same numbers.
    assert not Path(noded.paths.answers_file).exists()


def test_the_daemon_ends_at_once_and_leaves_no_pid_file(noded: Noded) -> None:
    assert Path(noded.paths.pid_file("ganeti-noded")).exists()
    noded.end()
    assert not Path(noded.paths.pid_file("ganeti-noded")).exists()


def test_a_guest_of_the_fake_hypervisor_outlives_the_daemon(noded: Noded) -> None:
    noded.call("blockdev_create", disk=disk())
    spec = InstanceSpec(
        name="web1",
        uuid="i1",
        hypervisor="fake",
        os="",
        primary_node=NODE,
        primary_node_uuid="uuid-1",
        hvparams={},
        beparams={"maxmem": 128, "minmem": 128, "vcpus": 1},
        disks=[disk()],
    )
    noded.call("instance_start", instance=spec)
    noded.end()
    noded.start()
    (found,) = noded.call("all_instances_info", hypervisors={"fake": {}})
    assert (found["name"], found["state"], found["memory_mib"]) == ("web1", "running", 128)
    noded.call("instance_shutdown", instance=spec, timeout_s=0)
    assert noded.call("instance_info", instance=spec) is None


def test_in_the_background_it_returns_when_it_serves_and_refuses_a_second(tmp_path: Path) -> None:
    node = Noded(tmp_path)
    command = [sys.executable, "-m", "ganeti.daemons.noded", "-p", str(node.port), "-b", "127.0.0.1"]
    env = {**os.environ, "GANETI_ROOTDIR": node.paths.root, "GANETI_HOSTNAME": NODE}
    assert subprocess.run(command, env=env, timeout=START_S).returncode == 0
    pid = int(Path(node.paths.pid_file("ganeti-noded")).read_text())
    try:
        assert node.call("version") == CONFIG_VERSION
        second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=START_S)
        assert (second.returncode, f"process id {pid}" in second.stderr) == (1, True)
        log = Path(node.paths.log_dir, "node-daemon.log")
        log.rename(tmp_path / "rotated.log")
        os.kill(pid, signal.SIGHUP)
        wait_for(log.exists)
        node.call("blockdev_create", disk=disk())
        assert "disk /srv/disks/web1/d0.file.disk0 of 8 MiB made" in log.read_text()
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not runs(pid))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--no-ssl"], "Without TLS anybody could command this node: add -b 127.0.0.1"),
        (["-p", "70000"], "Port 70000 is not between"),
        (["-b", "here"], "'here' is not an IP address"),
        (["-i", "nosuch0"], "Interface nosuch0 has no address"),
        (["-K", "/x"], "give both -K and -C"),
        (["-b", "127.0.0.1"], "server.pem is missing"),
    ],
)
def test_what_cannot_be_served_is_told_at_the_start(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ganeti.daemons.noded", *arguments],
        env={**os.environ, "GANETI_ROOTDIR": str(tmp_path), "GANETI_HOSTNAME": NODE},
        capture_output=True,
        text=True,
        timeout=START_S,
    )
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img makes qcow2 images")
def test_a_qcow2_disk_grows_once_for_a_repeated_call(noded: Noded) -> None:
    wanted = disk(8, format="qcow2")
    noded.call("blockdev_create", disk=wanted)
    for _ in range(2):
        noded.call("blockdev_grow", disk=wanted, amount_mib=4)
    assert noded.call("blockdev_getdimensions", disks=[wanted]) == [[12, None]]
