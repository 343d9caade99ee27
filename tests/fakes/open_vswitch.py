# SPDX-License-Identifier: BSD-2-Clause
"""A program in the place of ``ovs-vsctl`` that keeps ports as the database of Open vSwitch does.

``--may-exist add-port`` changes nothing of a port that is there: neither its VLAN, nor its switch, which is an error.
"""

import json
import sys
from pathlib import Path

_PROGRAM = """#!{python}
import json, sys
path = {state!r}
with open(path) as file:
    ports = json.load(file)
words, commands = sys.argv[1:], [[]]
for word in words:
    commands.append([]) if word == "--" else commands[-1].append(word)
for command in commands:
    options = [word for word in command if word.startswith("--")]
    verb, *given = [word for word in command if not word.startswith("--")]
    if verb == "del-port":
        if given[0] not in ports and "--if-exists" not in options:
            sys.exit(f"ovs-vsctl: no port named {{given[0]}}")
        ports.pop(given[0], None)
    elif verb == "add-port":
        bridge, port, *columns = given
        if bridge not in ("sw0", "sw1"):
            sys.exit(f"ovs-vsctl: no bridge named {{bridge}}")
        if port in ports:
            if "--may-exist" not in options or ports[port]["bridge"] != bridge:
                sys.exit(f"ovs-vsctl: port {{port}} already exists on bridge {{ports[port]['bridge']}}")
            continue
        ports[port] = dict(column.split("=") for column in columns) | {{"bridge": bridge}}
    else:
        sys.exit(f"ovs-vsctl: unknown command '{{verb}}'")
with open(path, "w") as file:
    json.dump(ports, file)
"""


class Switches:
    """The switches ``sw0`` and ``sw1`` of one node."""

    def __init__(self, directory: Path) -> None:
        self._state, self.program = directory / "ports.json", directory / "ovs-vsctl"
        self._state.write_text("{}")
        self.program.write_text(_PROGRAM.format(python=sys.executable, state=str(self._state)))
        self.program.chmod(0o755)

    @property
    def ports(self) -> dict[str, dict[str, str]]:
        """Columns of each port, its switch as ``bridge``."""
        ports: dict[str, dict[str, str]] = json.loads(self._state.read_text())
        return ports
