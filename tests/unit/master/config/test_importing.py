# SPDX-License-Identifier: BSD-2-Clause
"""What a start makes of a store and a file."""

import json
from dataclasses import replace

import pytest

from ganeti.base.errors import ConfigurationError, ConfigVerifyError
from ganeti.master.config.file_layout import FileLayout
from ganeti.master.config.fingerprint import UNREADABLE
from ganeti.master.config.importing import Start, decide, read_foreign
from ganeti.master.config.store import Loaded
from ganeti.model.configuration import Configuration

STORED = Loaded(Configuration(), {}, 0.0, published=("confirmed", "intended"), earlier=("earlier",), boot="this boot")
ENDED = replace(STORED, boot="")
LOST_POWER = replace(STORED, boot="the boot before")
ENTRIES = {"cluster": {"cluster": b"{}"}}
OURS = b"".join(FileLayout(b'{"version":3010000}', ENTRIES, "c0ffee").whole())


@pytest.mark.parametrize(
    ("stored", "data", "digest", "start"),
    [
        (None, None, UNREADABLE, Start.NO_CLUSTER),
        (None, b"{}", "any", Start.IMPORT),
        (STORED, None, UNREADABLE, Start.STORED),
        (STORED, OURS, "confirmed", Start.STORED),
        (STORED, OURS, "intended", Start.STORED),
        (STORED, b"{}", "foreign", Start.IMPORT),
        (STORED, OURS, "restored", Start.IMPORT),
        (STORED, OURS, "earlier", Start.IMPORT),
        (STORED, b"", UNREADABLE, Start.IMPORT),
        (ENDED, OURS, "earlier", Start.IMPORT),
        (LOST_POWER, None, UNREADABLE, Start.STORED),
        (LOST_POWER, OURS, "intended", Start.STORED),
        (LOST_POWER, OURS, "earlier", Start.OUTDATED),
        (LOST_POWER, OURS, "0abc", Start.OUTDATED),
        (LOST_POWER, OURS, "c0ffee", Start.IMPORT),
        (LOST_POWER, b"\0\0\0\0", UNREADABLE, Start.OUTDATED),
        (LOST_POWER, b"", UNREADABLE, Start.OUTDATED),
        (LOST_POWER, b"{}", "foreign", Start.IMPORT),
    ],
)
def test_only_a_file_we_never_published_is_imported(stored, data, digest, start):
    assert decide(stored, data, digest, "this boot") is start


@pytest.mark.parametrize(("stored", "position"), [(None, (1, 42)), ((1, 7), (2, 42)), ((3, 99), (4, 100))])
def test_an_import_is_later_than_everything_before(golden_bytes, stored, position):
    imported = read_foreign(golden_bytes, "hash", stored, 1.0)
    assert imported.config.position == imported.commit.position == position
    assert imported.commit.whole
    assert imported.commit.imported_digest == "hash"
    assert len(imported.commit.puts) == 1 + 1 + 3 + 2 + 3 + 1 + 4 + 1


def test_a_file_that_is_not_ours_to_read_says_why(golden):
    for version, complaint in ((3000000, "version 3.0, this program reads 3.1"), (None, "no version")):
        golden["version"] = version
        with pytest.raises(ConfigurationError, match=complaint):
            read_foreign(json.dumps(golden).encode(), "hash", None, 1.0)
    with pytest.raises(ConfigurationError, match="not JSON"):
        read_foreign(b'{"version": 3010000', "hash", None, 1.0)
    with pytest.raises(ConfigurationError, match="must be a JSON object"):
        read_foreign(b"[]", "hash", None, 1.0)


def test_a_broken_object_is_named(golden):
    next(iter(golden["nodes"].values()))["primary_ip"] = 17
    with pytest.raises(ConfigurationError, match=r"Node node1.example.com cannot be read: .*primary_ip"):
        read_foreign(json.dumps(golden).encode(), "hash", None, 1.0)


def test_an_inconsistent_file_is_refused_with_every_problem(golden):
    golden["cluster"]["enabled_hypervisors"] = []
    golden["cluster"]["enabled_disk_templates"] = []
    with pytest.raises(ConfigVerifyError, match=r"no enabled hypervisor; .*no enabled disk template") as caught:
        read_foreign(json.dumps(golden).encode(), "hash", None, 1.0)
    assert len(caught.value.problems) == 2
