# SPDX-License-Identifier: BSD-2-Clause
"""What verification looks for in the configuration alone."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ganeti.base.errors import ParameterError, PrerequisiteError
from ganeti.master.config.invariants import verify_all
from ganeti.master.verify.findings import Finding
from ganeti.model.parameters import DEFAULT_MARK, accept_all
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView


def consistency(view: ConfigView) -> Iterator[Finding]:
    """Rules of the whole configuration (protocols, section 14)."""
    for problem in verify_all(view):
        yield Finding("ECLUSTERCFG", "", problem)


def damaged_jobs(found: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    """*found* are ids of jobs whose files were set aside, and where these are now."""
    for job_id, path in found:
        yield Finding(
            "ECLUSTERFILECHECK",
            "",
            f"the file of job {job_id} is damaged and lies in {path}: the job is in no list any more, and what it had "
            "done stays. See there what it was to do, submit it again if that is not done, and remove the file",
        )


def certificates(answer: Mapping[str, Any] | None, wanted: list[str], problem: str | None) -> Iterator[Finding]:
    """*answer* maps path to checksum, null for a missing file, as the master's own node daemon gives it."""
    if answer is None:
        yield Finding("ECLUSTERCERT", "", f"the certificate files could not be looked at: {problem}")
        return
    for path in wanted:
        if answer.get(path) is None:
            yield Finding("ECLUSTERCERT", "", f"certificate file {path} is missing or cannot be read")


def hypervisor_parameters(view: ConfigView, catalogue: Catalogue) -> Iterator[Finding]:
    """Names and values of all hypervisor parameters: of the cluster, of OSes, of instances."""
    cluster = view.cluster
    sets: list[tuple[str, str, Mapping[str, Any], bool]] = [
        ("cluster", name, cluster.hvparams.get(name, {}), False) for name in cluster.enabled_hypervisors
    ]
    for os_name, by_hypervisor in sorted(cluster.os_hvp.items()):
        sets += [(f"os {os_name}", name, values, False) for name, values in sorted(by_hypervisor.items())]
    sets += [
        (f"instance {instance.name}", instance.hypervisor, instance.hvparams, True) for instance in view.instances()
    ]
    without = sorted({name for _, name, _, _ in sets if name and name not in catalogue.hypervisors})
    for name in without:
        known = ", ".join(sorted(catalogue.hypervisors))
        yield Finding("ECLUSTERCFG", "", f"hypervisor {name} has no driver here: there are {known}")
    for source, name, values, for_instance in sets:
        if not name or name in without:
            continue
        given = {key: value for key, value in values.items() if value != DEFAULT_MARK}
        try:
            accept_all(catalogue.hypervisor(name).parameters, given, "hypervisor", for_instance=for_instance)
        except (ParameterError, PrerequisiteError) as err:
            yield Finding("ECLUSTERCFG", "", f"hypervisor {name} parameters syntax check (source {source}): {err}")


def incomplete_instances(view: ConfigView) -> Iterator[Finding]:
    """Instances without what every instance has that is not just a reservation of room."""
    for instance in view.instances():
        for name in ("primary_node", "hypervisor", "admin_state"):
            if not getattr(instance, name) and not instance.forthcoming:
                yield Finding(
                    "EINSTANCEMISSINGCFGPARAMETER", instance.name, f"the configuration parameter '{name}' is missing"
                )


def dangling(view: ConfigView) -> Iterator[Finding]:
    """Nodes of an unknown group, instances of an unknown node."""
    for node in view.nodes():
        if view.get("nodegroups", node.group) is None:
            yield Finding("ECLUSTERDANGLINGNODES", node.name, "the node belongs to a group that does not exist")
    for instance in view.instances():
        if instance.primary_node and view.get("nodes", instance.primary_node) is None:
            yield Finding("ECLUSTERDANGLINGINST", instance.name, "the instance has a primary node that does not exist")
