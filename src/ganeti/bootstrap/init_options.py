# SPDX-License-Identifier: BSD-2-Clause
"""What `gnt-cluster init` is given, checked and completed: pure, one refusal a sentence (protocols, section 25)."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.base.units import parse_size_mib
from ganeti.model import cluster_values, hypervisors, ipolicy, recorded_state, uid_pool
from ganeti.model.cluster_values import DEFAULT_DIRECTORIES
from ganeti.model.parameters import (
    DEFAULT_MARK,
    NIC_PARAMETERS,
    NODE_PARAMETERS,
    Parameter,
    accept_all,
    backend_input,
    defaults,
)
from ganeti.model.templates import PARAMETERS_OF_3_1, PREFERRED, REACHED_BY_QEMU
from ganeti.model.traits import Catalogue

DEFAULT_HYPERVISOR = "kvm"

DEFAULT_NETDEV = "xen-br0"

_SPEC_OPTIONS = {
    "specs_mem_size": "memory-size",
    "specs_cpu_count": "cpu-count",
    "specs_disk_count": "disk-count",
    "specs_disk_size": "disk-size",
    "specs_nic_count": "nic-count",
}
_SIZES = ("memory-size", "disk-size")


def not_offered(catalogue: Catalogue) -> set[str]:
    """Options that are always refused: no installed disk template could use them."""
    templates = catalogue.templates.values()
    in_groups = [traits for traits in templates if traits.uses_node_disk]
    directories = set(DEFAULT_DIRECTORIES) - {traits.directory_setting for traits in templates}
    volume_group = set() if in_groups else {"vg_name"}
    helper = set() if any(traits.node_count > 1 for traits in in_groups) else {"drbd_helper"}
    return {*directories, *volume_group, *helper}


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What the model refuses is wrong input here."""
    try:
        yield
    except ParameterError as err:
        raise PrerequisiteError(err.message, WRONG_INPUT) from err


def enabled_hypervisors(given: Sequence[str] | None, catalogue: Catalogue) -> list[str]:
    """At least one, all known, none twice; raises `PrerequisiteError`."""
    return _known_names([DEFAULT_HYPERVISOR] if given is None else given, "hypervisor", catalogue.hypervisors)


def enabled_templates(
    given: Sequence[str] | None, catalogue: Catalogue, *, has_volume_group: bool = False, can_replicate: bool = False
) -> list[str]:
    """Those that are named; otherwise what this machine can serve, of those that are preferred."""
    known = [catalogue.template(name) for name in PREFERRED if name in catalogue.templates]
    usable = (
        traits.name
        for traits in known
        if not traits.uses_node_disk or (has_volume_group and (can_replicate or not traits.has_secondary))
    )
    chosen = list(usable) if given is None else given
    return _known_names(chosen, "disk template", catalogue.templates)


def _known_names(given: Sequence[str], what: str, known: Collection[str]) -> list[str]:
    with _refusing():
        cluster_values.known_names(given, what, known)
    return list(given)


def ip_version(given: int | None) -> int:
    if given not in (None, 4, 6):
        raise PrerequisiteError(f"The primary IP version cannot be {given}: it is 4 or 6", WRONG_INPUT)
    return given or 4


def netmask(given: int | None, version: int) -> int:
    longest = {4: 32, 6: 128}[version]
    with _refusing():
        return cluster_values.master_netmask(longest if given is None else given, longest)


def mac_prefix(given: str | None) -> str:
    with _refusing():
        return cluster_values.mac_prefix(given or "aa:00:00")


def storage_directory(setting: str, given: str | None) -> str:
    with _refusing():
        return cluster_values.storage_directory(setting, given or DEFAULT_DIRECTORIES.get(setting, ""))


def parameters(options: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The dictionaries of parameters, filled; raises `PrerequisiteError` naming the parameter at fault."""
    try:
        beparams = backend_input(_given(options.get("beparams")))
        filled = {
            "hvparams": hypervisors.PARAMETERS_OF_3_1
            | _per_driver(
                options.get("hvparams"), {name: traits.parameters for name, traits in catalogue.hypervisors.items()}
            ),
            "diskparams": PARAMETERS_OF_3_1
            | REACHED_BY_QEMU
            | _per_driver(
                options.get("diskparams"), {name: traits.parameters for name, traits in catalogue.templates.items()}
            ),
            "beparams": {"default": _default_backend() | beparams},
            "nicparams": {"default": _fill(NIC_PARAMETERS, options.get("nicparams"), "NIC")},
            "ndparams": _fill(NODE_PARAMETERS, options.get("ndparams"), "node"),
            "hv_state_static": recorded_state.hypervisor_state(options.get("hv_state") or {}, catalogue.hypervisors),
            "disk_state_static": recorded_state.disk_state(options.get("disk_state") or {}),
        }
    except ParameterError as err:
        raise PrerequisiteError(err.message, WRONG_INPUT) from err
    backend, nic = filled["beparams"]["default"], filled["nicparams"]["default"]
    if backend["minmem"] > backend["maxmem"]:
        raise PrerequisiteError(
            f"The backend parameter minmem ({backend['minmem']}) is above maxmem ({backend['maxmem']})", WRONG_INPUT
        )
    if not nic["link"]:
        raise PrerequisiteError("The NIC parameter link must not be empty: name a bridge or a table", WRONG_INPUT)
    return filled


def _default_backend() -> dict[str, Any]:
    from ganeti.model.parameters import BACKEND_PARAMETERS

    return defaults(BACKEND_PARAMETERS)


def _given(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (values or {}).items() if value != DEFAULT_MARK}


def _fill(known: tuple[Parameter, ...], values: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    return defaults(known) | accept_all(known, _given(values), what)


def _per_driver(
    given: Mapping[str, Mapping[str, Any]] | None, known: Mapping[str, tuple[Parameter, ...]]
) -> dict[str, dict[str, Any]]:
    for name in given or {}:
        if name not in known:
            raise PrerequisiteError(f"Parameters for '{name}': there are {', '.join(sorted(known))}", WRONG_INPUT)
    return {name: _fill(known[name], (given or {}).get(name), name) for name in sorted(known)}


def policy(options: Mapping[str, Any], templates: Sequence[str]) -> dict[str, Any]:
    """The instance policy of the cluster; raises `PrerequisiteError`."""
    given = {key: each for key, each in (options.get("ipolicy") or {}).items() if each not in ("default", ["default"])}
    specs = {key: options[name] for name, key in _SPEC_OPTIONS.items() if options.get(name)}
    if specs and (given.get("minmax") or given.get("std")):
        raise PrerequisiteError("--specs-… and --ipolicy-…-specs exclude each other: use the latter", WRONG_INPUT)
    result = ipolicy.full_policy(templates)
    if given.get("minmax"):
        result["minmax"] = [
            {
                "min": ipolicy.DEFAULT_MINIMUM | _spec(pair.get("min"), "minimum"),
                "max": ipolicy.DEFAULT_MAXIMUM | _spec(pair.get("max"), "maximum"),
            }
            for pair in given["minmax"]
        ]
    result["std"] |= _spec(given.get("std"), "standard")
    for key, values in specs.items():
        for bound, target in (("min", result["minmax"][0]["min"]), ("max", result["minmax"][0]["max"])):
            target.update(_spec({key: values[bound]} if bound in values else {}, bound))
        result["std"].update(_spec({key: values["std"]} if "std" in values else {}, "std"))
        if unknown := set(values) - {"min", "max", "std"}:
            raise PrerequisiteError(f"'{sorted(unknown)[0]}' is not one of min, max, std", WRONG_INPUT)
    if given.get("disk-templates") is not None:
        result["disk-templates"] = _known_names(given["disk-templates"], "enabled disk template", templates)
    for key in ("vcpu-ratio", "spindle-ratio"):
        if given.get(key) is not None:
            result[key] = float(given[key])
    try:
        ipolicy.check_policy(result)
    except ParameterError as err:
        raise PrerequisiteError(err.message, WRONG_INPUT) from err
    return result


def _spec(values: Mapping[str, Any] | None, what: str) -> dict[str, int]:
    result = {}
    for key, value in (values or {}).items():
        if key not in ipolicy.SPEC_KEYS:
            known = ", ".join(ipolicy.SPEC_KEYS)
            raise PrerequisiteError(f"Instance policy, {what}: unknown key '{key}': there are {known}", WRONG_INPUT)
        try:
            result[key] = parse_size_mib(value) if key in _SIZES else int(str(value))
        except (ParameterError, ValueError) as err:
            raise PrerequisiteError(f"Instance policy, {what}: {key} cannot be '{value}'", WRONG_INPUT) from err
    return result


def _user_ids(given: Any) -> list[list[int]]:
    try:
        ranges = msgspec.convert(given or [], list[tuple[int, int]])
    except msgspec.ValidationError as err:
        raise PrerequisiteError(
            f"'{given}' are no ranges of user ids: write them as 1000,2000-2010", WRONG_INPUT
        ) from err
    with _refusing():
        return uid_pool.checked(ranges)


def _communication_network(name: str | None) -> str | None:
    if name and (fault := names.reference_fault(name)) is not None:
        raise PrerequisiteError(f"A network cannot be called '{names.shown(name)}': {fault}", WRONG_INPUT)
    return name


def plain_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the cluster that are taken as they come, once checked."""
    pool = options.get("candidate_pool_size")
    if pool is not None and pool < 1:
        raise PrerequisiteError(f"The candidate pool size cannot be {pool}: the least is 1", WRONG_INPUT)
    values: dict[str, Any] = {
        "candidate_pool_size": pool,
        "uid_pool": _user_ids(options.get("uid_pool")),
        "prealloc_wipe_disks": options.get("prealloc_wipe_disks"),
        "use_external_mip_script": options.get("use_external_mip_script"),
        "enabled_user_shutdown": options.get("enabled_user_shutdown"),
        "maintain_node_health": options.get("maintain_node_health"),
        "instance_communication_network": _communication_network(options.get("instance_communication_network")),
        "default_iallocator_params": options.get("default_iallocator_params"),
    }
    for name in ("compression_tools", "install_image", "zeroing_image"):
        if options.get(name) is not None:
            with _refusing():
                values[name] = cluster_values.FORMS[name](options[name])
    return {key: value for key, value in values.items() if value is not None}
