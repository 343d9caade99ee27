# SPDX-License-Identifier: BSD-2-Clause
"""Repairs on real daemons: their state lies in tags that jobs set, so that every run knows what the last one did."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.master_daemons import GROUP_UUID, HOST, NODE_UUID, OFFLINE_UUID, Master, serving

from ganeti.master.maintenance.repair_tags import PREFIX
from ganeti.model.objects import Disk, Instance
from ganeti.node.certificates import create_authority, digest, issue_node_certificate

pytestmark = [pytest.mark.daemons]
PROGRAM = "import sys; from ganeti.tools.htools.programs import harep; sys.exit(harep.main(sys.argv[1:]))"
ADDRESS = "127.0.0.77"
"""Where no other node daemon of this machine listens."""
THIRD_UUID = "00000000-0000-4000-8000-000000000004"
REPAIR = "11111111-1111-4111-8111-111111111111"
RULE = "---------------------\nInstance status count\n---------------------\n"
DUMMY = {"OP_ID": "OP_TEST_DUMMY", "result": "it", "messages": [], "submit_jobs": None}
FAILED = re.compile(rf"{PREFIX}result:fix-storage:[0-9a-f-]{{36}}:[0-9]+:failure:[0-9]+")


def with_instances(config: dict[str, Any]) -> dict[str, Any]:
    """A cluster as an older release left it: two instances on nodes that are off, and one that is well."""
    nodes = config["nodes"]
    nodes[NODE_UUID]["vm_capable"] = False  # it has no node daemon that could tell what it has
    nodes[THIRD_UUID] = nodes[OFFLINE_UUID] | {"uuid": THIRD_UUID, "name": "node3.example.com"}
    nodes[THIRD_UUID] |= {"primary_ip": "127.0.0.3", "secondary_ip": "127.0.0.3"}
    places = {
        "plain.example.com": ("plain", [OFFLINE_UUID]),
        "mirrored.example.com": ("drbd", [OFFLINE_UUID, THIRD_UUID]),
        "well.example.com": ("diskless", [NODE_UUID]),
    }
    for number, (name, (template, where)) in enumerate(places.items(), 1):
        uuid, disk = (f"00000000-0000-4000-9{kind:03}-{number:012}" for kind in (1, 2))
        if template != "diskless":
            identity = ["xenvg", uuid] if len(where) == 1 else [*where, 11000, 0, 0, "secret"]
            config["disks"][disk] = Disk(
                uuid=disk, dev_type=template, size=64, iv_name="disk/0", nodes=where, logical_id=identity
            ).to_plain()
        disks = [disk] if template != "diskless" else []
        config["instances"][uuid] = Instance(
            uuid=uuid, name=name, primary_node=where[0], os="noop", hypervisor="fake", disks=disks
        ).to_plain()
    assert all(node["group"] == GROUP_UUID for node in nodes.values())
    return config


def prepared(root: Path) -> Master:
    found = Master(root)
    config = Path(found.paths.config_file)
    config.write_text(json.dumps(with_instances(json.loads(config.read_text()))))
    return found


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    with serving(prepared(tmp_path)) as found:
        yield found


def with_node_daemon(master: Master) -> None:
    """Certificates for the first node, and an instance mirrored between it and one that is off."""
    config = json.loads(Path(master.paths.config_file).read_text())
    authority = create_authority("cluster.example.com")
    pem = issue_node_certificate(authority, HOST, "cluster.example.com", [ADDRESS])
    for path, text in (
        (master.paths.server_cert, pem),
        (master.paths.client_cert, pem),
        (master.paths.authority_cert, authority.certificate),
    ):
        Path(path).write_text(text)
    config["cluster"]["candidate_certs"] = {NODE_UUID: digest(pem)}
    config["nodes"][NODE_UUID] |= {"vm_capable": True, "primary_ip": ADDRESS, "secondary_ip": ADDRESS}
    for disk in config["disks"].values():
        if disk["dev_type"] == "drbd":
            disk["nodes"] = [OFFLINE_UUID, NODE_UUID]
            disk["logical_id"][:2] = disk["nodes"]
    Path(master.paths.config_file).write_text(json.dumps(config))


@contextlib.contextmanager
def node_daemon(master: Master) -> Iterator[None]:
    words = ["-f", "-b", ADDRESS, "--no-mlock"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ganeti.daemons.noded", *words], env=master.environment, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        said = b""
        for line in process.stderr:
            said += line
            if b"is ready" in line:
                break
        else:
            raise AssertionError(said.decode())
        yield
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()


def harep(master: Master, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"-L{master.paths.luxi_socket}", "--job-delay=0", *words],
        env=master.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def tags(master: Master, name: str) -> list[str]:
    found: list[str] = master.luxi("QueryTags", "instance", name)
    return found


def change_tags(master: Master, opcode: str, kind: str, name: str | None, *values: str) -> None:
    job = master.wait(master.submit({"OP_ID": opcode, "kind": kind, "name": name, "tags": list(values)}))
    assert job.status == "success", job.ops[0].result


def ended_job(master: Master, *, fails: bool) -> int:
    job = master.submit({**DUMMY, "fail": fails})
    assert master.wait(job).status == ("error" if fails else "success")
    return job


def test_nothing_is_done_that_no_tag_allows(master: Master) -> None:
    said = harep(master)
    for name in ("plain", "mirrored"):
        assert f"Not repairing {name}.example.com because it's in state ArNotEnabled" in said
    assert said.endswith(f"{RULE}Healthy: 3\n")
    assert master.luxi("QueryJobs", None, ["id"]) == []


def test_a_repair_that_is_not_allowed_is_said_in_a_tag(master: Master) -> None:
    change_tags(master, "OP_TAGS_SET", "nodegroup", "default", f"{PREFIX}fix-storage")
    assert harep(master).endswith(f"{RULE}Healthy: 1\nNeeds repair: 2\n")
    (tag,) = tags(master, "plain")
    assert re.fullmatch(rf"{PREFIX}result:reinstall:[0-9a-f-]{{36}}:[0-9]+:enoperm:", tag)
    harep(master)
    (newer,) = tags(master, "plain")
    assert newer != tag


def with_lost_mirror(master: Master) -> None:
    """The secondary of the mirrored instance is off, its primary is not."""
    config = json.loads(Path(master.paths.config_file).read_text())
    for disk in config["disks"].values():
        if disk["dev_type"] == "drbd":
            disk["nodes"] = [NODE_UUID, OFFLINE_UUID]
            disk["logical_id"][:2] = disk["nodes"]
    for instance in config["instances"].values():
        if instance["name"] == "mirrored.example.com":
            instance["primary_node"] = NODE_UUID
    Path(master.paths.config_file).write_text(json.dumps(config))


def test_a_repair_that_fails_has_failed_and_stays_so(tmp_path: Path) -> None:
    """There is no driver for the disks here, so new ones cannot be made."""
    master = prepared(tmp_path)
    with_node_daemon(master)
    with_lost_mirror(master)
    with node_daemon(master), serving(master):
        change_tags(master, "OP_TAGS_SET", "cluster", None, f"{PREFIX}fix-storage")
        assert harep(master).endswith(f"{RULE}Healthy: 1\nNeeds repair: 1\nPending repair: 1\n")
        [pending] = tags(master, "mirrored")
        job = int(pending.rpartition(":")[2])
        assert pending.startswith(f"{PREFIX}pending:fix-storage:") and master.wait(job).status == "error"
        said = harep(master)
        assert 'Moving mirrored.example.com from "Pending repair" to "Failure"' in said
        assert said.endswith(f"{RULE}Failure: 1\nHealthy: 1\nNeeds repair: 1\n")
        [failed] = tags(master, "mirrored")
        assert FAILED.fullmatch(failed) and tags(master, "well") == []
        jobs = master.luxi("QueryJobs", None, ["id"])
        assert "mirrored.example.com" not in harep(master)
        assert tags(master, "mirrored") == [failed]
        change_tags(master, "OP_TAGS_DEL", "instance", "mirrored", failed)
        harep(master)
        assert len(master.luxi("QueryJobs", None, ["id"])) > len(jobs) + 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_repair_ends_as_its_jobs_do(master: Master, fails: bool) -> None:
    jobs = [ended_job(master, fails=False), ended_job(master, fails=fails)]
    pending = f"{PREFIX}pending:fix-storage:{REPAIR}:1700000000:{jobs[0]}+{jobs[1]}"
    change_tags(master, "OP_TAGS_SET", "instance", "well", pending, "other")
    word, result = ("Failure", "failure") if fails else ("Healthy", "success")
    assert f'Moving well.example.com from "Pending repair" to "{word}"' in harep(master)
    result_tag, other = sorted(tags(master, "well"))
    assert other == "other"
    assert re.fullmatch(rf"{PREFIX}result:fix-storage:{REPAIR}:[0-9]+:{result}:{jobs[0]}\+{jobs[1]}", result_tag)
    counts = "Failure: 1\nHealthy: 2" if fails else "Healthy: 3"
    assert harep(master).endswith(f"{RULE}{counts}\n")


def test_a_repair_that_goes_on_is_left_alone(master: Master) -> None:
    job = master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 3600.0})
    pending = f"{PREFIX}pending:reinstall:{REPAIR}:1700000000:{job}"
    change_tags(master, "OP_TAGS_SET", "instance", "plain", f"{PREFIX}reinstall", pending)
    assert harep(master).endswith(f"{RULE}Healthy: 2\nPending repair: 1\n")
    assert tags(master, "plain") == sorted([pending, f"{PREFIX}reinstall"])
    assert master.luxi("CancelJob", job, True)[0]
    master.wait(job)
    assert 'Moving plain.example.com from "Pending repair" to "Failure"' in harep(master)


def test_a_dry_run_changes_nothing(master: Master) -> None:
    change_tags(master, "OP_TAGS_SET", "cluster", None, f"{PREFIX}reinstall")
    jobs = master.luxi("QueryJobs", None, ["id"])
    assert harep(master, "--dry-run").endswith(f"{RULE}Healthy: 1\nPending repair: 2\n")
    assert master.luxi("QueryJobs", None, ["id"]) == jobs
    assert tags(master, "plain") == []


def test_a_repair_whose_job_fails(tmp_path: Path) -> None:
    """The failover of what has no driver here ends in an error, which the next run finds."""
    master = prepared(tmp_path)
    with_node_daemon(master)
    with node_daemon(master), serving(master):
        change_tags(master, "OP_TAGS_SET", "instance", "mirrored", f"{PREFIX}failover")
        assert harep(master).endswith(f"{RULE}Healthy: 2\nPending repair: 1\n")
        pending, _ = sorted(tags(master, "mirrored"), reverse=True)
        found = re.fullmatch(rf"{PREFIX}pending:failover:([0-9a-f-]{{36}}):[0-9]+:([0-9]+)", pending)
        assert found is not None
        repair, job = found.groups()
        ended = master.wait(int(job))
        assert (ended.status, ended.ops[0].input["OP_ID"]) == ("error", "OP_INSTANCE_FAILOVER")
        assert ended.ops[0].input["comment"].startswith("automated repairs by harep (ganeti) version 3.1")
        assert 'Moving mirrored.example.com from "Pending repair" to "Failure"' in harep(master)
        result, _ = sorted(tags(master, "mirrored"), reverse=True)
        assert re.fullmatch(rf"{PREFIX}result:failover:{repair}:[0-9]+:failure:{job}", result)
        assert harep(master).endswith(f"{RULE}Failure: 1\nHealthy: 2\n")
