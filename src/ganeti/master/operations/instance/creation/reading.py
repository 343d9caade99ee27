# SPDX-License-Identifier: BSD-2-Clause
"""A request for a new instance is read: what can be said of it before it has a node."""

from ganeti.base.errors import ALREADY_EXISTS, WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.master.operations.instance.creation.creation_parameters import CreationParameters
from ganeti.master.operations.instance.existing import wrong_input
from ganeti.master.operations.instance.os.installation import OS_IMAGE, image_of
from ganeti.master.operations.instance.wanted import creation_input as creation
from ganeti.master.operations.instance.wanted.communication import wanted_nics
from ganeti.master.operations.instance.wanted.creation_wanted import InstanceRequest, identify_defaults
from ganeti.master.operations.instance.wanted.nics import read_nics
from ganeti.model import inheritance
from ganeti.model.objects import Instance
from ganeti.model.parameters import accept_all, apply_changes, backend_input
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


def read_wanted(asked: CreationParameters, view: ConfigView, ctx: OperationContext) -> InstanceRequest:
    """Type what is asked for; raises `PrerequisiteError` for what cannot be made."""
    name = creation.check_name(asked.instance_name)
    if view.uuid_by_name("instances", name) is not None:
        raise PrerequisiteError(f"Instance '{name}' is already in the cluster: choose another name", ALREADY_EXISTS)
    if asked.ip_check and not asked.name_check:
        raise PrerequisiteError("Cannot check the IP address without the name: add --name-check", WRONG_INPUT)
    if asked.mode != "create":
        raise PrerequisiteError(f"Creation mode '{asked.mode}' is not possible here: use mode create", WRONG_INPUT)
    cluster = view.cluster
    template = _template(asked, view, ctx)
    hypervisor = ctx.catalogue.hypervisor(asked.hypervisor or cluster.enabled_hypervisors[0])
    if hypervisor.name not in cluster.enabled_hypervisors:
        enabled = ", ".join(cluster.enabled_hypervisors)
        raise PrerequisiteError(
            f"Hypervisor {hypervisor.name} is not enabled in the cluster: use one of {enabled}", WRONG_INPUT
        )
    _check_installation(asked)
    try:
        backend = backend_input({key: value for key, value in asked.beparams.items() if value != "default"})
        hvparams = accept_all(hypervisor.parameters, asked.hvparams, "hypervisor", for_instance=True)
    except ParameterError as err:
        raise wrong_input(err) from err
    filled = inheritance.cluster_be(cluster) | backend
    if filled["minmem"] > filled["maxmem"]:
        raise PrerequisiteError(
            f"Minimum memory ({filled['minmem']} MiB) is above the maximum ({filled['maxmem']} MiB)", WRONG_INPUT
        )
    wanted = InstanceRequest(
        name=name,
        template=template,
        hypervisor=hypervisor,
        disks=creation.read_disks(asked.disks, template, ctx.entropy),
        asked=asked.disks,
        nics=read_nics([*asked.nics, *wanted_nics(view, name, wanted=asked.instance_communication)], view, ctx.entropy),
        beparams=backend,
        hvparams=apply_changes({}, hvparams),
        osparams=apply_changes({}, asked.osparams),
        os=asked.os_type or "",
        osparams_private=apply_changes({}, asked.osparams_private or {}),
        tags=creation.check_tags(asked.tags),
    )
    return identify_defaults(view, wanted) if asked.identify_defaults else wanted


def sketch(wanted: InstanceRequest) -> Instance:
    """The instance, without nodes and disks: what an allocator looks at."""
    return Instance(
        uuid="",
        name=wanted.name,
        os=wanted.os,
        hypervisor=wanted.hypervisor.name,
        hvparams=wanted.hvparams,
        beparams=wanted.beparams,
        osparams=wanted.osparams,
        osparams_private=wanted.osparams_private,
        nics=wanted.nics,
        tags=wanted.tags,
        forthcoming=True,
    )


def _check_installation(asked: CreationParameters) -> None:
    if asked.no_install:
        return
    image = image_of(asked.osparams)
    if not asked.os_type and not image:
        raise PrerequisiteError(
            f"The OS is missing: add -o OS, an image with -O {OS_IMAGE}=IMAGE, or --no-install", WRONG_INPUT
        )
    if image and not asked.disks:
        raise PrerequisiteError(f"There is no disk that {image} could be written onto: add --disk", WRONG_INPUT)


def _template(asked: CreationParameters, view: ConfigView, ctx: OperationContext) -> TemplateTraits:
    enabled = view.cluster.enabled_disk_templates
    template = ctx.catalogue.template(asked.disk_template or enabled[0])
    if template.name not in enabled:
        raise PrerequisiteError(
            f"Disk template '{template.name}' is not enabled in cluster. "
            f"Enabled disk templates are: {','.join(enabled)}",
            WRONG_INPUT,
        )
    return template
