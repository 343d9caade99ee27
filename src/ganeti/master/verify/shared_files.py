# SPDX-License-Identifier: BSD-2-Clause
"""Whether the files that every node should have are there, and are the same.

`config.data` is compared by its fingerprint: each candidate in sync writes its own, laid out by its own history.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ganeti.base.paths import Paths
from ganeti.master.verify.asking import FileSet
from ganeti.master.verify.findings import Finding
from ganeti.master.verify.nodes import NodeReport
from ganeti.model.node_calls.verify import ConfigCopy
from ganeti.model.objects import Node


def compare(reports: Sequence[NodeReport], wanted: FileSet) -> Iterator[Finding]:
    """Compare the checksums that the nodes gave."""
    sums = {report.node.name: report.found.filelist or {} for report in reports if report.answer is not None}
    for name, found in sums.items():
        if not found:
            yield Finding("ENODEFILECHECK", name, "Node did not return file checksum data")
    nodes = {report.node.name: report.node for report in reports if sums.get(report.node.name)}
    sections = ((wanted.everywhere, False, False), (wanted.on_candidates, True, False), (wanted.optional, False, True))
    for paths, candidates_only, optional in sections:
        for path in paths:
            holders = {
                name: sums[name].get(path)
                for name, node in nodes.items()
                if node.master_candidate or not candidates_only
            }
            yield from _compare_one(path, holders, optional=optional)
    yield from _out_of_place(wanted, nodes, sums)


def _out_of_place(
    wanted: FileSet, nodes: Mapping[str, Node], sums: Mapping[str, Mapping[str, str | None]]
) -> Iterator[Finding]:
    """Name the nodes that have a file only master candidates may have."""
    for path in wanted.secret:
        names = sorted(name for name, node in nodes.items() if not node.master_candidate and sums[name].get(path))
        if names:
            yield Finding(
                "ECLUSTERFILECHECK",
                "",
                f"File {path} should not exist on node(s) {', '.join(names)}: only master candidates may have it; "
                "remove it there, or add the node with gnt-node add --readd",
            )


def config_copies(
    first: Sequence[NodeReport], second: Sequence[NodeReport], master: str, expected: Collection[str] | None
) -> Iterator[Finding]:
    """Hold the `config.data` of candidates against that of the node *master* (uuid), in two looks at all of them.

    A file that has changed between the looks is one that follows; one that has stayed as it was, and is not what the
    master's was at either look, does not. *expected* are the uuids of the nodes in sync, None where that is not known:
    of other candidates nothing is expected.
    """
    path = Paths().config_file
    before, now = _config_answers(first), _config_answers(second)
    reference = [
        found for found in (before.get(master), now.get(master)) if found is not None and found.fingerprint is not None
    ]
    right = [found.fingerprint for found in reference]
    for report in second:
        node = report.node
        if node.uuid not in now or (expected is not None and node.uuid not in expected):
            continue
        copy = now[node.uuid]
        if copy.fingerprint is None:
            yield Finding("ECLUSTERFILECHECK", "", f"File {path} is missing from node(s) {node.name}")
        elif not copy.fingerprint:
            yield Finding("ECLUSTERFILECHECK", "", f"File {path} of node {node.name} is no configuration")
        elif reference and copy.fingerprint not in right and copy == before.get(node.uuid, copy):
            yield Finding(
                "ECLUSTERFILECHECK",
                "",
                f"File {path} of node {node.name} (serial number {copy.serial_no}) does not hold what the master's "
                f"does (serial number {reference[-1].serial_no})",
            )


def _config_answers(reports: Sequence[NodeReport]) -> dict[str, ConfigCopy]:
    """By the uuid of those that were asked and could look."""
    return {report.node.uuid: copy for report in reports if (copy := report.found.config_copy) is not None}


def _compare_one(path: str, holders: Mapping[str, str | None], *, optional: bool) -> Iterator[Finding]:
    missing = sorted(name for name, checksum in holders.items() if checksum is None)
    if missing and not (optional and len(missing) == len(holders)):
        words = (
            "is optional, but it must exist on all or no nodes (not found on" if optional else "is missing from node(s)"
        )
        yield Finding("ECLUSTERFILECHECK", "", f"File {path} {words} {', '.join(missing)}{')' if optional else ''}")
    variants: dict[str, list[str]] = {}
    for name, checksum in sorted(holders.items()):
        if checksum is not None:
            variants.setdefault(checksum, []).append(name)
    if len(variants) > 1:
        told = "; ".join(f"variant {number} on {', '.join(names)}" for number, names in enumerate(variants.values(), 1))
        yield Finding("ECLUSTERFILECHECK", "", f"File {path} found with {len(variants)} different checksums ({told})")
