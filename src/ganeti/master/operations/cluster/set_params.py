# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_SET_PARAMS: change the parameters of the cluster."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.base.paths import IALLOCATOR_SEARCH_PATH
from ganeti.master.capacity import check_template
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.cluster import inherited_parameters
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import (
    CapacityOptions,
    ClusterPolicy,
    DiskParameters,
    DiskState,
    HypervisorState,
    NodeParameters,
    Text,
    Values,
)
from ganeti.master.parameter import Parameter, Refused
from ganeti.model import cluster_values, data_collectors, inheritance
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_GROUPS, ALL_INSTANCES, ALL_NODES, LockPlan
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext

AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
NameChange = tuple[Literal["add", "remove"], Text]

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
    "diagnose_data_collector_filename",
)
"""Parameters that are attributes of the cluster and concern nothing else."""
NAME_LISTS = ("hidden_os", "blacklisted_os")
"""Parameters that say what to add to, and remove from, a list of names."""
INHERITED = ("hvparams", "os_hvp", "beparams", "nicparams", "ndparams", "diskparams", "osparams")
"""Parameters that are dictionaries which instances, nodes or disks inherit."""
_NOT_YET = Refused("Of a cluster that exists, {name} cannot be changed yet: it keeps what it was made with")
"""Nodes or instances must be asked about these."""


def _unused(name: str, *, emptied: bool = False) -> Refused:
    """Nothing acts on this setting, which `config.data` of 3.1 may carry; what was imported can be *emptied*."""
    return Refused(cluster_values.UNUSED[name], emptied=emptied)


class ChangeCluster(Change, frozen=True, kw_only=True):
    """Give attributes of the cluster other values; those not named stay, as do other names of a list."""

    values: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    """By attribute: what changes in a dictionary that is inherited from."""
    names: dict[str, list[NameChange]] = {}
    active_collectors: dict[str, bool] = {}
    collector_intervals_us: dict[str, int] = {}

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
        settings = data_collectors.changed(old.data_collectors, self.active_collectors, self.collector_intervals_us)
        new = replace(old, **self.values, **lists, data_collectors=settings)
        new = inherited_parameters.changed(new, self.parameters)
        if new != old:
            draft.put("cluster", new)


@dataclass(frozen=True)
class Checked:
    change: ChangeCluster
    notes: list[str]


@operation(
    "OP_CLUSTER_SET_PARAMS",
    hooks="cluster-modify",
    cli=Command("gnt-cluster modify", "change parameters of the cluster", modifies="cluster"),
    rapi="PUT /2/modify",
    examples=(
        Example("cluster-limit", {"max_running_jobs": 17}),
        Example("cluster-backend", {"beparams": {"vcpus": 2}}),
    ),
)
class ModifyCluster(Operation[None], frozen=True, kw_only=True):
    """Change parameters of the cluster; null leaves one as it is.

    Instances and nodes are locked only for what they inherit: to let more jobs run must not wait for the jobs that
    run. A dictionary that is given changes only the keys that it names, and ``default`` takes one back.
    *capacity_params* (ours) are replaced together.
    """

    force: Annotated[bool, Parameter("do not ask, and go on where that is possible", "-f", "--force")] = False
    max_running_jobs: Annotated[
        AtLeastOne | None, Parameter("how many jobs may run at a time", "--max-running-jobs")
    ] = None
    max_tracked_jobs: Annotated[
        AtLeastOne | None,
        Parameter("kept for Ganeti 3.1; here the changes of all jobs are seen at once", "--max-tracked-jobs"),
    ] = None
    maintain_node_health: Annotated[
        bool | None,
        Parameter("stop what should not run", "--maintain-node-health"),
        _unused("maintain_node_health", emptied=True),
    ] = None
    prealloc_wipe_disks: Annotated[bool | None, Parameter("wipe disks before use", "--prealloc-wipe-disks")] = None
    default_iallocator: Annotated[
        str | None, Parameter("allocator to use", "-I", "--default-iallocator", subject="object", metavar="NAME")
    ] = None
    default_iallocator_params: Annotated[Values | None, Parameter("its parameters", "--default-iallocator-params")] = (
        None
    )
    mac_prefix: Annotated[
        Text | None, Parameter("how MAC addresses begin", "-m", "--mac-prefix", metavar="XX:XX:XX")
    ] = None
    reserved_lvs: Annotated[
        list[Text] | None, Parameter("volumes that are none of ours", "--reserved-lvs"), _unused("reserved_lvs")
    ] = None
    use_external_mip_script: Annotated[
        bool | None, Parameter("the site's own script sets up the master address", "--use-external-mip-script")
    ] = None
    modify_etc_hosts: Annotated[bool | None, Parameter("keep nodes in /etc/hosts", "--modify-etc-hosts")] = None
    install_image: Annotated[
        str | None,
        Parameter("image for installing guests", "--install-image", metavar="IMAGE"),
        _unused("install_image", emptied=True),
    ] = None
    zeroing_image: Annotated[
        str | None,
        Parameter("image for zeroing free space", "--zeroing-image", metavar="IMAGE"),
        _unused("zeroing_image", emptied=True),
    ] = None
    compression_tools: Annotated[
        list[Text] | None,
        Parameter("tools instances may be sent with", "--compression-tools"),
        _unused("compression_tools"),
    ] = None
    enabled_user_shutdown: Annotated[bool | None, Parameter("guests may shut themselves down", "--user-shutdown")] = (
        None
    )
    hidden_os: Annotated[list[NameChange] | None, Parameter("OSes to hide from lists, or to show again")] = None
    blacklisted_os: Annotated[
        list[NameChange] | None, Parameter("OSes that new instances cannot have, or can have again")
    ] = None
    capacity_params: CapacityOptions | None = None

    hv_state: Annotated[HypervisorState | None, _NOT_YET] = None
    disk_state: Annotated[DiskState | None, _NOT_YET] = None
    vg_name: Annotated[
        str | None,
        Parameter('LVM volume group; "" for none', "--vg-name", subject="file name", metavar="NAME"),
        _NOT_YET,
    ] = None
    enabled_hypervisors: Annotated[
        list[Text] | None,
        Parameter("the first is the default", "--enabled-hypervisors", subject="hypervisor"),
        _NOT_YET,
    ] = None
    hvparams: Annotated[
        dict[str, Values] | None, Parameter("hypervisor parameters", "-H", "--hypervisor-parameters")
    ] = None
    beparams: Annotated[Values | None, Parameter("backend parameters", "-B", "--backend-parameters")] = None
    os_hvp: Annotated[
        dict[str, dict[str, Values]] | None, Parameter("hypervisor parameters of instances with an OS")
    ] = None
    osparams: Annotated[dict[str, Values] | None, Parameter("parameters of an OS", subject="text")] = None
    osparams_private_cluster: Annotated[
        dict[str, Values] | None, Parameter("parameters of an OS that are not shown", subject="text"), _NOT_YET
    ] = None
    diskparams: DiskParameters | None = None
    candidate_pool_size: Annotated[
        AtLeastOne | None, Parameter("how many master candidates", "-C", "--candidate-pool-size"), _NOT_YET
    ] = None
    uid_pool: Annotated[
        list[tuple[int, int]] | None, Parameter("user ids for guests", "--uid-pool", kind="ranges"), _NOT_YET
    ] = None
    add_uids: Annotated[
        list[tuple[int, int]] | None,
        Parameter("add to the user ids for guests", "--add-uids", kind="ranges"),
        _NOT_YET,
    ] = None
    remove_uids: Annotated[
        list[tuple[int, int]] | None,
        Parameter("remove from the user ids for guests", "--remove-uids", kind="ranges"),
        _NOT_YET,
    ] = None
    nicparams: Annotated[Values | None, Parameter("NIC parameters", "-N", "--nic-parameters")] = None
    ndparams: NodeParameters | None = None
    ipolicy: ClusterPolicy | None = None
    drbd_helper: Annotated[
        str | None,
        Parameter("helper of the mirror's kernel part", "--drbd-usermode-helper", metavar="PATH"),
        _NOT_YET,
    ] = None
    master_netdev: Annotated[
        str | None, Parameter("device of the master address", "--master-netdev", metavar="DEVICE"), _NOT_YET
    ] = None
    master_netmask: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        Parameter("prefix length of the master address", "--master-netmask"),
        _NOT_YET,
    ] = None
    enabled_disk_templates: Annotated[
        list[Text] | None,
        Parameter("the first is the default", "--enabled-disk-templates", subject="disk template"),
        _NOT_YET,
    ] = None
    file_storage_dir: Annotated[
        str | None,
        Parameter("where disks in files lie", "--file-storage-dir", subject="path", metavar="DIR"),
        _NOT_YET,
    ] = None
    shared_file_storage_dir: Annotated[
        str | None,
        Parameter("the same on all nodes", "--shared-file-storage-dir", subject="path", metavar="DIR"),
        _NOT_YET,
    ] = None
    gluster_storage_dir: Annotated[
        str | None, Parameter("where gluster is mounted", subject="path", metavar="DIR"), _NOT_YET
    ] = None
    instance_communication_network: Annotated[
        str | None,
        Parameter("network over which guests reach their node", "--instance-communication-network", metavar="NETWORK"),
        _NOT_YET,
    ] = None
    enabled_data_collectors: Annotated[
        dict[str, bool] | None, Parameter("which ones measure", "--enabled-data-collectors", kind="name-yesno")
    ] = None
    data_collector_interval: Annotated[
        dict[str, int] | None,
        Parameter(
            "how often they do (microseconds; seconds on the command line)",
            *("--data-collector-interval",),
            kind="name-seconds",
            metavar="NAME=SECONDS",
        ),
    ] = None
    diagnose_data_collector_filename: Annotated[
        str | None,
        Parameter(
            "command in /etc/ganeti/node-diagnose-commands that says how a node is; empty for none",
            "--diagnose-data-collector-filename",
            metavar="NAME",
        ),
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        if not self._inherited() and not self.ipolicy:
            return plan()
        return plan(shared=[ALL_NODES, ALL_INSTANCES, ALL_GROUPS])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> bool:
        """Give whether the master has the allocator that is to be the default one; nodes refuse hypervisor parameters.

        The nodes look for the files that those name.
        """
        if self.hvparams:
            await self._check_on_nodes(ctx, view)
        name = self.default_iallocator
        if not name or name == view.cluster.default_iallocator:
            return True
        if "/" in name:
            return False
        wanted = [f"{directory}/{name}" for directory in IALLOCATOR_SEARCH_PATH]
        answer = await ctx.nodes.call(view.cluster.master_node, "node_verify", checks={"filelist": wanted})
        return any(answer["filelist"][path] is not None for path in wanted)

    async def _check_on_nodes(self, ctx: OperationContext, view: ConfigView) -> None:
        nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
        try:
            changes = inherited_parameters.read({"hvparams": self.hvparams}, ctx.catalogue)
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        cluster = inherited_parameters.changed(view.cluster, changes)
        for name in sorted(set(changes["hvparams"]) & set(cluster.enabled_hypervisors)):
            filled = inheritance.cluster_hv(cluster, name, "", ctx.catalogue.hypervisor(name).parameters)
            for answer in await ctx.nodes.call_many(
                nodes, "hypervisor_validate_params", hypervisor=name, hvparams=filled
            ):
                if answer.error is not None:
                    node = view.node(answer.node_uuid).name
                    raise PrerequisiteError(
                        f"Node {node} refuses the parameters of {name}: {answer.error}", WRONG_INPUT
                    )

    def check(self, view: ConfigView, facts: bool, ctx: OperationContext) -> Checked:
        missing = f"The allocator '{self.default_iallocator}' was not found in {' or '.join(IALLOCATOR_SEARCH_PATH)}"
        if not facts and not self.force:
            raise PrerequisiteError(missing, WRONG_INPUT)
        check_template(view, self.capacity_params.default_template if self.capacity_params else None)
        try:
            values = self._values()
            parameters = inherited_parameters.read(self._inherited(), ctx.catalogue)
            inherited_parameters.check(view, parameters)
            if self.ipolicy:
                enabled = view.cluster.enabled_disk_templates
                values["ipolicy"] = inherited_parameters.policy(view.cluster.ipolicy, self.ipolicy, enabled)
            self._check_collectors(view)
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        active, intervals_us = self.enabled_data_collectors or {}, self.data_collector_interval or {}
        names = {name: getattr(self, name) for name in NAME_LISTS if getattr(self, name)}
        notes = _needless(view, names) if facts else [f"{missing}: install it there", *_needless(view, names)]
        if "ipolicy" in values:
            notes += inherited_parameters.newly_outside(view, replace(view.cluster, ipolicy=values["ipolicy"]))
        change = ChangeCluster(
            values=values,
            parameters=parameters,
            names=names,
            active_collectors=active,
            collector_intervals_us=intervals_us,
        )
        return Checked(change, notes)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = {"NEW_VG_NAME": str(self.vg_name)}

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            return {"NEW_VG_NAME": str(view.cluster.volume_group_name)}

        return Hooks(self.hooks_path, "CLUSTER", view.cluster.cluster_name, env, master, master, after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        for note in checked.notes:
            ctx.log.info(note)
        if checked.change != ChangeCluster():
            await ctx.config.commit(checked.change, settles=True)

    def _inherited(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in INHERITED if getattr(self, name)}

    def _check_collectors(self, view: ConfigView) -> None:
        """Raises `ParameterError`."""
        active, intervals_us = self.enabled_data_collectors or {}, self.data_collector_interval or {}
        data_collectors.check([*active, *intervals_us], intervals_us, view.cluster.data_collectors)
        if (name := self.diagnose_data_collector_filename) and not data_collectors.is_command(name):
            raise ParameterError(f"'{name}' cannot be the name of a diagnose command: use letters, digits, '-' and '_'")

    def _values(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in PLAIN if getattr(self, name) is not None}
        if "mac_prefix" in values:
            values["mac_prefix"] = cluster_values.mac_prefix(values["mac_prefix"])
        if "diagnose_data_collector_filename" in values:
            values["diagnose_data_collector_filename"] = values["diagnose_data_collector_filename"] or None
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
