# SPDX-License-Identifier: BSD-2-Clause
"""The network for instance communication: made if it is not there, and every node group is connected to it."""

from msgspec.structs import replace

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.model import communication
from ganeti.model.configuration import Draft
from ganeti.model.network_pool import new_pool
from ganeti.model.objects import Network
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change


class SetCommunicationNetwork(Change, frozen=True, kw_only=True):
    """Let instances communicate over the network of this *name*, or over none; *network* is made if none has it."""

    name: str
    network: Network | None = None

    def apply(self, draft: Draft) -> None:
        draft.put("cluster", replace(draft.cluster, instance_communication_network=self.name))
        if not self.name:
            return
        uuid = draft.uuid_by_name("networks", self.name)
        if uuid is None and self.network is not None:
            draft.put("networks", self.network)
            uuid = self.network.uuid
        for group in draft.groups():
            if uuid is not None and uuid not in group.networks:
                networks = group.networks | {uuid: dict(communication.NICPARAMS)}
                draft.put("nodegroups", replace(group, networks=networks))


def planned(view: ConfigView, name: str | None, uuid: str) -> SetCommunicationNetwork | None:
    """What is to be changed for the network *name*, empty for none; *uuid* is for a new one.

    Raises `PrerequisiteError` while instances still use the one there is, and where no new one can be called so.
    """
    old = view.cluster.instance_communication_network
    if name is None or name == old:
        return None
    users = [each.name for each in view.instances() if communication.nic_of(each.nics) is not None]
    if old and users:
        raise PrerequisiteError(
            f"Instance {users[0]} communicates over network '{old}': take that from it first "
            f"(gnt-instance modify --communication=no {users[0]})",
            WRONG_INPUT,
        )
    if not name:
        return SetCommunicationNetwork(name="")
    if view.uuid_by_name("networks", name) is not None:
        return SetCommunicationNetwork(name=name)
    if fault := names.new_label_fault(name):
        raise PrerequisiteError(f"A network cannot be called '{names.shown(name)}': {fault}", WRONG_INPUT)
    return SetCommunicationNetwork(name=name, network=new_network(name, uuid))


def new_network(name: str, uuid: str) -> Network:
    pool = new_pool(communication.NETWORK).keep(communication.METADATA_ADDRESS)
    network = Network(
        uuid=uuid,
        name=name,
        network=communication.NETWORK,
        network6=communication.NETWORK6,
        mac_prefix=communication.MAC_PREFIX,
    )
    return pool.put_into(network)


def networks_of_new_group(view: ConfigView) -> dict[str, dict[str, str]]:
    """What a new node group is connected to from the beginning."""
    name = view.cluster.instance_communication_network
    uuid = view.uuid_by_name("networks", name) if name else None
    return {} if uuid is None else {uuid: dict(communication.NICPARAMS)}
