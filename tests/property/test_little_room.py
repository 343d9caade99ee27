# SPDX-License-Identifier: BSD-2-Clause
"""A law of clusters with next to no room, where only moves tell whether a failure can be absorbed."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import Dice
from tests.fakes.thoroughness import examples

from ganeti.placement.cluster.picture import Cluster, Disk, Group, Instance, Node
from ganeti.placement.definition import search as defined
from ganeti.placement.definition.moves import read_plain
from ganeti.placement.kernel.searches import nodes_failing
from ganeti.placement.kernel.state import ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
SIZES_MIB = (0, 256, 512, 1024, 1024, 3000)


def nearly_full(seed: int) -> Cluster:
    """Some nodes have room for what one of the others runs, or for a little less or more than that."""
    dice = Dice(seed)
    count, each, spare = dice.among(3, 7), dice.among(1, 5), dice.among(1, 3)
    used, instances = [0] * count, []
    for number in range(count * each):
        primary, size_mib = number % count, dice.pick(SIZES_MIB)
        template = dice.pick(("rbd", "plain", "ext", "drbd"))
        mirror = f"n{(primary + 1) % count}" if template == "drbd" else ""
        used[primary] += size_mib
        place = f"n{primary}", mirror
        instances.append(Instance(f"i{number:02d}", size_mib, 512, 1, template, *place, (Disk(512),)))
    nodes = []
    for number in range(count):
        free_mib = max(used) * dice.pick((50, 90, 100, 150)) // 100 if number < spare else dice.pick((100, 400, 1100))
        total_mib = used[number] + 1024 + free_mib
        why_not = "drained" if dice.chance(0.1) else ""
        nodes.append(Node(f"n{number}", "g", total_mib, 1024, free_mib, 9000, 6000, 16, 1, unavailable=why_not))
    return Cluster(nodes=nodes, instances=instances, groups=[Group("g", "g")])


@settings(max_examples=examples(200, quick=60, campaign=4000), deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_moves_tell_what_the_definition_says(seed: int) -> None:
    cluster = nearly_full(seed)
    state, plain = ClusterState(cluster), read_plain(cluster)
    policies = {group.uuid: group.policy for group in cluster.groups}
    members = state.everyone()
    expected = [node for node in members if not defined.absorbs(plain, policies, node, members)]
    assert nodes_failing(state, members) == expected
