# SPDX-License-Identifier: BSD-2-Clause
"""Installing an OS whose create script is not trusted: a helper guest runs it on the disks of the instance (3.1).

The guest boots from the cluster's install image, gets the script and the OS parameters from the metadata daemon over
the instance's NIC for communication, and powers itself off when it is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operations.instance.os.helper_guest import START_WITHIN_S, run_helper
from ganeti.model.communication import nic_of
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@dataclass(frozen=True)
class HelperTimes:
    """How long a helper guest may take, in seconds."""

    start_s: float = START_WITHIN_S
    """Until it runs: the image may have to come from elsewhere."""
    work_s: float = 2 * 3600.0
    """From then until it has powered itself off."""


USUAL = HelperTimes()


def helper_times(start_s: float | None, work_s: float | None) -> HelperTimes:
    """What is asked for; 3.1's times where nothing is."""
    return HelperTimes(
        USUAL.start_s if start_s is None else float(start_s), USUAL.work_s if work_s is None else float(work_s)
    )


def require_helper(view: ConfigView, spec: InstanceSpec, secret: Mapping[str, Any] | None) -> None:
    """Raises `PrerequisiteError` where no helper guest could install the instance's OS."""
    what = f"OS '{spec.os}' has a script create_untrusted, which runs in a helper guest"
    if not view.cluster.install_image:
        raise PrerequisiteError(
            f"{what}: name the image of that guest first (gnt-cluster modify --install-image IMAGE)", WRONG_STATE
        )
    nic = nic_of(spec.nics)
    if nic is None or nic.ip is None:
        raise PrerequisiteError(
            f"{what} and reads the script over the NIC for communication: give instance {spec.name} one "
            "(--communication=yes)",
            WRONG_INPUT,
        )
    if secret:
        raise PrerequisiteError(
            f"{what}: secret OS parameters ({', '.join(sorted(secret))}) are stored nowhere, so it cannot read them; "
            "give them as private ones (--os-parameters-private)",
            WRONG_INPUT,
        )


def tell_unused(ctx: OperationContext, spec: InstanceSpec, times: HelperTimes) -> None:
    """Where times are given and no helper guest is needed."""
    if times != USUAL:
        ctx.log.info(f"The times for a helper guest are not used: the scripts of OS '{spec.os}' run on the node")


async def install_by_helper(ctx: OperationContext, spec: InstanceSpec, image: str, times: HelperTimes) -> None:
    """Run the helper guest on the open disks, which stay open. Raises `ExecutionError`."""
    await run_helper(ctx, spec, image, communicates=True, start_within_s=times.start_s, end_within_s=times.work_s)
