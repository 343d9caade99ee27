# SPDX-License-Identifier: BSD-2-Clause
"""Whether a node's instances are as they should be, by what the kernel shows of guests (protocols, 5)."""

import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ganeti.node.collectors.interface import Collector, ConfiguredInstance, Node, Sample
from ganeti.node.collectors.report import BEING_FIXED, NEEDS_A_PERSON, OK, STATUS, UNKNOWN
from ganeti.node.hypervisors.interface import Sighting
from ganeti.wire.prometheus import GAUGE

CATEGORY = "instance"
RUNNING, STOPPED, PAUSED = "running", "shutdown", "paused"
_MOVING = ("incoming", "postmigrate")
UP = "up"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def states(
    seen: Iterable[Sighting],
    known: Iterable[ConfiguredInstance] | None,
    now_s: float,
    told: Mapping[str, str] = _NOTHING,
) -> dict[str, Any]:
    """The data of the report; *told* is what guests' hypervisors say of their states, by name.

    Without *known* (nobody has told) guests are listed, and no one says what they should be.

    An instance of the configuration that another hypervisor runs is not in *known*.
    """
    guests = {guest.name: guest for guest in seen}
    expected = {} if known is None else {each.name: each for each in known}
    names = sorted({*guests, *expected})
    instances = [_state(name, guests.get(name), told.get(name), expected, known is None, now_s) for name in names]
    codes = [instance["status"]["code"] for instance in instances]
    worst = max(codes, default=OK)
    wrong = [instance["name"] for instance in instances if instance["status"]["code"] == worst != OK]
    return {"instances": instances, "status": {"code": worst, "message": ", ".join(wrong)}}


def _state(
    name: str,
    guest: Sighting | None,
    told: str | None,
    expected: Mapping[str, ConfiguredInstance],
    nobody_tells: bool,
    now_s: float,
) -> dict[str, Any]:
    own = expected.get(name)
    state = (told or RUNNING) if guest is not None else STOPPED
    code, message = _judged(state, own, nobody_tells)
    return {
        "name": name,
        "uuid": own.uuid if own is not None else None,
        "adminState": own.admin_state if own is not None else None,
        "actualState": state,
        "uptime": _span(now_s - guest.started_s) if guest is not None else None,
        "mtime": own.mtime if own is not None else None,
        "state_reason": None,
        "status": {"code": code, "message": message},
    }


def _judged(state: str, own: ConfiguredInstance | None, nobody_tells: bool) -> tuple[int, str]:
    if own is None:
        what = "no ConfD says what it should be" if nobody_tells else "this node is not its primary"
        return UNKNOWN, what
    if state in _MOVING:
        return BEING_FIXED, "it is in a migration"
    if state == PAUSED and own.admin_state == UP:
        return NEEDS_A_PERSON, "it is paused: see its disks and the node's memory, then gnt-instance reboot"
    runs = state != STOPPED
    if runs == (own.admin_state == UP):
        return OK, ""
    if runs:
        return NEEDS_A_PERSON, "it runs and should not"
    return BEING_FIXED, "it does not run and should: the watcher starts it"


def _span(seconds: float) -> str:
    """Hours, minutes and seconds, as Xen's tools tell it."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def of_hypervisor(hypervisor: str) -> Collector:
    """The collector of the guests of one hypervisor."""

    async def collect(node: Node) -> Any:
        known = await node.cluster.instances()
        if known is not None and len(node.hypervisors) > 1:
            others = {
                guest.name for other in node.hypervisors if other != hypervisor for guest in await node.seen_by(other)
            }
            known = [each for each in known if each.name not in others]
        return states(await node.seen_by(hypervisor), known, time.time(), await node.told_by(hypervisor))

    return Collector(
        *(name_of(hypervisor), CATEGORY, STATUS, collect),
        hypervisor=hypervisor,
        metrics={
            "ganeti_instance_running": (GAUGE, "1 if the guest runs on this node."),
            "ganeti_instance_paused": (GAUGE, "1 if the guest is on this node and does not run."),
            "ganeti_instance_status": (GAUGE, "0 as it should be, 1 being mended, 2 not known, 4 needs a person."),
        },
        samples=_samples,
    )


def name_of(hypervisor: str) -> str:
    """The name of the collector of the guests of a hypervisor."""
    return f"inst-status-{hypervisor}"


def _samples(data: Any) -> Iterator[Sample]:
    for own in data["instances"]:
        label = {"instance": own["name"]}
        yield Sample("ganeti_instance_running", label, own["actualState"] == RUNNING)
        yield Sample("ganeti_instance_paused", label, own["actualState"] == PAUSED)
        yield Sample("ganeti_instance_status", label, own["status"]["code"])
