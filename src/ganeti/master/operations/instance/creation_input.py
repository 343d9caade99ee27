# SPDX-License-Identifier: BSD-2-Clause
"""Reading what a user asked for when creating an instance: name, disks, NICs, parameters."""

import ipaddress
import os.path
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError, TagError, TypeEnforcementError, UnitParseError
from ganeti.base.units import parse_size_mib
from ganeti.master.nic_networks import FROM_POOL
from ganeti.master.operations.parameters import NicInput
from ganeti.model import inheritance
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import Disk, Network, Nic
from ganeti.model.parameters import NIC_PARAMETERS, accept_all
from ganeti.model.tags import check_tag, with_tags
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import EntropyPort

MAX_DISKS = 16
MAX_NICS = 8
MAX_DISK_MIB = 2**43 - 1
"""What fits into a file offset."""
_DISK_ACCESS = ("kernelspace", "userspace")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_DISK_KEYS = frozenset({"size", "mode", "name", "spindles", "access", "format", "dev_type"})
_AUTO = ("auto", "generate")


def check_name(name: str) -> str:
    """Give the name in lower case; raises `PrerequisiteError` for what cannot be a host name."""
    if (fault := names.host_name_fault(name)) is not None:
        raise PrerequisiteError(f"'{names.shown(name)}' is not a valid instance name: {fault}", WRONG_INPUT)
    return name.lower()


def check_tags(tags: Sequence[str]) -> list[str]:
    for tag in tags:
        try:
            check_tag(tag)
        except TagError as err:
            raise PrerequisiteError(
                f"'{names.shown(tag)}' is not a valid tag: use 1 to 128 letters, digits and the characters "
                ". + * / : @ _ -",
                WRONG_INPUT,
            ) from err
    return with_tags([], tags)


def read_disks(asked: Sequence[Mapping[str, Any]], traits: TemplateTraits, entropy: EntropyPort) -> list[Disk]:
    """Make disks without places yet; raises `PrerequisiteError` naming the disk and what is wrong."""
    if asked and not traits.has_disks:
        raise PrerequisiteError(f"Disk template {traits.name} has no disks: leave --disk out", WRONG_INPUT)
    if not asked and traits.has_disks:
        raise PrerequisiteError(
            f"Disk template {traits.name} needs at least one disk: add --disk 0:size=SIZE", WRONG_INPUT
        )
    if len(asked) > MAX_DISKS:
        raise PrerequisiteError(f"{len(asked)} disks are too many: an instance has at most {MAX_DISKS}", WRONG_INPUT)
    disks = [_read_disk(index, values, traits, entropy) for index, values in enumerate(asked)]
    _check_device_names("disk", [disk.name for disk in disks])
    return disks


def _check_device_names(kind: str, given: Sequence[Any]) -> None:
    """Names stand where an index can: none may look like one, and each is given once."""
    taken = set()
    for index, name in enumerate(given):
        if name is None:
            continue
        if str(name).isdigit():
            raise PrerequisiteError(
                f"{kind.capitalize()} {index} cannot be named '{name}': a number alone would be taken for an index",
                WRONG_INPUT,
            )
        if name in taken:
            raise PrerequisiteError(f"Two of the {kind}s are named '{name}': give each a name of its own", WRONG_INPUT)
        taken.add(name)


def _read_disk(index: int, values: Mapping[str, Any], traits: TemplateTraits, entropy: EntropyPort) -> Disk:
    unknown = set(values) - _DISK_KEYS
    if unknown:
        raise PrerequisiteError(
            f"Disk {index}: unknown parameter '{sorted(unknown)[0]}': there are {', '.join(sorted(_DISK_KEYS))}",
            WRONG_INPUT,
        )
    if "size" not in values:
        raise PrerequisiteError(f"Disk {index}: the size is missing: write --disk {index}:size=SIZE", WRONG_INPUT)
    try:
        size_mib = parse_size_mib(values["size"])
    except UnitParseError as err:
        raise PrerequisiteError(f"Disk {index}: {err}", WRONG_INPUT) from err
    if size_mib <= 0:
        raise PrerequisiteError(f"Disk {index}: the size must be more than zero", WRONG_INPUT)
    if size_mib > MAX_DISK_MIB:
        raise PrerequisiteError(f"Disk {index}: a disk can have {MAX_DISK_MIB} MiB at most", WRONG_INPUT)
    if values.get("dev_type", traits.name) != traits.name:
        raise PrerequisiteError(
            f"Disk {index}: dev_type '{values['dev_type']}' is not possible: all disks have the instance's template",
            WRONG_INPUT,
        )
    if values.get("access", _DISK_ACCESS[0]) not in _DISK_ACCESS:
        raise PrerequisiteError(
            f"Disk {index}: access '{values['access']}' is unknown: use {' or '.join(_DISK_ACCESS)}", WRONG_INPUT
        )
    if values.get("access") == "userspace":
        raise PrerequisiteError(
            f"Disk {index}: access userspace is not possible: the hypervisor opens the disks of template {traits.name} "
            "in one way only; leave access out",
            WRONG_INPUT,
        )
    if values.get("spindles") is not None:
        raise PrerequisiteError(
            f"Disk {index}: spindles are counted with exclusive storage only, which template {traits.name} does not "
            "have: leave spindles out",
            WRONG_INPUT,
        )
    name = values.get("name")
    if name is not None and not isinstance(name, str):
        raise PrerequisiteError(f"Disk {index}: its name must be text, not {name}", WRONG_INPUT)
    mode = values.get("mode", "rw")
    if mode not in ("ro", "rw"):
        raise PrerequisiteError(f"Disk {index}: access mode '{mode}' is unknown: use ro or rw", WRONG_INPUT)
    params: dict[str, Any] = {}
    if "format" in values:
        if values["format"] not in traits.formats:
            allowed = ", ".join(traits.formats) or "none for this template"
            raise PrerequisiteError(
                f"Disk {index}: format '{values['format']}' is unknown: there are {allowed}", WRONG_INPUT
            )
        params["format"] = values["format"]
    return Disk(
        uuid=entropy.uuid(),
        dev_type=traits.name,
        size=size_mib,
        mode=mode,
        name=name,
        iv_name=f"disk/{index}",
        params=params or None,
        forthcoming=True,
    )


def place_disks(
    disks: Sequence[Disk], traits: TemplateTraits, node_uuids: list[str], directory: str, instance_name: str
) -> list[Disk]:
    """Give each disk its nodes and its logical id below the instance's directory."""
    from msgspec.structs import replace

    placed = []
    for index, disk in enumerate(disks):
        path = f"{directory}/{instance_name}/{disk.uuid}.{traits.name}.disk{index}"
        placed.append(replace(disk, nodes=list(node_uuids), logical_id=[traits.logical_id_driver, path]))
    return placed


def read_nics(asked: Sequence[NicInput], view: ConfigView, entropy: EntropyPort) -> list[Nic]:
    """Make NICs; a MAC left out or ``auto`` is generated, free of those in use."""
    if len(asked) > MAX_NICS:
        raise PrerequisiteError(f"{len(asked)} NICs are too many: an instance has at most {MAX_NICS}", WRONG_INPUT)
    taken = {nic.mac.lower() for instance in view.instances() for nic in instance.nics}
    nics = []
    for index, each in enumerate(asked):
        nic = _read_nic(index, each, view, entropy, taken)
        taken.add(nic.mac)
        nics.append(nic)
    _check_device_names("NIC", [nic.name for nic in nics])
    return nics


def _read_nic(index: int, asked: NicInput, view: ConfigView, entropy: EntropyPort, taken: set[str]) -> Nic:
    given = {key: value for key, value in msgspec.to_builtins(asked).items() if value not in (None, "", "default")}
    network = _nic_network(index, given, view)
    if "bridge" in given:
        given.setdefault("link", given.pop("bridge"))
    own: dict[str, Any] = {key: given[key] for key in ("mode", "link", "vlan") if key in given}
    try:
        nicparams = accept_all(NIC_PARAMETERS, own, "NIC")
    except TypeEnforcementError as err:
        raise PrerequisiteError(f"NIC {index}: {err}", WRONG_INPUT) from err
    filled = inheritance.cluster_nic(view.cluster) | nicparams
    if network is None:
        ip = _nic_address(index, given.get("ip"), filled["mode"])
    else:
        ip = _address_in(index, given.get("ip"), network)
    mac = str(given.get("mac", "auto")).lower()
    if mac in _AUTO:
        prefix = network.mac_prefix if network is not None and network.mac_prefix else view.cluster.mac_prefix
        mac = generate_mac(prefix, entropy, taken)
    elif not _MAC.fullmatch(mac):
        raise PrerequisiteError(
            f"NIC {index}: '{mac}' is not a MAC address: write aa:bb:cc:dd:ee:ff or auto", WRONG_INPUT
        )
    elif mac in taken:
        raise PrerequisiteError(f"NIC {index}: MAC address {mac} is already in use", "resource_not_unique")
    name = None if asked.name is msgspec.UNSET else asked.name
    within = network.uuid if network is not None else None
    return Nic(uuid=entropy.uuid(), mac=mac, ip=ip, nicparams=nicparams, network=within, name=name)


def _nic_network(index: int, given: Mapping[str, Any], view: ConfigView) -> Network | None:
    """The network that a NIC is to be in; how it is attached follows from the node group then."""
    name = given.get("network", "none")
    if name == "none":
        if given.get("ip") == FROM_POOL:
            raise PrerequisiteError(
                f"NIC {index}: ip=pool takes an address from a network: add network=NETWORK", WRONG_INPUT
            )
        return None
    if any(key in given for key in ("mode", "link", "bridge", "vlan")):
        raise PrerequisiteError(
            f"NIC {index}: mode, link and vlan follow from network '{name}': leave them out, or the network",
            WRONG_INPUT,
        )
    return view.find_network(str(name))


def _address_in(index: int, text: Any, network: Network) -> str | None:
    if text in (None, "none"):
        return None
    if text == FROM_POOL or pool_of(network).contains(str(text)):
        return str(text)
    raise PrerequisiteError(
        f"NIC {index}: '{text}' is not an address of network '{network.name}' ({network.network}): "
        "give one, or ip=pool",
        WRONG_INPUT,
    )


def _nic_address(index: int, text: Any, mode: str) -> str | None:
    if text in (None, "none"):
        if mode == "routed":
            raise PrerequisiteError(f"NIC {index}: a routed NIC needs an address: add ip=ADDRESS", WRONG_INPUT)
        return None
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError as err:
        raise PrerequisiteError(f"NIC {index}: '{text}' is not an IP address", WRONG_INPUT) from err


def generate_mac(prefix: str, entropy: EntropyPort, taken: set[str]) -> str:
    for _ in range(1000):
        mac = f"{prefix}:" + ":".join(f"{byte:02x}" for byte in entropy.token(3))
        if mac not in taken:
            return mac
    raise PrerequisiteError(
        f"No free MAC address was found below {prefix}: use another prefix", "insufficient_resources"
    )


def instance_directory(view: ConfigView, traits: TemplateTraits, asked: str | None) -> str:
    """The directory that holds the instance directories; *asked* is a relative part below the cluster's."""
    base: str = getattr(view.cluster, traits.directory_setting) if traits.directory_setting else ""
    if asked is None:
        return base
    if (fault := names.relative_path_fault(asked)) is not None:
        raise PrerequisiteError(
            f"File storage directory '{names.shown(asked)}' must be relative to the cluster's ({base}) and stay below "
            f"it: {fault}",
            WRONG_INPUT,
        )
    return os.path.normpath(f"{base}/{asked}")
