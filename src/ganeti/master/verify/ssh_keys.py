# SPDX-License-Identifier: BSD-2-Clause
"""Whether each node lets root of every master candidate in: a node that becomes the master must reach them all."""

from collections.abc import Iterator, Sequence

from ganeti.master.verify.findings import Finding
from ganeti.master.verify.nodes import NodeReport
from ganeti.model.node_calls.verify import SshKeys
from ganeti.model.view import ConfigView


def not_let_in(reports: Sequence[NodeReport], all_reports: Sequence[NodeReport], view: ConfigView) -> Iterator[Finding]:
    """Hold what the nodes of *reports* let in against the keys that the master knows; its own is in *all_reports*.

    A candidate without a key that the master knows has none: that was told when it became one.
    """
    master = view.cluster.master_node
    known = _known(all_reports, view)
    candidates = [node for node in view.nodes() if node.master_candidate and known.get(node.uuid)]
    for report in reports:
        if (keys := report.found.ssh_keys) is None:
            continue
        let_in = frozenset(keys.let_in)
        names = [
            node.name for node in candidates if node.uuid != report.node.uuid and let_in.isdisjoint(known[node.uuid])
        ]
        if names:
            again = ", ".join(names) if report.node.uuid == master else report.node.name
            yield Finding(
                "ENODESSH",
                report.node.name,
                f"root of master candidate(s) {', '.join(names)} is not let in over ssh: gnt-node add --readd {again} "
                "enters what is missing",
            )


def clutter(reports: Sequence[NodeReport], all_reports: Sequence[NodeReport], view: ConfigView) -> Iterator[Finding]:
    """Keys that are marked as a node's and are of no node, or not its present ones (`verify_clutter`)."""
    known = _known(all_reports, view)
    names = {node.uuid: node.name for node in view.nodes()}
    for report in reports:
        if (keys := report.found.ssh_keys) is None:
            continue
        for uuid, marked in sorted(keys.marked.items()):
            if uuid in names and not known:
                continue
            extra = [key for key in marked if key not in known.get(uuid, [])]
            whose = f"{names[uuid]} that it has no longer" if uuid in names else "a node that is not in the cluster"
            if extra:
                yield Finding(
                    "ENODESSH",
                    report.node.name,
                    f"authorized_keys of root lets in {len(extra)} key(s) of {whose}: remove the lines that end with "
                    f"ganeti-node:{uuid}",
                )


def _known(all_reports: Sequence[NodeReport], view: ConfigView) -> dict[str, list[str]]:
    """Digests of keys by node, as the master knows them."""
    master = view.cluster.master_node
    return next((each.found.ssh_keys or SshKeys() for each in all_reports if each.node.uuid == master), SshKeys()).known
