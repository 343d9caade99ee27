# SPDX-License-Identifier: BSD-2-Clause
"""The remote API on real daemons: read, make an instance, wait for its job, tag and remove it (S2.16)."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.thoroughness import CAMPAIGN
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.requirement("S2.16"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
TREE = Path(__file__).resolve().parents[2]
CLIENT = """
import http.client, json, ssl, sys
method, path, body, headers = json.loads(sys.argv[1])
context = ssl._create_unverified_context()
connection = http.client.HTTPSConnection("127.0.0.1", 5080, context=context, timeout=60)
connection.request(method, path, body, headers)
answer = connection.getresponse()
print(json.dumps([answer.status, json.loads(answer.read())]))
"""
INSTANCE = {
    "__version__": 1,
    "name": "one.example.com",
    "mode": "create",
    "disk_template": "diskless",
    "disks": [],
    "nics": [],
    "hypervisor": "fake",
    "os": "noop+default",
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("rapi").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        users = "umask 027; mkdir -p /var/lib/ganeti/rapi && echo 'jack open-sesame write' > /var/lib/ganeti/rapi/users"
        for node in ("node1", "node2"):
            found.run("sh", "-c", users, node=node)
            found.open_remote_api(node)
        yield found
    finally:
        testbed.down(layout)


def send(
    bed: FakeBed, method: str, path: str, body: Any = None, password: str = "open-sesame", node: str = "node1"
) -> tuple[int, Any]:
    login = base64.b64encode(f"jack:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    asked = json.dumps([method, path, None if body is None else json.dumps(body), headers])
    done = machine.run(bed.layout, node, sys.executable, "-c", CLIENT, asked)
    assert done.returncode == 0, done.stderr
    status, answer = json.loads(done.stdout)
    return status, answer


def succeed(bed: FakeBed, submitted: tuple[int, Any]) -> None:
    """Wait for a job as clients do."""
    status, job = submitted
    assert status == 200, job
    known = None
    while known not in (["success"], ["error"], ["canceled"]):
        status, news = send(bed, "GET", f"/2/jobs/{job}/wait", {"fields": ["status"], "previous_job_info": known})
        assert status == 200, news
        known = news["job_info"]
    assert known == ["success"], send(bed, "GET", f"/2/jobs/{job}")[1]["opresult"]


def nodes(bed: FakeBed) -> list[str]:
    return sorted(node["id"] for node in send(bed, "GET", "/2/nodes")[1])


def test_reading(bed: FakeBed) -> None:
    assert send(bed, "GET", "/version") == (200, 2)
    assert send(bed, "GET", "/2/info")[1]["master"].startswith("node1")
    for kind in ("instances", "nodes", "groups", "networks", "jobs", "filters"):
        assert send(bed, "GET", f"/2/{kind}")[0] == send(bed, "GET", f"/2/{kind}?bulk=1")[0] == 200, kind
    assert "noop" in [name.partition("+")[0] for name in send(bed, "GET", "/2/os")[1]]
    assert send(bed, "GET", f"/2/nodes/{nodes(bed)[0]}/role") == (200, "master")
    for path in ("/2/instances/none", "/2/nodes/none", "/2/groups/none", "/2/networks/none", "/2/filters/none"):
        assert send(bed, "GET", path)[0] == 404, path
    assert send(bed, "GET", "/2/jobs/99999") == (
        200,
        {"id": 99999}
        | dict.fromkeys(
            ["ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts", "oplog", "opresult"]
        ),
    )
    assert send(bed, "DELETE", "/2/jobs/99999") == (200, [False, "Job 99999 not found in queue"])
    assert send(bed, "GET", "/2/jobs/99999/wait", {"fields": ["status"]})[0] == 500
    assert send(bed, "GET", "/2/nodes?lock=1")[0] == 500


def test_a_wrong_password_changes_nothing(bed: FakeBed) -> None:
    status, body = send(bed, "PUT", "/2/tags?tag=seen", password="guess")
    assert (status, body["code"]) == (401, 401)
    assert "seen" not in send(bed, "GET", "/2/tags")[1]


def test_the_life_of_an_instance(bed: FakeBed) -> None:
    succeed(bed, send(bed, "POST", "/2/instances?reason=by+the+API", INSTANCE | {"pnode": nodes(bed)[1]}))
    one = "/2/instances/one.example.com"
    shown = send(bed, "GET", one)[1]
    assert (shown["status"], shown["pnode"]) == ("running", nodes(bed)[1])
    assert send(bed, "GET", "/2/instances")[1] == [{"id": "one.example.com", "uri": one}]
    succeed(bed, send(bed, "PUT", f"{one}/tags?tag=a&tag=b"))
    assert send(bed, "GET", f"{one}/tags") == (200, ["a", "b"])
    succeed(bed, send(bed, "PUT", f"{one}/shutdown", {}))
    assert send(bed, "GET", f"{one}/console")[0] == 503
    succeed(bed, send(bed, "DELETE", one))
    assert send(bed, "GET", "/2/instances") == (200, [])


def fetched(script: str) -> str:
    """What a script of `setup/` prints that fetches something of Debian's; skips where it cannot be had."""
    done = subprocess.run([TREE / "setup" / script], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


def test_every_method_of_the_client_library_of_debian(bed: FakeBed) -> None:
    modules = fetched("peer-client")
    program = str(TREE / "tests/system/programs/debian_client.py")
    command = ["env", f"PYTHONPATH={modules}", "/usr/bin/python3", "-B", program, "ganeti.rapi.client", *nodes(bed)]
    found = json.loads(bed.run(*command).splitlines()[-1])
    assert found == {"failed": [], "not_called": []}


CLIENT_MODULES = f"PYTHONPATH={TREE}/client/src"
SHORTENED = [] if CAMPAIGN else ["instances", "disks", "nodes"]


def test_programs_for_that_library_change_an_import(bed: FakeBed) -> None:
    program = str(TREE / "tests/system/programs/debian_client.py")
    words = ["/usr/bin/python3", "-B", program, "ganeti_client.familiar", *nodes(bed), *SHORTENED]
    found = json.loads(bed.run("env", CLIENT_MODULES, *words).splitlines()[-1])
    assert found["failed"] == [] and (SHORTENED or not found["not_called"])


def test_the_client_of_the_third_version(bed: FakeBed) -> None:
    program = str(TREE / "tests/system/programs/new_client.py")
    said = bed.run("env", CLIENT_MODULES, "/usr/bin/python3", "-B", program, nodes(bed)[1])
    assert json.loads(said.splitlines()[-1]) == []


def test_placement_tools_of_debian_read_the_cluster(bed: FakeBed) -> None:
    peer = fetched("peer-htools")
    assert nodes(bed)[1] in bed.run(peer, "hbal", "-m", "https://jack:open-sesame@127.0.0.1:5080", "-p")
    assert "HTS_OK=1" in bed.run(
        peer, "hspace", "--machine-readable=yes", "-m", "https://jack:open-sesame@127.0.0.1:5080"
    )


def test_the_metrics_tell_how_many_instances_fit(bed: FakeBed) -> None:
    def page() -> str:
        return bed.run("curl", "-skf", "-u", "jack:open-sesame", "https://127.0.0.1:5080/metrics")

    bed.wait(lambda: "ganeti_group_capacity_counted_timestamp_seconds 1" in page(), "capacity is counted")
    assert re.search(
        r'^ganeti_group_capacity_instances{group="default",memory_bytes="\d+".*} \d+$', page(), re.MULTILINE
    )


def test_another_node_passes_requests_on_to_the_master(bed: FakeBed) -> None:
    assert send(bed, "GET", "/2/nodes", node="node2") == send(bed, "GET", "/2/nodes")
    assert send(bed, "PUT", "/2/tags?tag=passed", password="guess", node="node2")[0] == 401
    succeed(bed, send(bed, "PUT", "/2/tags?tag=passed", node="node2"))
    assert "passed" in send(bed, "GET", "/2/tags", node="node2")[1]


def test_the_recipes_of_the_documentation(bed: FakeBed, tmp_path: Path) -> None:
    text = (TREE / "docs/operator/remote-api.md").read_text()
    recipes = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    said = bed.run("bash", "-e", "-o", "pipefail", "-c", "".join(recipes))
    for expected in (
        '"name":"token deploy"',
        '[{"name":"node1"}]',
        '{"name":"web1.example.com","status":"running"}',
        '"status":"success"',
        "- instance web1.example.com",
        "INSTANCE_SHUTDOWN(web1.example.com)",
        "each as it was written",
    ):
        assert expected in said, said
    log = bed.run("cat", "/var/log/ganeti/rapi-audit.log", "/var/lib/ganeti/rapi/tokens")
    assert "token shop" not in log and "gnt_" not in log and "a shop opens" not in log


ABSENT = """
instances: {shop1.example.com: {state: absent}}
networks: {shop: {state: absent}}
groups: {storage: {state: absent}}
"""


def test_files_are_applied_once(bed: FakeBed) -> None:
    """Those of the documentation, one after the other: the instance is made, gets devices, and loses them again."""
    text = (TREE / "docs/operator/apply.md").read_text()
    for shown, here in (("os: debian+trixie", "os: noop+default"), ("hypervisor: kvm", "hypervisor: fake")):
        assert shown in text
        text = text.replace(shown, here)
    [plan] = re.findall(r"^```\n# gnt-cluster apply --plan shop.yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    files = [*re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL), ABSENT]
    plans = [
        "+ instance shop1.example.com",
        plan,
        "disk 0: mode=ro, remove disk 1 (32 MiB, name scratch), remove interface 1",
        "- group",
    ]
    for words, planned in zip(files, plans, strict=True):
        bed.run("sh", "-c", 'printf %s "$0" > /root/shop.yaml', words)
        assert planned in bed.run("gnt-cluster", "apply", "--plan", "/root/shop.yaml")
        bed.run("gnt-cluster", "apply", "-f", "/root/shop.yaml")
        assert bed.run("gnt-cluster", "apply", "/root/shop.yaml").strip() == "Nothing to change."
        if words is files[1]:
            shown = send(bed, "GET", "/2/instances/shop1.example.com")[1]
            assert (shown["disk.sizes"], shown["nic.links"][1]) == ([96, 32], "gnt-br0")
            smaller = words.replace("96M", "64M")
            bed.run("sh", "-c", 'printf %s "$0" > /root/shop.yaml', smaller)
            assert "disks do not shrink" in bed.run("gnt-cluster", "apply", "-f", "/root/shop.yaml", expect=1)
        if words is files[2]:
            told = bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.modes", "shop1.example.com")
            assert told.strip() == "ro"


HOOKS = f"SCHEMATHESIS_HOOKS={TREE}/tests/system/programs/schemathesis_hooks.py"
SCHEMATHESIS = [
    "env",
    "--chdir=/root",
    HOOKS,
    str(TREE / ".venv/bin/st"),
    "--config-file",
    str(TREE / "tests/system/schemathesis.toml"),
    "run",
]
GENERATED = ["--phases", "coverage,fuzzing", "--max-examples", "10"] if CAMPAIGN else ["--phases", "fuzzing"]
SAMPLE = (
    []
    if CAMPAIGN
    else ["--max-examples", "1", "--include-path-regex", "^/3/(?!plan|operations)|/operations/instance-|/plan/tags-"]
)
NO_JOB_BUT_PLANS = '[["opcode", ["!", ["=", "OP_ID", "OP_PLAN"]]]]'


def test_the_document_of_the_third_version_tells_what_the_server_does(bed: FakeBed) -> None:
    """Schemathesis draws requests from it, right and wrong ones, and compares the answers with it.

    Jobs are rejected by a filter rule meanwhile: what is drawn could destroy the cluster.
    """
    login = ["--tls-verify", "false", "--auth", "jack:open-sesame", "--no-color", "--warnings", "off"]
    door = ["https://127.0.0.1:5080/3/openapi.json", *login]
    rule = bed.run("gnt-filter", "add", "--predicates", NO_JOB_BUT_PLANS, "--action", "REJECT").strip()
    try:
        words = [*GENERATED, *SAMPLE, "--exclude-checks", "ignored_auth", "--continue-on-failure", "--seed", "1"]
        assert "passed" in bed.run(*SCHEMATHESIS, *door, *words, within_s=1800.0)
        one = ["--include-path", "/3/whoami", "--checks", "ignored_auth", "--phases", "fuzzing", "--max-examples", "1"]
        assert "passed" in bed.run(*SCHEMATHESIS, *door, *one)
    finally:
        bed.run("gnt-filter", "delete", rule)
    log = bed.run("cat", "/var/log/ganeti/rapi-daemon.log", "/var/log/ganeti/luxi-daemon.log")
    assert "Traceback" not in log


ANSIBLE = TREE / ".venv/bin/ansible-playbook"


@pytest.mark.skipif(not ANSIBLE.exists(), reason="ansible-core is there in a campaign only: pip install '.[campaign]'")
def test_the_playbook_of_the_documentation_changes_nothing_the_second_time(bed: FakeBed) -> None:
    text = (TREE / "docs/operator/automation.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    bed.run("sh", "-c", 'printf %s "$0" > /root/play.yaml', text)
    bed.run("sh", "-c", "gnt-cluster token --role operator add ansible > /root/deploy.token")
    for changed in (1, 0):
        said = bed.run("env", "HOME=/root", str(ANSIBLE), "/root/play.yaml")
        assert f"changed={changed} " in said and "failed=0" in said, said
    assert send(bed, "GET", "/2/instances/web2.example.com")[1]["status"] == "running"
    succeed(bed, send(bed, "DELETE", "/2/instances/web2.example.com"))
    bed.run("gnt-cluster", "token", "revoke", "ansible")


def test_the_requests_of_the_terraform_resource_of_the_documentation(bed: FakeBed) -> None:
    text = (TREE / "docs/operator/automation.md").read_text().partition("```hcl\n")[2].partition("```")[0]
    said = dict(re.findall(r'^  (\w+) += "(.*)"$', text, re.MULTILINE))
    bodies = dict(re.findall(r"^  (\w+) += <<EOT\n(.*?)^  EOT$", text, re.MULTILINE | re.DOTALL))
    read = said["read_path"].replace("{id}", said["object_id"])
    asked = [("create_path", "data", 1), ("update_path", "update_data", 2)]
    for path, data, processors in asked:
        status, done = send(bed, "POST", said[path], json.loads(bodies[data]))
        assert status == 200 and "results" in done, done
        status, found = send(bed, "GET", read)
        assert (status, found["beparams"]["vcpus"], found["name"]) == (200, processors, said["object_id"])
    status, again = send(bed, "POST", said["create_path"], json.loads(bodies["data"]))
    assert status in (400, 409) and said["object_id"] in again["detail"], again
    assert send(bed, "POST", said["destroy_path"], json.loads(bodies["destroy_data"]))[0] == 200
    assert send(bed, "GET", read)[0] == 404


def test_a_plan_is_void_once_the_cluster_has_changed(bed: FakeBed) -> None:
    tags = {"kind": "node", "name": nodes(bed)[1], "tags": ["planned"]}
    plan = send(bed, "POST", "/3/plan/tags-set", tags)[1]
    assert plan["changes"][0]["fields"] == {"tags": [[], ["planned"]]} and plan["complete"]
    job = send(bed, "POST", "/3/operations/tags-set", tags | {"tags": ["other"]})[1]["job"]
    succeed(bed, (200, job))
    job = send(bed, "POST", f"/3/operations/tags-set?plan={plan['fingerprint']}", tags)[1]["job"]
    ended = send(bed, "GET", f"/3/jobs/{job}/wait?timeout_s=30")[1]
    assert ended["status"] == "error" and "make a new plan" in str(ended["results"])
    assert send(bed, "GET", f"/2/nodes/{nodes(bed)[1]}/tags")[1] == ["other"]


def test_htools_read_the_cluster_through_it(bed: FakeBed) -> None:
    assert nodes(bed)[0] in bed.run("hbal", "-m", "https://jack:open-sesame@127.0.0.1:5080", "-p")


COLLECTOR = str(TREE / "tests/system/programs/span_collector.py")
TRACED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_request_its_job_and_its_node_calls_are_spans_of_one_trace(bed: FakeBed) -> None:
    collector = machine.popen(bed.layout, "node1", sys.executable, COLLECTOR, "/root/spans", stdin=subprocess.PIPE)
    try:
        assert collector.stdout and collector.stdout.readline() == "ready\n"
        bed.run("sh", "-c", """echo '{"endpoint": "http://127.0.0.1:4318"}' > /etc/ganeti/tracing.json""")
        curl = [
            "curl",
            "-skf",
            "-u",
            "jack:open-sesame",
            "-H",
            f"traceparent: {TRACED}",
            "-H",
            "Content-Type: application/json",
        ]
        bed.run(
            *curl, "-d", '{"output_fields": ["name"], "names": []}', "https://127.0.0.1:5080/3/operations/os-diagnose"
        )

        request = "POST /3/operations/[operation]"

        def spans() -> list[dict[str, str]]:
            lines = bed.run("sh", "-c", "cat /root/spans 2>/dev/null; true").splitlines()
            return [each for each in map(json.loads, lines) if each["trace"] == TRACED.split("-")[1]]

        wanted = {("ganeti-rapi", request), ("ganeti-job", "job OP_OS_DIAGNOSE"), ("ganeti-noded", "os_diagnose")}
        bed.wait(lambda: wanted <= {(each["service"], each["name"]) for each in spans()}, "spans arrive")
        parents = {each["name"]: each["parent"] for each in spans()}
        ids = {each["name"]: each["id"] for each in spans()}
        assert parents[request] == TRACED.split("-")[2]
        assert parents["job OP_OS_DIAGNOSE"] == ids[request]
        assert parents["OP_OS_DIAGNOSE"] == parents["queued"] == ids["job OP_OS_DIAGNOSE"]
        calls = [parent for name, parent in parents.items() if name.startswith("node call ")]
        assert calls and set(calls) == {ids["OP_OS_DIAGNOSE"]}
        called = {each["id"] for each in spans() if each["name"].startswith("node call ")}
        assert {each["parent"] for each in spans() if each["name"] == "os_diagnose"} <= called
    finally:
        bed.run("rm", "-f", "/etc/ganeti/tracing.json")
        collector.communicate(timeout=10)


LOAD = str(TREE / "tests/system/programs/api_load.py")
ROUNDS = 10 if CAMPAIGN else 1
KILLED = ("ganeti-luxid", "ganeti-rapi", *(["ganeti-wconfd"] if CAMPAIGN else []))
NO_ANSWER = {"502", "503", "no answer", "events: 502", "events: 503", "events: no answer"}


class Load:
    """Clients on node2 that submit with idempotency keys and follow the events, there and at the cluster's address."""

    def __init__(self, bed: FakeBed) -> None:
        words = [sys.executable, LOAD, "127.0.0.1", bed.layout.cluster_address, "/root/stop"]
        self._bed = bed
        self._process = machine.popen(bed.layout, "node2", "env", CLIENT_MODULES, *words)
        self.more()

    def more(self) -> None:
        """Wait until ten more jobs were accepted, or almost."""
        assert self._process.stdout and self._process.stderr
        line = self._process.stdout.readline().strip()
        assert line.isdecimal(), self._process.stderr.read()

    def end(self) -> list[Any]:
        self._bed.run("touch", "/root/stop", node="node2")
        said, errors = self._process.communicate(timeout=600)
        assert self._process.returncode == 0, errors
        return list(json.loads(said.splitlines()[-1]))


def test_clients_get_through_while_the_server_changes_under_them(bed: FakeBed) -> None:
    """Daemons die, the certificate is renewed, the master changes: no accepted job is lost, and none is there twice."""
    load, master = Load(bed), "node1"
    for number in range(ROUNDS):
        for daemon in KILLED:
            bed.run("sh", "-c", f"kill -9 $(cat /var/run/ganeti/{daemon}.pid)", node=master)
            bed.run("/usr/lib/ganeti/daemon-util", "start", daemon, node=master)
            load.more()
        bed.run("gnt-cluster", "renew-crypto", "-f", "--new-rapi-certificate", node=master)
        load.more()
        master = ("node2", "node1")[number % 2]
        bed.run("gnt-cluster", "master-failover", node=master)
        load.more()
    answered, queue, told, snapshots, refused = load.end()
    assert {key: [job] for key, job in answered.items()} == queue
    assert set(refused) <= NO_ANSWER and any(not each.startswith("events") for each in refused), refused
    assert all(count == 1 for _, count in told), told
    assert not set(answered.values()) - {job for job, _ in told} - set(snapshots)
