# SPDX-License-Identifier: BSD-2-Clause
"""What verification finds, and the lines it is told in (protocols, section 19)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

CLUSTER, GROUP, NODE, INSTANCE = "cluster", "group", "node", "instance"

CODES: dict[str, str] = {
    "ECLUSTERCERT": CLUSTER,
    "ECLUSTERCFG": CLUSTER,
    "ECLUSTERCLIENTCERT": CLUSTER,
    "ECLUSTERDANGLINGINST": NODE,
    "ECLUSTERDANGLINGNODES": NODE,
    "ECLUSTERFILECHECK": CLUSTER,
    "EEXTAGS": NODE,
    "EGROUPDIFFERENTPVSIZE": GROUP,
    "EINSTANCEBADNODE": INSTANCE,
    "EINSTANCEDOWN": INSTANCE,
    "EINSTANCEFAULTYDISK": INSTANCE,
    "EINSTANCELAYOUT": INSTANCE,
    "EINSTANCEMISSINGCFGPARAMETER": INSTANCE,
    "EINSTANCEMISSINGDISK": INSTANCE,
    "EINSTANCEPOLICY": INSTANCE,
    "EINSTANCESPLITGROUPS": INSTANCE,
    "EINSTANCEUNSUITABLENODE": INSTANCE,
    "EINSTANCEWRONGNODE": INSTANCE,
    "ENODEDRBD": NODE,
    "ENODEDRBDHELPER": NODE,
    "ENODEDRBDVERSION": NODE,
    "ENODEFILECHECK": NODE,
    "ENODEFILESTORAGEPATHS": NODE,
    "ENODEFILESTORAGEPATHUNUSABLE": NODE,
    "ENODEGLUSTERSTORAGEPATHUNUSABLE": NODE,
    "ENODEHOOKS": NODE,
    "ENODEHV": NODE,
    "ENODELVM": NODE,
    "ENODEN1": NODE,
    "ENODENET": NODE,
    "ENODEOOBPATH": NODE,
    "ENODEORPHANINSTANCE": NODE,
    "ENODEORPHANLV": NODE,
    "ENODEOS": NODE,
    "ENODERPC": NODE,
    "ENODESETUP": NODE,
    "ENODESHAREDFILESTORAGEPATHUNUSABLE": NODE,
    "ENODESSH": NODE,
    "ENODETIME": NODE,
    "ENODEUSERSCRIPTS": NODE,
    "ENODEVERSION": NODE,
}
"""Every code, and the kind of object it speaks of."""

ERROR, WARNING = "ERROR", "WARNING"


@dataclass(frozen=True)
class Finding:
    code: str
    name: str
    """Name of the object; empty for the cluster."""
    message: str
    severity: str = ERROR


@dataclass
class Report:
    """How findings are told, and whether any of them is an error."""

    error_codes: bool = False
    ignored: Collection[str] = ()
    good: bool = True
    lines: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> list[str]:
        """Give the lines of *findings*."""
        told = [self._line(finding) for finding in findings]
        self.lines += told
        return told

    def _line(self, finding: Finding) -> str:
        severity = WARNING if finding.code in self.ignored else finding.severity
        if severity == ERROR:
            self.good = False
        kind = CODES[finding.code]
        if self.error_codes:
            return f"  - {severity}:{finding.code}:{kind}:{finding.name or None}:{finding.message}"
        return f"  - {severity}: {kind} {finding.name}: {finding.message}"


def simulated() -> list[Finding]:
    """One finding of every code, for trying out what reads the lines (`debug_simulate_errors`)."""
    return [Finding(code, "" if kind == CLUSTER else "simulated", "simulated error") for code, kind in CODES.items()]
