# SPDX-License-Identifier: BSD-2-Clause
"""Making a reserved (forthcoming) instance real: it is made as it was reserved, on the nodes where it has its room."""

from collections.abc import Iterator

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError, UnitParseError
from ganeti.base.units import parse_size_mib
from ganeti.master.operations.instance.creation.creation_parameters import CreationParameters
from ganeti.model.objects import Instance
from ganeti.model.parameters import backend_input
from ganeti.model.view import ConfigView


def reserved_instance(view: ConfigView, name: str) -> Instance:
    """Give the instance of this name; raises `PrerequisiteError` unless it is only reserved so far."""
    instance = view.find_instance(name)
    if not instance.forthcoming:
        raise PrerequisiteError(
            f"Instance {instance.name} is not reserved but real: leave --commit out, with another name", WRONG_STATE
        )
    return instance


def require_as_reserved(asked: CreationParameters, view: ConfigView, instance: Instance) -> None:
    """Refuse what is asked for otherwise than it was reserved; what is left out is as reserved."""
    for what in _differing(asked, view, instance):
        raise PrerequisiteError(
            f"The {what} of {instance.name} cannot be another than it was reserved with: leave it out, or remove the "
            f"reservation (gnt-instance remove {instance.name}) and create it anew",
            WRONG_INPUT,
        )


def _differing(asked: CreationParameters, view: ConfigView, instance: Instance) -> Iterator[str]:
    node = asked.pnode_uuid or asked.pnode
    if node and view.find_node(node).uuid != instance.primary_node:
        yield "node"
    for what, wanted, has in (
        ("disk template", asked.disk_template, view.disk_template(instance)),
        ("OS", asked.os_type, instance.os),
        ("hypervisor", asked.hypervisor, instance.hypervisor),
    ):
        if wanted and wanted != has:
            yield what
    try:
        sizes = [parse_size_mib(size) for disk in asked.disks if isinstance(size := disk.get("size"), str | int)]
    except UnitParseError as err:
        raise PrerequisiteError(f"The size of a disk is wrong: {err}", WRONG_INPUT) from err
    if asked.disks and sizes != [disk.size for disk in view.instance_disks(instance)]:
        yield "size of disks"
    if len(asked.nics) > 1 and len(asked.nics) != len(instance.nics):
        yield "number of NICs"
    for what, values, own in (
        ("backend parameter", backend_input(asked.beparams), instance.beparams),
        ("hypervisor parameter", asked.hvparams, instance.hvparams),
        ("OS parameter", asked.osparams, instance.osparams),
    ):
        yield from (f"{what} {key}" for key, value in values.items() if value != "default" and own.get(key) != value)
