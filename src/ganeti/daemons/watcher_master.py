# SPDX-License-Identifier: BSD-2-Clause
"""The watcher's work on the master: daemons that answer, the cluster's address, old jobs, a child for each group."""

import functools
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from ganeti.base.errors import (
    EXIT_FAILURE,
    WRONG_INPUT,
    CommandError,
    GanetiError,
    PrerequisiteError,
    TransportError,
    refusal_of_system,
)
from ganeti.base.paths import Paths
from ganeti.bootstrap.node_call import ask_node
from ganeti.daemons.watcher_asking import ANSWER_WITHIN_S, WAIT_S
from ganeti.daemons.watcher_disks import DiskWork
from ganeti.daemons.watcher_group import EXIT_WATCHED, GROUP_STATUS, GroupWork
from ganeti.model.node_calls.mastership import NodeActivateMasterIp
from ganeti.system.files import read_if_there, write_atomically
from ganeti.system.forking import fork
from ganeti.system.ssconf import ssconf
from ganeti.system.tls import former_certificates
from ganeti.wire.framing_sync import ask

ARCHIVE_FOR_S = 60
LOOK_AT_CERTIFICATES_S = 86400.0
_MASTER_DAEMONS = {"ganeti-wconfd": "wconfd_socket", "ganeti-luxid": "luxi_socket"}
_ASKED = {"ganeti-wconfd": ("echo", "watcher"), "ganeti-luxid": ("QueryConfigValues", ["drain_flag"])}
_GROUP_FILE = re.compile(rf"watcher\.([^.]+)\.(?:data|instance-status)|{re.escape(GROUP_STATUS)}(.+)")
_UNFINISHED = ("queued", "waiting", "canceling", "running")
_NO_DATA = 2
"""Status of a field of a node that does not answer (protocols, section 5)."""
_PAUSE_S = 0.2
_LEAST_S = 0.1
_log = logging.getLogger(__name__)


class MasterWork:
    """One round on the master; *ensure* starts a daemon unless it runs, *restart* one that hangs."""

    def __init__(
        self,
        paths: Paths,
        ensure: Callable[[str], None],
        restart: Callable[[str], None],
        answer_within_s: float,
        ensure_remote_api: Callable[[], None] = lambda: None,
    ) -> None:
        self._paths = paths
        self._answer_within_s = answer_within_s
        self._ensure = ensure
        self._restart = restart
        self._ensure_remote_api = ensure_remote_api

    def run(
        self,
        *,
        group: str | None,
        job_age_s: int,
        wait: bool,
        let_go: Callable[[], None],
        ignore_pause: bool = False,
        disks: Callable[[str], DiskWork] | None = None,
    ) -> int:
        """Gives the exit status; *let_go* of the lock of all watchers is called once each group has its child.

        Raises `GanetiError` when the master's daemons cannot be brought back, or for a group that does not exist.
        """
        for name in _MASTER_DAEMONS:
            self._ensure(name)
            self.ensure_answer(name)
        self._ensure_remote_api()
        self._ensure_maintenance()
        self._ensure_address()
        if self._luxi("QueryConfigValues", ["drain_flag"])[0]:
            _log.info("the job queue is drained: nothing more is done")
            return 0
        with suppress(GanetiError):  # a queue that cannot archive is no reason to leave instances down
            self._luxi("AutoArchiveJobs", job_age_s, ARCHIVE_FOR_S)
        if group is None:
            self._renew_certificates()
        groups = self._chosen(group)
        self._forget_gone(self._groups())
        make = functools.partial(GroupWork, self._paths, groups=self._groups, ignore_pause=ignore_pause, disks=disks)
        return self._watch_groups(groups, make, let_go, wait=wait, is_named=group is not None)

    def _ensure_maintenance(self) -> None:
        """Without it the rest of a round is as good."""
        try:
            self._ensure("ganeti-maintd")
        except CommandError as err:
            _log.error("%s", err)

    def _renew_certificates(self) -> None:
        """Once a day a job looks which certificates expire soon, or are of a node that missed a renewal.

        Each round where the master keeps former certificates for such a node: it may be back. Where they are kept for
        nodes that are marked offline and all others answer, once, until that changes.
        """
        stamp = f"{self._paths.data_dir}/watcher.certificates"
        former = former_certificates(self._paths)
        is_missed, seen = bool(former), b""
        if is_missed or os.path.exists(stamp):  # else this is a new master: the first look is a day from now
            is_time = os.path.exists(stamp) and not 0 <= time.time() - os.stat(stamp).st_mtime < LOOK_AT_CERTIFICATES_S
            try:
                if is_missed:
                    silent, offline = self._absent_nodes()
                    seen = repr((former, silent, offline)).encode()
                    is_missed = bool(silent) or not offline or read_if_there(stamp) != seen
                if not is_time and (not is_missed or self._is_renewing()):
                    return
                self._luxi("SubmitJob", [{"OP_ID": "OP_CLUSTER_RENEW_DUE"}])
            except GanetiError as err:
                _log.error("certificates that expire cannot be looked for: %s", err)
                return
        with suppress(OSError):  # without the time of this look, the next round looks, too
            write_atomically(stamp, seen, mode=0o644)

    def _absent_nodes(self) -> tuple[list[str], list[str]]:
        """The nodes that should answer and do not, and those that are marked offline."""
        rows = self._luxi("Query", "node", ["name", "offline", "mtotal"], None)["data"]
        offline = sorted(name for (_, name), (_, is_offline), _ in rows if is_offline)
        silent = sorted(name for (_, name), _, (status, _) in rows if status == _NO_DATA and name not in offline)
        return silent, offline

    def _is_renewing(self) -> bool:
        """Whether a renewal waits or runs: what is behind now may not be so when it has ended."""
        rows = self._luxi("Query", "job", ["summary"], ["|", *(["=", "status", each] for each in _UNFINISHED)])["data"]
        return any(each.startswith("CLUSTER_RENEW_") for ((_, summary),) in rows for each in summary)

    def ensure_answer(self, name: str) -> None:
        """Start a daemon again that runs and does not answer; raises `TransportError` if that does not help."""
        try:
            self._await_answer(name, self._answer_within_s)
        except TransportError:
            self._restart(name)
            self._await_answer(name, ANSWER_WITHIN_S)

    def _await_answer(self, name: str, within_s: float) -> None:
        """A daemon that is still reading its queue or configuration does not listen yet, and is not to be stopped."""
        method, argument = _ASKED[name]
        path = str(getattr(self._paths, _MASTER_DAEMONS[name]))
        give_up_s = time.monotonic() + within_s
        while True:
            left_s = give_up_s - time.monotonic()
            try:
                ask(path, max(left_s, _LEAST_S), method, argument)
            except TransportError:
                if left_s <= _PAUSE_S:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _ensure_address(self) -> None:
        """After a power-on nobody else brings the cluster's address up; taken down on purpose it stays so."""
        ip = ssconf(self._paths, "master_ip")
        if self._paths.root or not ip or owns(ip) or os.path.exists(self._paths.given_up_address_file):
            return
        from ganeti.noded.master_ending import master_address, uses_script  # seldom needed, and slow to import

        address = master_address(self._paths)
        if address is None:
            return
        primary = dict(
            line.split(" ", 1) for line in ssconf(self._paths, "node_primary_ips").splitlines() if " " in line
        )
        own = primary.get(ssconf(self._paths, "master_node"))
        if own is None:
            return
        request = NodeActivateMasterIp(master=address, use_external_mip_script=uses_script(self._paths))
        try:
            ask_node(self._paths, own, request)
            _log.warning("the master IP %s was not up: it is now", address.ip)
        except GanetiError as err:
            _log.error("the master IP %s cannot be brought up: %s", address.ip, err)

    def _watch_groups(
        self,
        groups: list[str],
        make: Callable[[str], GroupWork],
        let_go: Callable[[], None],
        *,
        wait: bool,
        is_named: bool = False,
    ) -> int:
        """One child for each group, at the same time (S1.56): a busy group keeps no other waiting."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where our starter ignores it, no child can be waited for
        children: dict[str, int] = {}
        status = 0
        for uuid in groups:
            try:
                children[uuid] = fork(functools.partial(self._be_child, uuid, make, let_go))
            except OSError as err:
                _log.error("group %s: nobody can look after it now: %s", uuid, err)
                status = EXIT_FAILURE
        let_go()
        for uuid, child in children.items() if wait else ():
            _, ended = os.waitpid(child, 0)
            exit_status = os.waitstatus_to_exitcode(ended)
            if exit_status == EXIT_WATCHED:
                _log.info("group %s: another watcher looks after it already", uuid)
                status = EXIT_WATCHED if is_named else status
            elif exit_status < 0:
                _log.error("group %s: signal %d has ended who looked after it", uuid, -exit_status)
                status = EXIT_FAILURE
            elif exit_status:
                status = EXIT_FAILURE
        return status

    def _be_child(self, uuid: str, make: Callable[[str], GroupWork], let_go: Callable[[], None]) -> NoReturn:
        status = EXIT_FAILURE
        try:
            let_go()
            status = make(uuid).run()
        except (GanetiError, OSError) as err:
            _log.error("group %s: %s", uuid, refusal_of_system(err) if isinstance(err, OSError) else err)
        except Exception:
            _log.exception("group %s", uuid)
        finally:
            os._exit(status)

    def _chosen(self, named: str | None) -> list[str]:
        """Uuids of the groups to look after; raises `PrerequisiteError` for one that does not exist."""
        groups = self._groups()
        if named is not None and named not in groups:
            raise PrerequisiteError(
                f"There is no node group with the UUID '{named}': gnt-group list -o name,uuid shows them", WRONG_INPUT
            )
        return groups if named is None else [named]

    def _forget_gone(self, groups: list[str]) -> None:
        """Remove the files of groups that exist no longer (S1.63); a list that cannot be read names none."""
        for directory in (self._paths.data_dir, self._paths.run_dir) if groups else ():
            for name in os.listdir(directory):
                of_group = _GROUP_FILE.fullmatch(name)
                if of_group and (of_group[1] or of_group[2]) not in groups:
                    _log.info("%s is of a node group that was removed: it goes, too", name)
                    with suppress(FileNotFoundError):
                        os.unlink(f"{directory}/{name}")

    def _groups(self) -> list[str]:
        return [line.split(" ", 1)[0] for line in ssconf(self._paths, "nodegroups").splitlines() if line.strip()]

    def _luxi(self, method: str, *arguments: Any) -> Any:
        return ask(self._paths.luxi_socket, ANSWER_WITHIN_S + WAIT_S, method, *arguments)


def owns(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
