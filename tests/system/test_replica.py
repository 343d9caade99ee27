# SPDX-License-Identifier: BSD-2-Clause
"""A master candidate's copy in the real node daemon, over mutual TLS: sent, kept through `kill -9`, promised away."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.sending_master import SendingMaster, SetTags, sound_configuration
from tests.system.test_noded import NODE, Noded, wait_for

from ganeti.calls.node_client import NodeClient
from ganeti.master.config.fingerprint import fingerprint_of
from ganeti.model.configuration import Configuration
from ganeti.node.certificates import digest
from ganeti.wconfd.start import open_configuration

CANDIDATE = "uuid-node2"


@pytest.fixture
def noded(tmp_path: Path) -> Iterator[Noded]:
    node = Noded(tmp_path)
    node.start()
    try:
        yield node
    finally:
        node.end(signal.SIGKILL)


def cluster_of(noded: Noded) -> Configuration:
    """The cluster whose second node is the one under test."""
    config = sound_configuration()
    renamed = msgspec.structs.replace(config.node(CANDIDATE), name=NODE)
    config.put("nodes", CANDIDATE, renamed)
    # Once the copy is published, only certificates that the configuration names are let in.
    certs = {CANDIDATE: digest(noded.pem)}
    config.put("cluster", "cluster", msgspec.structs.replace(config.cluster, candidate_certs=certs))
    return config


def test_what_is_acknowledged_survives_and_the_promised_master_finds_it(noded: Noded) -> None:
    master = SendingMaster(cluster_of(noded))
    assert noded.call("replica_state", **master.caller)["position"] is None
    assert noded.call("replica_snapshot", **master.snapshot())["position"] == [2, 1]
    wait_for(lambda: Path(noded.paths.ssconf_file("master_candidates_certs")).exists())
    files = {"job-3": '{"id":3}'}
    answer = noded.call(
        "replica_append", **master.append(master.position, master.record(SetTags(("red",))), files=files, serial=3)
    )
    assert answer == {"refused": None, "position": [2, 2]}
    noded.end(signal.SIGKILL)
    noded.start()
    state = noded.call("replica_state", **master.caller)
    assert (state["position"], state["digest"]) == ([2, 2], master.form.digest)
    assert noded.call("replica_queue_list", **master.caller)["files"].keys() == {"job-3"}
    noded.call("replica_state", **master.caller, acknowledged=master.acknowledged)
    wait_for(lambda: fingerprint_of(Path(noded.paths.config_file).read_bytes()) == master.form.digest)

    new = SendingMaster(epoch=3, uuid=CANDIDATE)
    assert noded.call("promise", **new.caller, ask_only=False)["granted"]
    refused = noded.call("replica_append", **master.append(master.position, master.record(SetTags(("late",)))))
    assert (refused["refused"], refused["promised"], refused["holder"]) == ("epoch", 3, CANDIDATE)
    opened = open_configuration(noded.paths)
    opened.store.close()
    assert opened.imported is None
    assert opened.loaded.config.position == (2, 2)
    assert opened.loaded.config.cluster.tags == ["red"]


def test_a_caller_that_goes_away_changes_nothing_about_the_answer_of_the_next(noded: Noded) -> None:
    master = SendingMaster(cluster_of(noded))
    noded.call("replica_snapshot", **master.snapshot())
    after = master.position
    first = master.append(after, master.record(SetTags(("one",))))

    async def hurried(client: NodeClient) -> Any:
        sending = asyncio.ensure_future(client.call("uuid-1", "replica_append", **first))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return await client.call("uuid-1", "replica_append", **first)

    answer = noded.run(hurried)
    assert answer["position"] == [2, 2]
    assert noded.call("replica_state", **master.caller)["digest"] == master.form.digest


def published(noded: Noded, master: SendingMaster) -> bool:
    """Whether the node's own files are those of the newest record; ssconf is written after `config.data`."""
    is_named = Path(noded.paths.ssconf_file("master_candidates_certs")).exists()
    return is_named and fingerprint_of(Path(noded.paths.config_file).read_bytes()) == master.form.digest


def killed_at(noded: Noded, point: str, monkeypatch: pytest.MonkeyPatch, call: str, arguments: dict[str, Any]) -> None:
    """Have the daemon killed when it reaches *point* while it carries out *call*; the next daemon runs then."""
    noded.end()
    with monkeypatch.context() as patched:
        patched.setenv("GANETI_PAUSE_AT", point)
        noded.start()
    process = noded.process
    assert process is not None

    def is_stopped() -> bool:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    async def cut_off(client: NodeClient) -> None:
        sending = asyncio.ensure_future(client.call("uuid-1", call, **arguments))
        async with asyncio.timeout(30):
            while not is_stopped():  # noqa: ASYNC110 - publication goes on after the answer
                await asyncio.sleep(0.01)
        process.kill()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    noded.run(cut_off, job=0)
    noded.end(signal.SIGKILL)
    noded.start()


@pytest.mark.parametrize(
    "point",
    [
        "replica-files-written",
        "replica-files-renamed",
        "replica-applying",
        "replica-applied",
        "publish-writing",
        "publish-patched",
        "publish-replaced",
    ],
)
def test_a_daemon_killed_anywhere_in_an_append_has_all_of_it_or_gets_it_again(
    noded: Noded, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    master = SendingMaster(cluster_of(noded))
    noded.call("replica_snapshot", **master.snapshot())
    wait_for(lambda: published(noded, master))
    after = master.position
    records = [master.record(SetTags((name,))) for name in ("one", "two")]
    files = {"job-1": "{}", "job-2": "{}"}
    arguments = master.append(after, *records, files=files, serial=2, acknowledged=master.acknowledged)
    killed_at(noded, point, monkeypatch, "replica_append", arguments)
    position = noded.call("replica_state", **master.caller)["position"]
    durable = [list(after), list(master.position)]
    assert position == durable[point not in ("replica-files-written", "replica-files-renamed", "replica-applying")]
    if position == durable[0]:
        assert noded.call("replica_append", **arguments | {"time_s": master.caller["time_s"]})["refused"] is None
    assert noded.call("replica_state", **master.caller)["digest"] == master.form.digest
    assert noded.call("replica_queue_list", **master.caller)["files"].keys() == {"job-1", "job-2"}
    noded.call("replica_state", **master.caller, acknowledged=master.acknowledged)
    wait_for(lambda: fingerprint_of(Path(noded.paths.config_file).read_bytes()) == master.form.digest)


@pytest.mark.parametrize("point", ["replica-restoring", "replica-restored"])
def test_a_daemon_killed_in_a_snapshot_has_the_old_copy_or_the_new_one(
    noded: Noded, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    master = SendingMaster(cluster_of(noded))
    noded.call("replica_snapshot", **master.snapshot())
    old = (list(master.position), master.form.digest)
    for number in range(3):
        master.record(SetTags((f"tag{number}",)))
    killed_at(noded, point, monkeypatch, "replica_snapshot", master.snapshot(number=2))
    state = noded.call("replica_state", **master.caller)
    new = (list(master.position), master.form.digest)
    is_new = point == "replica-restored"
    assert (state["position"], state["digest"]) == (new if is_new else old)
    assert state["membership"]["version"] == [2, 2 if is_new else 1]
    noded.call("replica_snapshot", **master.snapshot(number=2))
    promised = SendingMaster(epoch=3, uuid=CANDIDATE)
    assert noded.call("promise", **promised.caller, ask_only=False)["granted"]
    opened = open_configuration(noded.paths)
    opened.store.close()
    assert (opened.imported, opened.loaded.config.position) == (None, master.position)


def test_a_daemon_killed_while_it_promises_has_promised_or_not(noded: Noded, monkeypatch: pytest.MonkeyPatch) -> None:
    master, new = SendingMaster(cluster_of(noded)), SendingMaster(epoch=3, uuid=CANDIDATE)
    noded.call("replica_snapshot", **master.snapshot())
    killed_at(noded, "fences-written", monkeypatch, "promise", new.caller | {"ask_only": False})
    assert noded.call("replica_state", **master.caller)["promised"] == 2
    assert noded.call("promise", **new.caller, ask_only=False)["granted"]
    noded.end(signal.SIGKILL)
    noded.start()
    assert not noded.call("promise", **new.caller, ask_only=False)["granted"]
