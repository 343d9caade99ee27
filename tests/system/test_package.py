# SPDX-License-Identifier: BSD-2-Clause
"""The Debian package on two machines that have nothing of this tree: installed, used, upgraded, removed.

One story: the tests run in order.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path

import pytest
from tests.fakes.built_package import built_package
from tests.system import documented

from ganeti.base.paths import Paths
from ganeti.system import accounts
from ganeti.system.accounts import USER_OF
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, guest, machine
from ganeti.tools.testbed.layout import Layout
from ganeti.tools.testbed.node_files import FILE_STORAGE

pytestmark = [pytest.mark.daemons, pytest.mark.story]
TABLE = {
    "/var/lib/ganeti": "755 gnt-masterd:gnt-masterd",
    "/var/lib/ganeti/cluster-domain-secret": "600 gnt-masterd:gnt-masterd",
    "/var/lib/ganeti/config.data": "640 gnt-masterd:gnt-confd",
    "/var/lib/ganeti/hmac.key": "440 gnt-masterd:gnt-confd",
    "/var/lib/ganeti/known_hosts": "644 gnt-masterd:gnt-masterd",
    "/var/lib/ganeti/queue": "700 gnt-masterd:gnt-masterd",
    "/var/lib/ganeti/queue/archive": "700 gnt-masterd:gnt-masterd",
    "/var/lib/ganeti/queue/job-1": "600 gnt-masterd:gnt-masterd",
    "/var/lib/ganeti/rapi.pem": "440 gnt-rapi:gnt-rapi",
    "/var/lib/ganeti/rapi": "750 gnt-rapi:gnt-rapi",
    "/var/lib/ganeti/server.pem": "440 gnt-masterd:gnt-masterd",
    "/run/ganeti": "1775 gnt-masterd:gnt-daemons",
    "/run/ganeti/socket": "750 gnt-masterd:gnt-admin",
    "/run/ganeti/socket/ganeti-master": "660 gnt-masterd:gnt-admin",
    "/var/log/ganeti": "1770 gnt-masterd:gnt-daemons",
    "/var/log/ganeti/luxi-daemon.log": "600 gnt-masterd:gnt-daemons",
    "/var/log/ganeti/rapi-daemon.log": "600 gnt-rapi:gnt-daemons",
    "/var/log/ganeti/conf-daemon.log": "600 gnt-confd:gnt-daemons",
    "/var/log/ganeti/node-daemon.log": "600 root:gnt-daemons",
}
"""Modes as 3.1 sets them, with the sticky bit where several users' daemons write; owners as its documents name them, by
the names that Debian gives these users."""
OF_MASTER = {
    f"/{name}"
    for name in ("run/ganeti/socket/ganeti-master", "var/log/ganeti/luxi-daemon.log", "var/log/ganeti/rapi-daemon.log")
}
"""What a node that has never been the master lacks of the table."""
GROUPS = {accounts.ROOT, accounts.DAEMONS, accounts.ADMINISTRATORS, *USER_OF.values()}
DATA = "/var/lib/ganeti/*.pem /var/lib/ganeti/*.key /var/lib/ganeti/config.data /var/lib/ganeti/ssconf_*"
NODES = ("node1", "node2")


def next_revision(package: Path) -> Path:
    """The same files in a package of revision 2, which takes a tenth of the time that they take to be made again."""
    made = package.with_name(package.name.replace("-1_", "-2_"))
    unpacked = package.with_name("unpacked")
    subprocess.run(["dpkg-deb", "-R", package, unpacked], check=True)
    control = unpacked / "DEBIAN/control"
    text, changed = re.subn(r"^(Version: .*)-1$", r"\1-2", control.read_text(), flags=re.M)
    assert changed == 1
    control.write_text(text)
    pack = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", unpacked, made]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(unpacked)
    return made


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="package-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def bed(place: Path) -> Iterator[Layout]:
    made = testbed.up(place / "bed", len(NODES), "fake", watcher_interval_s=86400, package=built_package(place))
    yield made
    testbed.down(made)


def good(bed: Layout, *words: str, node: str = "node1") -> str:
    done = machine.run(bed, node, *words, timeout_s=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def pids(bed: Layout, node: str) -> dict[str, str]:
    daemons = good(bed, "daemon-util", "list-start-daemons", node=node).split()
    running = [name for name in daemons if machine.run(bed, node, "daemon-util", "check", name).returncode == 0]
    return {name: good(bed, "cat", f"/run/ganeti/{name}.pid", node=node).strip() for name in running}


def test_everything_is_where_other_programs_look_for_it(bed: Layout) -> None:
    assert machine.run(bed, "node1", "ls", str(guest.tree() / "src")).returncode, "the tree is visible in the node"
    sbin = ("gnt-cluster", "gnt-instance", "ganeti-noded", "ganeti-luxid", "ganeti-watcher", "ganeti-cleaner")
    helpers = ("daemon-util", "ensure-dirs", "check-cert-expired", "mon-collector", "tools/node-cleanup")
    programs = [
        *(f"/usr/sbin/{name}" for name in sbin),
        *(f"/usr/bin/{name}" for name in ("hail", "hbal", "htools")),
        *(f"/usr/lib/ganeti/{name}" for name in (*helpers, "prepare-node-join", "iallocators/hail")),
    ]
    for program in programs:
        good(bed, "test", "-x", program)
    share = ("ganeti/os/noop", "man/man8/gnt-instance.8.gz", "bash-completion/completions/gnt-instance")
    files = ("/lib/systemd/system/ganeti-noded.service", "/etc/logrotate.d/ganeti")
    for path in (*files, *(f"/usr/share/{name}" for name in share)):
        good(bed, "test", "-e", path)
    named = ("daemon-util", "ensure-dirs", "mon-collector", "node-cleanup", "cfgupgrade", "take-over", "move-instance")
    for name in named:  # as messages and pages tell to type them: this shell's own path has more directories
        good(bed, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", f"command -v {name}")
    storage_daemon = (
        "import os; from ganeti.mirrord.data_path import PROGRAM; assert os.access(PROGRAM, os.X_OK), PROGRAM"
    )
    good(bed, "/usr/lib/ganeti/python/bin/python3", "-c", storage_daemon)
    assert "(ganeti " in good(bed, "/usr/sbin/gnt-cluster", "--version")
    assert good(bed, "ensure-dirs", "--full-run", "--verbose") == ""


def test_a_cluster_is_made_and_used(bed: Layout) -> None:
    cluster.create(bed)
    good(bed, "gnt-instance", "add", "-t", "file", "-s", "64m", "-o", "noop+default", "-n", "node2", "inst1")
    good(bed, "gnt-cluster", "verify")
    assert good(bed, "gnt-instance", "--complete", "startup", "in") == "inst1\n"
    assert "1 instances" in good(bed, "hbal", "-L")


@pytest.mark.requirement("S1.104", "S1.105", "S1.107", "S1.108")
def test_each_daemon_runs_as_its_own_user(bed: Layout) -> None:
    """As the table of docs/operator/security.md says."""
    wanted = documented.users()
    assert {name: user for name, user in wanted.items() if user != "root"} == USER_OF
    for node in NODES:
        for daemon, pid in pids(bed, node).items():
            status = good(bed, "cat", f"/proc/{pid}/status", node=node)
            user = good(bed, "stat", "--format=%U", f"/proc/{pid}", node=node).strip()
            assert user == wanted[daemon], f"{daemon} on {node}"
            capabilities = re.findall(r"^Cap(?:Inh|Prm|Eff|Amb):\t(\w+)$", status, re.M)
            assert len(capabilities) == 4
            assert user == "root" or not any(int(mask, 16) for mask in capabilities), f"{daemon} on {node}"
        others = set(good(bed, "ps", "-eo", "user:32=", node=node).split()) - {"root", *USER_OF.values()}
        assert others == set(), f"processes on {node}"
    as_anybody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    assert machine.run(bed, "node1", *as_anybody, "gnt-instance", "list").returncode
    as_administrator = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--groups=gnt-admin")
    assert "inst1" in good(bed, *as_administrator, "gnt-instance", "list")


def test_a_mond_without_privileges_tells_of_guests(bed: Layout) -> None:
    """The node daemon looks for it, at a socket that nobody else may use."""
    page = "http://127.0.0.1:1815/1/report/instance/inst-status-fake"
    [found] = json.loads(good(bed, "curl", "-s", page, node="node2"))["data"]["instances"]
    assert (found["name"], found["actualState"]) == ("inst1", "running")
    looks = "/run/ganeti/ganeti-noded.probes"
    assert good(bed, "stat", "--format=%a %U:%G", looks, node="node2").strip() == "660 root:gnt-mond"


ASK = "curl -sk -u jack:secret -X PUT https://127.0.0.1:5080/2/instances/nosuch/startup"


def test_the_audit_log_is_as_verification_wants_it(bed: Layout) -> None:
    """The remote API makes it at the first request that changes something."""
    user = "umask 027; echo jack secret write > /var/lib/ganeti/rapi/users; chown gnt-rapi: /var/lib/ganeti/rapi/users"
    good(bed, "sh", "-c", user)
    try:
        assert good(bed, *ASK.split()).strip().isdigit()
        seen = good(bed, "stat", "--format=%a %U:%G", "/var/log/ganeti/rapi-audit.log").strip()
        assert seen == "640 gnt-rapi:gnt-daemons"
    finally:
        good(bed, "rm", "/var/lib/ganeti/rapi/users")


@pytest.mark.requirement("S1.110")
def test_files_of_a_running_cluster_are_as_the_table_says(bed: Layout) -> None:
    everything_is_as_the_tables_say(bed, master="node1")
    good(bed, "chmod", "o+r", "/var/lib/ganeti/hmac.key", node="node2")
    done = machine.run(bed, "node1", "gnt-cluster", "verify", "--error-codes")
    assert done.returncode
    assert "ENODEFILECHECK:node:node2:" in done.stdout
    assert "/var/lib/ganeti/hmac.key" in done.stdout
    good(bed, "ensure-dirs", node="node2")
    good(bed, "gnt-cluster", "verify")


def everything_is_as_the_tables_say(bed: Layout, master: str) -> None:
    """On every node: files by the table of this test and that of the product, all others by who may write them."""
    rules = list(accounts.rules(Paths("")))
    for node in NODES:
        found = files(bed, node) if node == master else as_on_the_master(files(bed, node))
        missing = {path for path in TABLE if path not in found}
        assert missing <= (OF_MASTER if node != master else set()), f"{node} lacks files"
        wrong = {path: found[path][1:] for path, wanted in TABLE.items() if found.get(path, "?" + wanted)[1:] != wanted}
        assert wrong == {}, f"on {node}"
        odd = {path: seen for path, seen in found.items() if seen not in allowed(path, rules, seen)}
        assert odd == {}, f"on {node}"
        full = ("--full-run",) if node == master else ()
        assert good(bed, "ensure-dirs", "--verbose", *full, node=node) == "", node


def as_on_the_master(found: dict[str, str]) -> dict[str, str]:
    """What the master sends to candidates is root's there, and that of its daemons once they start."""
    queue, config = "/var/lib/ganeti/queue/", "/var/lib/ganeti/config.data"
    changed = {
        path: seen.replace("root:root", f"{accounts.MASTER}:{accounts.MASTER}")
        for path, seen in found.items()
        if path.startswith(queue)
    }
    sent = found.get(config, "").replace("root:", f"{accounts.MASTER}:")
    return found | changed | ({config: sent} if sent else {})


def files(bed: Layout, node: str) -> dict[str, str]:
    """Each file of the cluster on the node to its kind, mode and owner: ``f640 gnt-masterd:gnt-confd``."""
    look = ("find", "/var/lib/ganeti", "/run/ganeti", "/var/log/ganeti", "/etc/ganeti", "!", "-type", "l")
    lines = good(bed, *look, "-printf", "%y%m %u:%g %p\\n", node=node).splitlines()
    return {path: f"{mode} {owner}" for mode, owner, path in (line.split(" ", 2) for line in lines)}


def allowed(path: str, rules: list[accounts.Rule], seen: str) -> set[str]:
    """What a file may be like. One without a rule may be anybody's of the daemons, and nobody else writes it."""
    mode, _, owner = seen[1:].partition(" ")
    user, _, group = owner.partition(":")
    for rule in rules:
        if path.count("/") == rule.path.count("/") and fnmatchcase(path, rule.path):
            return {f"{seen[0]}{rule.mode:o} {rule.user or user}:{rule.group or group}"}
    by_others = int(mode, 8) & (0o002 if seen[0] != "s" else 0)
    is_known = user in {accounts.ROOT, *USER_OF.values()} and group in GROUPS
    return {seen} if is_known and not by_others else set()


@pytest.mark.requirement("S1.110")
def test_keys_are_as_the_operators_page_says(bed: Layout) -> None:
    """Each file that is there has the mode and the owner of docs/operator/security.md, on every node."""
    seen = set()
    for node in NODES:
        for name, wanted in documented.key_files().items():
            path = name if name.startswith("/") else f"/var/lib/ganeti/{name}"
            found = good(bed, "sh", "-c", f"stat --format='%a %U:%G %n' {path} 2>/dev/null; true", node=node)
            for line in (line for line in found.splitlines() if not line.endswith(".pub")):
                mode, owner, place = line.split()
                assert f"{mode} {owner}".startswith(wanted), f"{place} on {node} is {mode} {owner}, not {wanted}"
                seen.add(name)
    assert documented.key_files().keys() - seen <= {
        "client-former.*.pem",
        "joining",
        "spice.pem",
        "spice-ca.pem",
        "rapi/users",
    }
    secret = good(bed, "sh", "-c", "cd /var/lib/ganeti; find . -maxdepth 2 ! -type d ! -perm /o+r -printf '%P\\n'")
    unknown = {
        name
        for name in secret.split()
        if name.endswith((".key", ".pem")) and not any(fnmatch(name, known) for known in documented.key_files())
    }
    assert unknown == set(), "keys that the page does not name"


ATTEMPTS = """
import os, socket, stat, sys
for path in sys.stdin.read().splitlines():
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            socket.socket(socket.AF_UNIX).connect(path)
            print("connected", path)
        else:
            open(path, "rb").read(1)
            print("read", path)
    except OSError:
        pass
"""
"""What a shell under the user of a guest would try with each path on its standard input."""
OPEN_TO_ALL = (
    *("/var/lib/ganeti/ssconf_*", "/var/lib/ganeti/ca.pem", "/var/lib/ganeti/known_hosts", "/run/ganeti/*.pid"),
    *("/etc/ganeti/*", "/var/lib/ganeti/watcher.*", "/var/lib/ganeti/*.json"),
)


def test_a_guest_that_is_taken_over_reaches_no_key_and_no_daemon(bed: Layout) -> None:
    """A shell under an id of the pool, on every node: it reads what everybody may, and connects to no socket."""
    of_the_pool = ("setpriv", "--reuid=310000", "--regid=310000", "--clear-groups", "--no-new-privs")
    everything = "find /var/lib/ganeti /run/ganeti /etc/ganeti /var/log/ganeti /root/.ssh ( -type f -o -type s )"
    for node in NODES:
        program = bed.node(node).disks / "attempts.py"
        program.write_text(ATTEMPTS)
        program.chmod(0o644)
        paths = good(bed, *everything.split(), node=node)
        try:
            words = (*of_the_pool, "python3", "-IS", f"{FILE_STORAGE}/attempts.py")
            done = machine.run(bed, node, *words, text=paths)
            as_root = machine.run(bed, node, *words[len(of_the_pool) :], text=paths)
        finally:
            program.unlink()
        assert (done.returncode, done.stderr, as_root.returncode) == (0, "", 0)
        reached = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
        assert {path for what, path in reached if what == "connected"} == set()
        odd = {path for _, path in reached if not any(fnmatch(path, known) for known in OPEN_TO_ALL)}
        assert odd == set(), f"on {node}"
        assert as_root.stdout.count("connected ") >= (3 if node == "node1" else 0)
        assert as_root.stdout.count("read ") > len(reached) + 10


def test_the_master_moves(bed: Layout) -> None:
    """What the former master's root has sent to the candidate belongs to the daemons of the new one."""
    for node in ("node2", "node1"):
        good(bed, "gnt-cluster", "master-failover", node=node)
        good(bed, "gnt-cluster", "verify", node=node)
        everything_is_as_the_tables_say(bed, master=node)
        assert pids(bed, node).keys() >= {"ganeti-wconfd", "ganeti-luxid", "ganeti-rapi"}


def test_nothing_else_listens(bed: Layout) -> None:
    """As the table of docs/operator/security.md says; what is not started on a fresh cluster listens nowhere.

    The remote API stays where the master was, and passes requests on.
    """
    known = {f"{kind.lower()}/{port}": program for (port, kind), program in documented.ports().items()}
    of_master = {"ganeti-rapi", "ganeti-maintd"}
    idle = {"gnt-node token", "ganeti-mirrord", "ganeti-metad"}
    every = {"tcp/22", *(place for place, program in known.items() if program not in {*of_master, *idle})}
    master = {place for place, program in known.items() if program in of_master}
    assert len(every) == 4 and len(master) == 2
    for node in NODES:
        rows = [line.split() for line in good(bed, "ss", "-Hlntu", node=node).splitlines()]
        found = {f"{row[0]}/{row[4].rpartition(':')[2]}" for row in rows}
        api = {place for place, program in known.items() if program == "ganeti-rapi"}
        assert (found if node == "node1" else found - api) == (every | master if node == "node1" else every), node


def test_no_secret_is_where_others_can_read_it(bed: Layout) -> None:
    for node in NODES:
        data = bed.node(node).upper / "var/lib/ganeti"
        texts = [(data / name).read_text() for name in ("hmac.key", "cluster-domain-secret", "ca.key")]
        texts.append((data / "server.pem").read_text().partition("-----END PRIVATE KEY")[0])
        secrets = [line for text in texts for line in text.splitlines() if len(line) > 20 and "---" not in line]
        assert len(secrets) > 6
        patterns = "\n".join(secrets) + "\n"
        public = "find /etc/ganeti /run /tmp /var/lib/ganeti -xdev -type f -perm -o+r"
        put = bed.node(node).disks / "patterns"
        put.write_text(patterns)
        look = f"xargs -0 grep -lsF -f {FILE_STORAGE}/patterns"
        try:
            for where in (public, "find /var/log/ganeti -type f", "find /proc -maxdepth 2 -name cmdline"):
                found = machine.run(bed, node, "sh", "-c", f"{where} -print0 | {look}")
                assert found.stdout == "", where
        finally:
            put.unlink()


def status_of(bed: Layout, job: str) -> str:
    return good(bed, "gnt-job", "list", "--no-headers", "-o", "status", job).strip()


def test_an_upgrade_restarts_the_daemons_and_ends_neither_job_nor_guest(bed: Layout, place: Path) -> None:
    newer = next_revision(next(place.glob("*-1_*.deb")))  # before the job begins: that takes a while
    submitted = machine.run(bed, "node1", "gnt-debug", "delay", "--submit", "-n", "node2", "12")
    job = submitted.stderr.removeprefix("JobID: ").strip()
    while (status := status_of(bed, job)) in ("queued", "waiting"):
        time.sleep(0.05)
    assert status == "running"
    before = {node: pids(bed, node) for node in NODES}
    testbed.install(bed, newer)
    for node in NODES:
        assert "-2\n" in good(bed, "dpkg-query", "-W", "ganeti", node=node)
        after = pids(bed, node)
        assert after.keys() == before[node].keys()
        assert not set(after.items()) & set(before[node].items()), f"a daemon of {node} still runs the old files"
    good(bed, "gnt-job", "watch", job)
    assert status_of(bed, job) == "success"
    assert good(bed, "gnt-instance", "list", "--no-headers", "-o", "status").strip() == "running"
    good(bed, "gnt-cluster", "verify")


def test_removing_it_leaves_guests_and_data(bed: Layout, place: Path) -> None:
    data = good(bed, "sh", "-c", f"sha256sum {DATA}", node="node2")
    guests = good(bed, "sh", "-c", "ls /run/ganeti/fake-hypervisor; ls -R /srv/ganeti/file-storage", node="node2")
    assert "inst1" in guests
    good(bed, "dpkg", "--purge", "ganeti", node="node2")
    assert machine.run(bed, "node2", "sh", "-c", "ls /usr/sbin | grep -e ^gnt- -e ^ganeti-").returncode
    assert machine.run(bed, "node2", "sh", "-c", "ps ax | grep '[g]aneti-noded'").returncode
    assert good(bed, "sh", "-c", f"sha256sum {DATA}", node="node2") == data
    there = good(bed, "sh", "-c", "ls /run/ganeti/fake-hypervisor; ls -R /srv/ganeti/file-storage", node="node2")
    assert there == guests
    testbed.install(bed, next(place.glob("*-2_*.deb")), nodes=[bed.node("node2")])
    assert good(bed, "gnt-instance", "list", "--no-headers", "-o", "status").strip() == "running"
    good(bed, "gnt-cluster", "verify")
