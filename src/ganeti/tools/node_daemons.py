# SPDX-License-Identifier: BSD-2-Clause
"""The daemons of one node: starts, stops and checks each, by systemd where it runs (protocols, section 1).

A daemon lives as long as it holds the lock on its pid file: that, and not a process id, is what `is_running` asks.
Imports little: cron asks every few minutes. Only programs that lie beside this one are started: another release of the
same names may be installed elsewhere.
"""

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ganeti.base.names import is_named
from ganeti.base.paths import Paths
from ganeti.bootstrap.demanded_daemons import BY_CLUSTER, ON_DEMAND, demanded
from ganeti.system import accounts
from ganeti.system.accounts import RUN_DIR_MODE
from ganeti.system.files import open_among_others, plain_file
from ganeti.system.pid_files import living_process, remove_unless_held
from ganeti.system.ssconf import ssconf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.bootstrap.own_mastership import OwnMastership

NODE_DAEMONS = ("ganeti-noded", "ganeti-confd", "ganeti-mond")
MASTER_DAEMONS = ("ganeti-wconfd", "ganeti-luxid", "ganeti-rapi", "ganeti-maintd")
"""In the order of their start; stopped the other way round."""

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEMD_RUNS = "/run/systemd/system"
DEFAULTS_FILE = "/etc/default/ganeti"
STOP_WITHIN_S = 30.0
KILL_WITHIN_S = 5.0


class Refused(Exception):
    """What was asked cannot be done; the text says why."""


class Node:
    """The daemons of one node."""

    def __init__(self, commands: str, environment: Mapping[str, str] = os.environ) -> None:
        self.paths = Paths(environment.get("GANETI_ROOTDIR", "").rstrip("/"))
        self._environment = environment
        self._commands = commands
        self._systemd = not self.paths.root and os.path.isdir(SYSTEMD_RUNS)

    def command(self, daemon: str) -> str | None:
        """Give the program of a daemon; None where it is not beside this one."""
        path = f"{self._commands}/{daemon}"
        return path if os.access(path, os.X_OK) else None

    def daemons(self) -> list[str]:
        """Those installed here that are to run, or do, in the order of their start."""
        wanted = demanded(self.paths, self.name)
        others = [name for name in BY_CLUSTER if name in wanted or self.is_running(name)]
        return [name for name in (*NODE_DAEMONS, *others, *MASTER_DAEMONS) if self.command(name)]

    def known(self, name: str) -> str:
        """Give the full name of an installed daemon; raises `Refused` listing those there are."""
        full = name if name.startswith("ganeti-") else f"ganeti-{name}"
        if full not in (*NODE_DAEMONS, *MASTER_DAEMONS, *ON_DEMAND):
            raise Refused(f"There is no daemon '{name}': there are {', '.join(self.daemons())}")
        if self.command(full) is None:
            raise Refused(f"The program {full} is not installed: it belongs into {self._commands}, beside daemon-util")
        return full

    def is_running(self, daemon: str) -> bool:
        return self.process_id(daemon) is not None

    def process_id(self, daemon: str) -> int | None:
        """Give the process id of a living daemon: one that holds the lock on its pid file."""
        return living_process(self.paths.pid_file(daemon))

    def start(self, daemon: str, arguments: Sequence[str] = ()) -> int:
        """Start a daemon unless it runs; returns when it serves, with the daemon's own exit status if it refuses."""
        if self.is_running(daemon):
            if not self._systemd:  # it may be starting: it holds its pid file before it serves
                with suppress(PermissionError), self._start_lock(daemon):
                    return 0
            return 0
        if self._gives_users():
            self._hand_over_files(daemon)
        arguments = [*self._default_arguments(daemon), *arguments]
        if self._systemd:
            return self._start_unit(daemon, arguments)
        program = self.command(daemon)
        if program is None:
            raise Refused(f"The program {daemon} is not installed")
        words = ["start-stop-daemon", "--start", "--quiet", "--oknodo"]
        words += ["--pidfile", self.paths.pid_file(daemon), *self._as_its_user(daemon), "--startas", program]
        words += ["--", *arguments]
        with self._start_lock(daemon):
            if self.is_running(daemon):
                return 0
            self._remove_stale_pid_file(daemon)
            status = self._run(words)
            return 0 if status == 1 and self.is_running(daemon) else status  # somebody else has started it meanwhile

    def _as_its_user(self, daemon: str) -> list[str]:
        """What makes start-stop-daemon run it as its user."""
        user = accounts.USER_OF.get(daemon)
        return ["--chuid", f"{user}:{user}"] if user and self._gives_users() else []

    def _gives_users(self) -> bool:
        return os.geteuid() == 0 and accounts.are_used(self.paths.root)

    def _hand_over_files(self, daemon: str) -> None:
        """Make directories and files the users' who need them: what another master has sent here, root has written."""
        from ganeti.tools.ensure_dirs import ensure

        if daemon == "ganeti-rapi":
            make_certificate(self.paths, self.name)
        ensure(self.paths, full=daemon in MASTER_DAEMONS)

    @contextmanager
    def _start_lock(self, daemon: str) -> Iterator[None]:
        """One start at a time: a second daemon would fail because of a first that may then refuse to run itself."""
        accounts.make_shared_directory(self.paths.run_dir, RUN_DIR_MODE)
        descriptor = open_among_others(f"{self.paths.run_dir}/{daemon}.start", os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def stop(self, daemon: str) -> int:
        """Stop a daemon and wait until it has ended; one that does not is killed."""
        if self._systemd:
            return self._run(["systemctl", "stop", f"{daemon}.service"])
        pid = self.process_id(daemon)
        if pid is None:
            return 0
        for number, wait_s in ((signal.SIGTERM, STOP_WITHIN_S), (signal.SIGKILL, KILL_WITHIN_S)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # one that was stopped could not end
            deadline = time.monotonic() + wait_s
            while self.process_id(daemon) == pid or not has_ended(pid):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
            else:
                return 0
        return 1

    def rotate_logs(self, daemon: str) -> int:
        pid = self.process_id(daemon)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)
        return 0

    def missing_files(self) -> list[str]:
        """Files without which no daemon of a cluster's node can work."""
        wanted = (self.paths.server_cert, self.paths.ssconf_file("cluster_name"))
        return [path for path in wanted if not os.path.exists(path)]

    def is_of_another(self) -> bool:
        """Whether the data are those of an earlier Ganeti, whose cluster has no authority of its own."""
        return not self.missing_files() and not os.path.exists(self.paths.authority_cert)

    @property
    def name(self) -> str:
        return self._environment.get("GANETI_HOSTNAME") or os.uname().nodename

    def is_master(self) -> bool:
        """True if this node's own files say it is the master; the daemons then look closer themselves."""
        master = ssconf(self.paths, "master_node")
        if master and is_named(self.name, master):
            return True
        from ganeti.bootstrap.own_mastership import is_master

        return is_master(self.paths, self.name)

    def own_mastership(self) -> "OwnMastership":
        from ganeti.bootstrap.own_mastership import read_own_mastership

        return read_own_mastership(self.paths, self.name)

    def finish_take_over(self, epoch: int) -> int:
        """Raises `GanetiError` with the reason and the remedy when this node may not be the master."""
        from ganeti.bootstrap.failover import finish_take_over
        from ganeti.bootstrap.machine import Machine

        return finish_take_over(Machine.here(), epoch)

    def reload_ssh_keys(self) -> int:
        """Connections that are open stay."""
        if self._systemd:
            return self._run(["systemctl", "reload-or-restart", "ssh.service"])
        path = self.paths.under("/run/sshd.pid")
        try:
            with open(path, encoding="ascii", errors="replace", opener=plain_file) as file:
                text = file.read().strip()
        except FileNotFoundError:
            if self.paths.root:  # a node below a root has no sshd of its own
                return 0
            text = ""
        if not text.isdigit():
            raise Refused(f"sshd was not reloaded with its new keys: {path} names no process")
        os.kill(int(text), signal.SIGHUP)
        return 0

    def _start_unit(self, daemon: str, arguments: Sequence[str]) -> int:
        variable = f"{daemon.removeprefix('ganeti-').upper()}_ARGS"
        told_before = self._refusals(daemon)
        if arguments:
            self._run(["systemctl", "set-environment", f"{variable}={' '.join(arguments)}"])
        try:
            status = self._run(["systemctl", "start", f"{daemon}.service"])
        finally:
            if arguments:
                self._run(["systemctl", "unset-environment", variable])
        if self.is_running(daemon):
            return status
        for sentence in self._refusals(daemon)[len(told_before) :]:  # systemd keeps what a daemon prints to itself
            print(f"{daemon}: {sentence}", file=sys.stderr)
        return self._unit_status(daemon) or status or 1

    def _unit_status(self, daemon: str) -> int:
        """The daemon's own exit status: systemd gives success for those that its unit takes for no failure."""
        words = ["systemctl", "show", "--property=ExecStart", f"{daemon}.service"]
        shown = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
        _, found, rest = shown.rpartition("status=")
        number = rest.split("/")[0].split()[:1] if found else []
        return int(number[0]) if number and number[0].isdigit() else 0

    def _refusals(self, daemon: str) -> list[str]:
        """Why the daemon has refused to run, each time since its log was rotated."""
        from ganeti.system.logs import log_path

        try:
            with open(log_path(self.paths.log_dir, daemon), encoding="utf-8", errors="replace") as file:
                lines = [line.partition(f"{daemon} does not run: ") for line in file]
        except OSError:
            return []
        return [sentence.strip() for _, found, sentence in lines if found]

    def _default_arguments(self, daemon: str) -> list[str]:
        """Arguments an administrator wants always, from ``NODED_ARGS="…"`` in /etc/default/ganeti."""
        variable = f"{daemon.removeprefix('ganeti-').upper()}_ARGS"
        try:
            with open(self.paths.under(DEFAULTS_FILE), encoding="utf-8") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        for line in lines:
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and name == variable:
                words = shlex.split(value, comments=True)
                return words[0].split() if words else []
        return []

    def _remove_stale_pid_file(self, daemon: str) -> None:
        """A dead daemon's process id may be another process's by now: nobody shall take that one for the daemon."""
        remove_unless_held(self.paths.pid_file(daemon))

    def _run(self, words: Sequence[str]) -> int:
        """With the directories of the system's programs, which root's PATH lacks after `su` without a dash."""
        path = os.pathsep.join(filter(None, (os.environ.get("PATH"), _SYSTEM_PATH)))
        try:
            return subprocess.run(
                words, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": path}, check=False
            ).returncode
        except FileNotFoundError as err:
            raise Refused(f"{words[0]} is missing: install the package that brings it") from err


def has_ended(pid: int) -> bool:
    """True if there is no such process, or only its exit status is left."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return True


def make_certificate(paths: Paths, name: str) -> None:
    """Make what the remote API shows, unless it is there: the key of the node itself is not for its user."""
    path = f"{paths.data_dir}/rapi.pem"
    if os.path.exists(path):
        return
    from ganeti.bootstrap.new_secrets import remote_api_names
    from ganeti.node.certificates import create_self_signed
    from ganeti.system.files import write_atomically

    write_atomically(path, create_self_signed(*remote_api_names(paths, name)).encode(), mode=0o440)
