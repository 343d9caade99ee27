# SPDX-License-Identifier: BSD-2-Clause
"""The master's part of making a machine a node, before OP_NODE_ADD takes it in (S3; protocols, section 25).

Imports little: the connection to the machine is begun first, and what certificates need is imported meanwhile.
"""

import fcntl
import ipaddress
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, CommandError, PrerequisiteError
from ganeti.base.names import address_fault, shown
from ganeti.base.paths import Paths
from ganeti.base.version import PROTOCOL
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.remote import ASKED, KEEP, TAKE_BACK, Remote
from ganeti.system.accounts import RUN_DIR_MODE
from ganeti.system.files import open_among_others, plain_file
from ganeti.wire.ssconf import FILE_PREFIX, read_pairs

DAEMON_WITHIN_S = 30.0
ANSWER_WITHIN_S = 60.0
SET_UP_WITHIN_S = 300.0
_FAMILY_VERSIONS = {"2": 4, "10": 6}


class Joining:
    """A machine that becomes a node, over one connection: set up, and as it was before unless the cluster takes it.

    The connection is opened at once. Leaving the context without `keep` takes everything back there, unless the cluster
    was asked and nobody knows the answer.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        """*options*: node_name, force_join, node_setup, ssh_key_check, ssh_port, verbose, debug.

        Raises `PrerequisiteError`, or `CommandError` with one sentence.
        """
        self._machine = Machine.here()
        self._options = options
        self._cluster = ClusterFiles(self._machine.paths)
        self._name, self._address = resolve_joining(self._machine, self._cluster, str(options["node_name"]))
        self._claim = ExitStack()
        self._claim.enter_context(claim(self._machine.paths, self._name))
        remote = Remote(
            self._machine,
            self._name,
            self._cluster.name,
            int(options.get("ssh_port") or 22),
            check_host_key=options.get("ssh_key_check") is not False,
        )
        words = [flag for flag, key in (("-d", "debug"), ("-v", "verbose")) if options.get(key)]
        self._talk = remote.begin("node-daemon-setup", "--join", *words)
        self._is_open, self._is_asked = True, False

    def set_up(self) -> None:
        """Set up ssh, certificates and node daemon on the machine; then OP_NODE_ADD may run.

        Raises `PrerequisiteError` or `CommandError` with one sentence; nothing has changed there then.
        """
        options, cluster = self._options, self._cluster
        force, setup = bool(options.get("force_join")), bool(options.get("node_setup", 1))
        asked = {
            "prepare": prepare_request(cluster, force=force, setup=setup),
            "setup": setup_request(cluster, self._name, self._address),
            "is_member": cluster.has(self._name),
            "is_alone": True,
        }
        from ganeti.bootstrap import node_call  # noqa: F401  # slow to import: while the machine is reached
        from ganeti.bootstrap.own_mastership import promised_epoch

        asked["epoch"] = promised_epoch(self._machine.paths)
        self._talk.hear_first(ANSWER_WITHIN_S)
        self._is_asked = True
        self._talk.say(asked)
        if self._talk.hear(SET_UP_WITHIN_S).get("error") is not None:
            self._talk.hear(ANSWER_WITHIN_S)  # raises with the same sentence, which it has printed
        check_answers(self._machine, self._name, self._address)

    def asks_cluster(self) -> None:
        """From now on, a connection that breaks leaves the machine as it is.

        Raises `CommandError` where the machine does not confirm that it has written that down.
        """
        self._talk.say({"state": ASKED})
        if self._talk.hear(ANSWER_WITHIN_S).get("state") != ASKED:
            raise CommandError(f"{self._name} has not joined: it runs another release, install the same one there")

    def keep(self) -> None:
        """The machine is a node, and starts its other daemons by itself."""
        self._say_last(KEEP)
        self._talk.part(SET_UP_WITHIN_S)

    def take_back(self) -> None:
        """The cluster has not taken the machine: leave it as it was before."""
        self._say_last(TAKE_BACK)
        self._talk.end(SET_UP_WITHIN_S)

    def close(self) -> None:
        """Say no more: what the machine does then, it has been told."""
        if self._is_open:
            self._is_open = False
            self._talk.end(SET_UP_WITHIN_S if self._is_asked else 0.0)
        self._claim.close()

    def _say_last(self, word: str) -> None:
        self._talk.say({"state": word})
        self._is_open = False


def resolve_joining(machine: Machine, cluster: "ClusterFiles", given: str) -> tuple[str, str]:
    """Give the full name and the address of the machine that is to join; raises `PrerequisiteError`."""
    if (fault := address_fault(given)) is not None:
        raise PrerequisiteError(f"'{shown(given)}' cannot be the name of a node: {fault}", WRONG_INPUT)
    name, address = machine.resolve(given, cluster.ip_version)
    is_loopback = ipaddress.ip_address(address).is_loopback
    if name == machine.hostname or (machine.owns(address) and not is_loopback and not machine.paths.root):
        raise PrerequisiteError(f"'{name}' is this machine, the master: it is in the cluster already", WRONG_INPUT)
    if is_loopback and not machine.paths.root:
        raise PrerequisiteError(
            f"The name '{name}' resolves to the loopback address {address} here: enter the address that others "
            "reach it by into the DNS or /etc/hosts",
            WRONG_INPUT,
        )
    owner = cluster.node_at(address)
    if owner not in (None, name):
        raise PrerequisiteError(
            f"The name '{name}' resolves to {address}, which is the address of the node {owner}: correct the DNS or "
            "/etc/hosts",
            WRONG_INPUT,
        )
    return name, address


@contextmanager
def claim(paths: Paths, name: str) -> Iterator[None]:
    """Be the only process of this master that has the machine *name* join.

    Raises `PrerequisiteError` where another one is at work.
    """
    path = f"{paths.run_dir}/{name}.joining"
    os.makedirs(paths.run_dir, mode=RUN_DIR_MODE, exist_ok=True)
    descriptor = open_among_others(path, os.O_RDWR, 0o600)
    try:
        if not _is_locked(descriptor, path):
            raise PrerequisiteError(
                f"{name} is joining at this moment by another gnt-node add or gnt-node token here: wait until that has "
                "ended, or end it",
                WRONG_STATE,
            )
        try:
            yield
        finally:
            os.unlink(path)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, path: str) -> bool:
    """Whether this process has the file now; one that its last holder has just removed is nobody's."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def check_answers(machine: Machine, name: str, address: str) -> None:
    """Wait for the node daemon there; raises `NodeUnreachableError`, or `PrerequisiteError` for another release's."""
    from ganeti.bootstrap.node_call import wait_for_node_daemon

    found = wait_for_node_daemon(machine.paths, address, DAEMON_WITHIN_S)
    if found != PROTOCOL:
        raise PrerequisiteError(
            f"{name} speaks version {found} between nodes, this cluster {PROTOCOL}: install the same release",
            WRONG_STATE,
        )


class ClusterFiles:
    """What the files of the master say of the cluster."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.ssconf = _read_ssconf(paths)
        self.name = self.ssconf.get("cluster_name", "").strip()
        self.ip_version = _FAMILY_VERSIONS.get(self.ssconf.get("primary_ip_family", "2").strip(), 4)
        try:
            with open(paths.config_file, encoding="utf-8", opener=plain_file) as file:
                self.settings: dict[str, Any] = json.load(file)["cluster"]
        except (OSError, ValueError, KeyError) as err:
            raise PrerequisiteError(
                f"{paths.config_file} cannot be read: nodes are added on the master of a cluster", WRONG_STATE
            ) from err

    def has(self, name: str) -> bool:
        """Whether the cluster has a node of this name."""
        return name in self.ssconf.get("node_list", "").split()

    def node_at(self, address: str) -> str | None:
        """The node with this primary or secondary address."""
        for key in ("node_primary_ips", "node_secondary_ips"):
            for name, held in read_pairs(self.ssconf.get(key, ""), " ").items():
                if held == address:
                    return name
        return None


def prepare_request(cluster: ClusterFiles, *, force: bool, setup: bool) -> dict[str, Any]:
    """Input of `prepare-node-join`; keys only where the cluster looks after ssh."""
    from ganeti.bootstrap import ssh_keys

    request: dict[str, Any] = {"cluster_name": cluster.name, "time_s": time.time()}
    if not force:
        request["node_daemon_certificate"] = _text(cluster.paths.authority_cert)
    if setup and cluster.settings.get("modify_ssh_setup"):
        request["ssh_host_key"] = [list(triple) for triple in ssh_keys.host_key_triples(cluster.paths)]
        request["authorized_keys"] = ssh_keys.public_keys_of_nodes(cluster.paths)
        request["ssh_key_type"] = cluster.settings.get("ssh_key_type", "rsa")
        request["ssh_key_bits"] = cluster.settings.get("ssh_key_bits", 2048)
    return request


def setup_request(cluster: ClusterFiles, name: str, address: str) -> dict[str, Any]:
    """Input of `node-daemon-setup`, with a fresh certificate of the node's own."""
    from ganeti.node import certificates

    paths = cluster.paths
    authority = certificates.Authority(_text(paths.authority_key), _text(paths.authority_cert))
    return {
        "cluster_name": cluster.name,
        "time_s": time.time(),
        "node_name": name,
        "node_daemon_certificate": certificates.issue_node_certificate(authority, name, cluster.name, [address]),
        "ssconf": cluster.ssconf,
        "hmac_key": _text(paths.hmac_key),
        "cluster_files": {
            "known_hosts": _text(paths.known_hosts),
            "cluster-domain-secret": _text(paths.cluster_domain_secret),
        },
        "start_node_daemon": True,
    }


def _read_ssconf(paths: Paths) -> dict[str, str]:
    names = sorted(name for name in os.listdir(paths.data_dir) if name.startswith(FILE_PREFIX) and "." not in name)
    return {name.removeprefix(FILE_PREFIX): _text(f"{paths.data_dir}/{name}") for name in names}


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", opener=plain_file) as file:
            return file.read()
    except FileNotFoundError as err:
        raise PrerequisiteError(f"{path} is missing: this is not the master of a cluster", WRONG_STATE) from err
