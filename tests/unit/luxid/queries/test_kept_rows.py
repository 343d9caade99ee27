# SPDX-License-Identifier: BSD-2-Clause
"""Rows that are kept say what rows made anew say, whatever has changed meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.luxid.queries import kept_rows
from ganeti.luxid.queries.kept_rows import KeptRows
from ganeti.luxid.queries.slices import in_idle_time, joined, of_objects, values, written
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.filters import compile_filter
from ganeti.master.query.instances import INSTANCES
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CLUSTER_KEY, Disk, Instance, Network, Nic
from ganeti.model.view import ConfigView

FIELDS = [field for field in INSTANCES.with_drivers(catalogue()).listed() if not field.live]
assert INSTANCES.made_of is not None
MADE_OF, ROWS = INSTANCES.made_of, INSTANCES.rows
INHERITED = {"cluster", "nodes", "nodegroups", "networks"}
SHOWN = {"instances", "disks", "nodes", "nodegroups", "networks", "cluster", "backups"}


class Site:
    """A configuration that moves on, and its kept rows beside rows made anew."""

    def __init__(self) -> None:
        self.configuration = configuration()
        self.kept = KeptRows(MADE_OF, catalogue(), lambda: self.configuration)
        self.configuration.put("networks", "net", Network(uuid="net", name="lan", network="192.0.2.0/24"))
        for number in (10, 9, 1):
            uuid = f"uuid-{number}"
            disk = Disk(uuid=f"disk-{number}", dev_type="local", size=number, nodes=["uuid-node1"])
            nics = [Nic(uuid=f"nic-{number}", mac="aa:00:00:00:00:01", network="net" if number == 1 else None)]
            instance = Instance(
                uuid=uuid,
                name=f"web{number}",
                os="noop",
                hypervisor="pretend",
                primary_node="uuid-node1",
                disks=[disk.uuid],
                nics=nics,
            )
            self.change("disks", disk)
            self.change("instances", instance)

    def change(self, kind: str, obj: Any) -> None:
        self.configuration.put(kind, CLUSTER_KEY if kind == "cluster" else obj.uuid, obj)
        self._moved()

    def remove(self, kind: str, uuid: str) -> None:
        self.configuration.remove(kind, uuid)
        self._moved()

    def _moved(self) -> None:
        epoch, serial = self.configuration.position
        self.configuration.position = (epoch, serial + 1)

    def listed(self, qfilter: Any = None) -> Any:
        predicate, _ = compile_filter(qfilter, INSTANCES.fields)
        pieces = self.kept.pieces(FIELDS, None if qfilter is None else predicate)
        return json.loads(b"".join(asyncio.run(joined(pieces)).parts))

    def anew(self, qfilter: Any = None) -> Any:
        assert ROWS is not None
        predicate, _ = compile_filter(qfilter, INSTANCES.fields)
        rows = ROWS(QueryWorld(self.configuration, catalogue()))
        return json.loads(b"".join(asyncio.run(written(of_objects(rows, FIELDS, predicate))).parts))


def _changes(site: Site) -> list[Any]:
    """What may change in a row, and what may not; each is made after the one before."""
    view = site.configuration

    def renamed(kind: str, uuid: str) -> Any:
        return lambda: site.change(kind, replace(view.get(kind, uuid), name=f"other-{kind}"))

    return [
        lambda: None,
        lambda: site.change("instances", replace(view.instance("uuid-9"), admin_state="up", name="web99")),
        lambda: site.change("disks", replace(view.disk("disk-1"), size=77)),
        lambda: site.change("disks", replace(view.disk("disk-10"), nodes=["uuid-node1", "uuid-node2"])),
        renamed("nodes", "uuid-node1"),
        renamed("nodegroups", view.nodes()[0].group),
        renamed("networks", "net"),
        lambda: site.change("cluster", replace(view.cluster, hvparams={"pretend": {"kernel": "/boot/other"}})),
        lambda: site.remove("instances", "uuid-9"),
        lambda: site.change("instances", replace(view.instance("uuid-1"), uuid="uuid-2", name="web2", disks=[])),
    ]


def test_a_list_is_the_same_after_any_change() -> None:
    site = Site()
    only_up = ["==", "admin_state", "up"]
    assert [row[[field.name for field in FIELDS].index("name")][1] for row in site.listed()] == [
        "web1",
        "web9",
        "web10",
    ]
    for change in _changes(site):
        change()
        assert site.listed(only_up) == site.anew(only_up)
        assert site.listed() == site.anew()
        assert site.listed() == site.anew(), "what is kept is used"


def test_a_row_that_a_filter_passed_over_is_not_taken_for_looked_at() -> None:
    site = Site()
    site.listed()
    site.change("instances", replace(site.configuration.instance("uuid-9"), admin_state="offline"))
    assert site.listed(["==", "name", "web1"]) == site.anew(["==", "name", "web1"])
    assert site.listed() == site.anew()


def test_only_what_has_changed_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    made: list[str] = []

    def noted(row: Any, getters: Any) -> Any:
        made.append(row.instance.name)
        return values(row, getters)

    monkeypatch.setattr(kept_rows, "values", noted)
    site.listed()
    assert sorted(made) == ["web1", "web10", "web9"]
    made.clear()
    site.listed()
    assert made == []
    site.change("disks", replace(site.configuration.disk("disk-9"), size=78))
    site.listed()
    assert made == ["web9"]


def test_rows_are_kept_through_changes_of_what_they_do_not_show() -> None:
    site = Site()
    view = site.configuration
    site.listed()
    written = {uuid: kept for each in site.kept._lists.values() for uuid, kept in each._kept.items()}
    site.change("cluster", replace(view.cluster, serial_no=99, candidate_pool_size=7))
    site.change("nodegroups", replace(view.groups()[0], alloc_policy="unallocable"))
    site.change("nodes", replace(view.node("uuid-node1"), offline=True))
    site.change("networks", replace(view.network("net"), reservations="1" * 8))
    assert not site.kept.is_stale()
    assert site.listed() == site.anew()
    now = {uuid: kept for each in site.kept._lists.values() for uuid, kept in each._kept.items()}
    assert now == written and all(now[uuid][0] is kept[0] for uuid, kept in written.items())


def test_stale_rows_are_written_anew_before_anybody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.listed()
    site.change("cluster", replace(site.configuration.cluster, beparams={"default": {"vcpus": 3}}))
    assert site.kept.is_stale()
    asyncio.run(in_idle_time(site.kept.renewed()))
    assert not site.kept.is_stale()
    expected = site.anew()
    monkeypatch.setattr(kept_rows, "values", None)
    assert site.listed() == expected


def test_a_change_in_the_midst_of_a_list_is_in_the_rows_that_follow_and_in_the_next_list() -> None:
    site = Site()
    pieces = site.kept.pieces(FIELDS, None)
    next(pieces)
    for uuid in ("uuid-1", "uuid-10"):
        site.change("instances", replace(site.configuration.instance(uuid), os="another"))
    site.remove("instances", "uuid-9")
    last = list(pieces)
    assert last[0] is None, "web9 has gone"
    assert json.loads(last[1] or b"") == site.anew()[1]
    assert site.listed() == site.anew()


def test_another_copy_of_the_configuration_counts_as_a_change() -> None:
    site = Site()
    site.listed()
    fresh = Configuration.from_plain(site.configuration.to_plain())
    fresh.position = site.configuration.position
    fresh.put("instances", "uuid-1", replace(fresh.instance("uuid-1"), os="another"))
    site.configuration = fresh
    assert site.listed() == site.anew()


def test_a_list_that_takes_too_much_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "_MOST_BYTES", 100)
    site = Site()
    assert site.listed() == site.listed() == site.anew()


def test_no_field_shows_more_than_its_row_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a field which looks elsewhere is declared with what it looks at."""
    site = Site()
    looked: set[tuple[str, str]] = set()
    read: set[str] = set()
    get = Configuration.get

    class Watched:
        """A stored object of which others may read some attributes only."""

        def __init__(self, obj: Any) -> None:
            self._obj = obj

        def __getattr__(self, name: str) -> Any:
            read.add(f"{type(self._obj).__name__}.{name}")
            return getattr(self._obj, name)

    def watched(self: Configuration, kind: str, uuid: str) -> Any:
        looked.add((kind, uuid))
        found = get(self, kind, uuid)
        return Watched(found) if kind in INHERITED and found is not None else found

    instance = site.configuration.instance("uuid-1")
    monkeypatch.setattr(Configuration, "get", watched)
    monkeypatch.setattr(Configuration, "all", ConfigView.all)  # by `get`
    MADE_OF.shared(site.configuration)
    shared = set(read)
    row = MADE_OF.row(instance, QueryWorld(site.configuration, catalogue()))
    for field in FIELDS:
        field.get(row)
    assert {kind for kind, _ in looked} <= SHOWN
    assert not {uuid for kind, uuid in looked if kind == "instances"} - {"uuid-1"}
    assert read == shared, "all that rows inherit is compared"
