# SPDX-License-Identifier: BSD-2-Clause
"""Whose disks are whose: read from drawn configurations as they were drawn, and from nonsense as nobody's."""

import copy
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.sample_cluster import configuration

from ganeti.node.collectors.owners import Owned, of_config, of_disks, of_tags

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
)
SEEDS = st.integers(0, 10**6)


def volume(group: str, name: str) -> dict[str, Any]:
    return {"dev_type": "plain", "logical_id": [group, name], "size": 1024}


def drawn(seed: int) -> tuple[dict[str, Any], dict[str, Owned]]:
    """A configuration, and what instances have on each node, by its name."""
    dice = random.Random(seed)
    nodes = [f"node{number}.x" for number in range(dice.randint(1, 5))]
    owned = {node: Owned() for node in nodes}
    minors = dict.fromkeys(nodes, 0)
    config: dict[str, Any] = {"cluster": {"cluster_name": "c"}, "nodes": {}, "instances": {}, "disks": {}}
    config["nodes"] = {f"uuid-{node}": {"name": node, "uuid": f"uuid-{node}"} for node in nodes}
    for number in range(dice.randint(0, 8)):
        name, primary = f"inst{number}.x", dice.choice(nodes)
        disks = {f"disk-{number}-{index}": index for index in range(dice.randint(0, 3))}
        config["instances"][f"i{number}"] = {
            "name": name,
            "primary_node": f"uuid-{primary}",
            "disks": list(disks),
        }
        mirrored, others = dice.random() < 0.5, [node for node in nodes if node != primary]
        for uuid in disks:
            if mirrored and others:
                pair = dice.sample([primary, dice.choice(others)], 2)
                parts = [volume("xenvg", f"{uuid}_{end}") for end in ("data", "meta")]
                ids = [f"uuid-{node}" for node in pair]
                disk: dict[str, Any] = {"dev_type": "drbd", "nodes": ids, "children": parts}
                disk["logical_id"] = [*ids, 11000, *(minors[node] for node in pair), "secret"]
                for node in pair:
                    owned[node].minors[minors[node]] = name
                    minors[node] += 1
                    owned[node].volumes.update((("xenvg", f"{uuid}_{end}"), name) for end in ("data", "meta"))
            else:
                disk = volume("xenvg", uuid) | {"nodes": [f"uuid-{primary}"]}
                owned[primary].volumes["xenvg", uuid] = name
            config["disks"][uuid] = disk
    return config, owned


@given(seed=SEEDS)
def test_what_is_drawn_is_read(seed: int) -> None:
    config, owned = drawn(seed)
    assert {node: of_config(config, node) for node in owned} == owned
    assert of_config(config, "stranger") is None


def test_what_is_published_is_understood() -> None:
    config = configuration().to_plain()
    assert {node["name"] for node in config["nodes"].values() if of_config(config, node["name"]) == Owned()}


@given(config=JSON)
def test_nonsense_knows_no_node(config: Any) -> None:
    assert of_config(config, "node0.x") is None


@given(seed=SEEDS, path=st.lists(st.integers(0, 20), min_size=1, max_size=6), nonsense=JSON)
def test_a_damaged_part_makes_no_name_wrong(seed: int, path: list[int], nonsense: Any) -> None:
    config, owned = drawn(seed)
    damaged: Any = copy.deepcopy(config)
    place, key = damaged, None
    for step in path:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        holder, key = place, keys[step % len(keys)]
        place = holder[key]
        if not isinstance(place, dict | list):
            break
    if key is not None:
        holder[key] = nonsense
    for node in owned:
        found = of_config(damaged, node)
        if found is not None:
            names = {plain["name"] for plain in config["instances"].values()} | {str(nonsense)}
            assert {*found.minors.values(), *found.volumes.values()} <= names


@given(seed=SEEDS)
def test_what_two_instances_claim_is_nobodys(seed: int) -> None:
    config, owned = drawn(seed)
    doubled: dict[str, Any] = copy.deepcopy(config)
    for uuid, plain in config["instances"].items():
        doubled["instances"][f"{uuid}-twin"] = plain | {"name": f"twin of {plain['name']}"}
    assert all(of_config(doubled, node) == Owned() for node in owned)


def test_a_tag_names_an_instance() -> None:
    assert of_tags("originstname+web.example.com") == "web.example.com"
    assert of_tags("backup,originstname+web.example.com,more") == "web.example.com"
    for nothing in ("", "backup", "originstname+", "originstname+a,originstname+b", "Xoriginstname+a"):
        assert of_tags(nothing) is None


def test_a_tag_that_is_no_whole_name_names_nobody() -> None:
    """3.1 cuts what it writes at 128 characters, and puts ``_`` for what LVM does not take."""
    label = "a" * 60
    longest = f"{label}.{'b' * (127 - len('originstname+') - len(label) - 1)}"
    assert of_tags(f"originstname+{longest}") == longest
    assert of_tags(f"originstname+{longest}b") is None, "there may have been more"
    for name in ("Web", "web_1", "web.", "-web", "web..x", "web x", "w\u00e9b", "web+1", "a" * 64):
        assert of_tags(f"originstname+{name}") is None, name


def test_what_is_no_volume_has_the_place_of_none() -> None:
    filed = {"dev_type": "file", "logical_id": ["file", "/srv/x"]}
    assert of_disks([("a", filed), ("b", {"logical_id": ["xenvg", "x"]})]) == Owned()
    parts = [volume("xenvg", "data"), filed]
    pair = {"dev_type": "drbd", "logical_id": ["one", "other", 1, 2, 3, "secret"], "children": parts}
    assert of_disks([("a", pair)], "other") == Owned({3: "a"}, {("xenvg", "data"): "a"})
    assert of_disks([("a", pair | {"dev_type": "ext"})], "other") == Owned({}, {("xenvg", "data"): "a"})
