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
IncidentId = Annotated[Text, Parameter("id of the incident, or how it begins", subject="object", metavar="incident-id")]
InstanceName = Annotated[str, Parameter("name of the instance", subject="instance", metavar="instance-name")]
NodeUuids = Annotated[list[Text] | None, Parameter("UUIDs of the nodes, in place of names", subject="node")]
NodeUuid = Annotated[Text | None, Parameter("UUID of the node, in place of its name", subject="node")]
StorageType = Annotated[Text, Parameter("type of storage, such as lvm-vg", metavar="storage-type")]
InstanceUuid = Annotated[Text | None, Parameter("UUID of the instance, in place of its name", subject="instance")]

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
HypervisorState = Annotated[dict[str, Values], Parameter("recorded state of hypervisors", "--hypervisor-state")]
DiskState = Annotated[
    dict[str, dict[str, Values]], Parameter("recorded state of storage", "--disk-state", kind="disk-state")
]
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
    Option(("--ipolicy-vcpu-ratio",), "ipolicy.vcpu-ratio", "ratio", "virtual per real processor"),
    Option(("--ipolicy-spindle-ratio",), "ipolicy.spindle-ratio", "ratio", "instances per spindle"),
)
_STANDARD = Option(("--ipolicy-std-specs",), "ipolicy.std", "keyvalues", "standard instance of the policy")
InstancePolicy = Annotated[dict[str, Any], Parameter("limits of the sizes of instances", options=_POLICY_OPTIONS)]
ClusterPolicy = Annotated[
    dict[str, Any], Parameter("limits of the sizes of instances", options=(_STANDARD, *_POLICY_OPTIONS))
]

MasterCapable = Annotated[bool | None, Parameter("may become master candidate", "--master-capable")]
VmCapable = Annotated[bool | None, Parameter("may run instances", "--vm-capable")]
SecondaryIp = Annotated[Text | None, Parameter("address for replication", "-s", "--secondary-ip", metavar="ADDRESS")]
Why = Annotated[
    bool, Parameter("change nothing: say where it would go, and why not elsewhere (not in Ganeti 3.1)", "--why")
]
TargetNode = Annotated[
    Text | None, Parameter("where to move to", "-n", "--target-node", subject="node", metavar="NODE")
]
TargetNodeUuid = Annotated[Text | None, Parameter("UUID of the node to move to, in place of its name", subject="node")]
IgnorePolicy = Annotated[bool, Parameter("do not check the instance policy", "--ignore-ipolicy")]
IgnoreConsistency = Annotated[bool, Parameter("go on although the disks may not be in sync", "--ignore-consistency")]
ShutdownTimeout = Annotated[
    int,
    msgspec.Meta(ge=0),
    Parameter("how long the guest may take to shut down, in seconds", "--shutdown-timeout", kind="duration"),
]
IgnoreOfflineNodes = Annotated[bool, Parameter("record the state though the node is off", "--ignore-offline")]
NoRemember = Annotated[bool, Parameter("keep the recorded state", "--no-remember")]
MigrationMode = Annotated[
    Literal["live", "non-live"] | None,
    Parameter(
        "how to migrate",
        options=(
            Option(("--non-live",), "mode", "flag", "stop the guest while it moves", "non-live"),
            Option(("--migration-mode",), "mode", help="how to migrate", choices=("live", "non-live")),
        ),
    ),
]
Live = Annotated[bool | None, Parameter("the old form of the mode: whether the guest runs while it moves")]
RuntimeChanges = Annotated[
    bool,
    Parameter(
        "shrink the guest's memory where it does not fit",
        "--no-runtime-changes",
        option_help="do not shrink the guest's memory to fit",
    ),
]
ForceVariant = Annotated[bool, Parameter("accept a variant the OS does not list", "--force-variant")]
ConflictsCheck = Annotated[
    bool,
    Parameter("look for address conflicts", "--no-conflicts-check", option_help="do not look for address conflicts"),
]
Communication = Annotated[
    bool,
    Parameter(
        "a NIC by which the guest reaches its metadata",
        "-c",
        "--communication",
        kind="yesno",
    ),
]
NameCheck = Annotated[
    bool,
    Parameter(
        "refuse if the name has no address",
        options=(
            Option(("--name-check",), "name_check", "flag", "refuse if the name has no address"),
            Option(("--no-name-check",), "name_check", "flag", "as without it; there for old scripts", False),
        ),
    ),
]
IpCheck = Annotated[
    bool,
    Parameter(
        "refuse if the name's address answers already",
        options=(
            Option(("--ip-check",), "ip_check", "flag", "refuse if the name's address answers already"),
            Option(("--no-ip-check",), "ip_check", "flag", "as without it; there for old scripts", False),
        ),
    ),
]
BackendParameters = Annotated[Values, Parameter("backend parameters", "-B", "--backend-parameters")]


class NicInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A NIC as it is asked for: what is left out, null, empty or ``default`` is made up, or inherited."""

    mac: str | msgspec.UnsetType | None = msgspec.UNSET
    ip: str | msgspec.UnsetType | None = msgspec.UNSET
    mode: str | msgspec.UnsetType | None = msgspec.UNSET
    link: str | int | msgspec.UnsetType | None = msgspec.UNSET
    bridge: str | int | msgspec.UnsetType | None = msgspec.UNSET
    vlan: str | int | msgspec.UnsetType | None = msgspec.UNSET
    network: str | msgspec.UnsetType | None = msgspec.UNSET
    name: str | msgspec.UnsetType | None = msgspec.UNSET


MODE_OR_FLAG = ("--non-live", "--migration-mode", "keep the second")
NODE_OR_ALLOCATOR = ("-n", "-I", "name a node or an allocator")
"""What commands exclude."""
