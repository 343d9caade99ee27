# SPDX-License-Identifier: BSD-2-Clause
"""The parameters of OP_INSTANCE_CREATE, with the commands that send it."""

from typing import Annotated, Any, Literal

import msgspec

from ganeti.base.command import Command, Option
from ganeti.master.operation import Operation
from ganeti.master.operations.parameters import (
    NODE_OR_ALLOCATOR,
    Allocator,
    BackendParameters,
    Communication,
    ConflictsCheck,
    ForceVariant,
    IgnorePolicy,
    IpCheck,
    NameCheck,
    NicInput,
    Text,
    Values,
    Why,
)
from ganeti.master.parameter import Parameter

_Seconds = Annotated[int, msgspec.Meta(ge=0)]


_IMPORTED = (
    *("beparams", "conflicts_check", "disk_template", "disks", "file_driver", "file_storage_dir", "group_name"),
    *("helper_shutdown_timeout", "helper_startup_timeout", "hypervisor", "iallocator", "ignore_ipolicy", "ip_check"),
    *("name_check", "nics", "opportunistic_locking", "osparams", "osparams_private", "osparams_secret", "tags"),
    "wait_for_sync",
)
"""Parameters that an import takes as options."""
_PLACE_AND_DEVICES = (
    Option(("-n", "--node"), "node", help="where it runs", metavar="NODE[:SECONDARY]"),
    Option(("-s", "--os-size"), "os_size", "size", "one disk of this size"),
    Option(("--no-nics",), "no_nics", "flag", "no NIC at all"),
)
_EXCLUDES = (
    NODE_OR_ALLOCATOR,
    ("-g", "-n", "a group is for an allocator to choose in"),
    ("-s", "--disk", "-s SIZE means --disk 0:size=SIZE"),
    ("--no-nics", "--net", "keep the second"),
)
COMMANDS = (
    Command(
        "gnt-instance add",
        "create an instance",
        arguments=("instance_name",),
        options=_PLACE_AND_DEVICES,
        excludes=(
            *_EXCLUDES,
            ("--forthcoming", "--commit", "reserve it, or make it real"),
            ("-n", "--why", "--why is about an allocator's choice"),
        ),
        handler="instance.add:add",
    ),
    Command(
        "gnt-backup import",
        "create an instance from an export",
        arguments=("instance_name",),
        options=(
            *_PLACE_AND_DEVICES,
            Option(("--src-node",), "src_node", help="node that keeps the export", metavar="NODE"),
            Option(("--src-dir",), "src_path", help="directory of the export, or its name", metavar="DIR"),
            Option(("--compress",), "compress", help="how dumps are compressed on their way"),
            Option(
                ("--identify-defaults",),
                "identify_defaults",
                "flag",
                "do not keep parameters that are as the instance would inherit them",
            ),
        ),
        excludes=_EXCLUDES,
        handler="instance.add:add",
        parameters=_IMPORTED,
    ),
)


class CreationParameters(Operation[list[str]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be said of a new instance."""

    instance_name: Annotated[
        str, Parameter("name of the new instance, as of a host", subject="new name", metavar="instance-name")
    ]
    disk_template: Annotated[
        Text | None,
        Parameter("how its disks are made", "-t", "--disk-template", subject="disk template", metavar="TEMPLATE"),
    ] = None
    os_type: Annotated[
        Text | None, Parameter("OS that is installed", "-o", "--os-type", subject="os", metavar="OS[+VARIANT]")
    ] = None
    disks: Annotated[
        list[Values],
        Parameter(
            "its disks, each with its parameters",
            "--disk",
            option_help="a disk and its parameters",
            kind="disks",
            metavar="N:size=SIZE,…",
        ),
    ]
    nics: Annotated[
        list[NicInput], Parameter("its NICs", "--net", option_help="a NIC", kind="nics", metavar="N:KEY=VALUE,…")
    ]
    mode: Annotated[
        Literal["create", "import", "remote-import"],
        Parameter("whether its disks are made empty (create), or filled from an export"),
    ]
    beparams: BackendParameters = {}
    hypervisor: Annotated[
        Text | None,
        Parameter(
            "its hypervisor; without it the cluster's first one",
            "-H",
            "--hypervisor-parameters",
            option_help="hypervisor and its parameters",
            subject="hypervisor",
            kind="ident-keyvalues",
            metavar="HYPERVISOR:KEY=VALUE,…",
        ),
    ] = None
    hvparams: Annotated[Values, Parameter("parameters of its hypervisor")] = {}
    osparams: Annotated[Values, Parameter("OS parameters", "-O", "--os-parameters", subject="text")] = {}
    osparams_private: Annotated[
        Values | None, Parameter("OS parameters that no listing shows", "--os-parameters-private", subject="text")
    ] = None
    osparams_secret: Annotated[
        Values | None, Parameter("OS parameters that are not stored at all", "--os-parameters-secret", subject="text")
    ] = None
    iallocator: Allocator | None = None
    why: Why = False
    group_name: Annotated[
        Text | None,
        Parameter(
            "node group for the allocator; several with commas between",
            "-g",
            "--node-group",
            subject="group",
            metavar="GROUP",
        ),
    ] = None
    pnode: Annotated[Text | None, Parameter("node that it runs on", subject="node")] = None
    pnode_uuid: Annotated[Text | None, Parameter("UUID of the node that it runs on", subject="node")] = None
    snode: Annotated[Text | None, Parameter("node that its disks are mirrored to", subject="node")] = None
    snode_uuid: Annotated[Text | None, Parameter("UUID of the node that its disks are mirrored to", subject="node")] = (
        None
    )
    file_storage_dir: Annotated[
        Text | None,
        Parameter("directory of its disks, below the cluster's", "--file-storage-dir", subject="path", metavar="DIR"),
    ] = None
    file_driver: Annotated[
        Literal["loop", "blktap", "blktap2"] | None, Parameter("driver of disks in files", "--file-driver")
    ] = None
    ip_check: IpCheck = False
    name_check: NameCheck = False
    conflicts_check: ConflictsCheck = True
    wait_for_sync: Annotated[
        bool,
        Parameter(
            "wait for mirrors to be in sync", "--no-wait-for-sync", option_help="do not wait for mirrors to be in sync"
        ),
    ] = True
    start: Annotated[bool, Parameter("start it at the end", "--no-start", option_help="do not start it")] = True
    no_install: Annotated[
        bool | None, Parameter("do not install the OS, and do not start the instance", "--no-install", kind="flag")
    ] = None
    force_variant: ForceVariant = False
    opportunistic_locking: Annotated[bool, Parameter("use only nodes that are free now", "--opportunistic-locking")] = (
        False
    )
    forthcoming: Annotated[bool, Parameter("reserve the resources only", "--forthcoming")] = False
    ignore_ipolicy: IgnorePolicy = False
    identify_defaults: Annotated[
        bool, Parameter("do not keep parameters that are as the instance would inherit them")
    ] = False
    tags: Annotated[
        list[Text], Parameter("tags of the instance", "--tags", subject="text", kind="list", repeatable=True)
    ] = []

    commit: Annotated[
        bool,
        Parameter(
            "make a reserved instance real, as it was reserved",
            "--commit",
        ),
    ] = False
    instance_communication: Communication = False
    helper_startup_timeout: Annotated[
        _Seconds | None,
        Parameter("how long a helper guest may take to start", "--helper-startup-timeout", kind="duration"),
    ] = None
    helper_shutdown_timeout: Annotated[
        _Seconds | None,
        Parameter(
            "how long a helper guest may take until it has powered itself off",
            "--helper-shutdown-timeout",
            kind="duration",
        ),
    ] = None
    source_handshake: Annotated[list[Any] | None, Parameter("proof of the cluster it comes from", subject="text")] = (
        None
    )
    source_instance_name: Annotated[
        Text | None, Parameter("its name in the cluster it comes from", subject="new name")
    ] = None
    source_shutdown_timeout: Annotated[_Seconds, Parameter("how long it may take to shut down there, in seconds")] = 120
    source_x509_ca: Annotated[Text | None, Parameter("certificate of the cluster it comes from", subject="text")] = None
    src_node: Annotated[Text | None, Parameter("node with the export", subject="node")] = None
    src_node_uuid: Annotated[Text | None, Parameter("UUID of the node with the export", subject="node")] = None
    src_path: Annotated[
        Text | None, Parameter("directory of the export, below that of exports; its name alone will do", subject="path")
    ] = None
    compress: Annotated[str, Parameter("compression of dumps during the transfer: none, or a tool of the cluster")] = (
        "none"
    )
