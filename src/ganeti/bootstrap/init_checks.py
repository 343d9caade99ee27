# SPDX-License-Identifier: BSD-2-Clause
"""Everything `gnt-cluster init` refuses, in 3.1's order; nothing is changed here (protocols, section 25)."""

import contextlib
import ipaddress
import os
import threading
from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import (
    ENVIRONMENT_ERROR,
    NOT_UNIQUE,
    RESOLVER_ERROR,
    WRONG_INPUT,
    WRONG_STATE,
    CommandError,
    FileStoragePathError,
    PrerequisiteError,
)
from ganeti.base.names import address_fault, shown
from ganeti.base.paths import IALLOCATOR_SEARCH_PATH, NODED_PORT
from ganeti.bootstrap import init_options, ssh_keys
from ganeti.bootstrap.foreign_daemons import check_no_foreign_daemon
from ganeti.bootstrap.initial_config import Beginning
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.ssh_keys import host_public_keys
from ganeti.model.cluster_values import DEFAULT_DIRECTORIES
from ganeti.model.traits import Catalogue
from ganeti.node.storage.allowed_paths import AllowedPaths

ADDRESS_PROBE_S = 2.0
"""A machine that has the address on this network answers in milliseconds; the time is for addresses behind routers."""
DEFAULT_ALLOCATOR = "hail"
MIN_VOLUME_GROUP_MIB = 20480
DEFAULT_VOLUME_GROUP = "xenvg"


def check(options: Mapping[str, Any], machine: Machine, catalogue: Catalogue) -> Beginning:
    """Find out what is not said and check all; raises `PrerequisiteError` with one sentence."""
    _check_no_cluster(machine)
    check_no_foreign_daemon(machine.paths, os.path.dirname(machine.program("daemon-util")))
    hypervisors = init_options.enabled_hypervisors(options.get("enabled_hypervisors"), catalogue)
    templates = init_options.enabled_templates(
        options.get("enabled_disk_templates"),
        catalogue,
        has_volume_group=bool(options.get("vg_name")) or _has_group(machine, DEFAULT_VOLUME_GROUP),
        can_replicate=os.path.exists(machine.paths.under("/proc/drbd")),
    )
    version = init_options.ip_version(options.get("primary_ip_version"))
    node_name, primary_ip = _own_address(machine, version)
    cluster_name, master_ip = _master_address(options, machine, version, node_name, primary_ip)
    probe = _AddressProbe(machine, master_ip)
    secondary_ip = _secondary_address(options, machine, version, primary_ip)
    netmask = init_options.netmask(options.get("master_netmask"), version)
    volume_group = _volume_group(options, machine, templates, catalogue)
    directories = _directories(options, machine, templates, catalogue)
    mac_prefix = init_options.mac_prefix(options.get("mac_prefix"))
    netdev = options.get("master_netdev") or init_options.DEFAULT_NETDEV
    if not machine.has_device(netdev):
        raise PrerequisiteError(
            f"The master network device '{netdev}' does not exist here: name one with --master-netdev", WRONG_INPUT
        )
    parameters = init_options.parameters(options, catalogue)
    policy = init_options.policy(options, templates)
    plain = init_options.plain_values(options)
    key_type, key_bits = ssh_keys.key_to_make(options.get("ssh_key_type"), options.get("ssh_key_bits"))
    host_keys = host_public_keys(machine.paths)
    if not host_keys:
        raise PrerequisiteError(
            "No ssh host key was found in /etc/ssh: install openssh-server, or make them with 'ssh-keygen -A'",
            ENVIRONMENT_ERROR,
        )
    allocator = _allocator(options.get("default_iallocator"), machine)
    probe.finish(cluster_name)
    return Beginning(
        cluster_name=cluster_name,
        node_name=node_name,
        ip_version=version,
        primary_ip=primary_ip,
        secondary_ip=secondary_ip,
        master_ip=master_ip,
        master_netdev=netdev,
        master_netmask=netmask,
        hypervisors=hypervisors,
        templates=templates,
        directories=directories,
        mac_prefix=mac_prefix,
        volume_group=volume_group,
        drbd_helper=_helper(options, templates, catalogue),
        parameters=parameters,
        policy=policy,
        allocator=allocator,
        ssh_key_type=key_type,
        ssh_key_bits=key_bits,
        modify_etc_hosts=_unless_false(options.get("modify_etc_hosts")),
        modify_ssh_setup=_unless_false(options.get("modify_ssh_setup")),
        host_keys=host_keys,
        plain=plain,
    )


class _AddressProbe:
    """Asks whether the master address is in use, while the other checks go on."""

    def __init__(self, machine: Machine, address: str) -> None:
        self._address = address
        self._used = False
        self._thread = threading.Thread(target=self._ask, args=(machine,), daemon=True)
        self._thread.start()

    def _ask(self, machine: Machine) -> None:
        self._used = machine.answers(self._address, NODED_PORT, ADDRESS_PROBE_S)

    def finish(self, cluster_name: str) -> None:
        self._thread.join()
        if self._used:
            raise PrerequisiteError(
                f"The address {self._address} of the cluster name '{cluster_name}' is in use already: "
                "give the cluster a name with an address of its own",
                NOT_UNIQUE,
            )


def _unless_false(value: Any) -> bool:
    return value is not False


def _check_no_cluster(machine: Machine) -> None:
    for path in (machine.paths.config_file, machine.paths.config_database):
        if os.path.exists(path):
            raise PrerequisiteError(
                f"This machine has a cluster already ({path} exists): remove it first with gnt-cluster "
                "destroy, or with node-cleanup if it was never complete",
                WRONG_STATE,
            )
    if os.path.exists(name := machine.paths.ssconf_file("cluster_name")):
        raise PrerequisiteError(
            f"This machine is a node of a cluster ({name} exists): remove it there first with gnt-node remove, or run "
            "node-cleanup here if that cluster is gone",
            WRONG_STATE,
        )
    queue = machine.paths.queue_dir
    if any(files for _, _, files in os.walk(queue)):  # a package's set-up makes the directories
        raise PrerequisiteError(
            f"The job queue directory {queue} is not empty: move away what an earlier cluster left there", WRONG_STATE
        )


def _suggest_ipv6(machine: Machine, version: int) -> None:
    """Raise `PrerequisiteError` where it is another kind of cluster that this host is made for."""
    address = ""
    with contextlib.suppress(PrerequisiteError):
        _, address = machine.resolve(machine.hostname, 6)
    if version != 6 and address and not ipaddress.ip_address(address).is_loopback:
        raise PrerequisiteError(
            f"This host's name '{machine.hostname}' has an address of IPv6 alone, {address}: add "
            "--primary-ip-version 6 for a cluster of IPv6, or enter one of IPv4 into the DNS or /etc/hosts",
            RESOLVER_ERROR,
        )


def _own_address(machine: Machine, version: int) -> tuple[str, str]:
    try:
        name, address = machine.resolve(machine.hostname, version)
    except PrerequisiteError:
        _suggest_ipv6(machine, version)
        raise
    if ipaddress.ip_address(address).is_loopback and not machine.paths.root:
        raise PrerequisiteError(
            f"This host's name '{name}' resolves to the loopback address {address}: "
            "give it an address of the network in /etc/hosts or the DNS",
            ENVIRONMENT_ERROR,
        )
    if not machine.owns(address):
        raise PrerequisiteError(
            f"This host's name '{name}' resolves to {address}, which is not an address of this machine: correct "
            "/etc/hosts or the DNS",
            ENVIRONMENT_ERROR,
        )
    return name, address


def _master_address(
    options: Mapping[str, Any], machine: Machine, version: int, node_name: str, primary_ip: str
) -> tuple[str, str]:
    given = str(options.get("cluster_name") or "")
    if (fault := address_fault(given)) is not None:
        raise PrerequisiteError(f"'{shown(given)}' cannot be the name of a cluster: {fault}", WRONG_INPUT)
    name, address = machine.resolve(given, version)
    if name == node_name or address == primary_ip:
        raise PrerequisiteError(
            f"The cluster name '{given}' is this host's own: a cluster needs a name and address of its own", WRONG_INPUT
        )
    if ipaddress.ip_address(address).is_loopback and not machine.paths.root:
        raise PrerequisiteError(
            f"The cluster name '{given}' resolves to the loopback address {address}: give it one of the network",
            ENVIRONMENT_ERROR,
        )
    return name, address


def _secondary_address(options: Mapping[str, Any], machine: Machine, version: int, primary_ip: str) -> str:
    given = options.get("secondary_ip")
    if not given:
        if version == 6:
            raise PrerequisiteError(
                "With IPv6 primary addresses, an IPv4 secondary address is needed: give it with -s, or the primary "
                f"address {primary_ip} again for a cluster without IPv4",
                WRONG_INPUT,
            )
        return primary_ip
    try:
        address = ipaddress.ip_address(given)
    except ValueError:
        address = None
    if version == 6 and address == ipaddress.ip_address(primary_ip):
        return primary_ip
    if address is None or address.version != 4:
        raise PrerequisiteError(
            f"The secondary address '{given}' is not an IPv4 address: give one that this machine has", WRONG_INPUT
        )
    if address.is_loopback or not machine.owns(given):
        raise PrerequisiteError(
            f"The secondary address {given} is not an address of this machine on a network: set it up here first, or "
            "give another with -s",
            WRONG_INPUT,
        )
    return str(given)


def _has_group(machine: Machine, name: str) -> bool:
    try:
        return machine.run(["vgs", "--noheadings", "--", name], check=False).returncode == 0
    except CommandError:
        return False


def _volume_group(
    options: Mapping[str, Any], machine: Machine, templates: list[str], catalogue: Catalogue
) -> str | None:
    wanted = any(catalogue.template(name).uses_node_disk for name in templates)
    given = options.get("vg_name")
    if not wanted:
        if given:
            raise PrerequisiteError(
                f"The volume group '{given}' would not be used: no enabled disk template keeps disks in one",
                WRONG_INPUT,
            )
        return None
    name = given or DEFAULT_VOLUME_GROUP
    done = machine.run(["vgs", "--noheadings", "--nosuffix", "--units=m", "-o", "vg_size", "--", name], check=False)
    if done.returncode:
        raise PrerequisiteError(
            f"The volume group '{name}' does not exist: make it, or name another with --vg-name", WRONG_INPUT
        )
    size = float(done.stdout.strip())
    if size < MIN_VOLUME_GROUP_MIB:
        raise PrerequisiteError(
            f"The volume group '{name}' is too small: it has {size:.0f} MiB, the least is {MIN_VOLUME_GROUP_MIB}",
            WRONG_INPUT,
        )
    return name


def _helper(options: Mapping[str, Any], templates: list[str], catalogue: Catalogue) -> str | None:
    wanted = any(
        catalogue.template(name).has_secondary and catalogue.template(name).uses_node_disk for name in templates
    )
    given = options.get("drbd_helper")
    if given and not wanted:
        raise PrerequisiteError(
            f"The helper '{given}' would not be used: no enabled disk template mirrors volumes", WRONG_INPUT
        )
    if wanted and given and not os.access(given, os.X_OK):
        raise PrerequisiteError(f"The helper '{given}' is not a program", WRONG_INPUT)
    return given or ("/bin/true" if wanted else None)


def _directories(
    options: Mapping[str, Any], machine: Machine, templates: list[str], catalogue: Catalogue
) -> dict[str, str]:
    """Every setting gets a value; those of enabled templates must be places that may hold disks."""
    result = {setting: init_options.storage_directory(setting, options.get(setting)) for setting in DEFAULT_DIRECTORIES}
    for setting in result.keys() & init_options.not_offered(catalogue):
        if options.get(setting):
            raise PrerequisiteError(
                f"The directory '{options[setting]}' would not be used: no disk template here has its {setting}; "
                "leave it out",
                WRONG_INPUT,
            )
    allowed = AllowedPaths(machine.paths)
    for name in templates:
        setting = catalogue.template(name).directory_setting
        if not setting:
            continue
        if setting not in result:
            result[setting] = init_options.storage_directory(setting, options.get(setting))
        try:
            allowed.check(result[setting], directory=True)
        except FileStoragePathError as err:
            raise PrerequisiteError(f"Disk template {name}: {err.message}", WRONG_INPUT) from err
    return {setting: path for setting, path in result.items() if setting in DEFAULT_DIRECTORIES}


def _allocator(given: str | None, machine: Machine) -> str:
    """The one asked for must be there; by default ours is taken if it is."""
    name = given or DEFAULT_ALLOCATOR
    for directory in IALLOCATOR_SEARCH_PATH:
        if "/" not in name and os.access(f"{machine.paths.under(directory)}/{name}", os.X_OK):
            return name
    if given:
        raise PrerequisiteError(
            f"The allocator '{given}' was not found in {' or '.join(IALLOCATOR_SEARCH_PATH)}", WRONG_INPUT
        )
    return ""
