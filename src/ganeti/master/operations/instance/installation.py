# SPDX-License-Identifier: BSD-2-Clause
"""Checking an OS on the node that runs its scripts, and installing it: what creation and reinstallation share."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import ParameterError, PrerequisiteError
from ganeti.master.operations.instance.disks import open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import wrong_input
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext

OS_INSTALL_TIMEOUT_S = 24 * 3600.0


async def validate_os(
    ctx: OperationContext, spec: InstanceSpec, secret: Mapping[str, Any] | None = None, *, force_variant: bool
) -> None:
    """Have the primary node look at OS, variant and parameters; raises `PrerequisiteError`."""
    params = spec.osparams | spec.osparams_private | dict(secret or {})
    try:
        await ctx.nodes.call(
            spec.primary_node_uuid, "os_validate", name=spec.os, params=params, force_variant=force_variant
        )
    except PrerequisiteError:
        raise
    except ParameterError as err:
        raise wrong_input(err) from err


async def install_os(
    ctx: OperationContext, spec: InstanceSpec, secret: Mapping[str, Any] | None, *, reinstall: bool, debug: int
) -> None:
    """Open the disks, with their undo, and run the create script on them; they stay open."""
    disks = plan_of(ctx, spec)
    await push_undo(ctx, disks.open())
    await open_disks(ctx, disks)
    ctx.log.info("* running the instance OS create scripts...")
    await ctx.nodes.call(
        spec.primary_node_uuid,
        "instance_os_add",
        deadline_s=OS_INSTALL_TIMEOUT_S,
        instance=replace(spec, osparams=spec.osparams | dict(secret or {})),
        reinstall=reinstall,
        debug=debug,
    )
