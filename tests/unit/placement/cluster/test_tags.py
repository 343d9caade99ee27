# SPDX-License-Identifier: BSD-2-Clause
"""Tags of the cluster that declare others to be of meaning, as 3.0.2 was seen to take them."""

import pytest

from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.cluster.tags import read_rules
from ganeti.placement.kernel.state import ClusterState


def _location_score(cluster_tags: list[str], node_tags: tuple[str, ...], instance_tags: tuple[str, ...]) -> float:
    nodes = [Node("n1", "u", 8192, 0, 8192, 409600, 409600, 8, tags=node_tags), Node("n2", "u", 8192, 0, 8192, 409600)]
    instance = Instance("i", 1024, 10240, 1, "ext", "n1", tags=instance_tags)
    state = ClusterState(Cluster(nodes, [instance], [Group("u", "default")], tags=cluster_tags))
    found = state.components([0, 1])["location_score"]
    assert state.view(0).location_score == found, "the definition and the kernel differ"
    return found


@pytest.mark.parametrize(
    ("rules", "node", "instance", "lacking"),
    [
        ("desiredlocation:rack", "rack:a", "rack:a", 1),
        ("desiredlocation:rack nlocation:rack", "rack:a", "rack:a", 0),
        ("desiredlocation:rack nlocation:rack", "rack:b", "rack:a", 1),
        ("desiredlocation:rack nlocation:power", "rack:a", "rack:a", 1),
        ("desiredlocation:rack", "rackx", "rackx", 1),
        ("desiredlocation:", "x", "rack", 0),
    ],
)
def test_a_desired_location_is_lacking_unless_the_node_has_it_as_a_location(
    rules: str, node: str, instance: str, lacking: int
) -> None:
    tags = [f"htools:{rule}" for rule in rules.split()]
    assert _location_score(tags, (node,), (instance,)) == lacking


def test_an_exclusion_or_desire_without_a_name_asks_for_nothing() -> None:
    rules = read_rules(["htools:iextags:", "htools:iextags:own", "htools:desiredlocation:", "htools:nlocation:"])
    assert rules.exclusion == ("own",)
    assert rules.desired == ()
    assert rules.location == (":",)
