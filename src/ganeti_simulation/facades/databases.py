# SPDX-License-Identifier: BSD-2-Clause
"""`sqlite3` of a simulated process."""

import sqlite3 as real_sqlite3
from types import ModuleType
from typing import Any

from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import machine_of


class SqliteFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("sqlite3")
        for name in dir(real_sqlite3):
            if name.endswith("Error") or name in ("Row", "Warning", "Connection", "Cursor", "sqlite_version"):
                setattr(self, name, getattr(real_sqlite3, name))

    @staticmethod
    def connect(path: str, **arguments: Any) -> Any:
        process = Running.process()
        machine = machine_of(process)
        connection = machine.databases.connect(machine.disk, path, **arguments)
        open_ones = process.local.get("connections")
        if open_ones is None:
            open_ones = process.local["connections"] = []
            process.ended[lambda: _close_all(open_ones)] = None
        open_ones.append(connection)
        return connection


def _close_all(connections: list[Any]) -> None:
    for connection in connections:
        connection.close()
