# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_SET_PARAMS: change the parameters of the cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.base.paths import IALLOCATOR_SEARCH_PATH
from ganeti.master.capacity import check_template
from ganeti.master.maintenance.changes import ChangeMaintenance
from ganeti.master.operation import Example, Hooks, operation
from ganeti.master.operations.cluster import communication, diagnose_command, drivers, inherited_parameters
from ganeti.master.operations.cluster.cluster_parameters import NameChange
from ganeti.master.operations.cluster.communication import SetCommunicationNetwork
from ganeti.master.operations.cluster.maintenance_parameters import WithMaintenance
from ganeti.master.operations.cluster.master_ip import faults_of_places, move_master_address, without_script
from ganeti.master.operations.cluster.os_parameters import unknown_parameters
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.candidates import fill_pool, next_candidates
from ganeti.master.unsuitable_nodes import Groups, newly_unsuitable
from ganeti.model import cluster_values, data_collectors, inheritance, uid_pool
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_GROUPS, ALL_INSTANCES, ALL_NODES, LockPlan, node_lock
from ganeti.model.node_calls.instances import HypervisorValidateParams
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.objects import Node
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many

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
INHERITED = (
    *("hvparams", "os_hvp", "beparams", "nicparams", "ndparams", "diskparams", "osparams"),
    "osparams_private_cluster",
)
"""Parameters that are dictionaries which instances, nodes or disks inherit."""
STATES = ("hv_state", "disk_state")
"""Dictionaries of what is recorded; the cluster keeps them under a longer name."""
DIRECTORIES = ("file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir")
ADDRESS = ("master_netdev", "master_netmask")
"""Parameters of the master's address, which moves with them."""
_WORKED_OUT = ("uid_pool", "ipolicy", "hvparams")
"""Values that are only looked at before the commit: they are made of those that are there then."""


class ChangeCluster(Change, frozen=True, kw_only=True):
    """Give attributes of the cluster other values; those not named stay, as do other names of a list.

    Jobs change the cluster side by side: what depends on the old value is worked out when it is committed.
    """

    values: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    """By attribute: what changes in a dictionary that is inherited from."""
    names: dict[str, list[NameChange]] = {}
    uid_ranges: list[list[list[int]]] = []
    """User ids to add to the pool and to take from it, where they are named."""
    policy: dict[str, Any] = {}
    """What changes of the instance policy."""
    active_collectors: dict[str, bool] = {}
    collector_intervals_us: dict[str, int] = {}
    maintenance: dict[str, Any] = {}
    """How the maintenance daemon is to act."""

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
        if self.uid_ranges:
            more, less = self.uid_ranges
            new = replace(new, uid_pool=uid_pool.removed(uid_pool.added(new.uid_pool, more), less))
        if self.policy:
            new = replace(
                new, ipolicy=inherited_parameters.policy(new.ipolicy, self.policy, new.enabled_disk_templates)
            )
        if "enabled_hypervisors" in self.values:
            new = replace(new, hvparams={**{name: {} for name in new.enabled_hypervisors}, **new.hvparams})
        new = inherited_parameters.changed(new, self.parameters)
        if new != old:
            draft.put("cluster", new)
        ChangeMaintenance(values=self.maintenance).apply(draft)


@dataclass(frozen=True)
class Facts:
    has_allocator: bool = True
    """Whether the master has the allocator that is to be the default one."""
    problems: Sequence[str] = ()
    """Why nodes cannot use what is newly enabled."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Checked:
    change: ChangeCluster
    address: dict[str, Any]
    """What changes of the master's address."""
    notes: list[str]
    network: SetCommunicationNetwork | None


@contextmanager
def _refusing() -> Iterator[None]:
    """What the model refuses is wrong input here."""
    try:
        yield
    except ParameterError as err:
        raise PrerequisiteError(err.message, WRONG_INPUT) from err


@operation(
    "OP_CLUSTER_SET_PARAMS",
    hooks="cluster-modify",
    cli=Command("gnt-cluster modify", "change parameters of the cluster", modifies="cluster"),
    rapi="PUT /2/modify",
    examples=(
        Example("cluster-limit", {"max_running_jobs": 17}),
        Example("cluster-backend", {"beparams": {"vcpus": 2}}),
        Example("cluster-candidates", {"candidate_pool_size": 4}),
        Example("cluster-netmask", {"master_netmask": 24}),
        Example("cluster-maintenance", {"maint_round_delay": 60, "max_running_jobs": 18}),
        Example("cluster-communication", {"instance_communication_network": "talk"}),
    ),
)
class ModifyCluster(WithMaintenance, frozen=True, kw_only=True):
    """Change parameters of the cluster; null leaves one as it is.

    Instances and nodes are locked only for what they inherit: to let more jobs run must not wait for the jobs that
    run. A dictionary that is given changes only the keys that it names, and ``default`` takes one back.
    The *capacity_params* are replaced together.
    """

    def locks(self, view: ConfigView) -> LockPlan:
        """The big lock, what inherits or uses the values, and nodes that become candidates."""
        promoted = [node_lock(node.uuid) for node in self._promoted(view)]
        groups = [ALL_GROUPS] if self.instance_communication_network is not None else []
        if not (self._inherited() or self.ipolicy or self._of_drivers()):
            return plan(exclusive=[*promoted, *groups])
        if groups:
            return plan(shared=[ALL_INSTANCES], exclusive=[ALL_NODES, ALL_GROUPS])
        if promoted:
            return plan(shared=[ALL_INSTANCES, ALL_GROUPS], exclusive=[ALL_NODES])
        return plan(shared=[ALL_NODES, ALL_INSTANCES, ALL_GROUPS])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        """Ask the master for the allocator, and nodes for what parameters, drivers and directories need."""
        if self.hvparams:
            await self._check_on_nodes(ctx, view)
        problems, notes = await unknown_parameters(ctx, view, self.osparams or {}, self.osparams_private_cluster or {})
        if self._of_drivers():
            with _refusing():
                changes = inherited_parameters.read({"hvparams": self.hvparams or {}}, ctx.catalogue)
                new = replace(view.cluster, **self._driver_values(view, ctx.catalogue))
            new = inherited_parameters.changed(new, changes)
            problems += await drivers.node_problems(ctx, view.cluster, new)
        command = self.diagnose_data_collector_filename
        if command and data_collectors.is_command(command):
            without = await diagnose_command.missing(ctx, view, command)
            problems += [without.problem] if without.problem else []
            notes += [without.note] if without.note else []
        if any(getattr(self, name) is not None for name in ADDRESS):
            problems += await self._problems_of_address(ctx, view)
        if self.use_external_mip_script and not view.cluster.use_external_mip_script:
            notes += await without_script(ctx, view)
        return Facts(await self._finds_allocator(ctx, view), problems, notes)

    async def _problems_of_address(self, ctx: OperationContext, view: ConfigView) -> list[str]:
        with _refusing():
            values = self._values(view)
        moves = any(name in values for name in ADDRESS)
        wanted = {name: values[name] for name in (*ADDRESS, "use_external_mip_script") if name in values}
        return await faults_of_places(ctx, view, replace(view.cluster, **wanted)) if moves else []

    async def _finds_allocator(self, ctx: OperationContext, view: ConfigView) -> bool:
        name = self.default_iallocator
        if not name or name == view.cluster.default_iallocator:
            return True
        if "/" in name:
            return False
        wanted = [f"{directory}/{name}" for directory in IALLOCATOR_SEARCH_PATH]
        answer = await ask(ctx.nodes, view.cluster.master_node, NodeVerify(checks=NodeChecks(filelist=wanted)))
        return any((answer.filelist or {}).values())

    async def _check_on_nodes(self, ctx: OperationContext, view: ConfigView) -> None:
        nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
        with _refusing():
            changes = inherited_parameters.read({"hvparams": self.hvparams}, ctx.catalogue)
            user_ids = self._values(view).get("uid_pool")
        cluster = inherited_parameters.changed(view.cluster, changes)
        for name in sorted(set(changes["hvparams"]) & set(cluster.enabled_hypervisors)):
            filled = inheritance.cluster_hv(cluster, name, "", ctx.catalogue.hypervisor(name).parameters)
            request = HypervisorValidateParams(hypervisor=name, hvparams=filled, user_ids=user_ids)
            for answer in await ask_many(ctx.nodes, nodes, request):
                if answer.error is not None:
                    node = view.node(answer.node_uuid).name
                    raise PrerequisiteError(
                        f"Node {node} refuses the parameters of {name}: {answer.error}", WRONG_INPUT
                    )

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        missing = f"The allocator '{self.default_iallocator}' was not found in {' or '.join(IALLOCATOR_SEARCH_PATH)}"
        problems = [*facts.problems, *([] if facts.has_allocator else [f"{missing}: install it there"])]
        if problems and not self.force:
            raise PrerequisiteError(problems[0] if facts.problems else missing, WRONG_INPUT)
        check_template(view, self.capacity_params.default_template if self.capacity_params else None)
        with _refusing():
            values = self._values(view) | self._driver_values(view, ctx.catalogue)
            parameters = inherited_parameters.read(self._inherited(), ctx.catalogue)
            inherited_parameters.check(view, parameters)
            if self.ipolicy:
                enabled = values.get("enabled_disk_templates", view.cluster.enabled_disk_templates)
                values["ipolicy"] = inherited_parameters.policy(view.cluster.ipolicy, self.ipolicy, enabled)
            if self.enabled_disk_templates is not None:
                drivers.check_policies(view, replace(view.cluster, **values))
            self._check_collectors(view, ctx.catalogue)
        names = {name: getattr(self, name) for name in NAME_LISTS if getattr(self, name)}
        notes = [*problems, *facts.notes, *_needless(view, names), *self._of_candidates(view)]
        if "ipolicy" in values:
            notes += inherited_parameters.newly_outside(view, replace(view.cluster, ipolicy=values["ipolicy"]))
        if "ndparams" in parameters:
            changed = inherited_parameters.changed(view.cluster, parameters)
            notes += newly_unsuitable(ctx.catalogue, Groups(view, cluster=changed))
        address = {name: values.pop(name) for name in ADDRESS if name in values}
        for name in _WORKED_OUT:
            values.pop(name, None)
        change = ChangeCluster(
            values=values | ({"uid_pool": uid_pool.checked(self.uid_pool)} if self.uid_pool is not None else {}),
            parameters=parameters,
            names=names,
            uid_ranges=self._uid_ranges(),
            policy=self.ipolicy or {},
            active_collectors=self.enabled_data_collectors or {},
            collector_intervals_us=self.data_collector_interval or {},
            maintenance=self.maintenance_values(),
        )
        network = communication.planned(view, self.instance_communication_network, ctx.entropy.uuid())
        return Checked(change, address, notes, network)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        master = [view.cluster.master_node]
        env = {"NEW_VG_NAME": str(self.vg_name)}

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            return {"NEW_VG_NAME": str(view.cluster.volume_group_name)}

        return Hooks(self.hooks_path, "CLUSTER", view.cluster.cluster_name, env, master, master, after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        for note in checked.notes:
            ctx.log.info(note)
        old = ctx.config.view().cluster
        if checked.address:
            back = ChangeCluster(values={name: getattr(old, name) for name in ADDRESS})
            new = replace(old, **checked.address)
            await move_master_address(ctx, new, ChangeCluster(values=checked.address), back)
        if checked.change != ChangeCluster():
            await ctx.config.commit(checked.change, settles=True)
        if checked.network is not None:
            await ctx.config.commit(checked.network, settles=True)
        await drivers.ensure_user_shutdown(ctx, old)
        if self.candidate_pool_size is not None:
            await fill_pool(ctx)

    def _uid_ranges(self) -> list[list[list[int]]]:
        if self.add_uids is None and self.remove_uids is None:
            return []
        return [[list(pair) for pair in given or []] for given in (self.add_uids, self.remove_uids)]

    def _inherited(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in INHERITED if getattr(self, name)}
        return given | {f"{name}_static": getattr(self, name) for name in STATES if getattr(self, name)}

    def _of_drivers(self) -> bool:
        given = (
            self.enabled_hypervisors,
            self.enabled_disk_templates,
            self.vg_name,
            self.drbd_helper,
            *(getattr(self, name) for name in DIRECTORIES),
        )
        return any(value is not None for value in given)

    def _driver_values(self, view: ConfigView, catalogue: Catalogue) -> dict[str, Any]:
        """What is enabled and where its disks lie; raises `ParameterError`, `PrerequisiteError`."""
        values: dict[str, Any] = {
            name: drivers.checked_directory(name, given)
            for name in DIRECTORIES
            if (given := getattr(self, name)) is not None
        }
        if self.vg_name is not None:
            values["volume_group_name"] = self.vg_name or None
        if self.drbd_helper is not None:
            values["drbd_usermode_helper"] = drivers.checked_helper(self.drbd_helper)
        if self.enabled_hypervisors is not None:
            values["enabled_hypervisors"] = drivers.checked_hypervisors(view, self.enabled_hypervisors, catalogue)
            without: dict[str, Any] = {
                name: {} for name in self.enabled_hypervisors if name not in view.cluster.hvparams
            }
            values |= {"hvparams": {**view.cluster.hvparams, **without}} if without else {}
        if self.enabled_disk_templates is not None:
            values["enabled_disk_templates"] = drivers.checked_templates(view, self.enabled_disk_templates, catalogue)
        if values:
            drivers.check_directories(replace(view.cluster, **values), catalogue)
        return values

    def _promoted(self, view: ConfigView) -> list[Node]:
        return next_candidates(view, pool_size=self.candidate_pool_size) if self.candidate_pool_size else []

    def _of_candidates(self, view: ConfigView) -> list[str]:
        there = sum(node.master_candidate for node in view.nodes())
        if self.candidate_pool_size is None or there <= self.candidate_pool_size:
            return []
        return [
            f"There are {there} master candidates, more than the {self.candidate_pool_size} that are wanted: they stay "
            "until one is demoted with gnt-node modify -C no"
        ]

    def _check_collectors(self, view: ConfigView, catalogue: Catalogue) -> None:
        """Raises `ParameterError`."""
        active, intervals_us = self.enabled_data_collectors or {}, self.data_collector_interval or {}
        known = {*catalogue.collectors, *data_collectors.NAMES_OF_3_1, *view.cluster.data_collectors}
        data_collectors.check([*active, *intervals_us], intervals_us, known)
        if (name := self.diagnose_data_collector_filename) and not data_collectors.is_command(name):
            raise ParameterError(f"'{name}' cannot be the name of a diagnose command: use letters, digits, '-' and '_'")

    def _values(self, view: ConfigView) -> dict[str, Any]:
        """Plain values, and those of `ADDRESS` that change; raises `ParameterError`."""
        values = {name: getattr(self, name) for name in PLAIN if getattr(self, name) is not None}
        for name, form in cluster_values.FORMS.items():
            if name in values:
                values[name] = form(values[name])
        if "diagnose_data_collector_filename" in values:
            values["diagnose_data_collector_filename"] = values["diagnose_data_collector_filename"] or None
        if self.candidate_pool_size is not None:
            values["candidate_pool_size"] = self.candidate_pool_size
        if self.master_netdev is not None:
            values["master_netdev"] = cluster_values.network_device(self.master_netdev)
        if self.master_netmask is not None:
            longest = ip_address(view.cluster.master_ip).max_prefixlen
            values["master_netmask"] = cluster_values.master_netmask(self.master_netmask, longest)
        for name in ADDRESS:
            if values.get(name) == getattr(view.cluster, name):
                del values[name]
        if any(ids is not None for ids in (self.uid_pool, self.add_uids, self.remove_uids)):
            pool = view.cluster.uid_pool if self.uid_pool is None else uid_pool.checked(self.uid_pool)
            values["uid_pool"] = uid_pool.removed(uid_pool.added(pool, self.add_uids or []), self.remove_uids or [])
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
