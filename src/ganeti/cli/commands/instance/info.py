# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance info."""

from __future__ import annotations

from ganeti.base.addresses import host_and_port
from ganeti.cli import jobs
from ganeti.cli.commands.listing import size
from ganeti.cli.failures import UsageError
from ganeti.cli.infotext import Ordered, defaulted, print_info, scalar, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_FAULTY = 4
_UNCERTAIN = 3


def info(call: Invocation) -> int:
    names = call.get("instances", [])
    if not names and not call.get("all"):
        raise UsageError("gnt-instance info needs the name of an instance, or --all", 1)
    if names and call.get("all"):
        raise UsageError("--all takes no names: give either --all or names", 1)
    static = bool(call.get("static"))
    opcode = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": names, "static": static, "use_locking": not static}
    answer = jobs.ask(call, opcode)
    if call.get("roman"):
        from ganeti.cli.commands.cluster.info import romanized

        answer = romanized(answer)
    shown = [describe(answer[name]) for name in answer]
    if shown:
        print_info(shown)
    return 0


def describe(instance: dict[str, Any]) -> Ordered:
    """Arrange one instance as 3.1 shows it."""
    state = f"configured to be {instance['config_state']}"
    if instance["run_state"]:
        state += f", actual state is {instance['run_state']}"
    shown = Ordered(
        [
            ("Instance name", instance["name"]),
            ("UUID", instance["uuid"]),
            ("Serial number", instance["serial_no"]),
            ("Creation time", timestamp(instance["ctime"])),
            ("Modification time", timestamp(instance["mtime"])),
            ("State", state),
            ("Nodes", _nodes(instance)),
            ("Operating system", instance["os"]),
            ("Operating system parameters", defaulted(instance["os_instance"], instance["os_actual"])),
            ("Allocated network port", instance["network_port"]),
            ("Hypervisor", instance["hypervisor"]),
        ]
    )
    console = _vnc_console(instance)
    if console:
        shown.append(("console connection", console))
    shown.append(("Hypervisor parameters", defaulted(instance["hv_instance"], instance["hv_actual"])))
    shown.append(("Back-end parameters", _backend(instance)))
    shown.append(("NICs", [_nic(index, nic) for index, nic in enumerate(instance["nics"])]))
    shown.append(("Disk template", instance["disk_template"]))
    shown.append(("Disks", [_disk(index, disk, top=True) for index, disk in enumerate(instance["disks"])]))
    return shown


def _nodes(instance: dict[str, Any]) -> list[Ordered]:
    primary = Ordered(
        [
            ("primary", instance["pnode"]),
            ("group", f"{instance['pnode_group_name']} (UUID {instance['pnode_group_uuid']})"),
        ]
    )
    secondaries = [
        f"{name} (group {group}, group UUID {uuid})"
        for (name, *_), group, uuid in zip(
            instance["snodes"], instance["snodes_group_names"], instance["snodes_group_uuids"], strict=False
        )
    ]
    return [primary, Ordered([("secondaries", ", ".join(secondaries))])]


def _backend(instance: dict[str, Any]) -> dict[str, Any]:
    """Show ``memory``, the old name of the largest memory, beside the others."""
    own, actual = dict(instance["be_instance"]), dict(instance["be_actual"])
    if "maxmem" in actual:
        actual.setdefault("memory", actual["maxmem"])
        if "maxmem" in own:
            own.setdefault("memory", own["maxmem"])
    return defaulted(own, actual)


def _vnc_console(instance: dict[str, Any]) -> str:
    address, port = instance["hv_actual"].get("vnc_bind_address"), instance["network_port"]
    if not address or not port:
        return ""
    if str(address).startswith("/"):
        return f"vnc to {instance['pnode']}:{address}"
    if address in ("0.0.0.0", "::") or not (":" in address or address.replace(".", "").isdigit()):
        display = f" (display {port - 5900})" if isinstance(port, int) and port >= 5900 else ""
        return f"vnc to {instance['pnode']}:{port}{display}"
    if address in ("127.0.0.1", "::1"):
        return f"vnc to {host_and_port(address, port)} (node {instance['pnode']})"
    return f"vnc to {host_and_port(address, port)}"


def _nic(index: int, nic: list[Any]) -> Ordered:
    name, uuid, ip, mac, mode, link, vlan, _, network = nic
    return Ordered(
        [
            (f"nic/{index}", ""),
            ("MAC", mac),
            ("IP", ip),
            ("mode", mode),
            ("link", link),
            ("vlan", vlan),
            ("network", network["name"] if network else None),
            ("UUID", uuid),
            ("name", name),
        ]
    )


def _disk(index: int, disk: dict[str, Any], *, top: bool) -> Ordered:
    title = f"{disk['iv_name'] or f'disk/{index}'}" if top else f"child {index}"
    amount = disk["size"]
    shown = Ordered([(title, f"{disk['dev_type']}, size {size(amount, 'h') if isinstance(amount, int) else amount}")])
    if disk.get("spindles") is not None:
        shown.append(("spindles", disk["spindles"]))
    if top:
        shown.append(("access mode", disk["mode"]))
    shown += _place(disk)
    for side in ("primary", "secondary"):
        status = disk["pstatus" if side == "primary" else "sstatus"]
        if status:
            shown.append((f"on {side}", _status(disk, status)))
    shown.append(("name", disk["name"]))
    shown.append(("UUID", disk["uuid"]))
    if disk["children"]:
        shown.append(
            ("child devices", [_disk(number, child, top=False) for number, child in enumerate(disk["children"])])
        )
    return shown


def _place(disk: dict[str, Any]) -> list[tuple[str, Any]]:
    """Where the data lie: the two nodes of a mirror, else the identity of the device."""
    mirror = disk.get("drbd_info")
    if mirror:
        return [
            ("nodeA", f"{mirror['primary_node']}, minor={mirror['primary_minor']}"),
            ("nodeB", f"{mirror['secondary_node']}, minor={mirror['secondary_minor']}"),
            ("port", mirror["port"]),
        ]
    if not disk["logical_id"]:
        return []
    identity = disk["logical_id"]
    if isinstance(identity, list) and len(identity) == 2 and "/" not in str(identity[1]):
        return [("logical_id", "/".join(str(part) for part in identity))]
    return [("logical_id", tuple(identity) if isinstance(identity, list) else identity)]


def _status(disk: dict[str, Any], status: list[Any]) -> str:
    """Show device, numbers and health; a mirror also says how far it is in sync."""
    path, major, minor, sync_percent, eta_s, degraded, backing = status
    numbers = f" ({_or_na(major)}:{_or_na(minor)})"
    text = f"{path or 'N/A'}{numbers}"
    if disk.get("drbd_info") or len(disk.get("nodes") or ()) > 1:
        if sync_percent is not None:
            eta = f"ETA {scalar(eta_s)}s" if eta_s is not None else "ETA unknown"
            text += f" *RECOVERING* {sync_percent:5.2f}%, {eta}"
            if disk.get("sync_speed_kib") is not None:
                text += f", {disk['sync_speed_kib'] / 1024:.1f} MiB/s"
        else:
            text += " in sync"
        text += ", status *DEGRADED*" if degraded else ", status ok"
        if backing == _FAULTY:
            text += " *MISSING DISK*"
        elif backing == _UNCERTAIN:
            text += " *UNCERTAIN STATE*"
    elif backing == _FAULTY:
        text += " *FAILED* (failed drive?)"
    return text


def _or_na(value: Any) -> Any:
    return "N/A" if value is None else value
