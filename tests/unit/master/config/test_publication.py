# SPDX-License-Identifier: BSD-2-Clause
"""What is published follows the commits, and reads as what was imported."""

import json

import pytest
from msgspec.structs import replace

from ganeti.master.config.importing import import_commit
from ganeti.master.config.publication import PublishedForm, ssconf_files
from ganeti.master.config.records import Commit, make_put
from ganeti.model.configuration import Configuration
from ganeti.wire import ssconf

WEB1 = "00000040-0000-4000-8000-000000000040"


@pytest.fixture
def config(golden) -> Configuration:
    config = Configuration.from_plain(golden)
    config.position = (1, 41)
    return config


@pytest.fixture
def form(config) -> PublishedForm:
    commit = import_commit(config, config.header["mtime"])
    return PublishedForm(config, {(put.kind, put.uuid): put.data for put in commit.puts}, commit.time_s)


def without_absent(plain: object) -> object:
    """Null means "not set" in the file, and is left out when it is written."""
    if isinstance(plain, dict):
        return {key: without_absent(value) for key, value in plain.items() if value is not None}
    return [without_absent(item) for item in plain] if isinstance(plain, list) else plain


def test_what_was_imported_is_published_with_every_unknown_key(form, golden):
    published = json.loads(b"".join(form.config_parts()))
    kept = published["instances"]["00000042-0000-4000-8000-000000000042"]
    assert "later_instance_key" in kept, "a null of a later version is kept as it is"
    assert without_absent(published) == without_absent(golden)


def test_commits_show_in_the_file(form, config):
    web1 = replace(config.instance(WEB1), name="renamed", serial_no=5)
    form.apply(
        Commit(
            (1, 42),
            1_800_000_000.5,
            (make_put("instances", WEB1, web1),),
            (("filters", next(config.uuids("filters"))),),
        )
    )
    published = json.loads(b"".join(form.config_parts()))
    assert published["instances"][WEB1]["name"] == "renamed"
    assert published["filters"] == {}
    assert (published["serial_no"], published["mtime"]) == (42, 1_800_000_000.5)
    assert ssconf_files(form.ssconf_source())["instance_list"] == "renamed\nweb2.example.com\nweb3.example.com\n"


def test_objects_that_come_and_go_leave_nothing_in_memory(form, config):
    known = set(form.fingerprint.objects)
    web1, before = config.instance(WEB1), form.digest
    for number in range(50):
        uuid = f"short-lived-{number}"
        form.apply(Commit((1, 42), 1.0, (make_put("instances", uuid, replace(web1, uuid=uuid)),)))
        form.apply(Commit((1, 42), form.header()["mtime"], (), (("instances", uuid),)))
    assert set(form.fingerprint.objects) == known
    form.apply(Commit((1, 41), config.header["mtime"], (make_put("instances", WEB1, web1),)))
    assert form.digest == before


def test_only_what_ssconf_tells_of_asks_for_new_ssconf(form, config):
    web1 = config.instance(WEB1)
    form.apply(Commit((1, 42), 0.0, (make_put("instances", WEB1, replace(web1, admin_state="down")),)))
    assert form.ssconf_position == (1, 41)
    form.apply(Commit((1, 43), 0.0, (make_put("instances", WEB1, replace(web1, name="renamed")),)))
    assert form.ssconf_position == (1, 43)
    form.apply(Commit((1, 44), 0.0, (make_put("nodes", config.cluster.master_node, config.nodes()[0]),)))
    assert form.ssconf_position == (1, 44)


def test_every_ssconf_file_of_the_protocol_is_written(form):
    files = ssconf_files(form.ssconf_source())
    assert set(files) == set(ssconf.KEYS)
    assert all(text == "" or text.endswith("\n") for text in files.values())


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cluster_name", "cluster.example.com\n"),
        ("master_node", "node1.example.com\n"),
        ("master_candidates", "node1.example.com\nnode2.example.com\n"),
        ("master_candidates_ips", "192.0.2.11\n192.0.2.12\n"),
        ("online_nodes", "node1.example.com\nnode2.example.com\n"),
        ("offline_nodes", "node3.example.com\n"),
        ("node_vm_capable", "node1.example.com=True\nnode2.example.com=True\nnode3.example.com=False\n"),
        ("ssh_ports", "node1.example.com=22\nnode2.example.com=2222\nnode3.example.com=2022\n"),
        ("uid_pool", "100-200\n300\n"),
        ("hypervisor_list", "kvm\nfake\n"),
        ("hvparams_fake", "migration_mode=live\n"),
        ("hvparams_lxc", ""),
        ("networks", "00000030-0000-4000-8000-000000000030 lan\n"),
        ("release_version", "3.1.0\n"),
        ("maintain_node_health", "False\n"),
    ],
)
def test_ssconf_texts(form, key, text):
    assert ssconf_files(form.ssconf_source())[key] == text


def test_a_snapshot_does_not_move(form, config):
    parts, source = form.config_parts(), form.ssconf_source()
    before = b"".join(parts)
    form.apply(Commit((1, 42), 0.0, removes=(("instances", WEB1),)))
    assert b"".join(parts) == before
    assert "web1.example.com" in source.instance_names
