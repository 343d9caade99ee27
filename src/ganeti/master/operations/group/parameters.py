# SPDX-License-Identifier: BSD-2-Clause
"""What a node group hands down: parameters that OP_GROUP_ADD and OP_GROUP_SET_PARAMS share."""

from typing import Any, Generic

from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.master.capacity import check_template
from ganeti.master.operation import Operation, Result
from ganeti.master.operations.cluster import inherited_parameters
from ganeti.master.operations.parameters import (
    AllocPolicy,
    CapacityOptions,
    DiskParameters,
    DiskState,
    HypervisorState,
    InstancePolicy,
    NodeParameters,
)
from ganeti.model.objects import NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

EXAMPLE = {"ndparams": {"spindle_count": 2}, "ipolicy": {"vcpu-ratio": 2.0}}
"""Values for examples."""


class GroupParameters(Operation[Result], Generic[Result], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters that both have; a dictionary changes only the keys that it names, and ``default`` takes one back."""

    alloc_policy: AllocPolicy | None = None
    ndparams: NodeParameters | None = None
    diskparams: DiskParameters | None = None
    hv_state: HypervisorState | None = None
    disk_state: DiskState | None = None
    ipolicy: InstancePolicy | None = None
    capacity_params: CapacityOptions | None = None

    def changed(self, group: NodeGroup, view: ConfigView, catalogue: Catalogue) -> NodeGroup:
        """Give *group* with what is asked for; raises `PrerequisiteError`."""
        given = {
            "ndparams": self.ndparams,
            "diskparams": self.diskparams,
            "hv_state_static": self.hv_state,
            "disk_state_static": self.disk_state,
        }
        values: dict[str, Any] = {} if self.alloc_policy is None else {"alloc_policy": self.alloc_policy}
        if self.capacity_params is not None:
            check_template(view, self.capacity_params.default_template)
            values["capacity_params"] = self.capacity_params.plain()
        try:
            changes = inherited_parameters.read({name: each for name, each in given.items() if each}, catalogue)
            if self.ipolicy:
                cluster = view.cluster
                values["ipolicy"] = inherited_parameters.policy(
                    group.ipolicy, self.ipolicy, cluster.enabled_disk_templates, above=cluster.ipolicy
                )
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        return replace(inherited_parameters.changed(group, changes), **values)
