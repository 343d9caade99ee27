# SPDX-License-Identifier: BSD-2-Clause
"""The picture that follows the change stream is what reading the allocator's input of that moment gives."""

from __future__ import annotations

import random
from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.node_answers import facts, found_instance
from tests.fakes.sample_cluster import add_instance, catalogue, configuration
from tests.fakes.state_facts import state_facts

from ganeti.base.errors import PrerequisiteError
from ganeti.master.allocator_input import allocator_input, relocate_request, reservations_of
from ganeti.master.cache.cluster_picture import ClusterPicture
from ganeti.master.cache.node_reports import NodeReport, Space, report_of, silent
from ganeti.master.cache.placer import Placer, options_of
from ganeti.master.cache.replica import Replica
from ganeti.model.configuration import Configuration
from ganeti.model.ipolicy import full_policy
from ganeti.model.objects import NodeGroup
from ganeti.model.placement_requests import Allocate, ChangeGroup, WantedDisk
from ganeti.model.reservations import Reservation
from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.reading import read_cluster

LOCAL, SHARED = "plain", "sharedfile"


class Stream:
    """A configuration that changes by commits, and a picture that follows it."""

    def __init__(self, config: Configuration) -> None:
        self.replica = Replica()
        self.picture = ClusterPicture(lambda: self.replica.configuration)
        self.placer = Placer(self.picture)
        self._serial = 1
        self._tell({"event": "snapshot", "position": [1, 1], "config": config.to_plain()})

    @property
    def view(self) -> Configuration:
        return self.replica.configuration

    def commit(self, *puts: tuple[str, Any], remove: Any = ()) -> None:
        self._serial += 1
        put = [[kind, "cluster" if kind == "cluster" else obj.uuid, obj.to_plain()] for kind, obj in puts]
        self._tell({"event": "commit", "position": [1, self._serial], "put": put, "remove": list(remove)})

    def _tell(self, event: dict[str, Any]) -> None:
        told = self.picture.before(event)
        self.replica.apply(event)
        told()

    def report(self, name: str, **changes: Any) -> None:
        self.picture.take_reports({f"uuid-{name}": report(**changes)})

    def read(self, template: str = LOCAL) -> Cluster:
        """The same, from the allocator's input."""
        whole = allocator_input(self.view, self.picture.reports, [], template)
        found = read_cluster(whole, hypervisors=whole["enabled_hypervisors"])
        silent_nodes = {
            node.name: node.unavailable
            for node in self.picture.cluster(template).nodes
            if node.unavailable.startswith("not answering")
        }
        nodes = [replaced(node, unavailable=silent_nodes.get(node.name, node.unavailable)) for node in found.nodes]
        return replaced(found, nodes=nodes)

    def check(self) -> None:
        for template in (LOCAL, SHARED):
            assert self.picture.cluster(template) == self.read(template)
            assert state_facts(self.placer.state(template)) == state_facts(ClusterState(self.picture.cluster(template)))


def report(free: int = 4096, guests: Any = (), disk: int = 5000) -> NodeReport:
    return NodeReport(
        memory_total_mib=8192,
        memory_free_mib=free,
        memory_node_mib=512,
        cpu_total=4,
        cpu_node=1,
        space={LOCAL: Space(9000, disk), SHARED: Space(100, 50)},
        guests=list(guests),
    )


@pytest.fixture
def stream() -> Stream:
    config = configuration()
    cluster = replace(
        config.cluster, ipolicy=full_policy([LOCAL, SHARED]), default_iallocator_params={"no-capacity-checks": ""}
    )
    config.put("cluster", "cluster", cluster)
    for name, node in (("web2", "uuid-node2"), ("web1", "uuid-node1"), ("db", "uuid-node2")):
        add_instance(config, name, node, template=SHARED)
    found = Stream(config)
    for name in ("node1", "node2", "node3"):
        found.report(name, guests=[("web1", 100, "running")] if name == "node1" else [])
    return found


def test_the_picture_is_the_input_read(stream: Stream) -> None:
    stream.check()
    node1 = stream.picture.cluster(LOCAL).nodes[0]
    assert (node1.free_memory_mib, node1.free_disk_mib) == (4096 - 28, 5000), "28 MiB are owed to web1"
    assert stream.picture.cluster(SHARED).nodes[0].free_disk_mib == 50


def test_every_change_is_followed(stream: Stream) -> None:
    view = stream.view
    web1, web2 = view.find_instance("web1"), view.find_instance("web2")
    stream.commit(("instances", replace(web1, admin_state="down", beparams={"maxmem": 1024})))
    stream.check()
    stream.commit(("instances", replace(web2, name="aaa")))
    stream.check()
    stream.commit(("disks", replace(view.instance_disks(web2)[0], size=4000)))
    stream.check()
    stream.commit(("instances", replace(web2, primary_node="uuid-node3")))
    stream.check()
    stream.commit(("nodes", replace(view.node("uuid-node1"), drained=True)))
    stream.check()
    stream.commit(("cluster", replace(view.cluster, beparams={"default": {"maxmem": 256}}, tags=["x"])))
    stream.check()
    stream.commit(("cluster", replace(view.cluster, highest_used_port=11001)))
    stream.check()
    stream.commit(("nodegroups", NodeGroup(uuid="g2", name="another", alloc_policy="unallocable")))
    stream.check()
    stream.commit(remove=[["instances", "uuid-db"], ["disks", view.find_instance("db").disks[0]]])
    stream.check()
    stream.report("node2", free=17)
    stream.check()


@pytest.mark.requirement("S1.28")
def test_an_instance_leaves_its_group_for_one_of_a_single_node(stream: Stream) -> None:
    """A group that could not lose its node before need not be able to afterwards: 3.1 refuses this."""
    [disk] = stream.view.instance_disks(stream.view.find_instance("web1"))
    stream.commit(
        ("disks", replace(disk, size=2000)),
        ("cluster", replace(stream.view.cluster, default_iallocator_params={})),
        ("nodegroups", NodeGroup(uuid="g2", name="another")),
        ("nodes", replace(stream.view.node("uuid-node3"), group="g2")),
    )
    request = ChangeGroup(instances=["web1"], target_groups=["g2"])
    answer, _ = stream.placer.answer(stream.view, request, SHARED, [])
    assert answer["result"][:2] == [[["web1", "another", ["node3"]]], []]


@pytest.mark.parametrize("seed", range(10))
def test_any_history_leads_to_the_same_picture(stream: Stream, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        view, kind = stream.view, chance.randrange(8)
        instances = view.instances()
        some = chance.choice(instances) if instances else None
        node = f"uuid-node{chance.randint(1, 3)}"
        if kind == 0:
            other = configuration()
            new = add_instance(other, f"new{chance.randrange(20)}", node, template=SHARED)
            if view.uuid_by_name("instances", new.name) is None:
                stream.commit(("disks", other.instance_disks(new)[0]), ("instances", new))
        elif kind == 1:
            stream.report(node.removeprefix("uuid-"), free=chance.randint(1, 4096))
        elif kind == 2:
            changed = replace(view.node(node), drained=chance.random() < 0.3, master_candidate=chance.random() < 0.5)
            stream.commit(("nodes", changed))
        elif kind == 3 and chance.random() < 0.2:
            stream.picture.take_reports({node: silent("no route")})
        elif some is not None and kind == 4:
            stream.commit(remove=[["instances", some.uuid], *(["disks", disk] for disk in some.disks)])
        elif some is not None and kind == 5:
            stream.commit(("instances", replace(some, primary_node=node)))
        elif some is not None and kind == 6:
            stream.commit(("instances", replace(some, admin_state=chance.choice(["up", "down", "offline"]))))
        elif some is not None:
            stream.commit(("disks", replace(view.instance_disks(some)[0], size=chance.randint(1, 99))))
        if chance.random() < 0.5:
            stream.check()
    stream.check()


def test_a_silent_node_says_why(stream: Stream) -> None:
    stream.picture.take_reports({"uuid-node3": silent("Node node3 cannot be reached: no route")})
    node3 = stream.picture.cluster(LOCAL).nodes[2]
    assert node3.unavailable == "not answering (Node node3 cannot be reached: no route)"
    stream.check()
    request = replace(ALLOCATE, memory=10**6)
    response, reasons = stream.placer.answer(stream.view, request, LOCAL, [])
    assert not response["success"]
    assert any(line.startswith("node3: is not answering (Node node3 cannot be reached: no route)") for line in reasons)


def test_instances_being_created_are_reservations(stream: Stream) -> None:
    web1 = stream.view.find_instance("web1")
    stream.commit(("instances", replace(web1, forthcoming=True)))
    assert [instance.name for instance in stream.picture.cluster(LOCAL).instances] == ["db", "web2"]
    (reservation,) = stream.picture.coming()
    assert (reservation.instance, reservation.nodes, reservation.memory_mib, reservation.disk_mib) == (
        "web1",
        ["uuid-node1"],
        28,
        64,
    )
    stream.commit(("instances", replace(web1, forthcoming=None)))
    assert stream.picture.coming() == []
    stream.check()


ALLOCATE = Allocate(
    name="new",
    memory=3000,
    vcpus=1,
    disks=[WantedDisk(size=3000)],
    disk_template=LOCAL,
    disk_space_total=3000,
    required_nodes=1,
)


def test_reservations_are_counted_and_taken_back(stream: Stream) -> None:
    def nodes(*reservations: Reservation) -> list[str]:
        response, _ = stream.placer.answer(stream.view, ALLOCATE, LOCAL, reservations)
        return list(response["result"])

    held: list[Reservation] = []
    chosen = []
    while found := nodes(*held):
        chosen += found
        held += reservations_of(stream.view, catalogue_of_all(), replace(ALLOCATE, name=f"new{len(held)}"), found)
    assert sorted(chosen) == ["node1", "node2", "node3"], "each has room for one"
    assert sorted(nodes() + nodes()) == sorted(chosen[:1] * 2), "no reservation, no trace of one"
    gone = Reservation(instance="x", nodes=["uuid-gone"], memory_mib=9999)
    assert nodes(gone) == chosen[:1]


def test_a_guest_that_has_arrived_is_not_counted_twice(stream: Stream) -> None:
    moving = [Reservation(instance="web1", nodes=[f"uuid-node{number}"], memory_mib=3000) for number in (1, 2, 3)]
    response, _ = stream.placer.answer(stream.view, ALLOCATE, LOCAL, moving)
    assert response["result"] == ["node1"], "the report of node1 has web1 already"


def test_a_reservation_counts_otherwise_once_its_guest_has_arrived(stream: Stream) -> None:
    """Reservations are asked about again and again; what is kept of them must not be what was so before."""

    def chosen() -> list[str]:
        held = [Reservation(instance="coming", nodes=[f"uuid-node{number}"], memory_mib=3000) for number in (1, 2, 3)]
        response, _ = stream.placer.answer(stream.view, ALLOCATE, LOCAL, held)
        return list(response["result"])

    assert chosen() == []
    stream.report("node2", guests=[("coming", 100, "running")])
    assert chosen() == ["node2"]
    stream.report("node2")
    assert chosen() == []


def test_a_programs_input_holds_reservations_too(stream: Stream) -> None:
    reservation = Reservation(
        instance="new", nodes=["uuid-node2"], memory_mib=1000, disk_mib=700, vcpus=3, disk_template=LOCAL, tags=["t"]
    )
    whole = allocator_input(stream.view, stream.picture.reports, [reservation], LOCAL)
    free = whole["nodes"]["node2"]
    without = allocator_input(stream.view, stream.picture.reports, [], LOCAL)["nodes"]["node2"]
    assert without["free_memory"] - free["free_memory"] == 1000
    assert without["free_disk"] - free["free_disk"] == 700
    assert whole["instances"]["new"]["vcpus"] == 3 and whole["instances"]["new"]["nodes"] == ["node2"]
    assert list(whole["instances"]) == ["db", "web1", "web2", "new"]


def test_a_relocation_is_reserved_the_memory_of_the_instance(stream: Stream) -> None:
    view = stream.view
    request = relocate_request(view, view.find_instance("web1"), ["node1"])
    (reservation,) = reservations_of(view, catalogue_of_all(), request, ["node3"])
    assert (reservation.instance, reservation.nodes, reservation.memory_mib) == ("web1", ["uuid-node3"], 128)


def test_options_of_the_default_allocator() -> None:
    found = options_of({"no-capacity-checks": None, "restrict-allocation-to": "node1,node2", "verbose": ""})
    assert (found.capacity_checks, found.restrict_to) == (False, ("node1", "node2"))
    with pytest.raises(PrerequisiteError, match="no option --colour"):
        options_of({"colour": "red"})


def test_reports_are_read_from_what_nodes_answer() -> None:
    found = report_of(facts(spaces=[(None, 3)]), [found_instance("a", memory_mib=2)], ["local"])
    assert found.space_for("local") == Space(0, 3) and found.space_for("other") == Space(0, 0)
    assert found.guests == [("a", 2, "running")]


def catalogue_of_all() -> Any:
    from ganeti.model.traits import Catalogue, TemplateTraits

    known = catalogue()
    templates = {name: TemplateTraits(name, name) for name in (LOCAL, SHARED)}
    return Catalogue({**known.templates, **templates}, known.hypervisors)
