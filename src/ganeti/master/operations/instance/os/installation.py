# SPDX-License-Identifier: BSD-2-Clause
"""Checking an OS on the node that runs its scripts, and installing it: what creation and reinstallation share."""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import ParameterError, PrerequisiteError
from ganeti.master.instance_spec import with_secrets
from ganeti.master.operations.instance.disks.disk_steps import open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import wrong_input
from ganeti.master.operations.instance.os.helper_installation import (
    USUAL,
    HelperTimes,
    install_by_helper,
    require_helper,
    tell_unused,
)
from ganeti.master.operations.instance.os.script_output import followed
from ganeti.model import cluster_values
from ganeti.model.node_calls.images import DiskImage
from ganeti.model.node_calls.instances import InstanceOsAdd
from ganeti.model.node_calls.operating_systems import OsGet, OsValidate
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

OS_INSTALL_TIMEOUT_S = 24 * 3600.0
OS_IMAGE = "os-image"
"""The OS parameter that is no OS's own: a disk image, by path or URL, which the first disk is filled from (3.1)."""


def image_of(osparams: Mapping[str, Any]) -> str:
    """The image that an installation begins with, empty for none; raises `PrerequisiteError`."""
    try:
        return cluster_values.image_place(f"OS parameter {OS_IMAGE}", str(osparams.get(OS_IMAGE) or ""))
    except ParameterError as err:
        raise wrong_input(err) from err


async def validate_os(
    ctx: OperationContext,
    spec: InstanceSpec,
    secret: Mapping[str, Any] | None = None,
    *,
    force_variant: bool,
    installs: bool = True,
) -> None:
    """Have the primary node look at OS, if there is one, variant and parameters; raises `PrerequisiteError`.

    Scripts that nobody trusts need a helper guest only where they run.
    """
    if not spec.os:
        return
    params = spec.osparams | with_secrets(spec, secret).osparams_private
    params.pop(OS_IMAGE, None)
    request = OsValidate(name=spec.os, params=params, force_variant=force_variant)
    try:
        found = await ask(ctx.nodes, spec.primary_node_uuid, request)
    except PrerequisiteError:
        raise
    except ParameterError as err:
        raise wrong_input(err) from err
    if installs and not found.trusted:
        require_helper(ctx.config.view(), spec, secret)


async def install_os(
    ctx: OperationContext,
    spec: InstanceSpec,
    secret: Mapping[str, Any] | None,
    *,
    reinstall: bool,
    debug: int,
    helper: HelperTimes = USUAL,
) -> None:
    """Open the disks, with their undo, fill them from the image, and run the create script; they stay open."""
    disks = plan_of(ctx, spec)
    await push_undo(ctx, disks.open())
    await open_disks(ctx, disks)
    if image := image_of(spec.osparams):
        ctx.log.info(f"* filling the first disk from image {image}...")
        request = DiskImage(instance=spec, index=0, image=image)
        await ask(ctx.nodes, spec.primary_node_uuid, request, deadline_s=OS_INSTALL_TIMEOUT_S)
    if not spec.os:
        return
    if (install_image := ctx.config.view().cluster.install_image) and await _needs_helper(ctx, spec):
        ctx.log.info(f"* installing the OS inside a helper guest from image {install_image}...")
        await install_by_helper(ctx, spec, install_image, helper)
        return
    tell_unused(ctx, spec, helper)
    ctx.log.info("* running the instance OS create scripts...")
    await followed(
        ctx,
        spec.primary_node_uuid,
        lambda token: ask(
            ctx.nodes,
            spec.primary_node_uuid,
            InstanceOsAdd(
                instance=with_secrets(spec, secret),
                reinstall=reinstall,
                debug=debug,
                token=token,
            ),
            deadline_s=OS_INSTALL_TIMEOUT_S,
        ),
    )


async def _needs_helper(ctx: OperationContext, spec: InstanceSpec) -> bool:
    return not (await ask(ctx.nodes, spec.primary_node_uuid, OsGet(name=spec.os))).trusted
