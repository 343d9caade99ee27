# SPDX-License-Identifier: BSD-2-Clause
"""The store on disk and views of it: what was committed is there, whole, after any end."""

import sqlite3

import pytest
from msgspec.structs import replace
from tests.fakes.wconfd import GOLDEN, fast_directory

from ganeti.base.errors import ConfigurationError
from ganeti.master import operations
from ganeti.master.config.head import Head
from ganeti.master.config.importing import read_foreign
from ganeti.master.config.records import Commit, PublishedMark, StepAnswer, make_put
from ganeti.master.operation import decode
from ganeti.model.objects import Instance
from ganeti.stores import config_view
from ganeti.stores.config_store import SqliteStore, read_object
from ganeti.stores.config_view import ConfigReader
from ganeti.stores.lazy_view import LazyView

operations.load()

WEB1 = "00000040-0000-4000-8000-000000000040"
NODE1 = "00000020-0000-4000-8000-000000000020"


@pytest.fixture
def path():
    with fast_directory() as directory:
        yield str(directory / "config.sqlite")


@pytest.fixture
def store(path):
    store = SqliteStore(path)
    store.commit([read_foreign(GOLDEN.read_bytes(), "filehash", None, 5.0).commit])
    yield store
    store.close()


def renamed(store: SqliteStore, name: str) -> Instance:
    loaded = store.load()
    assert loaded is not None
    return replace(loaded.config.instance(WEB1), name=name)


def test_an_empty_store_is_none(path):
    store = SqliteStore(path)
    assert store.load() is None
    store.close()


def test_what_was_imported_is_loaded(store):
    loaded = store.load()
    assert loaded.config.position == (1, 42)
    assert loaded.stream_start == (1, 42)
    expected = read_foreign(GOLDEN.read_bytes(), "", None, 5.0)
    assert loaded.published == ("filehash", expected.commit.digest), "what lies there, and what will be published"
    assert loaded.mtime_s == 5.0
    assert loaded.config.to_plain() == expected.config.to_plain()
    assert list(loaded.config.uuids("instances")) == list(expected.config.uuids("instances"))
    assert Head(loaded.config).indexes.holders == Head(expected.config).indexes.holders


class FullDisk:
    """A connection whose disk has no room for the database, only for its log."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def execute(self, statement, *rest):
        if "wal_checkpoint" in statement:
            raise sqlite3.OperationalError("database or disk is full")
        return self._db.execute(statement, *rest)

    def __getattr__(self, name):
        return getattr(self._db, name)


def test_a_commit_stands_although_the_log_cannot_be_folded_away(store, monkeypatch, caplog):
    """Were it taken back in memory, the next one would get its number again, and fail."""
    monkeypatch.setattr("ganeti.stores.config_store._CHECKPOINT_AFTER_COMMITS", 1)
    store._db = FullDisk(store._db)
    put = make_put("instances", WEB1, renamed(store, "web9.example.com"))
    store.commit([Commit((1, 43), 6.0, (put,), (), None)])
    assert store.wants_maintenance
    store.maintain()
    assert store.load().config.position == (1, 43) and "disk is full" in caplog.text


def test_commits_are_loaded_with_their_stream_and_steps(path, store):
    step = StepAnswer(3, 1, 2, True, "/livelocks/job_000003_1", b'{"position":[1,43],"result":null}')
    first = Commit((1, 43), 9.5, (make_put("instances", WEB1, renamed(store, "renamed")),), (), step)
    second = Commit((1, 44), 9.75, removes=(("filters", next(store.load().config.uuids("filters"))),))
    store.commit([first, second])
    store.close()
    again = SqliteStore(path)
    loaded = again.load()
    again.close()
    assert loaded.config.position == (1, 44)
    assert loaded.mtime_s == 9.75
    assert loaded.config.find_instance("renamed").uuid == WEB1
    assert list(loaded.config.uuids("filters")) == []
    assert loaded.steps == [step]
    assert [position for position, _ in loaded.events] == [(1, 43), (1, 44)]


def test_a_batch_is_one_transaction_and_all_or_nothing(store):
    statements = []
    store.on_statement(statements.append)
    good = Commit((1, 43), 1.0, (make_put("instances", WEB1, renamed(store, "a")),))
    statements.clear()
    store.commit([good])
    assert [text for text in statements if text in ("BEGIN IMMEDIATE", "COMMIT")] == ["BEGIN IMMEDIATE", "COMMIT"]
    with pytest.raises(ConfigurationError, match="cannot be written"):
        store.commit([Commit((1, 44), 1.0, (make_put("instances", WEB1, renamed(store, "b")),)), good])
    assert store.load().config.position == (1, 43)
    assert store.load().config.instance(WEB1).name == "a"


def test_the_disk_is_synced_at_every_commit(store):
    assert store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert store._db.execute("PRAGMA synchronous").fetchone()[0] == 2, "2 is FULL: the log is synced at each commit"


def test_the_stored_stream_is_bounded(store):
    web1 = make_put("instances", WEB1, renamed(store, "x"))
    for serial in range(43, 43 + 1100, 50):
        mark = PublishedMark((1, serial - 1), "x", synced=(1, serial - 1))
        store.commit([Commit((1, number), 0.0, (web1,), published=mark) for number in range(serial, serial + 50)])
    loaded = store.load()
    assert len(loaded.events) == 1000
    assert loaded.events[0][0] == (1, loaded.stream_start[1] + 1)


@pytest.mark.parametrize("published", [100, 60])
def test_every_state_is_known_that_may_lie_on_the_disk(store, published):
    """However far publication and syncing are behind: an unknown file would be imported, and undo what it lacks."""
    web1 = make_put("instances", WEB1, renamed(store, "x"))
    mark = PublishedMark((1, published), f"d{published}", synced=(1, 60))
    for serial in range(43, 43 + 3000, 250):
        store.commit(
            [
                Commit((1, number), 0.0, (web1,), digest=f"d{number}", published=mark if number > published else None)
                for number in range(serial, serial + 250)
            ]
        )
    loaded = store.load()
    assert {f"d{number}" for number in range(published, 3043)} <= set(loaded.published)
    assert {f"d{number}" for number in range(60, published)} <= set(loaded.earlier)
    assert loaded.stream_start == (1, 59)
    assert [position[1] for position, _ in loaded.events] == list(range(60, 3043))


def test_the_state_before_all_commits_is_known_as_well(store):
    """It is what lies on the disk after a loss of power when nothing was synced since (seed 24 with 3 nodes)."""
    before = store.load().published
    web1 = make_put("instances", WEB1, renamed(store, "x"))
    store.commit([Commit((1, 43), 0.0, (web1,), digest="d43", published=PublishedMark((1, 42), before[-1]))])
    store.commit([Commit((1, 44), 0.0, (web1,), digest="d44", published=PublishedMark((1, 43), "d43"))])
    loaded = store.load()
    assert before[-1] not in loaded.published
    assert set(before) <= set(loaded.earlier)


def test_forgotten_steps_are_gone(store):
    answers = [StepAnswer(3, 1, number, False, "/l", b"x") for number in (1, 2)]
    store.commit([Commit((1, 42), 0.0, step=answer) for answer in answers])
    assert store.load().config.position == (1, 42), "a step without a change does not move the stream"
    store.forget_steps(answers[:1])
    assert store.load().steps == answers[1:]


def test_a_broken_row_names_its_object(path, store):
    with sqlite3.connect(path) as other:
        other.execute("UPDATE objects SET data = ? WHERE uuid = ?", (b'{"name": 5', WEB1))
    other.close()
    with pytest.raises(ConfigurationError, match=f"The stored object instances/{WEB1} cannot be read"):
        store.load()
    view = ConfigReader(path).view()
    assert view.node(NODE1).name == "node1.example.com"
    with pytest.raises(ConfigurationError, match=f"The stored object instances/{WEB1} cannot be read"):
        view.instance(WEB1)


def test_a_file_that_is_no_database_is_refused(path):
    with open(path, "wb") as stream:
        stream.write(b"not a database at all" * 100)
    with pytest.raises(ConfigurationError, match="cannot be opened: file is not a database"):
        SqliteStore(path)


def test_a_layout_of_another_version_is_refused(path):
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(ConfigurationError, match="has layout 99, this program knows 3"):
        SqliteStore(path)


def test_a_view_stays_what_it_was(path, store):
    reader = ConfigReader(path)
    before = reader.view()
    store.commit([Commit((1, 43), 1.0, (make_put("instances", WEB1, renamed(store, "renamed")),))])
    after = reader.view()
    assert (before.position, after.position) == ((1, 42), (1, 43))
    assert before.find_instance("web1").name == "web1.example.com"
    assert after.find_instance("renamed").uuid == WEB1
    assert after.uuid_by_name("instances", "web1.example.com") is None
    assert "renamed" in list(after.names("instances"))


def test_a_view_answers_as_memory_does(path, store):
    memory = store.load().config
    with ConfigReader(path).view() as view:
        for kind in ("nodes", "nodegroups", "instances", "networks", "disks", "filters"):
            assert list(view.stream(kind)) == memory.all(kind) == list(memory.stream(kind))
            assert not [key for key in view._seen if key[0] == kind], "none is kept"
            assert view.all(kind) == memory.all(kind)
            assert list(view.uuids(kind)) == list(memory.uuids(kind))
        assert view.cluster == memory.cluster
        for node in memory.nodes():
            assert view.primary_instances(node.uuid) == memory.primary_instances(node.uuid)
        some = [node.uuid for node in memory.nodes()][:2]
        expected = [each.uuid for uuid in some for each in memory.primary_instances(uuid)]
        for found in (
            view.primary_instances(*some),
            memory.primary_instances(*some),
            view.primary_instances(*some, *some),
        ):
            assert sorted(each.uuid for each in found) == sorted(expected)
        assert view.primary_instances() == memory.primary_instances() == []
        for some in [[node.uuid] for node in memory.nodes()] + [[node.uuid for node in memory.nodes()], [], ["nobody"]]:
            assert view.instances_on(*some) == memory.instances_on(*some)
        for instance in memory.instances():
            for nic in instance.nics:
                assert view.uses_mac(nic.mac) and memory.uses_mac(nic.mac)
        for mac in ("aa:00:00:ff:ff:ff", WEB1):
            assert not view.uses_mac(mac) and not memory.uses_mac(mac)
        assert view.get("instances", "nobody") is None
        assert list(view.names("disks")) == []


def test_the_locks_of_a_group_are_planned_by_reading_its_instances_alone(path, store, monkeypatch):
    """Of another group there are a thousand; to read them all would take longer than to look."""
    config, read = store.load().config, []
    web1, other = config.instance(WEB1), config.find_group("spare")
    (node3,) = config.group_nodes(other.uuid)
    many = [
        make_put(
            "instances", f"many-{number}", replace(web1, uuid=f"many-{number}", name=name, primary_node=node3.uuid)
        )
        for number, name in enumerate(f"many{number}" for number in range(1000))
    ]
    store.commit([Commit((1, 43), 1.0, tuple(many))])
    group = config.node(web1.primary_node).group
    members = {node.uuid for node in config.group_nodes(group)}
    guests = {each.name for each in config.instances() if each.primary_node in members}

    def counted(kind, uuid, data):
        read.append(kind)
        return read_object(kind, uuid, data)

    monkeypatch.setattr(config_view, "read_object", counted)
    operation = decode({"OP_ID": "OP_UPDATE_NODE_GROUP_CACHE", "group_name": group})
    plan = operation.locks(LazyView(ConfigReader(path)))
    assert {name for name in plan.shared if name.startswith("instance/")} == {f"instance/{name}" for name in guests}
    assert read.count("instances") == len(guests) > 0


def test_an_ended_view_says_so_and_its_handle_is_used_again(path, store):
    reader = ConfigReader(path)
    view = reader.view()
    view.close()
    with pytest.raises(ConfigurationError, match="has been closed"):
        view.all("nodes")
    opened = len(reader._idle)
    reader.view()
    assert (opened, len(reader._idle)) == (1, 1), "a dropped view gives its handle back"
    reader.close()


def test_what_a_view_has_read_is_read_once_for_a_position(path, store):
    reader, name = ConfigReader(path), store.load().config.instance(WEB1).name
    known = reader.view().get("instances", WEB1)
    assert reader.view().get("instances", WEB1) is known
    assert reader.view().uuid_by_name("instances", name) == WEB1
    store.commit([Commit((1, 43), 6.0, (make_put("instances", WEB1, renamed(store, "renamed")),))])
    view = reader.view()
    assert (view.uuid_by_name("instances", "renamed"), view.uuid_by_name("instances", name)) == (WEB1, None)
    assert view.get("instances", WEB1).name == "renamed"
    reader.close()


def test_no_configuration_is_said_with_its_reason(path):
    with pytest.raises(ConfigurationError, match="ganeti-wconfd has not run yet"):
        ConfigReader(path).view()
    SqliteStore(path).close()
    with pytest.raises(ConfigurationError, match="has not filled it yet"):
        ConfigReader(path).view()


def test_no_instance_is_read_to_tell_that_a_mac_address_is_free(path, store):
    with ConfigReader(path).view() as view:
        assert not view.uses_mac("aa:00:00:ff:ff:ff")
        assert not [key for key in view._seen if key[0] == "instances"]


def test_of_the_instances_on_other_nodes_no_more_is_read_than_that_they_are_there(path, store):
    memory = store.load().config
    [node] = [
        node.uuid for node in memory.nodes() if 0 < len(memory.instances_on(node.uuid)) < len(memory.instances())
    ][:1]
    with ConfigReader(path).view() as view:
        found = view.instances_on(node)
        assert [uuid for kind, uuid in view._seen if kind == "instances"] == [each.uuid for each in found]
