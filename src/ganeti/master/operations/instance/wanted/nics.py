# SPDX-License-Identifier: BSD-2-Clause
"""Reading the NICs that a user asks for, of a new instance or of one that is changed."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError, TypeEnforcementError
from ganeti.master.nic_networks import FROM_POOL
from ganeti.master.operations.parameters import NicInput
from ganeti.model import inheritance
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import Network, Nic
from ganeti.model.parameters import NIC_PARAMETERS, accept_all
from ganeti.model.view import ConfigView
from ganeti.ports.context import EntropyPort

MAX_NICS = 8
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_AUTO = ("auto", "generate")
_LEFT_OUT = (None, "", "default")


def check_device_names(kind: str, given: Sequence[Any]) -> None:
    """Names stand where an index can: none may look like one, and each is given once."""
    taken = set()
    for index, name in enumerate(given):
        if name is None:
            continue
        if str(name).removeprefix("-").isdigit():
            raise PrerequisiteError(
                f"{kind.capitalize()} {index} cannot be named '{name}': a number alone would be taken for an index",
                WRONG_INPUT,
            )
        if name in taken:
            raise PrerequisiteError(f"Two of the {kind}s are named '{name}': give each a name of its own", WRONG_INPUT)
        taken.add(name)


class TakenMacs:
    """The MAC addresses in use, each looked for by itself: those of the configuration, and more."""

    def __init__(self, view: ConfigView, more: Iterable[str] = (), free: str = "") -> None:
        """*free* counts as not in use."""
        self._view = view
        self._more = {mac.lower() for mac in more}
        self._free = free.lower()

    def __contains__(self, mac: str) -> bool:
        return mac != self._free and (mac in self._more or self._view.uses_mac(mac))

    def add(self, mac: str) -> None:
        self._more.add(mac)

    def without(self, mac: str) -> "TakenMacs":
        return TakenMacs(self._view, self._more, mac)


def read_nics(asked: Sequence[NicInput], view: ConfigView, entropy: EntropyPort) -> list[Nic]:
    """Make NICs; a MAC left out or ``auto`` is generated, free of those in use."""
    if len(asked) > MAX_NICS:
        raise PrerequisiteError(f"{len(asked)} NICs are too many: an instance has at most {MAX_NICS}", WRONG_INPUT)
    taken = TakenMacs(view)
    nics = []
    for index, each in enumerate(asked):
        nic = new_nic(index, each, view, entropy, taken)
        taken.add(nic.mac)
        nics.append(nic)
    check_device_names("NIC", [nic.name for nic in nics])
    return nics


def new_nic(index: int, asked: NicInput, view: ConfigView, entropy: EntropyPort, taken: TakenMacs) -> Nic:
    given = _of_link(msgspec.to_builtins(asked))
    _refuse_of_nobody(index, given)
    return _make_nic(index, given, view, entropy, taken)


def changed_nic(index: int, nic: Nic, asked: NicInput, view: ConfigView, entropy: EntropyPort, taken: TakenMacs) -> Nic:
    """Give *nic* as it will be: what is not asked for stays, ``default``, null and ``none`` take a value away.

    In a network, mode, link and VLAN follow from it. A MAC address that was made below the prefix of another network is
    made again. *taken* are the MAC addresses in use, its own among them.
    """
    before = None if nic.network is None else view.network(nic.network)
    given = _of_link(msgspec.to_builtins(asked))
    _refuse_of_nobody(index, given)
    values = {"mac": nic.mac, "ip": nic.ip, "name": nic.name, "network": before.name if before else None} | given
    if before is None and values["network"] in (*_LEFT_OUT, "none"):
        values = nic.nicparams | values
    after = _nic_network(index, _without_empty(values), view)
    if "mac" not in given and _mac_prefix(view, before) != _mac_prefix(view, after):
        values["mac"] = _AUTO[0]
    changed = _make_nic(index, values, view, entropy, taken.without(nic.mac))
    return replace(changed, uuid=nic.uuid)


def _of_link(given: Mapping[str, Any]) -> dict[str, Any]:
    """A bridge is another word for a link."""
    values = {key: value for key, value in given.items() if key != "bridge"}
    return ({"link": given["bridge"]} if "bridge" in given else {}) | values


def _refuse_of_nobody(index: int, given: Mapping[str, Any]) -> None:
    """Raise `PrerequisiteError` for addresses that no NIC can have; one that it has since before is left alone."""
    mac = str(given.get("mac", "")).lower()
    if _MAC.fullmatch(mac) and (int(mac[:2], 16) & 1 or not int(mac.replace(":", ""), 16)):
        raise PrerequisiteError(
            f"NIC {index}: {mac} is no MAC address of one NIC: its first byte must be even, and not all of it 0",
            WRONG_INPUT,
        )
    try:
        address = ipaddress.ip_address(str(given.get("ip")))
    except ValueError:
        return  # none, or a word; what is no address at all is refused where it is read
    mapped = getattr(address, "ipv4_mapped", None)
    for each in (address, mapped) if mapped is not None else (address,):
        kinds = {
            "the unspecified address": each.is_unspecified,
            "a loopback address": each.is_loopback,
            "a multicast address": each.is_multicast,
            "the broadcast address": each == _BROADCAST,
        }
        for kind in (kind for kind, is_so in kinds.items() if is_so):
            raise PrerequisiteError(f"NIC {index}: {given['ip']} is {kind}: give the guest's own address", WRONG_INPUT)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in _LEFT_OUT}


def _mac_prefix(view: ConfigView, network: Network | None) -> str:
    return network.mac_prefix if network is not None and network.mac_prefix else view.cluster.mac_prefix


def _make_nic(index: int, values: Mapping[str, Any], view: ConfigView, entropy: EntropyPort, taken: TakenMacs) -> Nic:
    given = _without_empty(values)
    network = _nic_network(index, given, view)
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
        mac = generate_mac(_mac_prefix(view, network), entropy, taken)
    elif not _MAC.fullmatch(mac):
        raise PrerequisiteError(
            f"NIC {index}: '{mac}' is not a MAC address: write aa:bb:cc:dd:ee:ff or auto", WRONG_INPUT
        )
    elif mac in taken:
        raise PrerequisiteError(f"NIC {index}: MAC address {mac} is already in use", "resource_not_unique")
    within = network.uuid if network is not None else None
    name = given.get("name", "none")
    return Nic(
        uuid=entropy.uuid(),
        mac=mac,
        ip=ip,
        nicparams=nicparams,
        network=within,
        name=None if name == "none" else name,
    )


def _nic_network(index: int, given: Mapping[str, Any], view: ConfigView) -> Network | None:
    """The network that a NIC is to be in; how it is attached follows from the node group then."""
    name = given.get("network", "none")
    if name == "none":
        if given.get("ip") == FROM_POOL:
            raise PrerequisiteError(
                f"NIC {index}: ip=pool takes an address from a network: add network=NETWORK", WRONG_INPUT
            )
        return None
    if any(key in given for key in ("mode", "link", "vlan")):
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
    if "%" in str(text):
        raise PrerequisiteError(
            f"NIC {index}: '{text}' names an interface of a node: leave out % and what follows", WRONG_INPUT
        )
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError as err:
        raise PrerequisiteError(f"NIC {index}: '{text}' is not an IP address", WRONG_INPUT) from err


def generate_mac(prefix: str, entropy: EntropyPort, taken: TakenMacs) -> str:
    for _ in range(1000):
        mac = f"{prefix}:" + ":".join(f"{byte:02x}" for byte in entropy.token(3))
        if mac not in taken:
            return mac
    raise PrerequisiteError(
        f"No free MAC address was found below {prefix}: use another prefix", "insufficient_resources"
    )
