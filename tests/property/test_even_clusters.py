# SPDX-License-Identifier: BSD-2-Clause
"""Laws of looking for a mirrored pair where nodes are nearly alike: most pairs are left out, and none that could win.

Deviations are close to zero there, ties are the rule, and one instance more changes much.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster_drawing import Dice
from tests.fakes.thoroughness import examples

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import Cluster, Disk, Group, Instance, Node
from ganeti.placement.kernel.searches import NodeSearch, best_exchange, find_nodes, shared_redundancy
from ganeti.placement.kernel.state import NOWHERE, ClusterState

SEEDS = st.integers(min_value=0, max_value=10**6)
FEW = settings(max_examples=examples(200, quick=60, campaign=4000), deadline=None, derandomize=True)
DISKS_MIB = (1024, 1025, 1088, 20480)


def instance(name: str, dice: Dice, primary: str = "", secondary: str = "") -> Instance:
    size = dice.pick(DISKS_MIB)
    return Instance(
        name,
        dice.pick((512, 1024, 1024)),
        size,
        1,
        "drbd",
        primary,
        secondary,
        (Disk(size),),
        spindle_use=dice.among(1, 2),
    )


def even(seed: int) -> Cluster:
    """Nodes that differ by nothing, by steps, or by a little noise; all have the same instances, or none."""
    dice = Dice(seed)
    count, each, groups = dice.among(60, 110), dice.pick((0, 1, 3, 8)), dice.pick((1, 1, 3))
    memory_steps, disk_steps = dice.pick((1, 1, 13, 1000)), dice.pick((1, 5, 17, 1000))
    room_mib = dice.pick((1100, 2100, 2100, 8192, 60000))
    locations = dice.chance(0.2)
    nodes = []
    for number in range(count):
        memory_mib = 1024 * (each + 1) + room_mib
        tags = (f"place:{number % 4}",) if locations else ()
        free_mib = room_mib - 8 * (number * 7919 % memory_steps) % 900
        free_disk_mib = 900_000 - dice.pick((1, 1, 64)) * (number * 104729 % disk_steps)
        nodes.append(
            Node(
                f"n{number:03d}",
                f"g{number % groups}",
                memory_mib,
                1024,
                free_mib,
                1_000_000,
                free_disk_mib,
                16,
                1,
                tags=tags,
            )
        )
    instances = []
    for number in range(count * each):
        primary = number % count
        secondary = (primary + groups * (1 + number // count)) % count
        if secondary == primary:
            secondary = (primary + groups) % count
        names = f"n{primary:03d}", f"n{secondary:03d}"
        size = 20480
        instances.append(Instance(f"i{number:04d}", 1024, size, 1, "drbd", *names, (Disk(size),)))
    described = [Group(f"g{number}", f"group{number}") for number in range(groups)]
    tags = ("htools:nlocation:place",) if locations else ()
    return Cluster(nodes=nodes, instances=instances, groups=described, tags=tags)


def promised(state: ClusterState, seed: int) -> None:
    """Up to forty instances more, on few nodes or on many."""
    dice = Dice(seed + 1)
    spread = dice.pick((2, 10, len(state.nodes)))
    for number in range(dice.pick((0, 1, 2, 40))):
        first, second = dice.below(spread), dice.below(spread)
        if first != second:
            state.add_instance(instance(f"p{number}", dice), first, second)


@FEW
@given(seed=SEEDS, checked=st.booleans(), whole=st.booleans())
def test_what_is_left_out_cannot_win(seed: int, checked: bool, whole: bool) -> None:
    state = ClusterState(even(seed))
    promised(state, seed)
    number = state.add_instance(instance("new", Dice(seed + 2)), NOWHERE)
    members = state.everyone()
    candidates = members if whole else state.group_members(0)
    asked = NodeSearch(number, 2, candidates, members, members if checked else ())
    everything = repr(find_nodes(state, asked._replace(exhaustive=True)))
    assert repr(find_nodes(state, asked)) == everything
    if checked:
        with shared_redundancy(state, members, members) as redundancy:
            assert repr(find_nodes(state, asked._replace(redundancy=redundancy))) == everything


@FEW
@given(seed=SEEDS)
def test_an_exchange_leaves_out_nothing_that_could_win(seed: int) -> None:
    state = ClusterState(even(seed))
    promised(state, seed)
    if not state.instances:
        return
    moved = seed % len(state.instances)
    own = (state.primary_of[moved], state.secondary_of[moved])
    members = state.group_members(state.group_of[own[0]])
    targets = [node for node in members[:40] if node not in own]
    found = [
        best_exchange(state, moved, targets, members, forced=False, exhaustive=exhaustive)
        for exhaustive in (False, True)
    ]
    assert (found[0].primary, found[0].secondary) == (found[1].primary, found[1].secondary)


def test_a_node_that_could_keep_the_memory_for_some_primaries_only_is_counted_for_those() -> None:
    """``n1`` keeps memory for an instance of ``n0``, and has none left for a second one; for ``n2`` it has."""
    free = {"n0": 4000, "n1": 2040, "n2": 4000}
    nodes = [Node(name, "g", 9000, 1024, mib, 9000, 5000, 16, 1) for name, mib in free.items()]
    kept = Instance("kept", 1024, 1024, 1, "drbd", "n0", "n1", (Disk(1024),))
    state = ClusterState(Cluster(nodes=nodes, instances=[kept], groups=[Group("g", "g")]))
    number = state.add_instance(replace(kept, name="new", primary="", secondary=""), NOWHERE)
    found = find_nodes(state, NodeSearch(number, 2, state.everyone(), state.everyone()))
    # n1 is no primary (two pairs), and no secondary of n0
    assert found.successes == 3
    assert found.failures[FailMode.FailMem] == 3
