# SPDX-License-Identifier: BSD-2-Clause
"""The order in which a cluster is taken over and given back, from its master over ssh.

What must hold: before `begin` or `back` changes anything, every node has been asked and nothing speaks against it.
An interrupted one is completed by the same command.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ganeti.base.errors import WRONG_STATE, CommandError, GanetiError, PrerequisiteError
from ganeti.base.version import RELEASE
from ganeti.bootstrap.initial_config import ssconf_of
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.remote import Remote
from ganeti.master.config import versions
from ganeti.master.config.invariants import verify_all
from ganeti.master.instance_spec import disk_spec
from ganeti.model.configuration import Configuration
from ganeti.model.inheritance import group_nd
from ganeti.model.objects import CLUSTER_KEY, CONFIG_VERSION, Node
from ganeti.node import certificates
from ganeti.node.catalogue import build_catalogue
from ganeti.node.certificates import Authority
from ganeti.system.files import write_atomically
from ganeti.tools import cfgupgrade
from ganeti.tools.take_over import findings
from ganeti.tools.take_over.messages import BEFORE, TAKEN, Done, GiveBack, Guest, Survey, SurveyAnswer, Take
from ganeti.tools.take_over.node_part import NodePart
from ganeti.tools.take_over.unfinished_jobs import unfinished_jobs

HELPER = "tools/take-over"
_AUTHORITY = "taken-over.authority"
"""Kept until the last node is taken over, so that all nodes get certificates of one authority."""
_OLDEST_RUNNING = (3, 0)


@dataclass
class Plan:
    """What has been found out before anything is changed."""

    config: Configuration
    plain: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    cares: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    surveys: dict[str, SurveyAnswer] = field(default_factory=dict)
    """By the node's name."""

    def check(self) -> None:
        """Raise `PrerequisiteError` with everything that speaks against it."""
        if self.problems:
            raise PrerequisiteError("Nothing was changed:\n  " + "\n  ".join(self.problems), WRONG_STATE)


class ClusterPart:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._paths = machine.paths
        self._own = NodePart(machine)
        self._catalogue = build_catalogue()

    def plan(self) -> Plan:
        """Look at the configuration and at every node for a take-over; changes nothing. Raises `GanetiError`."""
        plain = cfgupgrade.read(self._paths.config_file)
        if self._own.state == TAKEN and not os.path.exists(f"{self._paths.data_dir}/{_AUTHORITY}"):
            raise PrerequisiteError("This cluster is taken over already: there is nothing to do", WRONG_STATE)
        found = versions.check_upgradable(plain)
        if found < _OLDEST_RUNNING:
            raise PrerequisiteError(
                f"This cluster is of version {found[0]}.{found[1]}: a running cluster is taken over from 3.0 or 3.1; "
                "upgrade it to 3.0 first",
                WRONG_STATE,
            )
        before = json.loads(json.dumps(plain))
        changes = versions.upgrade(plain, _no_uuid)
        plan = Plan(Configuration.from_plain(plain), plain, changes=changes)
        plan.problems += [f"the configuration: {problem}" for problem in verify_all(plan.config)]
        plan.problems += findings.obstacles(plan.config, self._catalogue)
        plan.cares += findings.cares(before, plan.config, self._catalogue)
        self._check_here(plan)
        self._look(plan)
        return plan

    def plan_back(self) -> Plan:
        """Look at everything for the way back; changes nothing. Raises `GanetiError`."""
        if self._own.state != TAKEN:
            raise PrerequisiteError("This node is not taken over: there is nothing to give back", WRONG_STATE)
        plain = self._plain_back()
        plan = Plan(Configuration.from_plain(plain), plain)
        plan.problems += findings.not_for_3_0(plan.config)
        self._check_here(plan)
        self._look(plan, back=True)
        plan.problems += [
            f"{name} was no node of the earlier Ganeti: remove it from the cluster first"
            for name, surveys in plan.surveys.items()
            if surveys.state == TAKEN and not surveys.old_digest
        ]
        return plan

    def begin(self, plan: Plan, say: Callable[[str], None]) -> list[str]:
        """Take the cluster over; gives the guests that run on. Raises `GanetiError`."""
        plan.check()
        for node in reversed(self._master_last(plan)):
            self._do(plan, node, "stop")  # those that an interrupted one has started
        authority = self._authority(plan.config.cluster.cluster_name)
        pems = {node.uuid: self._certificate(plan, authority, node) for node in plan.config.nodes()}
        self._set_digests(plan, {uuid: certificates.digest(pem) for uuid, pem in pems.items()})
        guests: list[str] = []
        for node in self._master_last(plan):
            files = {"ca.pem": authority.certificate, "server.pem": pems[node.uuid], "client.pem": pems[node.uuid]}
            files |= {f"ssconf_{key}": text for key, text in ssconf_of(plan.config).items()}
            if node.master_candidate:
                files["ca.key"] = authority.key
            if node.uuid == plan.config.cluster.master_node:
                files["config.data"] = msgspec.json.encode(plan.config.to_plain()).decode()
            done = self._ask(plan, node, "take", Take(guests=self._guests(plan, node), files=files))
            guests += done.guests
            say(f"{node.name} is taken over, {len(done.guests)} guests run on")
        for node in self._master_last(plan):
            self._do(plan, node, "start")
            say(f"the daemons of {node.name} run")
        with suppress(FileNotFoundError):
            os.unlink(f"{self._paths.data_dir}/{_AUTHORITY}")
        return sorted(guests)

    def back(self, plan: Plan, say: Callable[[str], None]) -> list[str]:
        """Give the cluster back to Ganeti 3.0; gives the guests that run on. Raises `GanetiError`."""
        plan.check()
        for node in reversed(self._master_last(plan)):
            self._do(plan, node, "stop")
            say(f"the daemons of {node.name} have ended")
        plan.config = Configuration.from_plain(self._plain_back())
        digests = {node.uuid: plan.surveys[node.name].old_digest for node in self._master_last(plan)}
        self._set_digests(plan, digests)
        plain = plan.config.to_plain()
        for sentence in versions.downgrade(plain, self._catalogue):
            say(sentence)
        if kept := self._keep_present():
            say(f"the configuration of before is kept as {kept}: the keys of backups are in it")
        text = msgspec.json.encode(plain).decode()
        guests: list[str] = []
        for node in self._master_last(plan):
            files = {
                f"ssconf_{key}": value for key, value in ssconf_of(plan.config).items() if key != "release_version"
            }
            if node.master_candidate:
                files["config.data"] = text
            done = self._ask(plan, node, "give-back", GiveBack(guests=self._guests(plan, node), files=files))
            guests += done.guests
            say(f"{node.name} is given back, {len(done.guests)} guests run on")
        return sorted(guests)

    def _plain_back(self) -> dict[str, Any]:
        """The configuration for the way back; an interrupted one may have left it downgraded already."""
        plain = cfgupgrade.read(self._paths.config_file)
        if versions.version_of(plain) == versions.DOWNGRADED:
            plain["version"] = CONFIG_VERSION
        return plain

    def _keep_present(self) -> str | None:
        """Keep `config.data` beside itself for what 3.0 cannot hold; gives the file, None if it is downgraded."""
        if versions.version_of(cfgupgrade.read(self._paths.config_file)) == versions.DOWNGRADED:
            return None
        kept = f"{self._paths.config_file}.given-back"
        with open(self._paths.config_file, "rb") as file:
            write_atomically(kept, file.read(), mode=0o600)
        return kept

    def _check_here(self, plan: Plan) -> None:
        master = plan.config.node(plan.config.cluster.master_node).name
        if master.partition(".")[0] != self._machine.hostname.partition(".")[0]:
            raise PrerequisiteError(f"The master is {master}: run this there", WRONG_STATE)
        jobs = unfinished_jobs(self._paths.queue_dir)
        if jobs:
            plan.problems.append(
                f"jobs {', '.join(map(str, jobs[:10]))} have not ended: drain the queue (gnt-cluster queue drain), and "
                "wait for them or cancel them"
            )

    def _look(self, plan: Plan, *, back: bool = False) -> None:
        systems = sorted({instance.os.partition("+")[0] for instance in plan.config.instances() if instance.os})
        for node in self._master_last(plan):
            asked = Survey(
                back=back,
                cluster_name=plan.config.cluster.cluster_name,
                hypervisors=[
                    name for name in plan.config.cluster.enabled_hypervisors if name in self._catalogue.hypervisors
                ],
                guests=self._guests(plan, node),
                systems=systems,
            )
            try:
                surveys = plan.surveys[node.name] = self._ask_survey(plan, node, asked)
            except GanetiError as err:
                plan.problems.append(str(err))
                continue
            if surveys.release != RELEASE:
                plan.problems.append(f"{node.name} has release {surveys.release} of this program, this node {RELEASE}")
            if surveys.state not in (BEFORE, TAKEN):
                plan.problems.append(f"{node.name} has no data of a cluster")
            plan.problems += [f"{node.name}: {problem}" for problem in surveys.problems]
            plan.cares += [f"{node.name}: {remark}" for remark in surveys.remarks]

    def _master_last(self, plan: Plan) -> list[Node]:
        """Nodes that take part, in an order in which the master can still ask all others."""
        master = plan.config.cluster.master_node
        online = [node for node in plan.config.nodes() if not node.offline]
        return sorted(online, key=lambda node: (node.uuid == master, node.name))

    def _guests(self, plan: Plan, node: Node) -> list[Guest]:
        config = plan.config
        found = []
        for instance in config.instances():
            known = instance.hypervisor in self._catalogue.hypervisors
            if instance.primary_node != node.uuid or not known:
                continue
            disks = [disk for disk in config.instance_disks(instance) if disk.dev_type in self._catalogue.templates]
            found.append(
                Guest(
                    name=instance.name,
                    uuid=instance.uuid,
                    hypervisor=instance.hypervisor,
                    network_port=instance.network_port,
                    tags=instance.tags,
                    disks=[disk_spec(config, self._catalogue, instance, disk, at) for at, disk in enumerate(disks)],
                    plain_disks=[disk.to_plain() for disk in disks],
                )
            )
        return found

    def _authority(self, cluster_name: str) -> Authority:
        path = f"{self._paths.data_dir}/{_AUTHORITY}"
        with suppress(FileNotFoundError), open(path, encoding="ascii") as file:
            return Authority(**json.load(file))
        made = certificates.create_authority(cluster_name)
        plain = {"key": made.key, "certificate": made.certificate}
        write_atomically(path, json.dumps(plain).encode(), mode=0o400)
        return made

    def _certificate(self, plan: Plan, authority: Authority, node: Node) -> str:
        addresses = [node.primary_ip, node.secondary_ip]
        if node.master_capable:
            addresses.append(plan.config.cluster.master_ip)
        return certificates.issue_node_certificate(
            authority, node.name, plan.config.cluster.cluster_name, filter(None, addresses)
        )

    def _set_digests(self, plan: Plan, digests: dict[str, str]) -> None:
        candidates = [node.uuid for node in plan.config.nodes() if node.master_candidate]
        kept = {uuid: digests[uuid] for uuid in candidates if uuid in digests}
        cluster = msgspec.structs.replace(plan.config.cluster, candidate_certs=kept)
        plan.config.put("cluster", CLUSTER_KEY, cluster)

    def _ask_survey(self, plan: Plan, node: Node, asked: Survey) -> SurveyAnswer:
        if node.uuid == plan.config.cluster.master_node:
            return self._own.survey(asked)
        return msgspec.json.decode(
            self._remote(plan, node, "survey", msgspec.json.encode(asked).decode()), type=SurveyAnswer
        )

    def _ask(self, plan: Plan, node: Node, action: str, asked: Take | GiveBack) -> Done:
        if node.uuid == plan.config.cluster.master_node:
            return self._own.take(asked) if isinstance(asked, Take) else self._own.give_back(asked)
        return msgspec.json.decode(self._remote(plan, node, action, msgspec.json.encode(asked).decode()), type=Done)

    def _do(self, plan: Plan, node: Node, action: str) -> None:
        if node.uuid == plan.config.cluster.master_node:
            self._own.start() if action == "start" else self._own.stop()
        else:
            self._remote(plan, node, action, "{}")

    def _remote(self, plan: Plan, node: Node, action: str, text: str) -> str:
        """What the part on *node* answers; raises `CommandError`."""
        config = plan.config
        port = int(group_nd(config.cluster, config.group(node.group))["ssh_port"])
        remote = Remote(self._machine, node.name, config.cluster.cluster_name, port)
        try:
            return remote.run(HELPER, text, "node", action)
        except CommandError as err:
            if "No such file" in str(err) or "not found" in str(err):
                raise CommandError(
                    f"{node.name} does not have this program: install the package there, too. Nodes with different "
                    "Ganetis in one cluster are not possible, because they cannot talk to each other"
                ) from err
            raise


def _no_uuid() -> str:
    raise PrerequisiteError("The configuration has disks or NICs without UUID: upgrade it to 3.0 first", WRONG_STATE)


def sentences(title: str, lines: Iterable[str]) -> list[str]:
    """A list under its title, for people; nothing for an empty one."""
    found = list(lines)
    return [title, *(f"  - {line}" for line in found)] if found else []
