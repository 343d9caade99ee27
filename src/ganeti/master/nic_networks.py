# SPDX-License-Identifier: BSD-2-Clause
"""NICs of instances in networks: what they inherit from the node group, and the addresses that they take. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import NOT_UNIQUE, WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.master.config.indexes import address_space
from ganeti.model import inheritance
from ganeti.model.configuration import Draft
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import Cluster, Nic, NodeGroup
from ganeti.model.view import ConfigView

FROM_POOL = "pool"
"""Address of a NIC that wants any free one of its network."""


def connected(
    view: ConfigView,
    group: NodeGroup,
    nics: Sequence[Nic],
    *,
    conflicts_check: bool,
    before: Sequence[Nic] = (),
    numbers: Sequence[int] | None = None,
) -> list[Nic]:
    """Give the NICs as they will be in a group: mode, link and VLAN of its networks, addresses chosen from their pools.

    *before* are the instance's NICs that these replace: what they have is free for it. *numbers* are the positions of
    the NICs in the instance, where they are not all of it. Raises `PrerequisiteError` for a network that the group is
    not connected to, and for an address that is not free there.
    """
    numbers = numbers if numbers is not None else range(len(nics))
    pools = {}
    found = []
    had = {nic.uuid: (nic.network, nic.ip) for nic in before}
    _refuse_taken(view, nics, before, numbers)
    for index, nic in zip(numbers, nics, strict=True):
        if nic.network is None:
            found.append(nic)
            continue
        network = view.network(nic.network)
        nicparams = group.networks.get(network.uuid)
        if nicparams is None:
            raise PrerequisiteError(
                f"NIC {index}: network '{network.name}' is not connected to node group '{group.name}': connect it with "
                f"gnt-network connect {network.name} {group.name}",
                WRONG_INPUT,
            )
        if network.uuid not in pools:
            pools[network.uuid] = pool_of(network)
            for old in before:
                if old.network == network.uuid and old.ip is not None and pools[network.uuid].contains(old.ip):
                    pools[network.uuid] = pools[network.uuid].give_back(old.ip)
        pool, address = pools[network.uuid], nic.ip
        try:
            if address == FROM_POOL:
                address = pool.first_free()
            elif address is None or had.get(nic.uuid) == (nic.network, address):
                pass  # an address that is kept back was given to it on purpose, or is kept back since
            elif conflicts_check and not pool.is_free(address):
                raise PrerequisiteError(
                    f"NIC {index}: IP address {address} of network '{network.name}' is already in use or reserved: "
                    "choose another one, or ip=pool",
                    NOT_UNIQUE,
                )
            if address is not None:
                pools[network.uuid] = pool.take(address)
        except ParameterError as err:
            raise PrerequisiteError(f"NIC {index}: {err.message}", NOT_UNIQUE) from err
        found.append(replace(nic, ip=address, nicparams=dict(nicparams)))
    return found


def _refuse_taken(view: ConfigView, nics: Sequence[Nic], before: Sequence[Nic], numbers: Sequence[int]) -> None:
    """Raise `PrerequisiteError` where a NIC outside networks has the address of another one on the same link.

    A NIC that is where it was is left alone: the cluster may have been given the link of another one since.
    """
    usual = inheritance.cluster_nic(view.cluster)

    def place(nic: Nic) -> tuple[str, str | None]:
        return _place(nic, usual)

    numbered = list(zip(numbers, nics, strict=True))
    was = {nic.uuid: place(nic) for nic in before}
    wanted = {
        place(nic): index
        for index, nic in numbered
        if nic.network is None and nic.ip and was.get(nic.uuid) != place(nic)
    }
    if not wanted:
        return
    ours = {*was, *(nic.uuid for nic in nics)}
    others = [(each.name, nic) for each in view.instances() for nic in each.nics if nic.uuid not in ours]
    others += [("this instance", nic) for index, nic in numbered if wanted.get(place(nic), index) != index]
    for name, nic in others:
        index = wanted.get(place(nic))
        if index is not None:
            raise PrerequisiteError(
                f"NIC {index}: IP address {nic.ip} is that of a NIC of {name} on the same link: choose another one",
                NOT_UNIQUE,
            )


def refuse_shared(view: ConfigView, cluster: Cluster) -> None:
    """Raise `ParameterError` where two NICs would have the same address on the same link in *cluster*, and do not now.

    A change of what NICs inherit can bring two together that nobody compares again.
    """
    usual, new = inheritance.cluster_nic(view.cluster), inheritance.cluster_nic(cluster)
    if usual == new:
        return
    found: dict[tuple[str, str | None], tuple[str, Nic]] = {}
    for instance in view.instances():
        for index, nic in enumerate(instance.nics):
            if nic.network is not None or not nic.ip:
                continue
            here = f"NIC {index} of {instance.name}"
            where, other = found.setdefault(_place(nic, new), (here, nic))
            if other is not nic and _place(other, usual) != _place(nic, usual):
                raise ParameterError(
                    f"{where} and {here} would have the IP address {nic.ip} on the same link: give one of them another "
                    "address, or a link of its own, first"
                )


def _place(nic: Nic, usual: dict[str, Any]) -> tuple[str, str | None]:
    """Address space and address of a NIC; what it inherits is as if it said so."""
    filled = nic if nic.network is not None else replace(nic, nicparams=usual | nic.nicparams)
    return address_space(filled), nic.ip


def chosen(before: Sequence[Nic], after: Sequence[Nic]) -> list[int]:
    """Which NICs got an address from a pool: by their positions."""
    return [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old.ip != new.ip]


def exchange_addresses(
    draft: Draft, before: Sequence[Nic], after: Sequence[Nic], from_pool: Sequence[int] = ()
) -> list[Nic]:
    """Give the addresses of *before* back to their networks, and take those of *after*; gives what these have then.

    A NIC of *from_pool* takes the next free address where somebody has taken the one it was to have. Raises
    `PrerequisiteError` for an address that another instance has.
    """
    for nic in before:
        if nic.network is not None and nic.ip is not None:
            network = draft.network(nic.network)
            pool = pool_of(network)
            draft.put("networks", pool.give_back(nic.ip).put_into(network) if pool.contains(nic.ip) else network)
    found = []
    for index, nic in enumerate(after):
        if nic.network is not None and nic.ip is not None:
            network = draft.network(nic.network)
            pool = pool_of(network)
            try:
                if index in from_pool and not pool.is_free(nic.ip):
                    nic = replace(nic, ip=pool.first_free())
                draft.put("networks", pool.take(str(nic.ip)).put_into(network))
            except ParameterError as err:
                raise PrerequisiteError(f"NIC {index}: {err.message}", NOT_UNIQUE) from err
        found.append(nic)
    return found
