# SPDX-License-Identifier: BSD-2-Clause
"""Whether a node's instances are as they should be, by what the kernel shows of guests (protocols, 5). Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ganeti.node.collectors.report import BEING_FIXED, NEEDS_A_PERSON, OK, UNKNOWN
from ganeti.node.hypervisors.interface import Sighting

CATEGORY = "instance"
RUNNING, STOPPED, PAUSED = "running", "shutdown", "paused"
_MOVING = ("incoming", "postmigrate")
UP = "up"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def name_of(hypervisor: str) -> str:
    """The collector of the guests of a hypervisor."""
    return f"inst-status-{hypervisor}"


class Known(NamedTuple):
    """What the configuration says of a primary instance of the node."""

    name: str
    uuid: str
    admin_state: str
    mtime: float | None


def states(
    seen: Iterable[Sighting], known: Iterable[Known] | None, now_s: float, told: Mapping[str, str] = _NOTHING
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
    expected: Mapping[str, Known],
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


def _judged(state: str, own: Known | None, nobody_tells: bool) -> tuple[int, str]:
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
