# SPDX-License-Identifier: BSD-2-Clause
"""What carries out a solution: shell commands for people, opcodes for the master daemon (spec: htools, 6).

A job is everything one step does to one instance. Jobs of a set may run at the same time; sets follow each other.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganeti.tools.htools.printing.tables import is_running

if TYPE_CHECKING:
    from ganeti.placement.allocate.moves import Opcode
    from ganeti.placement.balance.steps import Step
    from ganeti.placement.kernel.state import ClusterState

Alias = Callable[[str], str]
JobSets = Sequence[Sequence["Step"]]

STOP_FILE = "/tmp/stop-htools"  # noqa: S108 - the file 3.1's scripts look for
_SCRIPT_HEAD = f"""\
#!/bin/sh

# Auto-generated script for executing cluster rebalancing

# To stop, touch the file {STOP_FILE}

set -e

check() {{
  if [ -f {STOP_FILE} ]; then
    echo 'Stop requested, exiting'
    exit 0
  fi
}}

"""
_NEW_SECONDARY = "r"
_ANYWHERE = "fa"


def _hops(step: "Step") -> list[str]:
    """What a step does, one after the other: failovers (``f``, ``fa``) and new secondaries (``r``)."""
    return [_ANYWHERE] if step.kind == _ANYWHERE else list(step.kind)


def shell_commands(state: "ClusterState", step: "Step", alias: Alias) -> list[str]:
    """The commands of one step, without ``gnt-instance``."""
    instance = state.instances[step.instance]
    name, target = alias(instance.name), alias(state.name_of(step.target))
    verb = "migrate -f" if is_running(instance) else "failover -f"
    texts = {"f": f"{verb} {name}", "fa": f"{verb} -n {target} {name}", "r": f"replace-disks -n {target} {name}"}
    return [texts[hop] for hop in _hops(step)]


def command_lines(state: "ClusterState", sets: JobSets, alias: Alias, *, check: bool = False) -> list[str]:
    """Every line of the command list; with *check* a script stops between jobs when it is asked to."""
    lines = []
    for number, steps in enumerate(sets, 1):
        lines += ["", f"echo jobset {number}, {len(steps)} jobs"]
        for place, step in enumerate(steps, 1):
            lines.append(f"  echo job {number}/{place}")
            if check:
                lines.append("  check")
            lines += [f"  gnt-instance {command}" for command in shell_commands(state, step, alias)]
    return lines


def listing(state: "ClusterState", sets: JobSets, alias: Alias) -> str:
    """The commands as ``-C`` prints them."""
    return "".join(f"  {line}\n" for line in command_lines(state, sets, alias))


def script(state: "ClusterState", sets: JobSets, alias: Alias) -> str:
    """The commands as a shell script that does them all, or up to where `STOP_FILE` appears."""
    return script_of(command_lines(state, sets, alias, check=True))


def script_of(lines: Sequence[str]) -> str:
    """A shell script of *lines*, in which ``check`` stops when it is asked to."""
    return _SCRIPT_HEAD + "".join(f"{line}\n" for line in lines)


def opcodes(state: "ClusterState", step: "Step") -> list["Opcode"]:
    """The opcodes of one job, without comment and reason."""
    from ganeti.placement.allocate import moves  # only a plan that is carried out needs it

    instance = state.instances[step.instance]
    target = state.name_of(step.target)
    return [
        moves.replace_secondary(instance, target)
        if hop == _NEW_SECONDARY
        else moves.move(instance, target if hop == _ANYWHERE else "")
        for hop in _hops(step)
    ]
