# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_VERIFY_GROUP: ask all nodes of a group, and hold their answers against the configuration."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, OtherReleaseError
from ganeti.base.natural import natural_key
from ganeti.master.hook_environment import post_environment
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import (
    ErrorCodes,
    GroupName,
    IgnoredErrors,
    Simulate,
    SkippedChecks,
    Verbose,
    VerifyClutter,
)
from ganeti.master.verify import (
    asking,
    backups,
    hook_results,
    instances,
    nodes,
    physical_volumes,
    replication,
    shared_files,
    ssh_keys,
)
from ganeti.master.verify.findings import Finding, Report, simulated
from ganeti.master.verify.nodes import NodeReport
from ganeti.model.locks import LockPlan, group_lock, instance_lock, node_lock
from ganeti.model.node_calls.backups import BackupList
from ganeti.model.node_calls.programs import HooksRunner
from ganeti.model.node_calls.storage import NodeVolumes, PhysicalVolumes
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.objects import Instance, Node, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many

SETTLE_S = 2.0
"""Files that differ are looked at once more after this time: another job's change may be on its way to the nodes."""


@dataclass(frozen=True)
class Scope:
    """The group as it is in one view."""

    view: ConfigView
    group: NodeGroup
    nodes: list[Node]
    instances: list[Instance]

    @property
    def online(self) -> list[Node]:
        return [node for node in self.nodes if not node.offline]


@operation(
    "OP_CLUSTER_VERIFY_GROUP",
    summary_field="group_name",
    hooks="cluster-verify",
    examples=(Example("cluster-verify-group", {"group_name": "default"}),),
)
class VerifyGroup(Operation[bool], frozen=True, kw_only=True):
    """Verify a group; gives whether it has no errors."""

    group_name: GroupName
    debug_simulate_errors: Simulate = False
    error_codes: ErrorCodes = False
    skip_checks: SkippedChecks = []
    ignore_errors: IgnoredErrors = []
    verbose: Verbose = False
    verify_clutter: VerifyClutter = False

    def locks(self, view: ConfigView) -> LockPlan:
        scope = self._scope(view)
        return plan(
            shared=[
                group_lock(scope.group.uuid),
                *(node_lock(node.uuid) for node in scope.nodes),
                *(instance_lock(instance.name) for instance in scope.instances),
            ]
        )

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> None:
        view.find_group(self.group_name)

    async def execute(self, checked: None, ctx: OperationContext) -> bool:
        scope = self._scope(ctx.config.view())
        work = _Work(
            ctx, scope, Report(self.error_codes, self.ignore_errors), verbose=self.verbose, clutter=self.verify_clutter
        )
        await work.run(
            assess_parameters="hvparam_assessment" not in self.skip_checks,
            check_memory="nplusone_mem" not in self.skip_checks,
            env=self._hook_env(scope, ctx.catalogue),
        )
        if self.debug_simulate_errors:
            work.tell("* Simulated errors", simulated())
        return work.report.good

    def _scope(self, view: ConfigView) -> Scope:
        group = view.find_group(self.group_name)
        members = sorted(view.group_nodes(group.uuid), key=lambda node: natural_key(node.name))
        found = view.primary_instances(*(node.uuid for node in members))
        return Scope(view, group, members, sorted(found, key=lambda instance: natural_key(instance.name)))

    def _hook_env(self, scope: Scope, catalogue: Catalogue) -> dict[str, str]:
        cluster = scope.view.cluster
        env = {"CLUSTER_TAGS": " ".join(cluster.tags)}
        env |= {f"NODE_TAGS_{node.name}": " ".join(node.tags) for node in scope.nodes}
        hooks = Hooks(self.hooks_path, "CLUSTER", cluster.cluster_name, env)
        return post_environment(scope.view, self.op_id, hooks, catalogue)


class _Work:
    """One verification: gathers, then tells section by section."""

    def __init__(
        self, ctx: OperationContext, scope: Scope, report: Report, *, verbose: bool = False, clutter: bool = False
    ) -> None:
        """*verbose* names each node and instance that is looked at; *clutter* looks for keys of unknown nodes, too."""
        self.verbose = verbose
        self.clutter = clutter
        self._minors = replication.Minors(scope.view)
        self.ctx = ctx
        self.scope = scope
        self.report = report

    def tell(self, title: str, findings: Iterable[Finding]) -> None:
        self.ctx.log.info(title)
        self._add(findings)

    def _add(self, findings: Iterable[Finding]) -> None:
        for line in self.report.add(findings):
            self.ctx.log.info(line)

    def _name(self, title: str) -> None:
        if self.verbose:
            self.ctx.log.info(title)

    async def run(self, *, assess_parameters: bool, check_memory: bool, env: dict[str, str]) -> None:
        log, scope, catalogue = self.ctx.log, self.scope, self.ctx.catalogue
        view = scope.view
        count = len(scope.online)
        log.info(f"* Verifying group '{scope.group.name}'")
        log.info(f"* Gathering data ({count} nodes)")
        log.info(f"* Gathering information about nodes ({count} nodes)")
        await self.ctx.config.flush(scope.group.uuid)  # a copy that is still under way would be taken for a difference
        answers = await self._ask(assess_parameters)
        reports = {report.node.uuid: report for report in answers}
        if self.clutter and not view.cluster.modify_ssh_setup:
            log.info("  - NOTICE: ssh is not set up by the cluster: no keys of nodes are looked for")
        log.info(f"* Gathering disk information ({count} nodes)")
        self.tell("* Verifying configuration file consistency", await self._files(answers))
        log.info("* Verifying node status")
        self._nodes(answers)
        self._add(await self._physical_volumes())
        log.info("* Verifying instance status")
        self._instances(reports)
        self.tell("* Verifying orphan volumes", self._leftovers(reports))
        if view.backups.keys:
            self.tell("* Verifying backups", await self._backups())
        if check_memory:
            self.tell("* Verifying N+1 Memory redundancy", instances.memory_redundancy(view, scope.instances, reports))
        log.info("* Other Notes")
        for line in instances.notes(view, catalogue, scope.group, scope.instances):
            log.info(line)
        self.tell("* Hooks Results", await self._hooks(env))

    async def _ask(self, assess_parameters: bool) -> list[NodeReport]:
        scope, catalogue = self.scope, self.ctx.catalogue
        disks = asking.disks_by_node(scope.view, catalogue, scope.instances)
        online = {node.uuid for node in scope.online}
        there = [instance for instance in scope.instances if instance.primary_node in online]
        links = asking.bridges(scope.view, scope.group, there)
        checks = [
            asking.node_checks(
                scope.view,
                catalogue,
                scope.online,
                index,
                disks=disks.get(node.uuid, []),
                links=links,
                assess_parameters=assess_parameters,
            )
            for index, node in enumerate(scope.online)
        ]
        return list(await asyncio.gather(*map(self._ask_one, scope.online, checks)))

    async def _ask_one(self, node: Node, checks: dict[str, Any]) -> NodeReport:
        asked = self.ctx.clock.now_s()
        try:
            answer = await ask(self.ctx.nodes, node.uuid, NodeVerify(checks=msgspec.convert(checks, NodeChecks)))
        except GanetiError as err:
            return NodeReport(node, None, str(err), isinstance(err, OtherReleaseError))
        return NodeReport(node, answer, asked_s=asked, answered_s=self.ctx.clock.now_s())

    async def _files(self, answers: list[NodeReport]) -> list[Finding]:
        view = self.scope.view
        first = [*answers, *await self._master_elsewhere()]
        found = self._differences(first, first, await self._in_sync())
        if not found:
            return found
        await self.ctx.clock.sleep(SETTLE_S)
        await self.ctx.config.flush(self.scope.group.uuid)
        reachable = [report.node for report in answers if report.answer is not None]
        again = await asyncio.gather(*(self._ask_one(node, asking.file_checks(view, node)) for node in reachable))
        return self._differences(first, [*again, *await self._master_elsewhere()], await self._in_sync())

    def _differences(
        self, first: Sequence[NodeReport], second: Sequence[NodeReport], expected: list[str] | None
    ) -> list[Finding]:
        view = self.scope.view
        group = [report for report in second if report.node.group == self.scope.group.uuid]
        found = list(shared_files.compare(group, asking.files(view)))
        found += ssh_keys.not_let_in(group, second, view)
        if self.clutter:
            found += ssh_keys.clutter(group, second, view)
        return found + list(shared_files.config_copies(first, second, view.cluster.master_node, expected))

    async def _in_sync(self) -> list[str] | None:
        """Uuids of the nodes whose `config.data` must be the master's; None where nobody can say."""
        try:
            return (await self.ctx.config.copies()).in_sync
        except GanetiError:
            return None

    async def _master_elsewhere(self) -> list[NodeReport]:
        """The files of the master that others are held against, where that is no node of this group."""
        master = self.scope.view.node(self.scope.view.cluster.master_node)
        if master.group == self.scope.group.uuid:
            return []
        return [await self._ask_one(master, asking.file_checks(self.scope.view, master))]

    def _nodes(self, answers: list[NodeReport]) -> None:
        for node in self.scope.nodes:
            if node.offline:
                self._name(f"* Skipping offline node {node.name}")
        for report in answers:
            self._name(f"* Verifying node {report.node.name} ({self._role(report.node)})")
            self._add(self._node_findings(report))
        self._add(nodes.operating_systems(answers))
        self._add(replication.versions(answers))

    def _role(self, node: Node) -> str:
        if node.uuid == self.scope.view.cluster.master_node:
            return "master"
        if node.master_candidate:
            return "master candidate"
        return "drained" if node.drained else "regular"

    def _node_findings(self, report: NodeReport) -> Iterable[Finding]:
        view, catalogue = self.scope.view, self.ctx.catalogue
        yield from nodes.reachable(report)
        yield from nodes.basics(report)
        yield from nodes.client_certificate(view, report)
        yield from nodes.certificates(report)
        yield from nodes.network(report)
        yield from nodes.hypervisors(report)
        yield from nodes.storage(report, catalogue)
        yield from nodes.programs(report)
        yield from replication.of_node(self._minors, report)

    def _instances(self, reports: dict[str, NodeReport]) -> None:
        scope, view = self.scope, self.scope.view
        self._add(instances.strange_guests(view, scope.group, reports))
        for instance in scope.instances:
            if not instance.forthcoming:
                self._name(f"* Verifying instance {instance.name}")
                self._add(self._instance_findings(instance, reports))
        self._add(instances.exclusion_tags(view, scope.instances))

    def _instance_findings(self, instance: Instance, reports: dict[str, NodeReport]) -> Iterable[Finding]:
        scope, view, catalogue = self.scope, self.scope.view, self.ctx.catalogue
        yield from instances.state(view, instance, reports)
        yield from instances.placement(view, catalogue, instance)
        yield from instances.policy(view, scope.group, instance)
        yield from instances.disks(view, instance, reports)

    def _leftovers(self, reports: dict[str, NodeReport]) -> Iterable[Finding]:
        yield from instances.orphan_disks(self.scope.view, self.ctx.catalogue, reports)
        for job_id, sentence, reason in self.ctx.master.outstanding_undo():
            yield Finding(
                "ECLUSTERCFG",
                "",
                f"job {job_id} left something behind; still to do: {sentence} ({reason}). "
                f"Once that is done, archive the job: gnt-job archive {job_id}",
            )

    async def _physical_volumes(self) -> list[Finding]:
        view = self.scope.view
        uuids = physical_volumes.exclusive(view, self.scope.online)
        unit = physical_volumes.unit_of(view, self.ctx.catalogue)
        if unit is None or not uuids:
            return []
        answers = await ask_many(self.ctx.nodes, uuids, PhysicalVolumes(unit=unit))
        volumes = await ask_many(self.ctx.nodes, uuids, NodeVolumes())
        disks = (disk for instance in self.scope.instances for disk in view.instance_disks(instance))
        return [
            *physical_volumes.differing(view, self.scope.group, answers),
            *physical_volumes.shared(view, disks, volumes),
        ]

    async def _backups(self) -> list[Finding]:
        answers = await ask_many(self.ctx.nodes, [node.uuid for node in self.scope.online], BackupList())
        return list(backups.leftovers(self.scope.view, self.scope.instances, answers))

    async def _hooks(self, env: dict[str, str]) -> list[Finding]:
        online = [node.uuid for node in self.scope.online]
        answers = await ask_many(self.ctx.nodes, online, HooksRunner(path="cluster-verify", phase="post", env=env))
        return list(hook_results.findings(self.scope.view, answers))
