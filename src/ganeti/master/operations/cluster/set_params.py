# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_SET_PARAMS: change the parameters of the cluster."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.base.paths import IALLOCATOR_SEARCH_PATH
from ganeti.master.capacity import check_template
from ganeti.master.operation import Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.model import cluster_values
from ganeti.model.capacity import CapacityParameters
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext

AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Names = list[Annotated[str, msgspec.Meta(min_length=1)]]
NameChange = tuple[Literal["add", "remove"], Annotated[str, msgspec.Meta(min_length=1)]]

PLAIN = (
    "max_running_jobs",
    "max_tracked_jobs",
    "maintain_node_health",
    "prealloc_wipe_disks",
    "default_iallocator",
    "default_iallocator_params",
    "mac_prefix",
    "reserved_lvs",
    "use_external_mip_script",
    "modify_etc_hosts",
    "install_image",
    "zeroing_image",
    "compression_tools",
    "enabled_user_shutdown",
)
"""Parameters that are attributes of the cluster and concern nothing else."""
NAME_LISTS = ("hidden_os", "blacklisted_os")
"""Parameters that say what to add to, and remove from, a list of names."""
NotYet = Annotated[Any, msgspec.Meta(description="nodes or instances must be asked about it: not done yet")]
_NOT_YET = (
    "hv_state",
    "disk_state",
    "vg_name",
    "enabled_hypervisors",
    "hvparams",
    "beparams",
    "os_hvp",
    "osparams",
    "osparams_private_cluster",
    "diskparams",
    "candidate_pool_size",
    "uid_pool",
    "add_uids",
    "remove_uids",
    "nicparams",
    "ndparams",
    "ipolicy",
    "drbd_helper",
    "master_netdev",
    "master_netmask",
    "enabled_disk_templates",
    "file_storage_dir",
    "shared_file_storage_dir",
    "gluster_storage_dir",
    "instance_communication_network",
    "enabled_data_collectors",
    "data_collector_interval",
)


class ChangeCluster(Change, frozen=True, kw_only=True):
    """Give attributes of the cluster other values; those not named stay, as do other names of a list."""

    values: dict[str, Any] = {}
    names: dict[str, list[NameChange]] = {}

    def apply(self, draft: Draft) -> None:
        old = draft.cluster
        lists: dict[str, Any] = {}
        for attribute, changes in self.names.items():
            wanted = list(getattr(old, attribute))
            for action, name in changes:
                if action == "add" and name not in wanted:
                    wanted.append(name)
                elif action == "remove" and name in wanted:
                    wanted.remove(name)
            lists[attribute] = wanted
        new = replace(old, **self.values, **lists)
        if new != old:
            draft.put("cluster", new)


@dataclass(frozen=True)
class Checked:
    change: ChangeCluster
    notes: list[str]


@operation("OP_CLUSTER_SET_PARAMS", hooks="cluster-modify")
class ModifyCluster(Operation[None], frozen=True, kw_only=True):
    """Change parameters of the cluster; null leaves one as it is.

    Instances and nodes are not locked as long as none of the parameters that can be changed concerns them: to let
    more jobs run must not wait for the jobs that run. *capacity_params* (ours) are replaced together.
    """

    refusals: ClassVar[dict[str, str]] = cluster_values.UNUSED | {
        name: f"Of a cluster that exists, {name} cannot be changed yet: it keeps what it was made with"
        for name in _NOT_YET
    }
    emptied: ClassVar[frozenset[str]] = frozenset({"install_image", "zeroing_image", "maintain_node_health"})

    force: bool = False
    max_running_jobs: AtLeastOne | None = None
    max_tracked_jobs: AtLeastOne | None = None
    maintain_node_health: bool | None = None
    prealloc_wipe_disks: bool | None = None
    default_iallocator: str | None = None
    default_iallocator_params: dict[str, Any] | None = None
    mac_prefix: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    reserved_lvs: Names | None = None
    use_external_mip_script: bool | None = None
    modify_etc_hosts: bool | None = None
    install_image: str | None = None
    zeroing_image: str | None = None
    compression_tools: Names | None = None
    enabled_user_shutdown: bool | None = None
    hidden_os: list[NameChange] | None = None
    blacklisted_os: list[NameChange] | None = None
    capacity_params: CapacityParameters | None = None

    hv_state: NotYet = None
    disk_state: NotYet = None
    vg_name: NotYet = None
    enabled_hypervisors: NotYet = None
    hvparams: NotYet = None
    beparams: NotYet = None
    os_hvp: NotYet = None
    osparams: NotYet = None
    osparams_private_cluster: NotYet = None
    diskparams: NotYet = None
    candidate_pool_size: NotYet = None
    uid_pool: NotYet = None
    add_uids: NotYet = None
    remove_uids: NotYet = None
    nicparams: NotYet = None
    ndparams: NotYet = None
    ipolicy: NotYet = None
    drbd_helper: NotYet = None
    master_netdev: NotYet = None
    master_netmask: NotYet = None
    enabled_disk_templates: NotYet = None
    file_storage_dir: NotYet = None
    shared_file_storage_dir: NotYet = None
    gluster_storage_dir: NotYet = None
    instance_communication_network: NotYet = None
    enabled_data_collectors: NotYet = None
    data_collector_interval: NotYet = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> bool:
        """Give whether the master has the allocator that is to be the default one."""
        name = self.default_iallocator
        if not name or name == view.cluster.default_iallocator:
            return True
        if "/" in name:
            return False
        wanted = [f"{directory}/{name}" for directory in IALLOCATOR_SEARCH_PATH]
        answer = await ctx.nodes.call(view.cluster.master_node, "node_verify", checks={"filelist": wanted})
        return any(answer["filelist"][path] is not None for path in wanted)

    def check(self, view: ConfigView, facts: bool, ctx: OperationContext) -> Checked:
        missing = f"The allocator '{self.default_iallocator}' was not found in {' or '.join(IALLOCATOR_SEARCH_PATH)}"
        if not facts and not self.force:
            raise PrerequisiteError(missing, WRONG_INPUT)
        check_template(view, self.capacity_params.default_template if self.capacity_params else None)
        try:
            values = self._values()
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        names = {name: getattr(self, name) for name in NAME_LISTS if getattr(self, name)}
        notes = _needless(view, names) if facts else [f"{missing}: install it there", *_needless(view, names)]
        return Checked(ChangeCluster(values=values, names=names), notes)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = {"NEW_VG_NAME": str(self.vg_name)}

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            return {"NEW_VG_NAME": str(view.cluster.volume_group_name)}

        return Hooks(self.hooks_path, "CLUSTER", view.cluster.cluster_name, env, master, master, after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        for note in checked.notes:
            ctx.log.info(note)
        if checked.change.values or checked.change.names:
            await ctx.config.commit(checked.change, settles=True)

    def _values(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in PLAIN if getattr(self, name) is not None}
        if "mac_prefix" in values:
            values["mac_prefix"] = cluster_values.mac_prefix(values["mac_prefix"])
        if self.capacity_params is not None:
            values["capacity_params"] = self.capacity_params.plain()
        return values


def _needless(view: ConfigView, names: dict[str, list[NameChange]]) -> list[str]:
    """Say of each name that is in a list already, or not in it, that nothing is done about it."""
    notes = []
    for attribute, changes in names.items():
        there = set(getattr(view.cluster, attribute))
        for action, name in changes:
            if (action == "add") == (name in there):
                where = "already in" if action == "add" else "not found in"
                notes.append(f"OS {name} {where} {attribute}, ignoring")
            there = there | {name} if action == "add" else there - {name}
    return notes
