# SPDX-License-Identifier: BSD-2-Clause
"""Dictionaries of the cluster and of groups that instances, nodes and disks inherit: what a change comes to. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from ganeti.base import names
from ganeti.base.errors import ParameterError
from ganeti.base.units import parse_size_mib
from ganeti.master import nic_networks
from ganeti.master.instance_spec import instance_size
from ganeti.model import inheritance, ipolicy, recorded_state
from ganeti.model.objects import Cluster, NodeGroup
from ganeti.model.parameters import (
    DEFAULT_MARK,
    NIC_PARAMETERS,
    NODE_PARAMETERS,
    Parameter,
    accept_all,
    backend_input,
)
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView, template_of

Level = TypeVar("Level", Cluster, NodeGroup)
_OF_OSES = ("os_hvp", "osparams", "osparams_private_cluster")
_IN_MIB = ("memory-size", "disk-size")


def merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Give *old* with *changes* at every depth; a value of ``default`` takes the key away."""
    result = dict(old)
    for name, value in changes.items():
        if value == DEFAULT_MARK:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def changed(old: Level, changes: Mapping[str, Any]) -> Level:
    """Give the cluster or group *old* with the *changes* that `read` gave; an OS without parameters has no entry."""
    values = {name: merged(getattr(old, name) or {}, change) for name, change in changes.items()}
    return replace(old, **{name: _without_empty(each) if name in _OF_OSES else each for name, each in values.items()})


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: _without_empty(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    return {name: value for name, value in inner.items() if value != {}}


def read(given: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Type the changes that are *given*, in the form in which the cluster keeps them; raises `ParameterError`."""
    hypervisors = {name: traits.parameters for name, traits in catalogue.hypervisors.items()}
    templates = {name: traits.parameters for name, traits in catalogue.templates.items()}
    changes: dict[str, Any] = {}
    for attribute, values in given.items():
        if attribute == "hvparams":
            changes[attribute] = _by_driver(values, hypervisors, "hypervisor")
        elif attribute == "diskparams":
            changes[attribute] = _by_driver(values, templates, "disk template")
        elif attribute == "os_hvp":
            changes[attribute] = {
                _os(name): _by_driver(inner, hypervisors, "hypervisor") for name, inner in values.items()
            }
        elif attribute == "hv_state_static":
            changes[attribute] = recorded_state.hypervisor_state(values, hypervisors)
        elif attribute == "disk_state_static":
            changes[attribute] = recorded_state.disk_state(values)
        elif attribute in ("osparams", "osparams_private_cluster"):
            changes[attribute] = {_os(name): _texts(inner) for name, inner in values.items()}
        elif attribute == "beparams":
            changes[attribute] = {inheritance.PROFILE: backend_input(values)}
        elif attribute == "nicparams":
            changes[attribute] = {inheritance.PROFILE: accept_all(NIC_PARAMETERS, values, "NIC")}
        else:
            changes[attribute] = accept_all(NODE_PARAMETERS, values, "node")
    return changes


def _by_driver(
    values: Mapping[str, Mapping[str, Any]], known: Mapping[str, tuple[Parameter, ...]], what: str
) -> dict[str, Any]:
    for name in values:
        if name not in known:
            raise ParameterError(f"Unknown {what} '{name}': there are {', '.join(sorted(known))}")
    return {name: accept_all(known[name], inner, name) for name, inner in values.items()}


def _os(name: str) -> str:
    if not name or (fault := names.line_fault(name)) is not None:
        raise ParameterError(f"'{names.shown(name)}' cannot be the name of an OS: {fault if name else 'it is empty'}")
    return name


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of an OS are texts: its scripts get them in their environment. A private value is not told."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise ParameterError(f"The value of the OS parameter '{name}' is no text: put it in quotation marks")
    return dict(values)


def check(view: ConfigView, changes: Mapping[str, Any]) -> None:
    """Refuse what contradicts itself in the cluster or in an instance that inherits it; raises `ParameterError`."""
    cluster = changed(view.cluster, changes)
    if "beparams" in changes:
        _check_memory(inheritance.cluster_be(cluster), "the cluster")
        for instance in view.instances():
            _check_memory(inheritance.instance_be(cluster, instance), f"instance {instance.name}")
    if "nicparams" in changes:
        if not inheritance.cluster_nic(cluster)["link"]:
            raise ParameterError("The NIC parameter link must not be empty: name a bridge or a table")
        for instance in view.instances():
            for index, nic in enumerate(instance.nics):
                routed = inheritance.nic_params(cluster, nic)["mode"] == "routed"
                if routed and nic.network is None and not nic.ip:
                    raise ParameterError(
                        f"NIC {index} of instance {instance.name} would be routed without an address: give it one first"
                    )
        nic_networks.refuse_shared(view, cluster)


def _check_memory(backend: Mapping[str, Any], whose: str) -> None:
    if backend["minmem"] > backend["maxmem"]:
        raise ParameterError(
            f"The backend parameter minmem of {whose} would be {backend['minmem']}, above maxmem ({backend['maxmem']}):"
            " change both"
        )


def policy(
    old: Mapping[str, Any], given: Mapping[str, Any], enabled: Sequence[str], *, above: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Give the policy *old* with what is *given*: bounds as a whole, standard sizes one by one.

    Bounds of the cluster that leave something out are refused, as in 3.1.

    Raises `ParameterError`. The policy of the cluster has every key, so ``default`` gives one the value that a new
    cluster has. That of a group has the keys that differ from the policy *above* it, and ``default`` removes one.
    """
    if above is not None and "std" in given:
        raise ParameterError("Instance policy: std can only be set for the cluster (gnt-cluster modify)")
    fresh = ipolicy.full_policy(enabled) | dict(above or {})
    new = dict(old) if above is not None else fresh | dict(old)
    given = {key: DEFAULT_MARK if value == [DEFAULT_MARK] else value for key, value in given.items()}
    for key, value in given.items():
        if value == DEFAULT_MARK:
            new[key] = fresh.get(key)
        elif key == "std":
            new[key] = new[key] | _sizes(value, fresh[key])
        elif key == "minmax":
            new[key] = [_bounds(pair, fresh["minmax"][0], complete=above is None) for pair in _list(key, value)]
        elif key == "disk-templates":
            new[key] = _list(key, value)
        else:
            new[key] = value
    ipolicy.check_policy(new)
    for name in new.get("disk-templates", []):
        if name not in enabled:
            raise ParameterError(
                f"Instance policy: '{name}' is no enabled disk template: there are {', '.join(enabled)}"
            )
    if above is not None:
        new = {key: value for key, value in new.items() if given.get(key) != DEFAULT_MARK}
    return new


def newly_outside(view: ConfigView, cluster: Cluster, *groups: NodeGroup) -> list[str]:
    """Say of each instance that fits its policy now, and would not with *cluster* and *groups*, that it is kept."""
    policies = _changed_policies(view, cluster, {group.uuid: group for group in groups})
    if not policies:
        return []
    notes = []
    view.disks()  # one query: each alone costs more than all that is done with it here
    for instance in view.instances():
        former, new = policies.get(view.node(instance.primary_node).group, (None, None))
        if former is None or new is None:
            continue
        disks = view.instance_disks(instance)
        size = instance_size(view, instance, disks, template_of(disks))
        if (after := ipolicy.violations(new, size)) and not ipolicy.violations(former, size):
            notes.append(f"Instance {instance.name} is kept, but lies outside the new policy: {'; '.join(after)}")
    return notes


def _changed_policies(
    view: ConfigView, cluster: Cluster, groups: Mapping[str, NodeGroup]
) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Former and new policy of the groups (by uuid) that admit other instances than before; ratios are of nodes."""
    former = {group.uuid: inheritance.group_ipolicy(view.cluster, group) for group in view.groups()}
    new = {group.uuid: inheritance.group_ipolicy(cluster, groups.get(group.uuid, group)) for group in view.groups()}
    return {
        uuid: (former[uuid], new[uuid])
        for uuid in former
        if any(former[uuid].get(key) != new[uuid].get(key) for key in ("minmax", "disk-templates"))
    }


def _list(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ParameterError(f"Instance policy: {key} must be a list that is not empty")
    return value


def _bounds(pair: Any, fresh: Mapping[str, dict[str, int]], *, complete: bool) -> dict[str, Any]:
    """Type a pair of bounds; what it leaves out is as in *fresh*, unless it must be *complete*."""
    if not isinstance(pair, Mapping) or set(pair) != {"min", "max"}:
        raise ParameterError("Instance policy: each pair of bounds has min and max")
    given = {bound: _sizes(pair[bound], fresh[bound]) for bound in ("min", "max")}
    for bound, sizes in given.items():
        if complete and (missing := [key for key in ipolicy.SPEC_KEYS if key not in sizes]):
            raise ParameterError(
                f"Instance policy: {bound} leaves out {', '.join(missing)}: the bounds of the cluster are given as a "
                "whole ('gnt-cluster show-ispecs-cmd' prints those of now)"
            )
    return {bound: fresh[bound] | sizes for bound, sizes in given.items()}


def _sizes(values: Any, fresh: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(values, Mapping):
        raise ParameterError(f"Instance policy: '{values}' cannot be sizes: give a value for each of their names")
    sizes: dict[str, int] = {}
    for key, value in values.items():
        if key not in ipolicy.SPEC_KEYS:
            raise ParameterError(f"Instance policy: unknown key '{key}': there are {', '.join(ipolicy.SPEC_KEYS)}")
        try:
            sizes[key] = (
                fresh[key] if value == DEFAULT_MARK else parse_size_mib(value) if key in _IN_MIB else int(value)
            )
        except (ParameterError, ValueError, TypeError) as err:
            raise ParameterError(f"Instance policy: {key} cannot be '{value}': it must be a whole number") from err
    return sizes
