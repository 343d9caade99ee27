# SPDX-License-Identifier: BSD-2-Clause
"""The state of a node's DRBD devices, and whether somebody should look after them (protocols, 5)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import (
    BEING_FIXED,
    NEEDS_A_PERSON,
    OK,
    STATUS,
    UNKNOWN,
    UnreadableError,
    text_of,
    whole,
)
from ganeti.wire.prometheus import GAUGE

NAME, CATEGORY = "drbd", "storage"
PLACE = "/proc/drbd"

_CONNECTING = BEING_FIXED, "Trying to establish a network connection"
_TROUBLED = BEING_FIXED, "Communication problems between the peers"
_CONDITIONS = {
    "StandAlone": (NEEDS_A_PERSON, "No network config available"),
    "TearDown": (NEEDS_A_PERSON, "The peer is closing the connection"),
    "Disconnecting": (BEING_FIXED, "Disconnecting from the peer"),
    **dict.fromkeys(("Unconnected", "WFConnection", "WFReportParams"), _CONNECTING),
    **dict.fromkeys(("Timeout", "BrokenPipe", "NetworkFailure", "ProtocolError"), _TROUBLED),
    **dict.fromkeys(
        (
            *("Connected", "StartingSyncS", "StartingSyncT", "WFBitMapS", "WFBitMapT", "WFSyncUUID", "SyncSource"),
            *("SyncTarget", "PausedSyncS", "PausedSyncT", "VerifyS", "VerifyT", "Ahead", "Behind", "Unconfigured"),
        ),
        (OK, ""),
    ),
}
_INDICATORS = {
    "ns": "networkSend",
    "nr": "networkReceive",
    "dw": "diskWrite",
    "dr": "diskRead",
    "al": "activityLog",
    "bm": "bitMap",
    "lo": "localCount",
    "pe": "pending",
    "ua": "unacknowledged",
    "ap": "applicationPending",
    "ep": "epochs",
    "wo": "writeOrder",
    "oos": "outOfSync",
}
_ORDER_OF_WRITES = "wo"
_UNITS = {"K": "KiloByte", "M": "MegaByte", "G": "GigaByte"}

_VERSION = re.compile(r"version: (?P<version>[^\s(]+)(?: \(api:(?P<api>[^/)]*)/proto:(?P<proto>[^)]*)\))?")
_SOURCE = re.compile(r"srcversion: (?P<srcversion>\S.*)")
_BUILD = re.compile(r"GIT-hash: (?P<gitHash>\S+) build by (?P<buildBy>.*)")
_DEVICE = re.compile(r"\s*(\d+):\s*cs:(\w+)(.*)")
_STATES = re.compile(r"\s+(?:ro|st):(\w+)/(\w+)\s+ds:(\w+)/(\w+)\s(.)\s*(.*)")
"""Before 8.3 roles are called ``st``. A device without a peer has a blank in place of its protocol; how many flags
follow depends on the release."""
_INDICATOR = re.compile(r"(\w+):(\S+)")
_PROGRESS = re.compile(r"sync'ed:\s*([\d.]+)% \((\d+)/(\d+)\)([KMG])?")
_SPEED = re.compile(r"finish: (\d+):(\d\d:\d\d) speed: ([\d,]+)(?: \([^)]*\))?(?: want: ([\d,]+))? ([KMG])/sec")

Owners = Mapping[int, str]
"""Names of instances by the minor numbers of their devices on this node."""


def read(text: str, owners: Owners) -> dict[str, Any]:
    """The devices with a status over all of them; raises `UnreadableError`."""
    lines = text.splitlines()
    version = _version(lines)
    devices = [_device(block, owners) for block in _blocks(lines)]
    found = [(device["minor"], *_condition(device["connectionState"])) for device in devices]
    message = "".join(f"\n{minor}: {words}" for minor, _, words in reversed(found) if words)
    code = max((code for _, code, _ in found), default=OK)
    return {"status": {"code": code, "message": message}, "versionInfo": version, "deviceInfos": devices}


def _condition(state: str) -> tuple[int, str]:
    return _CONDITIONS.get(state, (UNKNOWN, f"The connection state {state} is not known"))


def _version(lines: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        if _DEVICE.match(line):
            break
        for pattern in (_VERSION, _SOURCE, _BUILD):
            if match := pattern.match(line):
                found |= {key: value for key, value in match.groupdict().items() if value is not None}
    if "version" not in found:
        raise UnreadableError("it does not begin with the version of the kernel module")
    return found


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines of each device, its first line first."""
    block: list[str] = []
    for line in lines:
        if _DEVICE.match(line):
            if block:
                yield block
            block = [line]
        elif block:
            block.append(line)
    if block:
        yield block


def _device(block: Sequence[str], owners: Owners) -> dict[str, Any]:
    first = _DEVICE.match(block[0])
    assert first is not None
    minor, state, rest = int(first.group(1)), first.group(2), first.group(3)
    device: dict[str, Any] = {"minor": minor, "connectionState": state}
    if not rest.strip():
        return device
    states = _STATES.fullmatch(rest)
    if states is None:
        raise UnreadableError(f"the states of device {minor} cannot be read: '{rest.strip()}'")
    device |= zip(("localRole", "remoteRole", "localState", "remoteState"), states.groups()[:4], strict=True)
    device |= {"replicationProtocol": states.group(5), "ioFlags": states.group(6)}
    device["perfIndicators"] = _indicators(minor, " ".join(block[1:]))
    progress = _sync(" ".join(block[1:]))
    if progress:
        device["syncStatus"] = progress
    return device | {"instance": owners.get(minor)}


def _indicators(minor: int, text: str) -> dict[str, Any]:
    values = dict(_INDICATOR.findall(text))
    if missing := [key for key in _INDICATORS if key not in values and key not in (_ORDER_OF_WRITES, "oos", "ep")]:
        raise UnreadableError(f"device {minor} does not tell {', '.join(missing)}")
    return {
        name: values[key] if key == _ORDER_OF_WRITES else whole(values[key], f"device {minor}, {key}")
        for key, name in _INDICATORS.items()
        if key in values
    }


def _sync(text: str) -> dict[str, Any]:
    """How far a synchronisation is; empty if there is none."""
    progress, speed = _PROGRESS.search(text), _SPEED.search(text)
    if progress is None or speed is None:
        return {}
    percentage = float(progress.group(1))
    want = {"want": _without_commas(speed.group(4))} if speed.group(4) else {}
    return {
        "percentage": int(percentage) if percentage.is_integer() else percentage,
        "progress": f"{progress.group(2)}/{progress.group(3)}",
        "progressUnit": _UNITS[progress.group(4) or "K"],
        "timeToFinish": f"{int(speed.group(1)):02d}:{speed.group(2)}",
        "speed": _without_commas(speed.group(3)),
        **want,
        "speedUnit": f"{_UNITS[speed.group(5)]}/Second",
    }


def _without_commas(number: str) -> int:
    return int(number.replace(",", ""))


def owners(pairs: Any) -> dict[int, str]:
    """Whose devices are whose, from ConfD's list [node, minor, instance, disk, role, other node]…; raises
    `UnreadableError`."""
    if not isinstance(pairs, list):
        raise UnreadableError("Unable to read list")
    found: dict[int, str] = {}
    for entry in pairs:
        match entry:
            case [str(), int(minor), str(instance), str(), str(), str()]:
                found[minor] = instance
            case _:
                raise UnreadableError("it is not a list of [node, minor, instance, disk, role, other node]")
    return found


def _samples(data: Any) -> Iterator[Sample]:
    yield Sample("ganeti_drbd_status", {}, data["status"]["code"])


@collector(
    *(NAME, CATEGORY, STATUS),
    metrics={"ganeti_drbd_status": (GAUGE, "0 as it should be, 1 being mended, 2 not known, 4 needs a person.")},
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    try:
        text = text_of(PLACE)
    except FileNotFoundError:
        return {"status": {"code": OK, "message": "DRBD is not loaded"}, "versionInfo": {}, "deviceInfos": []}
    return read(text, (await node.cluster.owners()).minors)
