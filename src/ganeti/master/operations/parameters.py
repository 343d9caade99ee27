# SPDX-License-Identifier: BSD-2-Clause
"""Types of parameters that several operations share, each with its meaning, its bounds and its option."""

from typing import Annotated, Any, Literal

import msgspec

from ganeti.base.command import Option
from ganeti.master.parameter import Parameter
from ganeti.model.capacity import CapacityParameters

Text = Annotated[str, msgspec.Meta(min_length=1)]
"""Not empty."""
Value = bool | int | float | str | None
"""One value of a dictionary of parameters; the text ``default`` takes it back to what is inherited."""
Values = dict[str, Value]

UseLocking = Annotated[bool, Parameter("let nobody change what is asked about meanwhile")]
Simulate = Annotated[bool, Parameter("report every check as failed", "--debug-simulate-errors")]
ErrorCodes = Annotated[bool, Parameter("lines that programs can read", "--error-codes")]
SkippedChecks = Annotated[list[str], Parameter("checks that are left out: nplusone_mem, hvparam_assessment")]
IgnoredErrors = Annotated[
    list[str], Parameter("only warn of it", "-I", "--ignore-errors", metavar="CODE", repeatable=True)
]
Verbose = Annotated[bool, Parameter("say more", "-v", "--verbose")]
VerifyClutter = Annotated[bool, Parameter("look for keys of unknown nodes", "--verify-ssh-clutter")]
Fields = Annotated[list[Text], Parameter("names of the fields wanted")]
Allocator = Annotated[
    Text, Parameter("allocator that picks the nodes", "-I", "--iallocator", subject="allocator", metavar="NAME")
]
GroupName = Annotated[Text, Parameter("name or UUID of the node group", subject="group", metavar="group")]
NodeName = Annotated[Text, Parameter("name of the node", subject="node", metavar="node-name")]
InstanceName = Annotated[Text, Parameter("name of the instance", subject="instance", metavar="instance-name")]
NodeUuids = Annotated[list[str] | None, Parameter("UUIDs of the nodes, in place of names", subject="node")]

AllocPolicy = Annotated[
    Literal["preferred", "last_resort", "unallocable"],
    Parameter("whether new instances go there by themselves", "--alloc-policy"),
]
CapacityOptions = Annotated[
    CapacityParameters,
    Parameter(
        "how capacity is counted: memory, disk, vcpus, disk_template, cpu_ratio, disk_usage; or default for none",
        "--capacity-parameters",
        kind="capacity",
    ),
]
NodeParameters = Annotated[Values, Parameter("node parameters", "--node-parameters")]
HypervisorState = Annotated[
    dict[str, Any], Parameter("recorded state of hypervisors", "--hypervisor-state", kind="ident-keyvalues")
]
DiskState = Annotated[dict[str, Any], Parameter("recorded state of storage", "--disk-state", kind="disk-state")]
DiskParameters = Annotated[dict[str, Values], Parameter("parameters of disk templates", "-D", "--disk-parameters")]
_POLICY_OPTIONS = (
    Option(
        ("--ipolicy-bounds-specs",),
        "ipolicy.minmax",
        "bounds",
        "least and largest instance; several pairs are joined by //",
        metavar="min:K=V,…/max:K=V,…",
    ),
    Option(("--ipolicy-disk-templates",), "ipolicy.disk-templates", "list", "templates that are allowed"),
    Option(("--ipolicy-vcpu-ratio",), "ipolicy.vcpu-ratio", "float", "virtual per real processor"),
    Option(("--ipolicy-spindle-ratio",), "ipolicy.spindle-ratio", "float", "instances per spindle"),
)
_STANDARD = Option(("--ipolicy-std-specs",), "ipolicy.std", "keyvalues", "standard instance of the policy")
InstancePolicy = Annotated[dict[str, Any], Parameter("limits of the sizes of instances", options=_POLICY_OPTIONS)]
ClusterPolicy = Annotated[
    dict[str, Any], Parameter("limits of the sizes of instances", options=(_STANDARD, *_POLICY_OPTIONS))
]
