# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_REINSTALL: install the OS of a stopped instance again, or another one.

The configuration names another OS once that is installed: where its script fails, it may have left anything on the
disks, and what the instance was is the better description.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec.structs import replace

from ganeti.base.command import Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.disks.disk_steps import close_disks
from ganeti.master.operations.instance.existing import (
    guest_on_primary,
    instance_and_nodes,
    require_complete,
    require_stopped,
)
from ganeti.master.operations.instance.os.installation import OS_IMAGE, image_of, install_os, validate_os
from ganeti.master.operations.instance.selection import SELECTED, SELECTORS
from ganeti.master.operations.parameters import ForceVariant, InstanceName, InstanceUuid, Text, Values
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.parameters import apply_changes
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext


class NoteInstalledOs(Change, frozen=True, kw_only=True):
    """An instance has this OS from now on, and its disks are closed."""

    instance_uuid: str
    os: str

    def apply(self, draft: Draft) -> None:
        instance = draft.instance(self.instance_uuid)
        changed = replace(instance, os=self.os, disks_active=False)
        if changed != instance:
            draft.put("instances", changed)


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    """With the OS that is installed, and its parameters but for the secret ones."""


_EXAMPLE = {"instance_name": "one.example.com"}
_ANOTHER = {"os_type": "noop+other", "force_variant": True}


@operation(
    "OP_INSTANCE_REINSTALL",
    summary_field="instance_name",
    hooks="instance-reinstall",
    cli=Command(
        "gnt-instance reinstall",
        "install the OS of stopped instances again; what is on their disks is lost",
        arguments=(SELECTED,),
        options=(
            Option(("-f", "--force"), "force", "flag", "do not ask about one instance"),
            *SELECTORS,
            Option(("--select-os",), "select_os", "flag", "choose the OS from a list"),
        ),
        handler="instance.reinstall:each",
        excludes=(("--select-os", "-o", "name the OS or choose it"),),
    ),
    rapi="POST /2/instances/[instance_name]/reinstall",
    examples=(
        Example("reinstall", _EXAMPLE, before=("create-stopped",)),
        Example("reinstall-another", _EXAMPLE | _ANOTHER, before=("create-stopped",)),
    ),
)
class ReinstallInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Install the OS again on the disks of a stopped instance; parameters given here hold for this time only."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    os_type: Annotated[
        Text | None, Parameter("another OS", "-o", "--os-type", subject="os", metavar="OS[+VARIANT]")
    ] = None
    force_variant: ForceVariant = False
    osparams: Annotated[
        Values | None, Parameter("OS parameters for this time", "-O", "--os-parameters", subject="text")
    ] = None
    osparams_private: Annotated[
        Values | None,
        Parameter("OS parameters for this time that no listing shows", "--os-parameters-private", subject="text"),
    ] = None
    osparams_secret: Annotated[
        Values | None, Parameter("OS parameters that are not stored at all", "--os-parameters-secret", subject="text")
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> FoundInstance | None:
        """The guest, if it runs."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "reinstalled")
        return await guest_on_primary(ctx, view, instance, "bring it back, or fail the instance over first")

    def check(self, view: ConfigView, facts: FoundInstance | None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_stopped(instance, facts, "reinstalled")
        os_type = self.os_type or instance.os
        if not instance.disks:
            raise PrerequisiteError(
                f"Instance {instance.name} has no disks, so nothing can be installed on it: add one first "
                f"(gnt-instance modify --disk add:size=SIZE {instance.name})",
                WRONG_INPUT,
            )
        wanted = replace(
            instance,
            os=os_type,
            osparams=apply_changes(instance.osparams, self.osparams or {}),
            osparams_private=apply_changes(instance.osparams_private, self.osparams_private or {}),
        )
        if not os_type and not image_of(wanted.osparams):
            raise PrerequisiteError(
                f"Instance {instance.name} has no OS: name one with -o OS, or an image with -O {OS_IMAGE}=IMAGE",
                WRONG_INPUT,
            )
        return Checked(instance, instance_spec(view, ctx.catalogue, wanted))

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *view.instance_nodes(checked.instance)]))
        spec = replace(checked.spec, os=checked.instance.os)
        return instance_hooks(view, self.hooks_path, spec, checked.instance, nodes, nodes, {})

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        await validate_os(ctx, checked.spec, self.osparams_secret, force_variant=self.force_variant)
        return checked

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        spec = checked.spec
        if spec.os != checked.instance.os:
            ctx.log.info(f"* changing the OS from '{checked.instance.os}' to '{spec.os}'...")
        await install_os(ctx, spec, self.osparams_secret, reinstall=True, debug=self.debug_level or 0)
        await close_disks(ctx, spec)
        await ctx.config.commit(NoteInstalledOs(instance_uuid=spec.uuid, os=spec.os), settles=True)
