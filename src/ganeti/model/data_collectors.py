# SPDX-License-Identifier: BSD-2-Clause
"""The settings of MonD's collectors that stand in the configuration (protocols, 5)."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.templates import PAIRED

NAMES_OF_3_1 = ("cpu-avg-load", "diskstats", PAIRED, "inst-status-xen", "lv", "xen-cpu-avg-load")
"""Those that a `config.data` of Ganeti 3.1 has settings for."""
INTERVAL_US = 5_000_000
_COMMAND = re.compile(r"[a-zA-Z0-9_-]+")
"""As restricted commands are named (protocols, 11)."""
SHORTEST_US, LONGEST_US = 100_000, 86_400_000_000


def is_command(name: str) -> bool:
    """Whether a command that tells how a node is, or repairs it, may have this name."""
    return _COMMAND.fullmatch(name) is not None


def changed(
    settings: Mapping[str, Any], active: Mapping[str, bool], intervals_us: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """The settings with what is given changed; a collector that had none has those of a new cluster."""
    found = {name: dict(plain) for name, plain in settings.items()}
    for key, given in (("active", active), ("interval", intervals_us)):
        for name, value in given.items():
            found.setdefault(name, {"active": True, "interval": INTERVAL_US})[key] = value
    return found


def settings_of_a_new_cluster() -> dict[str, dict[str, Any]]:
    """All active, at the interval of 3.1. A collector without settings is active as well."""
    return {name: {"active": True, "interval": INTERVAL_US} for name in NAMES_OF_3_1}


def check(names: Collection[str], intervals_us: Mapping[str, int], known: Collection[str]) -> None:
    """Raise `ParameterError` for a collector there is not, or an interval that makes no sense."""
    for name in names:
        if name not in known:
            raise ParameterError(f"There is no data collector '{name}': there are {', '.join(sorted(known))}")
    for name, interval_us in intervals_us.items():
        if not SHORTEST_US <= interval_us <= LONGEST_US:
            raise ParameterError(
                f"The interval of {name} is {interval_us / 1e6:g} seconds: "
                f"choose {SHORTEST_US / 1e6:g} to {LONGEST_US / 1e6:g}"
            )
