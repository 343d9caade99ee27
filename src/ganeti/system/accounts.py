# SPDX-License-Identifier: BSD-2-Clause
"""The users that daemons run as, and who may read what: the table of a node's directories and files (S1.104 to S1.110).

Where the package is installed, which makes these users, daemons that need no privilege of root run as theirs. From a
tree, below a root directory, and where ``RUN_AS_ROOT=yes`` stands in /etc/default/ganeti, everything is root's.
Standard library only: cron asks every few minutes.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from glob import glob

from ganeti.base.paths import Paths

MASTER, RAPI, CONFD, MONITORING = "gnt-masterd", "gnt-rapi", "gnt-confd", "gnt-mond"
DAEMONS, ADMINISTRATORS = "gnt-daemons", "gnt-admin"
ROOT = "root"
USER_OF = {
    "ganeti-wconfd": MASTER,
    "ganeti-luxid": MASTER,
    "ganeti-maintd": MASTER,
    "ganeti-rapi": RAPI,
    "ganeti-confd": CONFD,
    "ganeti-mond": MONITORING,
}
"""Each has a group of its name. All others run as root: they look after disks, guests and interfaces."""
_OF_PACKAGE = "/usr/lib/ganeti/daemon-users"
_DEFAULTS = "/etc/default/ganeti"
_PRIVATE = ("backup-chains", "extstorage", "held-images", "node-calls", "shown")
"""The node daemon's below /run/ganeti. They are made before a daemon of another user could take their names."""


@dataclass(frozen=True)
class Rule:
    """What one path, or those of one pattern, must be like; without *user*, its owner is its last writer."""

    path: str
    mode: int
    user: str = ""
    group: str = ""
    is_directory: bool = False
    full_run_only: bool = False
    """Of which there may be very many: looked at on demand only."""


@cache
def are_used(root: str) -> bool:
    """Whether daemons of the node below *root* run as users of their own."""
    if root or not os.path.exists(_OF_PACKAGE):
        return False
    with suppress(OSError), open(_DEFAULTS, encoding="utf-8") as file:
        return all(line.partition("#")[0].strip() != "RUN_AS_ROOT=yes" for line in file)
    return True


def owner_of(rule: Rule) -> tuple[int, int]:
    """(user id, group id) by the names in *rule*; -1 where it has none."""
    import grp
    import pwd

    user = pwd.getpwnam(rule.user).pw_uid if rule.user else -1
    return user, grp.getgrnam(rule.group).gr_gid if rule.group else -1


RUN_DIR_MODE, LOG_DIR_MODE = 0o1775, 0o1770
"""All daemons write there; only who owns a file, or the directory, may rename or remove it."""
QUEUE_DIR_MODE, QUEUE_FILE_MODE = 0o700, 0o600
SOCKET_DIR_MODE = 0o750
"""Who may talk to the master's daemons must not put a socket of his own in the place of theirs."""


def make_shared_directory(path: str, mode: int) -> None:
    """Make a directory unless it is there, with *mode* whatever the umask of its first user is. Raises `OSError`."""
    if os.path.isdir(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    os.chmod(path, mode)


def give_group(path: str, group: str, descriptor: int | None = None) -> None:
    """Let members of *group* use what this process has just made; left alone where nobody has a user of its own.

    Needs the open *descriptor* where others could put another file at *path*. A link is not followed. Raises `OSError`
    where this process is not in the group.
    """
    import grp

    paths = Paths()
    if path.startswith((f"{paths.data_dir}/", f"{paths.run_dir}/", f"{paths.log_dir}/")) and are_used(""):
        number = grp.getgrnam(group).gr_gid
        if descriptor is not None:
            os.fchown(descriptor, -1, number)
        else:
            os.chown(path, -1, number, follow_symlinks=False)


def rules(paths: Paths) -> Iterator[Rule]:
    """Every directory comes before what lies in it."""
    yield from _directories(paths)
    yield from _files(paths)
    queue = paths.queue_dir
    yield from (Rule(f"{queue}/{name}", QUEUE_FILE_MODE, MASTER, MASTER) for name in ("serial", "version", "lock"))
    yield Rule(f"{queue}/job-*[0-9]", QUEUE_FILE_MODE, MASTER, MASTER, full_run_only=True)
    yield Rule(f"{queue}/job-*.undo", 0o600, MASTER, MASTER, full_run_only=True)
    yield Rule(f"{queue}/archive/*", QUEUE_DIR_MODE, MASTER, MASTER, full_run_only=True)
    yield Rule(f"{queue}/archive/*/job-*", QUEUE_FILE_MODE, MASTER, MASTER, full_run_only=True)


def _directories(paths: Paths) -> Iterator[Rule]:
    data, run, log = paths.data_dir, paths.run_dir, paths.log_dir
    for path, mode, user, group in (
        (data, 0o755, MASTER, MASTER),
        (paths.queue_dir, QUEUE_DIR_MODE, MASTER, MASTER),
        (f"{paths.queue_dir}/archive", QUEUE_DIR_MODE, MASTER, MASTER),
        (f"{data}/rapi", 0o750, RAPI, RAPI),
        (run, RUN_DIR_MODE, MASTER, DAEMONS),
        (paths.socket_dir, SOCKET_DIR_MODE, MASTER, ADMINISTRATORS),
        (paths.livelock_dir, 0o750, MASTER, DAEMONS),
        (f"{run}/instance-disks", 0o755, ROOT, ROOT),
        (f"{run}/instance-reason", 0o755, ROOT, ROOT),
        (f"{run}/crypto", 0o700, ROOT, ROOT),
        (f"{run}/import-export", 0o755, ROOT, ROOT),
        *((f"{run}/{name}", 0o700, ROOT, ROOT) for name in _PRIVATE),
        (f"{run}/kvm-hypervisor", 0o711, ROOT, ROOT),
        (f"{run}/mirror", 0o711, ROOT, ROOT),
        (log, LOG_DIR_MODE, MASTER, DAEMONS),
        (paths.os_log_dir, 0o750, ROOT, DAEMONS),
        (f"{log}/kvm", 0o750, ROOT, ROOT),
        (f"{log}/extstorage", 0o750, ROOT, ROOT),
        (f"{log}/cleaner", 0o750, ROOT, ROOT),
        (f"{log}/master-cleaner", 0o750, ROOT, ROOT),
    ):
        yield Rule(path, mode, user, group, is_directory=True)


def _files(paths: Paths) -> Iterator[Rule]:
    data, log = paths.data_dir, paths.log_dir
    yield Rule(paths.config_file, 0o640, "", CONFD)
    yield Rule(f"{data}/.config.data.*", 0o640, "", CONFD)
    yield Rule(f"{paths.config_database}*", 0o640, MASTER, MASTER)
    yield Rule(f"{data}/locks.data", 0o640, MASTER, MASTER)
    yield Rule(paths.epoch_file, 0o640, ROOT, MASTER)
    yield Rule(paths.cluster_domain_secret, 0o600, MASTER, MASTER)
    yield Rule(paths.hmac_key, 0o440, MASTER, CONFD)
    yield Rule(paths.authority_key, 0o400, MASTER, MASTER)
    yield Rule(paths.authority_cert, 0o444)
    yield Rule(paths.known_hosts, 0o644, MASTER, MASTER)
    yield from (Rule(path, 0o440, MASTER, MASTER) for path in (paths.server_cert, paths.client_cert))
    yield Rule(paths.former_client_cert("*"), 0o440, MASTER, MASTER)
    yield from (Rule(path, 0o400, ROOT, ROOT) for path in (paths.renewed_key, paths.renewed_cert))
    yield Rule(f"{data}/rapi.pem", 0o440, RAPI, RAPI)
    yield from (Rule(f"{data}/{name}", 0o440, MASTER, MASTER) for name in ("spice.pem", "spice-ca.pem"))
    yield Rule(f"{data}/rapi/users", 0o640, RAPI, RAPI)
    yield from (Rule(path, 0o640, RAPI, RAPI) for path in (paths.api_tokens, paths.api_issuers))
    yield Rule(paths.watcher_pause_file, 0o644)
    yield Rule(paths.ssconf_file("*"), 0o444)
    for name, user in (
        ("wconf", MASTER),
        ("luxi", MASTER),
        ("maintenance", MASTER),
        ("rapi", RAPI),
        ("conf", CONFD),
        ("monitoring", MONITORING),
        ("node", ROOT),
    ):
        yield Rule(f"{log}/{name}-daemon.log", 0o600, user, DAEMONS)
    yield Rule(f"{log}/monitoring-daemon.record*", 0o640, MONITORING, MONITORING)
    yield Rule(paths.audit_log, 0o640, RAPI, DAEMONS)
    yield Rule(f"{log}/jobs.log", 0o600, MASTER, DAEMONS)


def found(rule: Rule) -> list[str]:
    """The paths a rule is for."""
    return sorted(glob(rule.path)) if "*" in rule.path else [rule.path]


def wrong(paths: Paths, *, full: bool = False) -> Iterator[tuple[str, Rule]]:
    """Every path that is not as its rule says; one that is missing counts if it is a directory."""
    owned = are_used(paths.root)
    for rule in rules(paths):
        if rule.full_run_only and not full:
            continue
        for path in found(rule):
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                if rule.is_directory:
                    yield path, rule
                continue
            if not stat.S_ISLNK(status.st_mode) and not _is_as_it_should(status, rule, owned):
                yield path, rule


def _is_as_it_should(status: os.stat_result, rule: Rule, owned: bool) -> bool:
    if stat.S_IMODE(status.st_mode) != rule.mode:
        return False
    wanted = owner_of(rule) if owned else (-1, -1)
    return all(want in (-1, have) for want, have in zip(wanted, (status.st_uid, status.st_gid), strict=True))


def too_open(paths: Paths) -> list[str]:
    """Say which files more people can read or change than the table allows. What root alone owns is never too open."""
    found_open = []
    for path, rule in wrong(paths) if are_used(paths.root) else ():
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            owners = zip(owner_of(rule), (status.st_uid, status.st_gid), strict=True)
            has = stat.S_IMODE(status.st_mode)
            if (
                has & ~rule.mode
                or rule.mode & ~has & stat.S_ISVTX
                or any(want != -1 and have not in (0, want) for want, have in owners)
            ):
                found_open.append(f"{path} ({stat.filemode(status.st_mode)}, owner {status.st_uid}:{status.st_gid})")
    return found_open


def owner_for(path: str, paths: Paths) -> tuple[int, int] | None:
    """Who is to own a file that root writes, by the table; None where it names nobody, or this is not root."""
    if are_used(paths.root) and os.geteuid() == 0:
        for rule in rules(paths):
            if fnmatchcase(path, rule.path):
                return owner_of(rule)
    return None
