# SPDX-License-Identifier: BSD-2-Clause
"""`gnt-cluster init`: from a machine to a cluster of one node (protocols, section 25).

First everything is checked, then written, then the daemons are started. If anything fails after the checks, all that
was written is taken away again and the sentence says why.
"""

import base64
import fcntl
import os
import secrets
import shutil
import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, TransportError
from ganeti.bootstrap import ssh_keys
from ganeti.bootstrap.attempt import take_back_interrupted
from ganeti.bootstrap.file_set import FileSet
from ganeti.bootstrap.init_checks import check
from ganeti.bootstrap.initial_config import Beginning, Identities, configuration, ssconf_of
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.node_call import wait_for_node_daemon
from ganeti.master.config.invariants import verify_all
from ganeti.model.configuration import Configuration
from ganeti.node import certificates, ssh_key_lines
from ganeti.node.catalogue import build_catalogue
from ganeti.node.hosts_file import with_host
from ganeti.system.accounts import LOG_DIR_MODE, QUEUE_DIR_MODE, RUN_DIR_MODE, SOCKET_DIR_MODE
from ganeti.system.files import open_lock, plain_file
from ganeti.wire.framing_sync import connect

DAEMON_WITHIN_S = 30.0
HMAC_KEY_BYTES = 20
SECRET_BYTES = 64


def init_cluster(options: Mapping[str, Any]) -> None:
    """Make a cluster on this machine; *options* are those of the command, by the names of their fields.

    Raises `PrerequisiteError` when nothing was changed, or the error that stopped it after all was taken back.
    """
    machine = Machine.here()
    take_back_interrupted(machine)
    beginning = check(options, machine, build_catalogue())
    files = FileSet()
    before = _names(machine.paths.data_dir)
    machine.daemon_util("stop-all")
    watcher = -1
    try:
        watcher = _keep_watcher_away(machine, files)
        _write(beginning, machine, files)
        _start(beginning, machine)
    except BaseException as err:  # an interrupt from the keyboard too
        _take_back(machine, files, before)
        if isinstance(err, OSError):
            raise GanetiError(f"The cluster could not be made: {err}") from err
        raise
    finally:
        if watcher >= 0:
            os.close(watcher)


def _keep_watcher_away(machine: Machine, files: FileSet) -> int:
    """Hold the watcher's lock: cron's would start the daemons in between, and take the cluster's address."""
    path = f"{machine.paths.lock_dir}/ganeti-watcher.lock"
    files.directory(machine.paths.lock_dir, 0o755)
    if not os.path.exists(path):
        files.will_remove(path)
    descriptor = open_lock(path)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _write(beginning: Beginning, machine: Machine, files: FileSet) -> None:
    paths = machine.paths
    _directories(beginning, machine, files)
    cluster, node, group, network = (str(uuid.uuid4()) for _ in range(4))
    ids = Identities(cluster, node, group, network, time.time())
    if beginning.modify_etc_hosts:
        _enter_host(machine, files, beginning)
    if beginning.modify_ssh_setup:
        key = ssh_keys.ensure_root_key(machine, files, beginning.ssh_key_type, beginning.ssh_key_bits)
        keys = {ids.node_uuid: [key]}
        ssh_keys.authorize(paths, files, keys)
        files.put(paths.public_keys, ssh_key_lines.public_keys_text(keys), 0o600)
    pem = _write_secrets(beginning, machine, files)
    config = configuration(beginning, ids, certificates.digest(pem))
    _refuse_inconsistent(config)
    for key, text in ssconf_of(config).items():
        files.put(paths.ssconf_file(key), text, 0o444)
    files.put(paths.config_file, msgspec.json.encode(config.to_plain()), 0o640)


def _directories(beginning: Beginning, machine: Machine, files: FileSet) -> None:
    paths = machine.paths
    for path, mode in (
        (paths.data_dir, 0o755),
        (paths.queue_dir, QUEUE_DIR_MODE),
        (f"{paths.queue_dir}/archive", QUEUE_DIR_MODE),
        (paths.run_dir, RUN_DIR_MODE),
        (paths.socket_dir, SOCKET_DIR_MODE),
        (paths.livelock_dir, 0o750),
        (paths.log_dir, LOG_DIR_MODE),
        (paths.os_log_dir, 0o750),
        (paths.sysconf_dir, 0o755),
        (paths.lock_dir, 0o755),
    ):
        files.directory(path, mode)
    templates = build_catalogue()
    for name in beginning.templates:
        setting = templates.template(name).directory_setting
        if setting:
            files.directory(paths.under(beginning.directories[setting]), 0o750)


def _enter_host(machine: Machine, files: FileSet, beginning: Beginning) -> None:
    path = machine.paths.under("/etc/hosts")
    try:
        with open(path, encoding="utf-8", opener=plain_file) as file:
            old = file.read()
    except FileNotFoundError:
        old = ""
    new = with_host(old, beginning.node_name, beginning.primary_ip)
    if new != old:
        files.put(path, new, 0o644)


def _write_secrets(beginning: Beginning, machine: Machine, files: FileSet) -> str:
    """Give the PEM text of this node's key and certificate."""
    paths = machine.paths
    authority = certificates.create_authority(beginning.cluster_name)
    addresses = [beginning.primary_ip, beginning.secondary_ip, beginning.master_ip]
    pem = certificates.issue_node_certificate(authority, beginning.node_name, beginning.cluster_name, addresses)
    files.put(paths.authority_key, authority.key, 0o400)
    files.put(paths.authority_cert, authority.certificate, 0o444)
    files.put(paths.server_cert, pem, 0o440)
    files.put(paths.client_cert, pem, 0o440)
    files.put(paths.hmac_key, f"{secrets.token_hex(HMAC_KEY_BYTES)}\n", 0o440)
    domain_secret = base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    files.put(paths.cluster_domain_secret, f"{domain_secret}\n", 0o600)
    known_hosts = ssh_keys.known_hosts_text(beginning.cluster_name, dict(beginning.host_keys))
    files.put(paths.known_hosts, known_hosts, 0o644)
    return pem


def _refuse_inconsistent(config: Configuration) -> None:
    """Checks of options and rules of the configuration must agree; a difference is caught before any daemon runs."""
    problems = verify_all(config)
    if problems:
        raise GanetiError(f"The new configuration would not be consistent: {'; '.join(problems)}")


def _start(beginning: Beginning, machine: Machine) -> None:
    machine.daemon_util("start", "ganeti-noded")
    wait_for_node_daemon(machine.paths, beginning.primary_ip, DAEMON_WITHIN_S)
    machine.daemon_util("start-all")
    _wait_for_master_daemon(machine)


def _wait_for_master_daemon(machine: Machine) -> None:
    deadline = time.monotonic() + DAEMON_WITHIN_S
    while True:
        try:
            with connect(machine.paths.luxi_socket):
                return
        except TransportError as err:
            if time.monotonic() > deadline:
                raise TransportError(
                    f"The master daemon does not answer after {DAEMON_WITHIN_S:g} seconds ({err}): see "
                    f"{machine.paths.log_dir}/luxi-daemon.log"
                ) from err
        time.sleep(0.05)


def _take_back(machine: Machine, files: FileSet, before: set[str]) -> None:
    """Leave the machine as it was: daemons stopped, files of before in place, others gone."""
    try:
        machine.daemon_util("stop-all")
    except GanetiError as err:
        machine.say(f"Some daemons could not be stopped: {err}")
    data_dir = machine.paths.data_dir
    for name in sorted(_names(data_dir) - before):
        path = f"{data_dir}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    files.take_back()


def _names(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()
