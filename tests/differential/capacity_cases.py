# SPDX-License-Identifier: BSD-2-Clause
"""Command lines of the tools that count what fits, plan reboots and switch nodes off.

The peer takes minutes to shrink instances on larger clusters, and with a limit of 0 it crashes: both are left out. So
are forthcoming instances for hspace and full evacuation where nodes are left out of the plan for hroller, where the
peer puts both copies of an instance on one node.
"""

from typing import TYPE_CHECKING

from tests.fakes.cluster_drawing import Drawing, draw

if TYPE_CHECKING:
    from tests.differential.cases import Case, Draft

_FORTHCOMING = "forthcoming"


def hspace(drawing: Drawing, new: "type[Draft]") -> "Case":
    """Small clusters of the drawing's kind."""
    kind = drawing.kind if drawing.kind not in (_FORTHCOMING, "large", "mixed") else "full"
    small = draw(drawing.seed, kind, nodes=2 + drawing.seed % 4, instances=drawing.seed % 12)
    draft = new("hspace", small)
    dice = draft.dice
    draft.text_data()
    draft.add("-v", share=0.3)
    draft.add(f"--disk-template={dice.pick(('drbd', 'drbd', 'plain', 'rbd'))}")
    draft.add("--machine-readable", share=0.6)
    draft.number("-l", 0.4, (1, 2, 3, 7, 15))
    for option in ("standard", "tiered"):
        size = f"{dice.pick((10, 40, 100))}g,{dice.pick((1, 2, 4))}g,{dice.pick((1, 2, 4))}"
        draft.add(f"--{option}-alloc={size}", share=0.6)
    draft.add("--accept-existing-errors", share=0.2)
    draft.add("--no-capacity-checks", share=0.2)
    draft.limits()
    draft.add("-S", "saved", share=0.1)
    return draft.case


def hroller(drawing: Drawing, new: "type[Draft]") -> "Case":
    """Any cluster."""
    draft = new("hroller", drawing)
    dice, groups = draft.dice, drawing.cluster.groups
    draft.text_data()
    draft.add("--print-moves", share=0.5)
    draft.add("--offline-maintenance", share=0.2)
    draft.add("--ignore-non-redundant", share=0.2)
    draft.add("--one-step-only", share=0.2)
    draft.add("--no-headers", share=0.1)
    draft.add("-f", share=0.5)
    draft.add("-v", share=0.3)
    draft.offline(0.1)
    draft.add("-G", dice.pick(groups).name, share=0.3)
    if (
        all(not node.unavailable for node in drawing.cluster.nodes)
        and len(groups) == 1
        and "-O" not in draft.case.arguments
    ):
        draft.add("--full-evacuation", share=0.4)
    else:
        draft.add("--skip-non-redundant", share=0.2)
    return draft.case


def hsqueeze(drawing: Drawing, new: "type[Draft]") -> "Case":
    """Mostly clusters of shared storage: others have no nodes to switch off."""
    if drawing.seed % 4:
        drawing = draw(drawing.seed, "shared", nodes=3 + drawing.seed % 6)
    draft = new("hsqueeze", drawing)
    draft.text_data()
    draft.number("--minimal-resources", 0.5, (0, 1, 5, 10, 20, 50, 3.7))
    draft.number("--target-resources", 0.5, (0, 1, 5, 10, 20, 50, 3.7))
    draft.add("-v", share=0.7)
    draft.add("--no-headers", share=0.1)
    draft.add("-X", share=0.1)
    draft.add(draft.dice.pick(("-C", "-Ccommands.sh")), share=0.8)
    draft.add("-S", "saved", share=0.3)
    return draft.case
