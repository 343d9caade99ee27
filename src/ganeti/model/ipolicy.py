# SPDX-License-Identifier: BSD-2-Clause
"""Instance policy: which sizes a group admits (opcodes, section 9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.templates import NO_DISKS

SPEC_KEYS = ("memory-size", "cpu-count", "disk-count", "disk-size", "nic-count", "spindle-use")

DEFAULT_MINIMUM = dict(zip(SPEC_KEYS, (128, 1, 1, 1024, 1, 1), strict=True))
DEFAULT_MAXIMUM = dict(zip(SPEC_KEYS, (32768, 8, 16, 1048576, 8, 12), strict=True))
DEFAULT_STANDARD = dict(zip(SPEC_KEYS, (128, 1, 1, 1024, 1, 1), strict=True))
DEFAULT_VCPU_RATIO = 4.0
DEFAULT_SPINDLE_RATIO = 32.0

_WORDS = {
    "memory-size": "memory",
    "cpu-count": "processors",
    "disk-count": "disks",
    "disk-size": "size of a disk",
    "nic-count": "NICs",
    "spindle-use": "spindles",
}
_IN_MIB = ("memory-size", "disk-size")


@dataclass(frozen=True)
class InstanceSize:
    """What a policy looks at."""

    memory_mib: int
    vcpus: int
    disk_sizes_mib: Sequence[int]
    nic_count: int
    spindle_use: int | None
    """On exclusive storage the spindles of all disks; None where one of these does not name its own."""
    disk_template: str

    def values(self) -> list[tuple[str, int]]:
        """How many disks there are is no size of an instance that is to have none: placement does not ask either."""
        pairs = [("memory-size", self.memory_mib), ("cpu-count", self.vcpus)]
        if self.disk_template != NO_DISKS:
            pairs.append(("disk-count", len(self.disk_sizes_mib)))
        pairs.append(("nic-count", self.nic_count))
        if self.spindle_use is not None:
            pairs.append(("spindle-use", self.spindle_use))
        return pairs + [("disk-size", size) for size in self.disk_sizes_mib]


def full_policy(templates: Sequence[str]) -> dict[str, Any]:
    """The policy of a new cluster that allows *templates*."""
    return {
        "minmax": [{"min": dict(DEFAULT_MINIMUM), "max": dict(DEFAULT_MAXIMUM)}],
        "std": dict(DEFAULT_STANDARD),
        "disk-templates": list(templates),
        "vcpu-ratio": DEFAULT_VCPU_RATIO,
        "spindle-ratio": DEFAULT_SPINDLE_RATIO,
    }


def check_policy(policy: Mapping[str, Any]) -> None:
    """Check a (partial) policy: known keys, min ≤ std ≤ max for one pair; raises `ParameterError`."""
    unknown = set(policy) - {"minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio"}
    if unknown:
        raise ParameterError(f"Unknown instance policy key '{sorted(unknown)[0]}'")
    pairs = policy.get("minmax", [])
    for pair in pairs:
        for bound in ("min", "max"):
            for key, value in pair.get(bound, {}).items():
                if key not in SPEC_KEYS or not isinstance(value, int) or value < 0:
                    raise ParameterError(f"Instance policy: {bound} {key}={value} is not a known size and whole number")
        for key in SPEC_KEYS:
            low, high = pair.get("min", {}).get(key), pair.get("max", {}).get(key)
            if low is not None and high is not None and low > high:
                raise ParameterError(f"Instance policy: the minimum of {key} ({low}) is above its maximum ({high})")
    standard = policy.get("std")
    if standard and pairs and not any(_inside(standard, pair) for pair in pairs):
        raise ParameterError("Instance policy: the standard sizes lie outside every pair of bounds")
    for key in ("vcpu-ratio", "spindle-ratio"):
        if key in policy and not (isinstance(policy[key], int | float) and policy[key] >= 1):
            raise ParameterError(f"Instance policy: {key} must be a number of at least 1, not {policy[key]}")


def _inside(spec: Mapping[str, int], pair: Mapping[str, Any]) -> bool:
    return all(
        pair.get("min", {}).get(key, value) <= value <= pair.get("max", {}).get(key, value)
        for key, value in spec.items()
    )


def violations(policy: Mapping[str, Any], size: InstanceSize) -> list[str]:
    """Sentences saying why *size* fits no pair of bounds; empty when it fits."""
    problems: list[str] = []
    templates = policy.get("disk-templates")
    if templates is not None and size.disk_template not in templates:
        problems.append(f"disk template {size.disk_template} is not allowed, only {', '.join(templates)}")
    best: list[str] | None = None
    for pair in policy.get("minmax", []):
        found = _pair_violations(pair, size)
        if best is None or len(found) < len(best):
            best = found
    return problems + (best or [])


def _pair_violations(pair: Mapping[str, Any], size: InstanceSize) -> list[str]:
    low, high = pair.get("min", {}), pair.get("max", {})
    found = []
    for key, value in size.values():
        if (key in low and value < low[key]) or (key in high and value > high[key]):
            unit = " MiB" if key in _IN_MIB else ""
            bounds = f"{low.get(key, 0)} to {high.get(key, 'any')}{unit}"
            found.append(f"{_WORDS[key]} is {value}{unit}, allowed are {bounds}")
    return found
