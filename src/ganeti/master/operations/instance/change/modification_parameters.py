# SPDX-License-Identifier: BSD-2-Clause
"""The parameters of OP_INSTANCE_SET_PARAMS, with the command that sends it."""

from typing import Annotated, Any, Literal

import msgspec

from ganeti.base.command import Command, Option
from ganeti.master.operation import Operation
from ganeti.master.operations.instance.wanted.device_changes import RequestedChange
from ganeti.master.operations.parameters import (
    Allocator,
    BackendParameters,
    Communication,
    ConflictsCheck,
    ForceVariant,
    IgnorePolicy,
    InstanceName,
    InstanceUuid,
    Text,
    Values,
)
from ganeti.master.parameter import Parameter

Changes = list[tuple[str, Any]]
"""What has changed, told in the form of 3.1: pairs of name and value."""
COMMAND = Command(
    "gnt-instance modify",
    "change parameters of an instance",
    arguments=("instance_name",),
    modifies="instance",
    excludes=(("--online", "--offline", "keep the second"),),
)


class ModificationParameters(Operation[Changes], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be said of a change."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    force: Annotated[bool, Parameter("go on where that is possible", "-f", "--force")] = False
    force_variant: ForceVariant = False
    ignore_ipolicy: IgnorePolicy = False
    nics: Annotated[
        list[RequestedChange],
        Parameter(
            "changes of its NICs: action (add, modify, remove), index or name, values",
            "--net",
            option_help="add, modify or remove a NIC",
            kind="nic-mods",
            repeatable=True,
            metavar="N:ACTION,KEY=VALUE,…",
        ),
    ] = []
    disks: Annotated[
        list[RequestedChange],
        Parameter(
            "changes of its disks: action (add, attach, detach, modify, remove), index or name, values",
            "--disk",
            option_help="add, attach, detach, modify or remove a disk",
            kind="disk-mods",
            repeatable=True,
            metavar="N:ACTION,KEY=VALUE,…",
        ),
    ] = []
    beparams: BackendParameters = {}
    runtime_mem: Annotated[
        Annotated[int, msgspec.Meta(gt=0)] | None,
        Parameter("memory the guest uses from now on, in MiB", "-m", "--runtime-memory", kind="size"),
    ] = None
    hvparams: Annotated[Values, Parameter("hypervisor parameters", "-H", "--hypervisor-parameters")] = {}
    disk_template: Annotated[
        Text | None,
        Parameter(
            "disk template to convert its disks to; without disks, the template of new ones",
            "-t",
            "--disk-template",
            subject="disk template",
            metavar="TEMPLATE",
        ),
    ] = None
    ext_params: Annotated[
        Values,
        Parameter(
            "parameters of the external storage provider that disks are converted to, provider=NAME among them",
            "-e",
            "--ext-params",
        ),
    ] = {}
    file_driver: Annotated[
        Literal["loop", "blktap", "blktap2"] | None,
        Parameter("driver of new disks in files", "--file-driver"),
    ] = None
    file_storage_dir: Annotated[
        Text | None,
        Parameter(
            "directory of new disks, below the cluster's", "--file-storage-dir", subject="path", metavar="DIRECTORY"
        ),
    ] = None
    pnode: Annotated[
        Text | None,
        Parameter("node that it lives on, without moving data", "--new-primary", subject="node", metavar="NODE"),
    ] = None
    pnode_uuid: Annotated[Text | None, Parameter("UUID of that node, in place of its name", subject="node")] = None
    remote_node: Annotated[
        Text | None,
        Parameter("secondary node of the new disk template", "-n", "--node", subject="node", metavar="NODE"),
    ] = None
    remote_node_uuid: Annotated[Text | None, Parameter("UUID of the secondary node", subject="node")] = None
    iallocator: Allocator | None = None
    os_name: Annotated[
        Text | None,
        Parameter("OS that it has, without installing it", "-o", "--os-type", subject="os", metavar="OS[+VARIANT]"),
    ] = None
    osparams: Annotated[Values, Parameter("OS parameters", "-O", "--os-parameters", subject="text")] = {}
    osparams_private: Annotated[
        Values | None, Parameter("OS parameters that no listing shows", "--os-parameters-private", subject="text")
    ] = None
    wait_for_sync: Annotated[
        bool,
        Parameter(
            "wait until mirrors of new disks are in sync",
            "--no-wait-for-sync",
            option_help="do not wait for mirrors to be in sync",
        ),
    ] = True
    offline: Annotated[
        bool | None,
        Parameter(
            "whether it is marked offline",
            options=(
                Option(("--offline",), "offline", "flag", "mark it offline: it is not started"),
                Option(("--online",), "offline", "flag", "it can be started again", False),
            ),
        ),
    ] = None
    conflicts_check: ConflictsCheck = True
    hotplug: Annotated[
        bool,
        Parameter(
            "change a running guest at once; where that is not possible, at its next start",
            options=(
                Option(("--no-hotplug",), "hotplug", "flag", "change a running guest at its next start only", False),
                Option(
                    ("--hotplug", "--hotplug-if-possible"), "hotplug", "flag", "as without it; there for old scripts"
                ),
            ),
        ),
    ] = True
    instance_communication: Communication | None = None
