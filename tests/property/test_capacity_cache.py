# SPDX-License-Identifier: BSD-2-Clause
"""What the cache says of capacity is what counting anew would say, whatever became less since it was kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration
from tests.fakes.thoroughness import examples

from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.cache.capacity_cache import groups_of
from ganeti.master.cache.cluster_picture import ClusterPicture
from ganeti.master.cache.node_reports import NodeReport, Space, silent
from ganeti.master.cache.placer import Placer
from ganeti.master.cache.replica import Replica
from ganeti.master.capacity import question, read_answer, requests
from ganeti.model.capacity import Capacity
from ganeti.model.ipolicy import full_policy
from ganeti.model.objects import Disk, Instance, NodeGroup
from ganeti.model.reservations import Reservation

LOCAL = "plain"
NODES = ("uuid-node1", "uuid-node2", "uuid-node3")
GROUPS = ("uuid-group1", "uuid-group2")
SIZES = st.integers(1, 700)
EXPIRED_S = 3600.0


class Cluster:
    """Two groups of nodes that change by commits and reports, as LuxiD and its worker see them."""

    def __init__(self) -> None:
        config = configuration()
        policy = full_policy([LOCAL])
        policy["minmax"][0]["max"] |= {"memory-size": 1024, "disk-size": 2048, "cpu-count": 4}
        cluster = replace(
            config.cluster,
            ipolicy=policy,
            enabled_disk_templates=[LOCAL],
            default_iallocator_params={"no-capacity-checks": ""},
        )
        config.put("cluster", "cluster", cluster)
        config.put("nodegroups", GROUPS[1], NodeGroup(uuid=GROUPS[1], name="other"))
        config.put("nodes", NODES[2], replace(config.node(NODES[2]), group=GROUPS[1]))
        for number, node in enumerate(NODES):
            add_instance(config, f"web{number}", node, template=LOCAL, admin_state="down" if number else "up")
        self.replica, self.clock, self.serial = Replica(), 0.0, 1
        self.picture = ClusterPicture(lambda: self.replica.configuration)
        self.placer = Placer(self.picture)
        self.cache = StateCache(lambda: self.clock)
        self.cache._follower = self  # type: ignore[assignment]
        self.reservations: list[Reservation] = []
        self._told = 0
        self._tell({"event": "snapshot", "position": [1, 1], "config": config.to_plain()})
        for node in NODES:
            self.report(
                node, memory_total_mib=8192, memory_free_mib=4096, cpu_total=8, space={LOCAL: Space(9000, 5000)}
            )

    @property
    def configuration(self) -> Any:
        return self.replica.configuration

    def commit(self, *puts: tuple[str, Any], remove: Any = ()) -> None:
        self.serial += 1
        put = [[kind, "cluster" if kind == "cluster" else obj.uuid, obj.to_plain()] for kind, obj in puts]
        self._tell({"event": "commit", "position": [1, self.serial], "put": put, "remove": list(remove)})

    def _tell(self, event: dict[str, Any]) -> None:
        drawn, kept = self.picture.before(event), self.cache._observe(event)
        self.replica.apply(event)
        drawn()
        kept()

    def reported(self, node: str) -> NodeReport:
        return self.cache.reports.report(node) or NodeReport()

    def report(self, node: str, **changes: Any) -> None:
        told = replace(self.reported(node), **changes)
        self.cache.reports.take(node, told, self.cache.reports.begin(), self.clock)

    def question(self, group: str) -> dict[str, Any]:
        return question(self.configuration, self.configuration.group(group), "hail", {})

    def held(self, group: str) -> list[Reservation]:
        return [one for one in self.reservations if group in groups_of(self.configuration, one.nodes)]

    def kept(self, group: str) -> Any:
        found = self.cache.capacity.find(group, self.question(group), self.held(group), self.clock)
        return None if found is None else found.result

    def counted(self, group: str) -> dict[str, Any]:
        self.picture.take_reports(dict(self.cache.reports.since(self._told)))
        self._told = self.cache.reports.number
        (request,) = requests({group: self.question(group)})
        response, _ = self.placer.answer(self.configuration, request, LOCAL, self.reservations)
        assert response["success"], response
        return read_answer(request, response["result"])[group]

    def keep(self, group: str) -> None:
        begun, held, asked = self.cache.capacity.begin(), self.held(group), self.question(group)
        found = Capacity(self.counted(group), self.clock)
        assert self.cache.capacity.keep(group, asked, found, begun=begun, reservations=held, asked_at_s=self.clock)


def less_memory(cluster: Cluster, node: str, size: int) -> None:
    cluster.report(node, memory_free_mib=cluster.reported(node).memory_free_mib - size)


def less_disk(cluster: Cluster, node: str, size: int) -> None:
    space = cluster.reported(node).space.get(LOCAL, Space(9000, 0))
    cluster.report(node, space={LOCAL: Space(space.size_mib, max(0, space.free_mib - size))})


def fewer_processors(cluster: Cluster, node: str, size: int) -> None:
    cluster.report(node, cpu_node=cluster.reported(node).cpu_node + size % 3 + 1)


def an_arrival(cluster: Cluster, node: str, size: int) -> None:
    guests = [*cluster.reported(node).guests, (f"guest{size}", size, "incoming")]
    cluster.report(node, guests=guests)


def silence(cluster: Cluster, node: str, size: int) -> None:
    cluster.cache.reports.take(node, silent("away"), cluster.cache.reports.begin(), cluster.clock)


def drained(cluster: Cluster, node: str, size: int) -> None:
    cluster.commit(("nodes", replace(cluster.configuration.node(node), drained=True)))


def another_instance(cluster: Cluster, node: str, size: int) -> None:
    """Being created: its room is taken by what the configuration says alone."""
    number = cluster.serial
    disk = Disk(uuid=f"disk{number}", dev_type=LOCAL, size=size, nodes=[node])
    instance = Instance(
        uuid=f"new{number}",
        name=f"new{number}",
        primary_node=node,
        hypervisor="pretend",
        beparams={"maxmem": size, "minmem": size, "vcpus": 1},
        disks=[disk.uuid],
        forthcoming=True,
    )
    cluster.commit(("instances", instance), ("disks", disk))


def a_larger_instance(cluster: Cluster, node: str, size: int) -> None:
    for instance in cluster.configuration.primary_instances(node)[:1]:
        memory = instance.beparams.get("maxmem", 128) + size
        changed = replace(instance, admin_state="up", beparams={**instance.beparams, "maxmem": memory})
        cluster.commit(("instances", changed))


def a_larger_default(cluster: Cluster, node: str, size: int) -> None:
    found = cluster.configuration.cluster
    cluster.commit(("cluster", replace(found, beparams={"default": {"maxmem": 128 + cluster.serial * size}})))


def a_stricter_policy(cluster: Cluster, node: str, size: int) -> None:
    group = cluster.configuration.group(cluster.configuration.node(node).group)
    ratio = group.ipolicy.get("vcpu-ratio", 4.0) * 0.75
    cluster.commit(("nodegroups", replace(group, ipolicy={**group.ipolicy, "vcpu-ratio": ratio})))


def a_reservation(cluster: Cluster, node: str, size: int) -> None:
    name = f"reserved{len(cluster.reservations)}"
    cluster.reservations.append(
        Reservation(instance=name, nodes=[node], memory_mib=size, disk_mib=size, vcpus=1, disk_template=LOCAL)
    )


def elsewhere(cluster: Cluster, node: str, size: int) -> None:
    """What has nothing to do with room."""
    found = cluster.configuration.cluster
    cluster.commit(("cluster", replace(found, highest_used_port=found.highest_used_port + 1)))


CHANGES = (
    less_memory,
    less_disk,
    fewer_processors,
    an_arrival,
    silence,
    drained,
    another_instance,
    a_larger_instance,
    a_larger_default,
    a_stricter_policy,
    a_reservation,
    elsewhere,
)
STEPS = st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(NODES), SIZES, st.booleans()), max_size=12)


@pytest.mark.requirement("S1.44")
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_what_is_kept_is_never_more_than_there_is(steps: list[Any]) -> None:
    cluster = Cluster()
    for group in GROUPS:
        cluster.keep(group)
    for change, node, size, keep in steps:
        change(cluster, node, size)
        for group in GROUPS:
            kept = cluster.kept(group)
            if kept is not None:
                assert kept == cluster.counted(group), f"{change.__name__} on {node}"
            elif keep:
                cluster.keep(group)


@pytest.mark.requirement("S1.44", "S1.49")
@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NODES), SIZES), min_size=1, max_size=5))
def test_what_becomes_more_leaves_what_is_kept(steps: list[Any]) -> None:
    cluster = Cluster()
    for group in GROUPS:
        cluster.keep(group)
    before = [cluster.kept(group) for group in GROUPS]
    for node, size in steps:
        found = cluster.reported(node)
        space = found.space[LOCAL]
        more = {LOCAL: Space(space.size_mib, min(space.size_mib, space.free_mib + size))}
        cluster.report(node, memory_free_mib=found.memory_free_mib + size, cpu_total=found.cpu_total + 1, space=more)
        elsewhere(cluster, node, size)
    assert [cluster.kept(group) for group in GROUPS] == before
    assert None not in before
    cluster.clock += EXPIRED_S
    assert [cluster.kept(group) for group in GROUPS] == [None, None], "an hour is the end of it (S1.49)"


def test_every_change_concerns_its_own_group_alone() -> None:
    for change in CHANGES:
        cluster = Cluster()
        for group in GROUPS:
            cluster.keep(group)
            assert cluster.kept(group)["tspecs"], "there is room, or the laws above say nothing"
        change(cluster, NODES[0], 64)
        gone = [group for group in GROUPS if cluster.kept(group) is None]
        everywhere, nowhere = change is a_larger_default, change is elsewhere
        assert gone == (list(GROUPS) if everywhere else [] if nowhere else [GROUPS[0]]), change.__name__
