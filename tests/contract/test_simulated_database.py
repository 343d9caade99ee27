# SPDX-License-Identifier: BSD-2-Clause
"""The store of the configuration on a simulated database: its own tests hold there as they do on a real disk."""

import contextlib
import os
from types import SimpleNamespace

import pytest
from tests.unit.stores import test_config_store as real

from ganeti.stores import config_store, config_view
from ganeti_simulation.disk.databases import Databases, facade
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.preparing import make_directories, put_file

store = real.store
globals().update({name: test for name, test in vars(real).items() if name.startswith("test_")})


class Machine:
    """What the store and its tests ask of `os`, `open` and `sqlite3`, on one simulated disk."""

    def __init__(self):
        self.disk = Disk()
        make_directories(self.disk, "/var/lib/ganeti")
        self.disk.sync_all()
        self.databases = Databases()
        self.sqlite3 = facade(lambda path, **arguments: self.databases.connect(self.disk, path, **arguments))
        self.os = SimpleNamespace(**{name: value for name, value in vars(os).items() if name.startswith("O_")})
        self.os.open = self.disk.open
        self.os.close = lambda file: file.close()
        self.os.path = SimpleNamespace(exists=self.disk.exists)

    def plain_file(self, path, flags, *, mode):
        """There are no FIFOs on this disk."""
        return self.disk.open(path, flags, mode)

    def open(self, path, mode):
        put = SimpleNamespace(write=lambda data: put_file(self.disk, path, data))
        return contextlib.nullcontext(put)


@pytest.fixture
def path(monkeypatch):
    machine = Machine()
    for module in (config_store, config_view):
        monkeypatch.setattr(module, "sqlite3", machine.sqlite3)
        monkeypatch.setattr(module, "os", machine.os)
    monkeypatch.setattr(config_store, "plain_file", machine.plain_file)
    monkeypatch.setattr(config_store, "check_plain", lambda path: None)
    monkeypatch.setattr(real, "sqlite3", machine.sqlite3)
    monkeypatch.setattr(real, "open", machine.open, raising=False)
    yield "/var/lib/ganeti/config.db"
    machine.databases.close(keep=False)


def test_a_lost_power_keeps_every_commit(path, monkeypatch):
    written = real.SqliteStore(path)
    written.commit([real.read_foreign(real.GOLDEN.read_bytes(), "filehash", None, 5.0).commit])
    disk = config_store.os.open.__self__
    disk.power_loss()
    again = real.SqliteStore(path)
    put = real.make_put("instances", real.WEB1, real.renamed(again, "renamed"))
    again.commit([real.Commit((1, 43), 6.0, (put,), (), None)])
    disk.power_loss()
    again = real.SqliteStore(path)
    assert again.load().config.position == (1, 43)
    assert config_view.ConfigReader(path).view().find_instance("renamed").uuid == real.WEB1
