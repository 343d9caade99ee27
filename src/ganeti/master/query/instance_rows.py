# SPDX-License-Identifier: BSD-2-Clause
"""One instance as the getters of its fields see it: stored, filled, and as its node sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ganeti.master.query.fields import NODATA, OFFLINE, UNAVAILABLE, Missing, QueryWorld
from ganeti.model import inheritance
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.objects import Disk, Instance, Nic, Node, NodeGroup
from ganeti.model.templates import traits_of
from ganeti.model.view import template_of

RUNNING = "running"
ADMIN_DOWN = "ADMIN_down"
ADMIN_OFFLINE = "ADMIN_offline"
USER_DOWN = "USER_down"
ERROR_UP = "ERROR_up"
ERROR_DOWN = "ERROR_down"
ERROR_NODE_DOWN = "ERROR_nodedown"
ERROR_NODE_OFFLINE = "ERROR_nodeoffline"
ERROR_WRONG_NODE = "ERROR_wrongnode"

_SHUT_DOWN_BY_GUEST = "shutdown"


@dataclass(frozen=True)
class LiveInstance:
    """What the nodes said: whether the primary answered, and where the guest was found."""

    primary_answered: bool
    found_on: str | None = None
    info: FoundInstance | None = None

    @property
    def shut_down(self) -> bool:
        return self.info is not None and self.info.state == _SHUT_DOWN_BY_GUEST


@dataclass
class InstanceRow:
    instance: Instance
    world: QueryWorld
    live: LiveInstance | None = None
    console: Any = None
    mirrors: Sequence[DiskStatus | None] | None = None
    """Of each disk as its primary node told; None where it was not asked, or has no second copy."""

    @cached_property
    def primary(self) -> Node | None:
        found = self.world.view.get("nodes", self.instance.primary_node)
        return found if isinstance(found, Node) else None

    @cached_property
    def group(self) -> NodeGroup | None:
        return self.world.view.group(self.primary.group) if self.primary is not None else None

    @cached_property
    def disks(self) -> list[Disk]:
        return self.world.view.instance_disks(self.instance)

    @cached_property
    def secondaries(self) -> list[Node]:
        return [self.world.view.node(uuid) for uuid in self.world.view.secondary_nodes(self.instance)]

    @cached_property
    def hvparams(self) -> dict[str, Any]:
        traits = self.world.catalogue.hypervisors.get(self.instance.hypervisor)
        parameters = traits.parameters if traits is not None else ()
        filled = inheritance.instance_hv(self.world.view.cluster, self.instance, parameters)
        hidden = {parameter.name for parameter in parameters if parameter.cluster_only}
        return {name: value for name, value in filled.items() if name not in hidden}

    @cached_property
    def beparams(self) -> dict[str, Any]:
        return self.world.cluster_be | self.instance.beparams

    @property
    def osparams(self) -> dict[str, Any]:
        return inheritance.os_params(self.world.view.cluster, self.instance)

    @cached_property
    def _filled_nics(self) -> dict[str, dict[str, Any]]:
        return {nic.uuid: self._filled(nic) for nic in self.instance.nics}

    def nic_parameters(self, nic: Nic) -> dict[str, Any]:
        return self._filled_nics[nic.uuid]

    def _filled(self, nic: Nic) -> dict[str, Any]:
        if nic.network is None:
            return self.world.cluster_nic | nic.nicparams
        return inheritance.nic_params(self.world.view.cluster, nic, self.group)

    def nic_values(self, name: str) -> list[Any]:
        """One value per NIC: of the NIC itself, of its filled parameters, or derived from them."""
        return [nic_value(self, nic, name) for nic in self.instance.nics]

    @property
    def disk_usage_mib(self) -> int:
        """Space used on each node; mirrored disks have metadata beside their data."""
        of_each = map(traits_of, [disk.dev_type for disk in self.disks])
        metadata_mib = [traits.metadata_mib for traits in of_each if traits is not None]
        return sum([disk.size for disk in self.disks]) + sum(metadata_mib)

    @property
    def disk_template(self) -> str:
        """As `ConfigView.disk_template` tells it."""
        return template_of(self.disks)

    @property
    def user_shutdown_allowed(self) -> bool:
        allowed = self.world.view.cluster.enabled_user_shutdown
        return allowed and bool(self.hvparams.get("user_shutdown", True))

    # Live values

    @property
    def _primary_state(self) -> Missing | None:
        """Why nothing can be said about the guest, or None."""
        if self.primary is None:
            return UNAVAILABLE
        if self.primary.offline:
            return OFFLINE
        return None if self.live is not None and self.live.primary_answered else NODATA

    @property
    def status(self) -> Any:
        """The computed status; the first rule that matches (rapi, section 4)."""
        if self.primary is not None and self.primary.offline:
            return ERROR_NODE_OFFLINE
        if self.live is None or not self.live.primary_answered:
            return ERROR_NODE_DOWN
        if self.live.found_on is not None and self.live.found_on != self.instance.primary_node:
            return ERROR_WRONG_NODE
        up = self.instance.admin_state == "up"
        if self.live.info is not None and not self.live.shut_down:
            return RUNNING if up else ERROR_UP
        if self.live.shut_down:
            if not up:
                return ADMIN_DOWN
            return USER_DOWN if self.user_shutdown_allowed else ERROR_DOWN
        if up:
            return ERROR_DOWN
        if self.instance.admin_state == "offline":
            return ADMIN_OFFLINE
        by_user = self.instance.admin_state_source == "user" and self.world.view.cluster.enabled_user_shutdown
        return USER_DOWN if by_user else ADMIN_DOWN

    @property
    def running(self) -> Any:
        missing = self._primary_state
        if missing is not None:
            return missing
        return self.live is not None and self.live.info is not None and not self.live.shut_down

    @property
    def sync_percents(self) -> Any:
        """How much of each disk the second copy has; None where nothing brings it there."""
        if self.mirrors is None:
            return self._no_mirrors
        return [None if each is None else each.sync_percent if each.is_degraded else 100.0 for each in self.mirrors]

    @property
    def degraded(self) -> Any:
        """Whether a copy of a disk lacks something."""
        if self.mirrors is None:
            return self._no_mirrors
        return any(each is None or each.is_degraded for each in self.mirrors)

    @property
    def _no_mirrors(self) -> Missing:
        return NODATA if self.secondaries and self.instance.disks_active else UNAVAILABLE

    def live_value(self, key: str) -> Any:
        running = self.running
        if isinstance(running, Missing):
            return running
        if not running or self.live is None or self.live.info is None:
            return UNAVAILABLE
        return getattr(self.live.info, key)

    @property
    def console_info(self) -> Any:
        running = self.running
        if isinstance(running, Missing):
            return running
        return self.console if running and self.console is not None else UNAVAILABLE


def nic_value(row: InstanceRow, nic: Nic, name: str) -> Any:
    if name in ("mac", "ip", "name", "uuid", "network"):
        return getattr(nic, name)
    if name == "network.name":
        return row.world.view.network(nic.network).name if nic.network is not None else None
    filled = row.nic_parameters(nic)
    if name == "bridge":
        return filled["link"] if filled["mode"] == "bridged" else None
    if name == "vlan":
        return filled["vlan"] if filled["mode"] == "openvswitch" else None
    return filled[name]
