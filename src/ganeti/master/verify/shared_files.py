# SPDX-License-Identifier: BSD-2-Clause
"""Whether the files that every node should have are there, and are the same."""

from collections.abc import Iterator, Mapping, Sequence

from ganeti.master.verify.asking import FileSet
from ganeti.master.verify.findings import Finding
from ganeti.master.verify.nodes import NodeReport


def compare(reports: Sequence[NodeReport], wanted: FileSet) -> Iterator[Finding]:
    """Compare the checksums that the nodes gave."""
    sums = {report.node.name: _checksums(report) for report in reports if report.answer is not None}
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


def _checksums(report: NodeReport) -> Mapping[str, str | None]:
    found: Mapping[str, str | None] = report.part("filelist", {})
    return found


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
