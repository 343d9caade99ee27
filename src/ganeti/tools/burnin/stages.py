# SPDX-License-Identifier: BSD-2-Clause
"""What `burnin` does, stage by stage, as jobs for each instance. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.model.traits import TemplateTraits

Opcode = dict[str, Any]
REBOOT_TYPES = ("soft", "hard", "full")
_TIMEOUT_S = 10


@dataclass(frozen=True)
class BurninPlan:
    """What was asked for on the command line, every value checked."""

    instances: Sequence[str]
    system: str
    template: TemplateTraits
    nodes: Sequence[str]
    """That instances are put on in turn; empty with an allocator."""
    allocator: str | None
    disks: Sequence[int]
    """Sizes in MiB."""
    growth: Sequence[int]
    """MiB for each disk; 0 for none."""
    backend: dict[str, int]
    reboot_types: Sequence[str] = REBOOT_TYPES
    rename: str | None = None
    nics: bool = True
    left_out: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Stage:
    """One thing done to every instance; *jobs* has the opcodes of each instance's job."""

    title: str
    jobs: list[list[Opcode]]


def making(wanted: BurninPlan) -> Stage:
    """Make all instances."""
    return Stage("Creating instances", [[_create(wanted, at)] for at in range(len(wanted.instances))])


def removing(names: Sequence[str]) -> Stage:
    """Remove instances, whatever has become of them."""
    remove = [_of("OP_INSTANCE_REMOVE", name, ignore_failures=True, shutdown_timeout=_TIMEOUT_S) for name in names]
    return Stage("Removing instances", [[opcode] for opcode in remove])


def stages(wanted: BurninPlan) -> Iterator[Stage]:
    """Everything between making and removing, in the order of 3.1's tool; what cannot be done to a template is left
    out, as is what the command line leaves out."""
    names, traits, out = wanted.instances, wanted.template, wanted.left_out
    moved = traits.shared or traits.has_secondary
    if any(wanted.growth) and traits.growable and traits.has_disks:
        yield Stage("Growing disks", [_grown(name, wanted.growth) for name in names])
    if "failover" not in out and moved:
        yield _each("Failing instances over", names, "OP_INSTANCE_FAILOVER", wanted, target=True)
    if "migrate" not in out and moved:
        yield _each("Migrating instances", names, "OP_INSTANCE_MIGRATE", wanted, target=True)
    if "move" not in out and traits.copyable and len(wanted.nodes) > 1:
        yield _each("Moving instances", names, "OP_INSTANCE_MOVE", wanted, target=True)
    if "importexport" not in out and traits.has_disks and wanted.nodes:
        yield Stage("Exporting, removing and importing instances", [_exported(wanted, at) for at in range(len(names))])
    if "reinstall" not in out and traits.has_disks:
        install = [_of("OP_INSTANCE_REINSTALL", name) for name in names]
        again = [
            [*_power(name, "SHUTDOWN"), opcode, *_power(name, "STARTUP")]
            for name, opcode in zip(names, install, strict=True)
        ]
        yield Stage("Reinstalling instances", again)
    if "reboot" not in out:
        for kind in wanted.reboot_types:
            jobs = [[_of("OP_INSTANCE_REBOOT", name, reboot_type=kind, shutdown_timeout=_TIMEOUT_S)] for name in names]
            yield Stage(f"Rebooting instances ({kind})", jobs)
    if "renamesame" not in out or wanted.rename is not None:
        yield Stage("Renaming instances", [_renamed(wanted, at) for at in range(len(names))])
    if "startstop" not in out:
        yield Stage("Stopping and starting", [[*_power(name, "SHUTDOWN"), *_power(name, "STARTUP")] for name in names])
    if "activate_disks" not in out and traits.has_disks:
        jobs = [[*_power(name, "SHUTDOWN"), *_disks_off(name)] for name in names]
        yield Stage("Opening and closing disks", jobs)
    if "add_disks" not in out and traits.has_disks:
        yield Stage("Adding and removing disks", [_changed(name, "disks", {"size": wanted.disks[0]}) for name in names])
    if "add_nics" not in out and wanted.nics:
        yield Stage("Adding and removing NICs", [_changed(name, "nics", {}) for name in names])


def _create(wanted: BurninPlan, at: int, **more: Any) -> Opcode:
    placed: Opcode = {"iallocator": wanted.allocator} if wanted.allocator else {"pnode": _node(wanted, at)}
    if wanted.template.has_secondary and not wanted.allocator:
        placed["snode"] = _node(wanted, at + 1)
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": wanted.instances[at],
        "mode": "create",
        "disk_template": wanted.template.name,
        "os_type": wanted.system,
        "disks": [{"size": size} for size in wanted.disks] if wanted.template.has_disks else [],
        "nics": [{}] if wanted.nics else [],
        "beparams": dict(wanted.backend),
        "ip_check": False,
        "name_check": False,
        "start": True,
        **placed,
        **more,
    }


def _node(wanted: BurninPlan, at: int) -> str:
    return wanted.nodes[at % len(wanted.nodes)]


def _of(op_id: str, name: str, **values: Any) -> Opcode:
    return {"OP_ID": op_id, "instance_name": name, **values}


def _each(title: str, names: Sequence[str], op_id: str, wanted: BurninPlan, *, target: bool) -> Stage:
    jobs = []
    for at, name in enumerate(names):
        values: Opcode = {}
        if target and not wanted.template.has_secondary:
            values = {"target_node": _node(wanted, at + 1)} if wanted.nodes else {"iallocator": wanted.allocator}
        there = _of(op_id, name, **values)
        back = _of(op_id, name, **({"target_node": _node(wanted, at)} if "target_node" in values else values))
        jobs.append([there, back])
    return Stage(title, jobs)


def _grown(name: str, growth: Sequence[int]) -> list[Opcode]:
    return [
        _of("OP_INSTANCE_GROW_DISK", name, disk=at, amount=amount, wait_for_sync=True)
        for at, amount in enumerate(growth)
        if amount
    ]


def _exported(wanted: BurninPlan, at: int) -> list[Opcode]:
    name, keeper = wanted.instances[at], _node(wanted, at + 1)
    created = _create(wanted, at, mode="import", src_node=keeper, src_path=name)
    return [
        _of("OP_BACKUP_EXPORT", name, target_node=keeper, shutdown=True, shutdown_timeout=_TIMEOUT_S),
        _of("OP_INSTANCE_REMOVE", name, shutdown_timeout=_TIMEOUT_S),
        created,
        _of("OP_BACKUP_REMOVE", name),
    ]


def _renamed(wanted: BurninPlan, at: int) -> list[Opcode]:
    """To another name and back, or to its own."""
    name = wanted.instances[at]
    other = wanted.rename if wanted.rename is not None and at == 0 else name
    unchecked = {"name_check": False, "ip_check": False}
    there = _of("OP_INSTANCE_RENAME", name, new_name=other, **unchecked)
    back = [_of("OP_INSTANCE_RENAME", other, new_name=name, **unchecked)] if other != name else []
    return [*_power(name, "SHUTDOWN"), there, *back, *_power(name, "STARTUP")]


def _power(name: str, what: str) -> list[Opcode]:
    values = {"timeout": _TIMEOUT_S} if what == "SHUTDOWN" else {}
    return [_of(f"OP_INSTANCE_{what}", name, **values)]


def _disks_off(name: str) -> list[Opcode]:
    return [
        _of("OP_INSTANCE_ACTIVATE_DISKS", name),
        _of("OP_INSTANCE_DEACTIVATE_DISKS", name),
        *_power(name, "STARTUP"),
    ]


def _changed(name: str, what: str, values: Opcode) -> list[Opcode]:
    """Add one at the end of those there are and take it away, stopped in between where it must be."""
    add = _of("OP_INSTANCE_SET_PARAMS", name, **{what: [["add", -1, values]]})
    remove = _of("OP_INSTANCE_SET_PARAMS", name, **{what: [["remove", -1, {}]]})
    stop, start = _power(name, "SHUTDOWN"), _power(name, "STARTUP")
    return [*stop, add, *start, *stop, remove, *start]
