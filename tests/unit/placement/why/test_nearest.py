# SPDX-License-Identifier: BSD-2-Clause
"""When nothing fits: the nearest nodes, the largest sizes that fit, and the words for both."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti.placement.cluster.lack import at_least, at_most, names_of, number
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node
from ganeti.placement.cluster.policy import BUILT_IN_POLICY
from ganeti.placement.dispatch import place
from ganeti.placement.request.terms import Allocate, NoFit, Options, Placement
from ganeti.placement.why.smaller import leveled
from ganeti.placement.why.text import failure_lines, why_lines

GROUP = Group(uuid="g1", name="default")
NO_CHECKS = Options(capacity_checks=False)


def node(name: str, memory: int = 8192, **changes: Any) -> Node:
    base = Node(
        name=name,
        group="g1",
        total_memory_mib=memory,
        free_memory_mib=memory,
        total_disk_mib=100000,
        free_disk_mib=50000,
        total_cpus=4,
        node_cpus=1,
        spindles=4,
    )
    return replace(base, **changes)


def wanted(memory: int = 4096, disk: int = 2048, vcpus: int = 2, template: str = "plain", **changes: Any) -> Instance:
    extra = 128 if template == "drbd" else 0
    base = Instance("web", memory, disk + extra, vcpus, template, disks=(Disk(disk),))
    return replace(base, **changes)


def nothing(nodes: tuple[Node, ...], request: Allocate, options: Options = NO_CHECKS, **changes: Any) -> NoFit:
    answer = place(replace(Cluster(nodes=nodes, groups=(GROUP,)), **changes), request, options=options)
    assert isinstance(answer, NoFit)
    assert answer.nearest is not None
    return answer


def sizes(answer: NoFit) -> dict[str, tuple[int, int, int, tuple[str, ...]]]:
    assert answer.nearest is not None
    return {s.scaled: (s.memory_mib, s.disk_mib, s.vcpus, s.nodes) for s in answer.nearest.largest}


def test_the_nearest_node_and_the_largest_sizes() -> None:
    nodes = (node("node1", 2000), node("node2", 3584, free_disk_mib=1500), node("node3", 3000))
    answer = nothing(nodes, Allocate(wanted()))
    assert answer.nearest is not None
    assert answer.nearest.nodes == ("node3",), "on node2 less memory is missing, but disk too"
    assert answer.nearest.change == "with 1,097 MiB less memory, or if as much were freed there"
    assert sizes(answer) == {"memory": (2999, 2048, 2, ("node3",)), "everything": (2990, 1495, 1, ("node2",))}


def test_lines_for_the_error_of_a_creation() -> None:
    nodes = (node("node1", 2000), node("node2", 3000), node("node3", unavailable="drained"))
    assert failure_lines(nothing(nodes, Allocate(wanted()))) == [
        "Nearest fit: node2, with 1,097 MiB less memory, or if as much were freed there",
        "Of 3 nodes 2 have too little memory; 1 is drained",
        "What fits now: 2,999 MiB of memory on node2; in proportion 2,990 MiB of memory, 1,495 MiB of disk, "
        "1 vcpu on node2",
    ]


def test_many_nodes_with_one_reason_are_one_line() -> None:
    nodes = (*(node(f"node{number}", 2000 + number) for number in range(5)), node("spare", unavailable="offline"))
    lines = why_lines(nothing(nodes, Allocate(wanted())))[3:]
    assert lines == [
        "node4, node3, node2 and 2 more nodes: too little memory (2,093 to 2,097 MiB short)",
        "spare: is offline; fits if the node were not offline",
    ]


def test_a_pair_is_named_with_both_nodes() -> None:
    nodes = (node("node1", 5000), node("node2", 3000), node("node3", 3500))
    answer = nothing(nodes, Allocate(wanted(template="drbd"), required_nodes=2))
    assert answer.nearest is not None
    assert answer.nearest.nodes == ("node1", "node3")
    assert answer.nearest.change == "with 597 MiB less memory, or if 597 MiB of memory were freed on node3"
    assert sizes(answer)["memory"] == (3499, 2176, 2, ("node1", "node3"))


def test_processors_may_be_freed_or_the_ratio_raised() -> None:
    group = replace(GROUP, policy=replace(BUILT_IN_POLICY, vcpu_ratio=1.0))
    answer = nothing((node("node1"),), Allocate(wanted(vcpus=5)), groups=(group,))
    assert answer.nearest is not None
    assert answer.nearest.change == (
        "if the vcpu ratio of group default were 1.5 or more, or with 2 vcpus less, or if as much were freed there"
    )
    assert sizes(answer)["vcpus"] == (4096, 2048, 3, ("node1",))


def test_what_is_no_amount_has_words_too() -> None:
    groups = (
        replace(GROUP, alloc_policy=AllocPolicy.UNALLOCABLE),
        replace(GROUP, uuid="g2", name="far"),
        replace(
            GROUP, uuid="g3", name="small", policy=replace(BUILT_IN_POLICY, templates=("drbd",)), networks=("lan",)
        ),
    )
    nodes = (node("node1"), node("node2", group="g2", unavailable="drained"), node("node3", group="g3"))
    answer = nothing(nodes, Allocate(wanted(networks=("lan",))), groups=groups)
    assert {refusal.node: refusal.change for refusal in answer.refusals} == {
        "node1": "if group default were connected to network lan and the allocation policy of group default were not "
        "unallocable",
        "node2": "if the node were not drained and group far were connected to network lan",
        "node3": "if the policy of group small allowed disk template plain",
    }


def test_an_instance_with_the_same_tag_has_to_leave() -> None:
    other = replace(wanted(512), name="other", primary="node1", tags=("service:a",))
    nodes = (node("node1", free_memory_mib=8192 - 512),)
    changes: dict[str, Any] = {"instances": (other,), "tags": ("htools:iextags:service",)}
    answer = nothing(nodes, Allocate(wanted(tags=("service:a",))), **changes)
    assert answer.nearest is not None
    assert answer.nearest.change == "if instance other with the same exclusion tag moved away"


def test_failures_that_cannot_be_absorbed_anyway_are_told_once() -> None:
    instances = tuple(
        replace(wanted(size, template="drbd"), name=f"inst{size}", primary="node1", secondary="node2")
        for size in (3000, 3100)
    )
    away = replace(node("away", 0, total_disk_mib=0, free_disk_mib=0), unavailable="offline")
    nodes = (node("node1", 9000, free_memory_mib=2900), node("node2", 5000), node("node3"), node("node4"), away)
    request = Allocate(wanted(template="drbd"), required_nodes=2)
    answer = nothing(nodes, request, Options(), instances=instances)
    lines = why_lines(answer)
    assert lines[0] == (
        "Nothing is admitted because the failure of node1 could not be absorbed even without the instance: node2 would "
        "have to find 6,100 MiB of memory, 5,000 MiB are free: free 1,101 MiB of memory on node2"
    )
    assert lines[1] == "Nearest fit: node3 (secondary node2), if 1,101 MiB of memory were freed on node2"
    assert sum("even without the instance" in line for line in lines) == 1
    assert lines[-1] == (
        "away: is offline, and what it has free is not known; fits as primary with node2, if the node were not offline "
        "and 1,101 MiB of memory were freed on node2"
    )
    assert answer.nearest is not None and not answer.nearest.largest


def test_a_failure_that_only_a_trial_shows_has_its_numbers() -> None:
    busy = replace(wanted(5000, template="rbd"), name="busy", primary="node1")
    nodes = (node("node1", free_memory_mib=3192), node("node2", 6000))
    answer = nothing(nodes, Allocate(wanted(2000, template="rbd")), Options(), instances=(busy,))
    refusal = next(refusal for refusal in answer.refusals if refusal.node == "node2")
    assert refusal.sentence == (
        "fits, but then the failure of node1 could not be absorbed: its 1 instance needs 5,000 MiB of memory; "
        "4,000 MiB are free elsewhere, at most 4,000 MiB (node2)"
    )
    assert refusal.change == "with 1,001 MiB less memory"
    smaller = place(Cluster(nodes=nodes, groups=(GROUP,), instances=(busy,)), Allocate(wanted(999, template="rbd")))
    assert isinstance(smaller, Placement)


def test_an_answer_with_nodes_gives_reasons_only_if_asked() -> None:
    picture = Cluster(nodes=(node("node1"), node("node2")), groups=(GROUP,))
    options = replace(NO_CHECKS, why=False)
    assert place(picture, Allocate(wanted()), options=options).refusals == ()  # type: ignore[union-attr]
    assert len(place(picture, Allocate(wanted()), options=NO_CHECKS).refusals) == 1  # type: ignore[union-attr]


def test_programs_get_names_and_numbers() -> None:
    answer = nothing((node("node1", 3000),), Allocate(wanted()))
    plain = answer.refusals[0].plain()
    assert plain["lacks"] == [
        {
            "constraint": "memory",
            "needed": 4096,
            "present": 2999,
            "unit": "MiB",
            "node": "node1",
            "sentence": "needs 4,096 MiB of memory, 3,000 MiB free",
        }
    ]
    assert [[(part["subject"], part["constraint"], part["amount"]) for part in way] for way in plain["ways"]] == [
        [("instance", "memory", 1097)],
        [("node", "memory", 1097)],
    ]
    assert answer.nearest is not None
    assert answer.nearest.plain()["nodes"] == ["node1"]


@pytest.mark.parametrize(
    ("whole", "less", "left"),
    [
        ([100, 50, 80], 20, [80, 50, 80]),
        ([100, 50, 80], 21, [79, 50, 80]),
        ([100, 50, 80], 60, [70, 50, 50]),
        ([10, 10], 25, [-3, -2]),
    ],
)
def test_the_largest_disks_are_cut_to_one_level(whole: list[int], less: int, left: list[int]) -> None:
    found = leveled(whole, less)
    assert sum(found) == sum(left) == sum(whole) - less
    assert sorted(found) == sorted(left) or max(found) - min(found) <= 1 or less == 60


@pytest.mark.parametrize(("value", "text"), [(1024, "1,024"), (4.5, "4.5"), (1 / 3, "0.3334"), (2.0, "2")])
def test_numbers_are_never_shown_too_small(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("mib", "least", "most"),
    [
        (4096, "4,096 MiB", "4,096 MiB"),
        (10239, "10,239 MiB", "10,239 MiB"),
        (32768, "32 GiB", "32 GiB"),
        (32769, "32.1 GiB", "32 GiB"),
        (-20, "-20 MiB", "-20 MiB"),
        (12 * 1024 * 1024 + 1, "12.1 TiB", "12 TiB"),
        (8_967_232, "8,757.1 GiB", "8,757 GiB"),
    ],
)
def test_sizes_are_easy_to_read_and_safe(mib: int, least: str, most: str) -> None:
    assert (at_least(mib), at_most(mib)) == (least, most)


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "a"), (3, "a, b and c"), (4, "a, b, c and d"), (5, "a, b, c and 2 more nodes")],
)
def test_never_one_more_node(count: int, text: str) -> None:
    """Where one name would be left out, it is as short to say it."""
    assert names_of(list("abcde")[:count], "nodes") == text


def test_a_node_whose_partner_is_at_fault_is_not_told_so_itself() -> None:
    nodes = (node("node1", unavailable="drained"), node("node2"), node("node3", unavailable="offline"))
    lines = why_lines(nothing(nodes, Allocate(wanted(template="drbd"), required_nodes=2)))
    assert lines == [
        "Nearest fit: node2 (secondary node1), if node1 were not drained",
        "Of 3 nodes 1 is drained; 1 would do, but no other node would with it; 1 is offline",
        "Can't find a suitable node for position 2 (already selected: node2)",
        "node1: is drained; fits as primary with node2, if the node were not drained",
        "node2: its partner node1 is drained; fits as primary with node1, if node1 were not drained",
        "node3: is offline; fits as primary with node2, if the node were not offline",
    ]


def test_a_node_alone_in_its_group_has_no_secondary() -> None:
    lines = why_lines(nothing((node("node1"),), Allocate(wanted(template="drbd"), required_nodes=2)))
    assert lines == [
        "node1: its group default has no other node that could be the secondary",
        "Can't find a suitable node for position 2 (already selected: node1)",
    ]


@pytest.mark.requirement("S5.41")
def test_no_node_would_do_even_as_the_first_of_a_pair() -> None:
    nodes = (node("node1", 2000), node("node2", 2000))
    lines = why_lines(nothing(nodes, Allocate(wanted(template="drbd"), required_nodes=2)))
    assert "Can't find a suitable node for position 1 (already selected: none)" in lines


def test_of_pairs_that_would_fit_no_position_is_missing() -> None:
    lost = Instance("lost", 6000, 1000, 1, "plain", primary="node1", disks=(Disk(1000),))
    nodes = (node("node1", free_memory_mib=2192), node("node2", 4000))
    request = Allocate(wanted(500, template="drbd"), required_nodes=2)
    lines = why_lines(nothing(nodes, request, Options(), instances=(lost,)))
    assert any("could not be absorbed" in line for line in lines)
    assert not any("position" in line for line in lines)


REMEDY = "Name the node to place it all the same (-n node1): no other one could take over if that fails"


@pytest.mark.parametrize("others", [(), tuple(node(name, 0, unavailable="offline") for name in ("node2", "node3"))])
def test_the_only_node_may_be_named(others: tuple[Node, ...]) -> None:
    lines = why_lines(nothing((node("node1"), *others), Allocate(wanted()), Options()))
    assert lines[0] == REMEDY


@pytest.mark.parametrize(
    "nodes",
    [(node("node1", 2000),), (node("node1"), node("node2", 2000)), (node("node1", unavailable="offline"),)],
    ids=["too-small", "two-nodes", "offline"],
)
def test_naming_a_node_is_no_remedy_elsewhere(nodes: tuple[Node, ...]) -> None:
    lines = why_lines(nothing(nodes, Allocate(wanted()), Options()))
    assert any(line.startswith("node1: ") for line in lines)
    assert not any("-n node" in line for line in lines)


def test_the_only_node_has_nobody_to_take_over() -> None:
    answer = nothing((node("node1", 2000),), Allocate(wanted(template="rbd")), Options())
    assert why_lines(answer) == [
        "node1: needs 4,096 MiB of memory, 2,000 MiB free; the failure of node1 could not be absorbed: "
        "its group has no other node",
    ]


def test_several_nodes_are_spoken_of_as_several() -> None:
    far = replace(GROUP, uuid="g2", name="far")
    nodes = (node("node1", 2000), node("node2", group="g2"), node("node3", group="g2"))
    lines = why_lines(nothing(nodes, Allocate(wanted(), group="default"), groups=(GROUP, far)))
    assert lines[1] == "Of 3 nodes 1 has too little memory; 2 are in another group than asked for"
    assert lines[-1] == (
        "node2 and node3: are in group far, asked for was default; nearest is node2, if group far were asked for"
    )
