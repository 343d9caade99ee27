# SPDX-License-Identifier: BSD-2-Clause
"""What hbal and hinfo say of a cluster before they work on it (spec: htools, 5 and 12)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.figures import shown
from ganeti.tools.htools.haskell.quoting import quote

if TYPE_CHECKING:
    from ganeti.placement.cluster.policy import Policy, Spec

_TEMPLATE_WORDS = {
    "diskless": "DTDiskless",
    "file": "DTFile",
    "sharedfile": "DTSharedFile",
    "plain": "DTPlain",
    "blockdev": "DTBlock",
    "drbd": "DTDrbd8",
    "rbd": "DTRbd",
    "ext": "DTExt",
    "gluster": "DTGluster",
}
"""The words 3.1 has for templates in a policy record; external tools parse them."""


def _spec_record(spec: "Spec") -> str:
    fields = (
        ("MemorySize", spec.memory_mib),
        ("CpuCount", spec.cpus),
        ("DiskSize", spec.disk_mib),
        ("DiskCount", spec.disks),
        ("NicCount", spec.nics),
        ("SpindleUse", spec.spindle_use),
    )
    return f"ISpec {{{', '.join(f'iSpec{name} = {value}' for name, value in fields)}}}"


def template_word(name: str) -> str:
    return _TEMPLATE_WORDS.get(name, name)


def policy_record(policy: "Policy") -> str:
    """A policy the way 3.1 dumps it."""
    ranges = ",".join(
        f"MinMaxISpecs {{minMaxISpecsMinSpec = {_spec_record(low)}, minMaxISpecsMaxSpec = {_spec_record(high)}}}"
        for low, high in policy.ranges
    )
    templates = ",".join(map(template_word, policy.templates))
    return (
        f"IPolicy {{iPolicyMinMaxISpecs = [{ranges}], iPolicyStdSpec = {_spec_record(policy.standard)}, "
        f"iPolicyDiskTemplates = [{templates}], iPolicyVcpuRatio = {shown(policy.vcpu_ratio)}, "
        f"iPolicySpindleRatio = {shown(policy.spindle_ratio)}}}"
    )


def tags_line(tags: Sequence[str]) -> str:
    return f"Loaded cluster tags: {','.join(tags)}"


def policy_line(policy: "Policy") -> str:
    return f"Loaded cluster ipolicy: {policy_record(policy)}"


def suffix_line(suffix: str) -> str:
    return f"Note: Stripping common suffix of '{suffix}' from names"


def policy_states(limits: Mapping[str, str]) -> str:
    """For each node whether it keeps to its policy: ``[("a",Ok ()),("b",Bad FailDisk)]``."""
    states = (f"({quote(name)},{f'Bad {limit}' if limit else 'Ok ()'})" for name, limit in limits.items())
    return f"[{','.join(states)}]"
