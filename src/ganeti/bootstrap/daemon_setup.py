# SPDX-License-Identifier: BSD-2-Clause
"""Making a machine's node daemon one of a cluster: certificates, ssconf, keys, start (S3.4 to S3.6)."""

import os
import time
from contextlib import suppress
from functools import partial

from ganeti.base.errors import WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.base.names import is_named
from ganeti.bootstrap import join_input
from ganeti.bootstrap.attempt import ANSWERING_DAEMONS, NODE_DAEMON, Attempt, settle_former
from ganeti.bootstrap.file_set import FileSet
from ganeti.bootstrap.join_input import CLUSTER_FILES, DaemonSetup, NodePem
from ganeti.bootstrap.machine import Machine
from ganeti.system.accounts import LOG_DIR_MODE, QUEUE_DIR_MODE, RUN_DIR_MODE, SOCKET_DIR_MODE
from ganeti.system.files import plain_file


def set_up(data: bytes, machine: Machine, *, dry_run: bool = False) -> None:
    """Do what *data* asks; raises `PrerequisiteError` before anything is written, other errors after taking it back."""
    request = join_input.decode(data, DaemonSetup)
    if not dry_run:
        settle_former(machine)
    pem = check(request, machine)
    if dry_run:
        machine.say("All is well; nothing was changed because of --dry-run")
        return
    attempt = Attempt.begin(machine)
    try:
        write(request, pem, machine, attempt.files)
        with attempt.files.syncing():
            if request.start_node_daemon:
                attempt.start_daemons()
                start_node_daemon(machine)
                start_answering(machine)
        attempt.keep()
    except (GanetiError, OSError) as err:
        attempt.take_back()
        raise err if isinstance(err, GanetiError) else GanetiError(f"The node could not be set up: {err}") from err


def start_node_daemon(machine: Machine) -> None:
    """Have the node daemon serve with the files as they are now; raises `CommandError`."""
    machine.daemon_util("stop", NODE_DAEMON)
    machine.daemon_util("start", NODE_DAEMON)
    machine.say("the node daemon runs")


def start_answering(machine: Machine) -> None:
    """The node belongs to the cluster without them, too; the watcher tries again.

    A machine that has left the cluster meanwhile has none of them afterwards.
    """
    for daemon in ANSWERING_DAEMONS:
        try:
            machine.daemon_util("start", daemon)
        except GanetiError as err:
            machine.say(f"{daemon} does not run: {err}")
    if not os.path.exists(machine.paths.server_cert):
        for daemon in ANSWERING_DAEMONS:
            with suppress(GanetiError):
                machine.daemon_util("stop", daemon)


def check(request: DaemonSetup, machine: Machine) -> NodePem | None:
    """Check all values; gives the parts of the certificate."""
    join_input.check_cluster_name(request.cluster_name, machine.paths)
    join_input.check_clock(request.time_s, time.time())
    if request.node_name is not None and not is_named(machine.hostname, request.node_name):
        raise PrerequisiteError(
            f"This machine calls itself '{machine.hostname}', and the cluster would call it '{request.node_name}': set "
            "its host name to that",
            WRONG_STATE,
        )
    join_input.check_ssconf(request.ssconf, request.cluster_name)
    join_input.check_cluster_files(request.cluster_files)
    if request.hmac_key is not None:
        join_input.check_secret("hmac_key", request.hmac_key)
    if request.node_daemon_certificate is None:
        return None
    pem = join_input.split_node_pem(request.node_daemon_certificate, request.node_name)
    join_input.check_same_authority(pem.authority, machine.paths)
    _check_same_node(pem, machine)
    return pem


def _check_same_node(pem: NodePem, machine: Machine) -> None:
    """A certificate that is there already may be renewed, not turned into another node's."""
    try:
        with open(machine.paths.server_cert, encoding="utf-8", opener=plain_file) as file:
            mine = join_input.certificates_in(file.read())
    except FileNotFoundError:
        return
    old = join_input.names_of(mine[0])[:1] if mine else []
    new = join_input.names_of(join_input.certificates_in(pem.certificate)[0])[:1]
    if old and old != new:
        raise PrerequisiteError(
            f"This machine has the certificate of the node '{old[0]}': run node-cleanup here first", WRONG_STATE
        )


def write(request: DaemonSetup, pem: NodePem | None, machine: Machine, files: FileSet) -> None:
    """Write all files, to be synced by `FileSet.syncing` while the node daemon starts.

    Until then a loss of power may tear them: the attempt is taken back before anybody reads them.
    """
    paths = machine.paths
    for path, mode in (
        (paths.data_dir, 0o755),
        (paths.queue_dir, QUEUE_DIR_MODE),
        (paths.run_dir, RUN_DIR_MODE),
        (paths.socket_dir, SOCKET_DIR_MODE),
        (paths.log_dir, LOG_DIR_MODE),
        (paths.os_log_dir, 0o750),
        (paths.lock_dir, 0o755),
    ):
        files.directory(path, mode)
    written = {paths.authority_cert, paths.server_cert, paths.client_cert, paths.hmac_key}
    written |= {f"{paths.data_dir}/{name}" for name in request.cluster_files}
    files.expect(sorted(written | {paths.ssconf_file(key) for key in request.ssconf}))
    put = partial(files.put, durable=False)
    if pem is not None:
        put(paths.authority_cert, pem.authority, 0o444)
        put(paths.server_cert, pem.text, 0o440)
        put(paths.client_cert, pem.text, 0o440)
    if request.hmac_key is not None:
        put(paths.hmac_key, request.hmac_key, 0o440)
    for name, text in request.cluster_files.items():
        put(f"{paths.data_dir}/{name}", text, CLUSTER_FILES[name])
    for key, text in request.ssconf.items():
        put(paths.ssconf_file(key), text if text.endswith("\n") or not text else f"{text}\n", 0o444)
    machine.say(f"{len(request.ssconf)} ssconf values and the keys of '{request.cluster_name}' are written")
