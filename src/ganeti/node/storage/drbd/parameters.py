# SPDX-License-Identifier: BSD-2-Clause
"""The disk parameters of `drbd`, and the options of DRBD's tools that they become (opcodes, section 8)."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from ganeti.model.parameters import Parameter
from ganeti.model.templates import PAIRED, PARAMETERS_OF_3_1

_DEFAULTS = PARAMETERS_OF_3_1[PAIRED]
DEFAULT_GROUP = _DEFAULTS["metavg"]
"""What 3.1 writes where it means the cluster's volume group."""
_BARRIERS = {"b": "disk-barrier", "d": "disk-drain", "f": "disk-flushes"}
_NONE = "n"
_OPTION = re.compile(r"--?[a-z][a-z0-9-]*(=.*)?")
_OWN = {"shared-secret", "cram-hmac-alg", "allow-two-primaries", "_name", "set-defaults", "force", "size"}
"""Options that are not the administrator's: what is written there is decided elsewhere."""
_MAX_RATE = 4194304


def custom_options(text: str) -> list[str]:
    """The words of `disk-custom` or `net-custom`; raises `ValueError` where they cannot be split."""
    return shlex.split(text)


def _custom_fault(text: str) -> str | None:
    try:
        words = custom_options(text)
    except ValueError as err:
        return f"it cannot be split into words: {err}"
    if words and not words[0].startswith("-"):
        return f"it must begin with an option, as --max-buffers=8000 does, not with '{words[0]}'"
    for word in words:
        if word.startswith("-") and not _OPTION.fullmatch(word):
            return f"'{word}' is no option of drbdsetup"
        if word.lstrip("-").partition("=")[0] in _OWN and word.startswith("-"):
            return f"'{word.partition('=')[0]}' is set by the cluster itself: leave it out"
    return None


def _barriers_fault(text: str) -> str | None:
    if text == _NONE or (set(text) <= set(_BARRIERS) and len(set(text)) == len(text)):
        return None
    return "it must be n, or letters of bdf, each once: b, d and f switch off barriers, draining and flushes"


PARAMETERS = (
    Parameter("resync-rate", "int", 61440, "speed of a resynchronisation, in KiB/s", minimum=1, maximum=_MAX_RATE),
    Parameter("data-stripes", "int", 1, "over how many physical volumes the data are spread", minimum=1),
    Parameter("meta-stripes", "int", 1, "over how many physical volumes DRBD's own data are spread", minimum=1),
    Parameter("disk-barriers", "string", _NONE, "what is switched off: letters of bdf, or n", check=_barriers_fault),
    Parameter("meta-barriers", "bool", default=False, help="switch flushes of DRBD's own data off"),
    Parameter("metavg", "string", DEFAULT_GROUP, "volume group of DRBD's own data; by default the cluster's"),
    Parameter("disk-custom", "string", "", "further options of drbdsetup attach", check=_custom_fault),
    Parameter("net-custom", "string", "", "further options of drbdsetup connect", check=_custom_fault),
    Parameter("protocol", "string", "C", "when a write is done", choices=("A", "B", "C")),
    Parameter("dynamic-resync", "bool", default=False, help="let DRBD choose the speed of a resynchronisation"),
    Parameter("c-plan-ahead", "int", 20, "how far it plans, in 0.1 s", minimum=0, maximum=300),
    Parameter("c-fill-target", "int", 0, "data on the way, in sectors", minimum=0, maximum=1048576),
    Parameter("c-delay-target", "int", 1, "delay on the way, in 0.1 s", minimum=1, maximum=100),
    Parameter("c-max-rate", "int", 61440, "highest speed, in KiB/s", minimum=250, maximum=_MAX_RATE),
    Parameter("c-min-rate", "int", 4096, "lowest speed, in KiB/s", minimum=0, maximum=_MAX_RATE),
)
_FILLED = {parameter.name: parameter.default for parameter in PARAMETERS}


def disk_options(params: Mapping[str, Any]) -> list[str]:
    """Of the local disk."""
    values = _FILLED | dict(params)
    found = ["--on-io-error=detach"]
    found += [f"--{name}=no" for letter, name in _BARRIERS.items() if letter in values["disk-barriers"]]
    if values["meta-barriers"]:
        found.append("--md-flushes=no")
    return found + custom_options(values["disk-custom"])


def resync_options(params: Mapping[str, Any]) -> list[str]:
    """Of how fast copies are made equal."""
    values = _FILLED | dict(params)
    if not values["dynamic-resync"]:
        return [f"--resync-rate={values['resync-rate']}", "--c-plan-ahead=0"]
    names = ("c-plan-ahead", "c-fill-target", "c-delay-target", "c-max-rate", "c-min-rate")
    units = {"c-fill-target": "s"}
    return [f"--{name}={values[name]}{units.get(name, '')}" for name in names]


def net_options(params: Mapping[str, Any], secret: str, digest: str) -> list[str]:
    """Of the connection. DRBD's tools take the secret as an argument and in no other way."""
    values = _FILLED | dict(params)
    return [
        f"--protocol={values['protocol']}",
        f"--cram-hmac-alg={digest}",
        f"--shared-secret={secret}",
        "--allow-two-primaries=no",
        "--after-sb-0pri=discard-zero-changes",
        "--after-sb-1pri=consensus",
        *custom_options(values["net-custom"]),
    ]
