# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance reinstall, on one instance or on many: which, with what OS, and one question; and rename."""

from __future__ import annotations

from ganeti.cli import confirm, jobs
from ganeti.cli.commands.instance.power import SELECTION, selected, submit
from ganeti.cli.commands.os.list import valid_names
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def each(call: Invocation) -> int:
    """One job for each instance selected, after a question; ``--force`` answers it for one, not for several."""
    names = selected(call)
    if not names:
        raise Failure("No instance matches, nothing was done")
    parameters = call.parameters(*SELECTION, "force", "select_os")
    if call.get("select_os"):
        parameters["os_type"] = _chosen(call)
    forced = call.get("force_multiple") or (call.get("force") and len(names) == 1)
    if not (forced or call.get("dry_run")):
        _confirm(names, parameters.get("os_type"))
    return submit(call, names, parameters)


def _chosen(call: Invocation) -> str:
    if not (names := valid_names(call)):
        raise Failure("No OS is valid on all nodes: put the same definition on each of them")
    return confirm.choose("OS", names)


def _confirm(names: list[str], os_type: str | None) -> None:
    what = f"install the OS '{os_type}'" if os_type else "install the same OS again"
    if len(names) == 1:
        question = f"This will {what} on {names[0]}, and all data on its disks will be lost. Continue?"
        confirm.require(question, "give --force to go on without the question.")
        return
    warning = f"This will {what}, and all data on the disks of these instances will be lost.\n"
    question = warning + confirm.listing("instances", names, "reinstallation")
    confirm.require(question, "give --force-multiple to go on without the question.")


def rename(call: Invocation) -> int:
    """Say the new name, as the master gives it."""
    parameters = call.parameters("assume_yes")
    name = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, **parameters})
    if name is not jobs.SUBMITTED:
        out(f"Instance '{parameters['instance_name']}' renamed to '{name}'")
    return 0
