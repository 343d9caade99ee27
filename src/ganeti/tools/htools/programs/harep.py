# SPDX-License-Identifier: BSD-2-Clause
"""``harep``: repair instances whose nodes are offline, as far as tags allow it (spec: htools, 14).

Each run takes every instance one step: it looks after the jobs of the last run, and starts what is broken now.
"""

import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ganeti.master.maintenance import repair_tags
from ganeti.master.maintenance.breakage import broken
from ganeti.master.maintenance.repair_tags import Policy, Repair, State
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.programs import execution, program
from ganeti.tools.htools.programs.session import Session
from ganeti.wire.job_file import FINAL_STATUSES
from ganeti.wire.job_file import SUCCESS as JOB_SUCCESS

if TYPE_CHECKING:
    from ganeti.placement.cluster.picture import Cluster, Instance
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.programs.execution import Opcode

_NAMES = {
    repair_tags.FIX_STORAGE: "ArFixStorage",
    repair_tags.MIGRATE: "ArMigrate",
    repair_tags.FAILOVER: "ArFailover",
    repair_tags.REINSTALL: "ArReinstall",
}
"""What the kinds of repair are called in what 3.1 prints."""
FAILED, HEALTHY, NEEDS_REPAIR, PENDING = "Failure", "Healthy", "Needs repair", "Pending repair"
_TITLE = "Instance status count"


@dataclass
class _Patient:
    """An instance, what may be done to it, where it stands, and the word for that."""

    instance: "Instance"
    policy: Policy
    state: State
    word: str = HEALTHY

    @property
    def name(self) -> str:
        return self.instance.name


class _Run:
    """One run: the cluster's jobs are asked for and submitted through *session*."""

    def __init__(self, session: Session, options: "Options") -> None:
        self._session, self._options = session, options
        self._origin = execution.Origin("harep", "automated repairs by", options.reason)

    def look_after(self, patient: _Patient) -> bool:
        """Tag an instance whose repair has ended with the result; whether it has."""
        latest = patient.state.latest
        if latest is None or not patient.state.is_pending:
            return False
        patient.word = PENDING
        statuses = execution.statuses(self._session, latest.jobs)
        if any(status not in FINAL_STATUSES and status != execution.GONE for status in statuses):
            return False
        well = all(status == JOB_SUCCESS for status in statuses)
        result = repair_tags.SUCCESS if well else repair_tags.FAILURE
        patient.word = HEALTHY if well else FAILED
        print(f'Moving {patient.name} from "{PENDING}" to "{patient.word}"')
        self._tag(patient, repair_tags.ended(latest, result, time.time()))
        return True

    def repair(self, patient: _Patient, kind: str, opcodes: "list[Opcode]") -> None:
        """Start what an instance needs, or tell why not."""
        allowed = patient.policy.allowed
        if not allowed:
            print(f"Not repairing {patient.name} because it's in state {patient.policy.reason}")
            return
        repair = Repair(kind, str(uuid.uuid4()), int(time.time()), "", [])
        if repair_tags.TYPES.index(kind) > repair_tags.TYPES.index(allowed):
            print(
                f"Not performing a repair of type {_NAMES[kind]} on {patient.name} because only repairs up to"
                f" {_NAMES[allowed]} are allowed"
            )
            patient.word = NEEDS_REPAIR
            self._tag(patient, repair_tags.ended(repair, repair_tags.NO_PERMISSION, repair.moment_s))
            return
        print(f"Executing {_NAMES[kind]} repair on {patient.name}")
        try:
            jobs = self._submit([[*_delay(self._options.job_delay_s), *opcodes]])
        except execution.Refusal as refusal:
            print(f"The master daemon refuses that: {refusal.why}")
            patient.word = FAILED
            self._tag(patient, repair_tags.ended(repair, repair_tags.FAILURE, repair.moment_s))
            return
        patient.word = PENDING
        self._tag(patient, replace(repair, jobs=jobs))

    def _tag(self, patient: _Patient, repair: Repair) -> None:
        """Say in the tags where an instance stands now, in place of what said it before."""
        old = [tag for tag in patient.state.tags if tag != repair.tag]
        print(f'>>> Adding the following tag to {patient.name}:\n"{repair.tag}"')
        self._change_tags("OP_TAGS_SET", patient.name, [repair.tag])
        if old:
            print(f">>> Removing the following tags from {patient.name}:", *(f'"{tag}"' for tag in old), sep="\n")
            self._change_tags("OP_TAGS_DEL", patient.name, old)
        patient.state = State(repair, [repair.tag])

    def _change_tags(self, opcode: str, name: str, tags: list[str]) -> None:
        if self._options.dry_run:
            return
        jobs = self._submit([[{"OP_ID": opcode, "kind": "instance", "tags": tags, "name": name}]])
        failed = [
            f"{job}=>{status}" for job, status in execution.wait(self._session, jobs).items() if status != "success"
        ]
        if failed and not self._are_gone(opcode, name, tags):
            raise ToolError(f"The following jobs failed: {', '.join(failed)}")

    def _are_gone(self, opcode: str, name: str, tags: list[str]) -> bool:
        """Whether tags that cannot be taken away are not there: somebody else has seen that the repair has ended."""
        return opcode == "OP_TAGS_DEL" and not set(tags) & set(self._session.ask("QueryTags", "instance", name))

    def _submit(self, jobs: "list[list[Opcode]]") -> list[int]:
        sys.stdout.flush()
        if self._options.dry_run:
            print(f"jobs: {json.dumps(jobs, separators=(',', ':'))}")
            return []
        return execution.submit(self._session, jobs, self._origin)


def repair_cluster(options: "Options") -> int:
    """Take every instance one step on; gives the exit status. Raises `GanetiError` for what cannot be done."""
    from ganeti.tools.htools.command_line.option_values import luxi_socket
    from ganeti.tools.htools.loading.sources import load

    options.luxi = options.luxi or luxi_socket()
    cluster = load(options).cluster
    patients = _patients(cluster)
    offline = _offline(cluster)
    with Session(options.luxi) as session:
        run = _Run(session, options)
        if any([run.look_after(patient) for patient in patients]):
            patients, offline = _as_now(patients, load(options).cluster)
        for patient in patients:
            if patient.word == HEALTHY and (found := _broken(patient.instance, offline)) is not None:
                run.repair(patient, *found)
    rule = "-" * len(_TITLE)
    print(rule, _TITLE, rule, sep="\n")
    counts = Counter(patient.word for patient in patients)
    for word in (FAILED, HEALTHY, NEEDS_REPAIR, PENDING):
        if counts[word]:
            print(f"{word}: {counts[word]}")
    return 0


def _as_now(patients: list[_Patient], cluster: "Cluster") -> "tuple[list[_Patient], set[str]]":
    """The instances that are still there, and the offline nodes: a repair may have ended after they were read."""
    found = {instance.name: instance for instance in cluster.instances}
    left = [replace(patient, instance=found[patient.name]) for patient in patients if patient.name in found]
    return left, _offline(cluster)


def _offline(cluster: "Cluster") -> set[str]:
    return {node.name for node in cluster.nodes if node.unavailable}


def _patients(cluster: "Cluster") -> list[_Patient]:
    now_s = time.time()
    group_of = {node.name: node.group for node in cluster.nodes}
    group_tags = {group.uuid: group.tags for group in cluster.groups}
    found = []
    for instance in cluster.instances:
        levels = (instance.tags, group_tags.get(group_of[instance.primary], ()), cluster.tags)
        patient = _Patient(instance, repair_tags.policy(levels, now_s), repair_tags.state(instance.name, instance.tags))
        if patient.state.has_failed:
            patient.word = FAILED
        found.append(patient)
    return found


def _broken(instance: "Instance", offline: set[str]) -> "tuple[str, list[Opcode]] | None":
    return broken(instance.name, instance.template, instance.primary, instance.secondary, offline)


def _delay(delay_s: float) -> "list[Opcode]":
    """An opcode that holds a repair back, so that its tag is set before it begins."""
    if delay_s <= 0:
        return []
    duration_s = int(delay_s) if delay_s == int(delay_s) else delay_s
    rest = {"on_master": True, "on_nodes": [], "repeat": 0, "interruptible": False, "no_locks": False}
    return [{"OP_ID": "OP_TEST_DELAY", "duration": duration_s, **rest}]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("harep", arguments, repair_cluster)
