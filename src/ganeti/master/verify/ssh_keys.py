# SPDX-License-Identifier: BSD-2-Clause
"""Whether each node lets root of every master candidate in: whoever may become the master must reach them all."""

from collections.abc import Iterator, Sequence
from typing import Any

from ganeti.master.verify.findings import Finding
from ganeti.master.verify.nodes import NodeReport
from ganeti.model.view import ConfigView

_NOTHING: dict[str, Any] = {"let-in": [], "known": {}}


def not_let_in(reports: Sequence[NodeReport], all_reports: Sequence[NodeReport], view: ConfigView) -> Iterator[Finding]:
    """Hold what the nodes of *reports* let in against the keys that the master knows; its own is in *all_reports*.

    A candidate without a key that the master knows has none: that was told when it became one.
    """
    master = view.cluster.master_node
    known: dict[str, list[str]] = next(
        (_part(report)["known"] for report in all_reports if report.node.uuid == master), {}
    )
    candidates = [node for node in view.nodes() if node.master_candidate and known.get(node.uuid)]
    for report in reports:
        if report.answer is None or report.part("ssh-keys", None) is None:
            continue
        let_in = frozenset(_part(report)["let-in"])
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


def _part(report: NodeReport) -> dict[str, Any]:
    part: dict[str, Any] = report.part("ssh-keys", _NOTHING)
    return part
