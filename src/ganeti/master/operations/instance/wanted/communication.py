# SPDX-License-Identifier: BSD-2-Clause
"""The NIC for communication of an instance, as it is asked for by ``--communication``. Pure."""

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.nic_networks import FROM_POOL
from ganeti.master.operations.instance.wanted.device_changes import RequestedChange
from ganeti.master.operations.parameters import NicInput
from ganeti.model import communication
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView


def _values(view: ConfigView, instance_name: str) -> dict[str, str]:
    """Raises `PrerequisiteError` on a cluster without a network for it."""
    network = view.cluster.instance_communication_network
    if not network:
        raise PrerequisiteError(
            "The cluster has no network for instance communication: name one first "
            "(gnt-cluster modify --instance-communication-network=NETWORK), or leave --communication out",
            WRONG_INPUT,
        )
    return {"network": network, "ip": FROM_POOL, "name": communication.nic_name(instance_name)}


def wanted_nics(view: ConfigView, instance_name: str, *, wanted: bool) -> list[NicInput]:
    """What a new instance has beside the NICs that it is given."""
    return [NicInput(**_values(view, instance_name))] if wanted else []


def changes(view: ConfigView, instance: Instance, wanted: bool | None) -> list[RequestedChange]:
    """What is to be done to the NICs of an instance that shall have one, or none."""
    own = communication.nic_of(instance.nics)
    if wanted and own is None:
        return [["add", -1, dict(_values(view, instance.name))]]
    if wanted is False and own is not None:
        return [["remove", own.uuid, {}]]
    return []
