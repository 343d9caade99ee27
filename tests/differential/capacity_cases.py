# SPDX-License-Identifier: BSD-2-Clause
"""Command lines of the tools that count what fits, plan reboots and switch nodes off.

The peer's hspace takes minutes to shrink instances on larger clusters, and with a limit of 0 it crashes: both are left
out. So is full evacuation where nodes are left out of the plan for hroller, where the peer puts both copies of an
instance on one node.
"""

from typing import TYPE_CHECKING

from tests.fakes.cluster_drawing import Drawing, draw

if TYPE_CHECKING:
    from tests.differential.cases import Case, Draft


def hspace(drawing: Drawing, new: "type[Draft]") -> "Case":
    """Clusters of the drawing's kind, so small that the peer shrinks instances within seconds."""
    kind = drawing.kind if drawing.kind not in ("large", "mixed") else "full"
    seed = drawing.seed
    small = draw(seed, kind, nodes=1 + seed % 17 if seed % 29 == 0 else 2 + seed % 5, instances=seed * 7 % 16)
    draft = new("hspace", small)
    dice = draft.dice
    if dice.chance(0.12):
        _simulated(draft)
    else:
        draft.text_data()
        draft.offline(0.1)
    draft.verbosity()
    draft.add(f"--disk-template={dice.pick(_TEMPLATES)}", share=0.9)
    draft.add("--machine-readable", share=0.5)
    draft.number("-l", 0.4, (1, 2, 3, 4, 5, 7, 11, 15, 40))
    draft.add(f"--standard-alloc={_size(draft)}", share=0.6)
    draft.add(f"--tiered-alloc={_size(draft)}", share=0.85)
    draft.number("--spindle-use", 0.15, (0, 1, 2, 5))
    draft.add("--accept-existing-errors", share=0.3)
    draft.add("--independent-groups", share=0.3)
    draft.add("--no-capacity-checks", share=0.2)
    draft.add(dice.pick(("-p", "-p+plist,slist", "-pname,pfmem,inst_spindles,hi_spindles,peermap")), share=0.15)
    draft.limits()
    draft.add("-S", "saved", share=0.2)
    return draft.case


_TEMPLATES = ("drbd",) * 3 + ("plain", "plain", "rbd", "file", "sharedfile", "diskless", "blockdev", "ext", "gluster")


def _size(draft: "Draft") -> str:
    """Disk, memory and processors such that not many steps lead from the largest size to the least."""
    dice = draft.dice
    disk = dice.pick(("1g", "3000m", "5g", "10g", "20g", "40g"))
    memory = dice.pick(("128m", "512m", "1000m", "1g", "2g", "3g", "4g"))
    size = f"{disk},{memory},{dice.pick((1, 1, 2, 3, 4, 8))}"
    return size + (f",{dice.pick((1, 2, 3, 5))}" if dice.chance(0.3) else "")


def _simulated(draft: "Draft") -> None:
    dice = draft.dice
    for _ in range(dice.pick((1, 1, 1, 2, 3))):
        policy = dice.pick(("p", "a", "preferred", "a", "u", "last_resort"))
        disk, memory = dice.pick(("100g", "400g", "50G")), dice.pick(("8g", "16g", "10G"))
        size = f"{policy},{dice.among(1, 4)},{disk},{memory},{dice.pick((2, 4, 8))}"
        size += f",{dice.pick((1, 3, 12))}" if dice.chance(0.4) else ""
        draft.add("--simulate", size)


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
