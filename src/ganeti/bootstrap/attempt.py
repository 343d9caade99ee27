# SPDX-License-Identifier: BSD-2-Clause
"""One attempt to join a cluster: what it changes on this machine, and how this or a later process takes that back.

Until the master has said that it asks the cluster, an attempt whose process has died is taken back by who sees it
first. Afterwards its job goes on without the process, and the cluster alone knows how that ended (`watcher_joining`).
"""

import os
import time
from contextlib import suppress

from ganeti.base.errors import CommandError
from ganeti.bootstrap.file_set import FileSet, missing_directories
from ganeti.bootstrap.joining_record import Before, JoiningRecord, end_holder, remove_unfinished
from ganeti.bootstrap.leave import forget_cluster
from ganeti.bootstrap.machine import Machine
from ganeti.system.ssconf import ssconf

NODE_DAEMON = "ganeti-noded"
ANSWERING_DAEMONS = ("ganeti-confd", "ganeti-mond")


class Attempt:
    """What was here before, and what was done since."""

    def __init__(self, machine: Machine, record: JoiningRecord) -> None:
        self._machine, self._record = machine, record
        self.files = FileSet(record.former, record.expect)

    @classmethod
    def begin(cls, machine: Machine, cluster: str = "") -> "Attempt":
        """Note how the machine is; where nobody knows how an earlier attempt ended, how it was before that.

        A later attempt for the same *cluster* may end this one (`settle_former`). Raises `PrerequisiteError` where
        another attempt is under way, `OSError`.
        """
        former = cls.left_behind(machine)
        if former is not None:
            former._record.begin_again(cluster)
            return former
        remove_unfinished(machine.paths)
        return cls(machine, JoiningRecord.begin(machine.paths, _state_of(machine), cluster))

    @classmethod
    def left_behind(cls, machine: Machine) -> "Attempt | None":
        """Take hold of one whose process has died; raises as `JoiningRecord.left_behind`."""
        record = JoiningRecord.left_behind(machine.paths)
        return None if record is None else cls(machine, record)

    @property
    def asked_at_s(self) -> float | None:
        return self._record.asked_at_s

    @property
    def asked_by(self) -> str:
        return self._record.asked_by

    def change_host_keys(self) -> None:
        """Before sshd is told of its new keys."""
        self._record.mark("host keys")

    def start_daemons(self) -> None:
        """Before the first of them is started."""
        self._record.mark("daemons")

    def ask_cluster(self) -> None:
        """From now on the cluster may take the machine in, whatever becomes of this process."""
        self._record.mark("asked", time.time(), ssconf(self._machine.paths, "master_node"))

    def leave(self) -> None:
        """End without knowing what the cluster says."""
        self._record.close()

    def keep(self) -> None:
        """Everything stays as it is now."""
        self._record.remove()

    def take_back(self, *, daemons: bool = True) -> None:
        """Leave files, keys and daemons as they were; what the daemons have written meanwhile goes, too.

        May be interrupted, and repeated by another process. Without *daemons* none is stopped or started. Raises
        `OSError`.
        """
        machine, before = self._machine, self._record.before
        if daemons and "daemons" in self._record.marks:
            self.stop_daemons()
        self.files.remove_unfinished()
        self.files.take_back()
        if not before.is_node:
            forget_cluster(machine.paths, keep={*before.names, os.path.basename(machine.paths.joining_record)})
        if "host keys" in self._record.marks:
            with suppress(CommandError):
                machine.daemon_util("reload-ssh-keys")
        if daemons and "daemons" in self._record.marks:
            for daemon in before.ran:
                with suppress(CommandError):
                    machine.daemon_util("start", daemon)
        self._record.remove()

    def stop_daemons(self) -> None:
        for daemon in (*ANSWERING_DAEMONS[::-1], NODE_DAEMON):
            with suppress(CommandError):
                self._machine.daemon_util("stop", daemon)


def settle_former(machine: Machine, *, is_member: bool | None = None, given_up_by: str = "") -> None:
    """End an earlier attempt whose process has died, before another one: it has succeeded if *is_member*.

    One of which nobody knows that stays as it is. One whose process lives is ended, too, if it is for the cluster
    *given_up_by*, whose master says that nobody is on the other side of it any more. Raises `PrerequisiteError` where
    another is under way, `OSError`.
    """
    if given_up_by:
        end_holder(machine.paths, given_up_by)
    take_back_interrupted(machine)
    former = Attempt.left_behind(machine)
    if former is None:
        return
    if is_member is None:
        former.leave()
    elif is_member:
        former.keep()
    else:
        former.take_back()


def take_back_interrupted(machine: Machine, *, daemons: bool = True) -> bool:
    """Take back an attempt that died before the cluster was asked; True if there was one.

    Raises `PrerequisiteError` where one is under way, `OSError`.
    """
    attempt = Attempt.left_behind(machine)
    if attempt is None:
        remove_unfinished(machine.paths)
        return False
    if attempt.asked_at_s is not None:
        attempt.leave()
        return False
    attempt.take_back(daemons=daemons)
    return True


def _state_of(machine: Machine) -> Before:
    paths = machine.paths
    missing = missing_directories(paths.data_dir)
    return Before(
        is_node=os.path.exists(paths.server_cert),
        names=[] if missing else os.listdir(paths.data_dir),
        ran=[name for name in (NODE_DAEMON, *ANSWERING_DAEMONS) if _runs(machine, name)],
        made=missing,
    )


def _runs(machine: Machine, daemon: str) -> bool:
    try:
        machine.daemon_util("check", daemon)
    except CommandError:
        return False
    return True
