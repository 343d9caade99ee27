# SPDX-License-Identifier: BSD-2-Clause
"""What verification finds about single nodes, from their answers to `node_verify`."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.master.verify.findings import WARNING, Finding
from ganeti.model.node_calls.certificates import digests_of
from ganeti.model.node_calls.operating_systems import OsStatus
from ganeti.model.node_calls.verify import Failure, NodeFindings
from ganeti.model.objects import CONFIG_VERSION, Node
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

MAX_CLOCK_SKEW_S = 150.0
EXPIRES_SOON_S = 30 * 86400.0
RELEASE = "3.1"
_UNUSABLE = {
    "file_storage_dir": ("ENODEFILESTORAGEPATHUNUSABLE", "file storage path"),
    "shared_file_storage_dir": ("ENODESHAREDFILESTORAGEPATHUNUSABLE", "shared file storage path"),
    "gluster_storage_dir": ("ENODEGLUSTERSTORAGEPATHUNUSABLE", "gluster storage path"),
    "volume_group_name": ("ENODELVM", "volume group"),
}


@dataclass(frozen=True)
class NodeReport:
    """A node's answer, and between which times of the master it was given."""

    node: Node
    answer: NodeFindings | None
    error: str = ""
    """Why there is no answer."""
    is_other_release: bool = False
    """It does not know what it was asked."""
    asked_s: float = 0.0
    answered_s: float = 0.0

    @property
    def found(self) -> NodeFindings:
        """The answer; nothing is found where there is none."""
        return self.answer if self.answer is not None else _NOTHING


_NOTHING = NodeFindings()


def reachable(report: NodeReport) -> Iterator[Finding]:
    if report.is_other_release:
        yield Finding("ENODEVERSION", report.node.name, report.error)
        return
    if report.answer is None:
        yield Finding("ENODERPC", report.node.name, f"while contacting node: {report.error}")
        return
    for key, reason in report.answer.failures.items():
        yield Finding("ENODERPC", report.node.name, f"the check '{key}' failed: {reason}")


def basics(report: NodeReport) -> Iterator[Finding]:
    """Version and clock."""
    name = report.node.name
    version = report.found.version
    if version is not None:
        if version[0] != CONFIG_VERSION:
            yield Finding(
                "ENODEVERSION", name, f"incompatible protocol versions: master {CONFIG_VERSION}, node {version[0]}"
            )
        elif version[1] != RELEASE:
            yield Finding(
                "ENODEVERSION", name, f"software version mismatch: master {RELEASE}, node {version[1]}", WARNING
            )
    moment = report.found.time
    if moment is not None:
        now = moment[0] + moment[1] / 1_000_000
        skew = max(report.asked_s - now, now - report.answered_s)
        if skew > MAX_CLOCK_SKEW_S:
            yield Finding("ENODETIME", name, f"Node time diverges by at least {skew:.1f}s from master node time")


def network(report: NodeReport) -> Iterator[Finding]:
    name = report.node.name
    for other, reason in sorted((report.found.node_net_test or {}).items()):
        yield Finding("ENODENET", name, f"tcp communication with node '{other}': {reason}")
    if report.found.master_ip is False:
        yield Finding("ENODENET", name, "the master node's IP is not reachable")
    for address in report.found.held_addresses or []:
        yield Finding(
            "ENODENET",
            name,
            f"has the cluster's address {address}, which only the master may have: take it off (ip address del)",
        )
    missing = report.found.bridges
    if missing:
        yield Finding("ENODENET", name, f"missing bridges: {', '.join(missing)}")


def hypervisors(report: NodeReport) -> Iterator[Finding]:
    name = report.node.name
    for hypervisor, sentences in sorted((report.found.hypervisor or {}).items()):
        for sentence in sentences:
            yield Finding("ENODEHV", name, f"hypervisor {hypervisor} verify failure: '{sentence}'")
    for hypervisor, sentences in sorted((report.found.hypervisor_cautions or {}).items()):
        for sentence in sentences:
            yield Finding("ENODEHV", name, f"hypervisor {hypervisor}: {sentence}", WARNING)
    for source, hypervisor, sentence in report.found.hvparms or []:
        yield Finding(
            "ENODEHV", name, f"hypervisor {hypervisor} parameter verify failure (source {source}): {sentence}"
        )


def storage(report: NodeReport, catalogue: Catalogue) -> Iterator[Finding]:
    name = report.node.name
    forbidden = report.found.allowed_file_storage_paths
    if forbidden:
        yield Finding("ENODEFILESTORAGEPATHS", name, f"Found forbidden file storage paths: {'; '.join(forbidden)}")
    told = set()
    for unit, sentences in sorted((report.found.storage or {}).items()):
        setting = catalogue.template(unit.split(" ", 1)[0]).setting
        code, words = _UNUSABLE.get(setting, ("ENODESETUP", "storage"))
        for sentence in sentences:
            finding = Finding(code, name, f"The configured {words} is unusable: {sentence}")
            if finding not in told:  # several templates may have their disks in one place
                told.add(finding)
                yield finding


def programs(report: NodeReport) -> Iterator[Finding]:
    name = report.node.name
    for sentence in report.found.oob_paths or []:
        yield Finding("ENODEOOBPATH", name, f"out-of-band program: {sentence}")
    exposed = report.found.file_modes
    if exposed:
        yield Finding(
            "ENODEFILECHECK", name, f"files with wrong owners or modes: {', '.join(exposed)}; run ensure-dirs there"
        )
    missing = report.found.user_scripts
    if missing:
        yield Finding("ENODEUSERSCRIPTS", name, f"user scripts not present or not executable: {', '.join(missing)}")


def client_certificate(view: ConfigView, report: NodeReport) -> Iterator[Finding]:
    """A candidate must show the certificate that the configuration knows it by."""
    node = report.node
    if report.answer is None:
        return
    digest = report.answer.client_cert
    if not digest:
        yield Finding("ECLUSTERCLIENTCERT", "", f"node {node.name} has no client certificate")
        return
    known = digests_of(view.cluster.candidate_certs, node.uuid)
    if node.master_candidate and not known:
        yield Finding("ECLUSTERCLIENTCERT", "", f"the certificate of the candidate {node.name} is not known")
    elif node.master_candidate and digest not in known:
        yield Finding(
            "ECLUSTERCLIENTCERT", "", f"the certificate of node {node.name} is not the one in the configuration"
        )
    elif node.master_candidate and len(known) > 1:
        yield Finding(
            "ECLUSTERCLIENTCERT",
            "",
            f"node {node.name} is known by two certificates, for the renewal was not completed: run gnt-cluster "
            "renew-crypto --new-node-certificates",
            WARNING,
        )
    elif not node.master_candidate and known:
        yield Finding(
            "ECLUSTERCLIENTCERT", "", f"node {node.name} is no master candidate, but its certificate counts as one's"
        )


def certificates(report: NodeReport) -> Iterator[Finding]:
    """Certificates that have expired, or will soon; by the master's clock."""
    name = report.node.name
    for path, expiry in sorted((report.found.certificates or {}).items()):
        if isinstance(expiry, Failure):
            yield Finding("ECLUSTERCERT", "", f"certificate file {path} of node {name} {expiry.error}")
        if not isinstance(expiry, int | float):
            continue
        day = datetime.datetime.fromtimestamp(expiry, datetime.UTC).date().isoformat()
        if expiry <= report.answered_s:
            yield Finding("ECLUSTERCERT", "", f"certificate {path} of node {name} expired on {day}")
        elif expiry <= report.answered_s + EXPIRES_SOON_S:
            yield Finding("ECLUSTERCERT", "", f"certificate {path} of node {name} expires on {day}", WARNING)


def operating_systems(reports: Sequence[NodeReport]) -> Iterator[Finding]:
    """All nodes that can run instances must have the same OSes; the first of them is the reference."""
    known = [(report.node.name, _by_name(report.found.oslist)) for report in reports if report.found.oslist is not None]
    if not known:
        return
    reference_name, reference = known[0]
    for name, found in known:
        for os_name, entries in found.items():
            first = entries[0]
            if not first.valid:
                yield Finding("ENODEOS", name, f"Invalid OS {os_name} (located at {first.path}): {first.message}")
            if len(entries) > 1:
                paths = ", ".join(entry.path for entry in entries)
                yield Finding(
                    "ENODEOS", name, f"OS {os_name} has multiple entries (first one shadows the rest): {paths}", WARNING
                )
            if first.valid and name != reference_name:
                yield from _differences(name, os_name, first, reference_name, reference.get(os_name))
        missing = sorted(set(reference) - set(found))
        if missing:
            yield Finding(
                "ENODEOS",
                name,
                f"OSes present on reference node {reference_name} but missing on this node: {', '.join(missing)}",
            )


def _by_name(entries: Sequence[OsStatus]) -> dict[str, list[OsStatus]]:
    found: dict[str, list[OsStatus]] = {}
    for entry in entries:
        if entry.name:
            found.setdefault(entry.name, []).append(entry)
    return found


def _differences(
    name: str,
    os_name: str,
    mine: OsStatus,
    reference_name: str,
    reference: Sequence[OsStatus] | None,
) -> Iterator[Finding]:
    if reference is None:
        yield Finding("ENODEOS", name, f"Extra OS {os_name} not present on reference node {reference_name}")
        return
    theirs = reference[0]
    if not theirs.valid:
        return
    for what, key in (("API version", "api_versions"), ("variants list", "variants"), ("parameters", "parameters")):
        one, other = sorted(getattr(mine, key)), sorted(getattr(theirs, key))
        if one != other:
            yield Finding(
                "ENODEOS",
                name,
                f"OS {os_name} for {what} differs from reference node {reference_name}: "
                f"{_shown(one)} vs. {_shown(other)}",
            )


def _shown(values: Sequence[Any]) -> str:
    return "[" + ", ".join(": ".join(each) if isinstance(each, list | tuple) else str(each) for each in values) + "]"
