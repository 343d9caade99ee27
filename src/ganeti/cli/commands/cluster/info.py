# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster info and verify."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.capacity_values import shown as capacity_parameters
from ganeti.cli.failures import ServerError
from ganeti.cli.infotext import Ordered, print_info, scalar, timestamp
from ganeti.cli.invocation import err

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_NORMAL = 0
SPEC_KEYS = ("cpu-count", "disk-count", "disk-size", "memory-size", "nic-count", "spindle-use")


def info(call: Invocation) -> int:
    from ganeti.base.paths import EXTSTORAGE_SEARCH_PATH, OS_SEARCH_PATH

    answer = call.client.call("QueryClusterInfo")
    if call.get("roman"):
        answer = romanized(answer)
    shown = describe(answer, OS_SEARCH_PATH, EXTSTORAGE_SEARCH_PATH)
    if command := answer.get("diagnose_data_collector_filename"):
        shown.append(("Diagnose command", command))
    if answer.get("capacity_params"):
        shown.append(("Capacity parameters", capacity_parameters(answer["capacity_params"])))
    if states := copies(call):
        shown.append(("Copies of the configuration", states))
    print_info(shown)
    return 0


def copies(call: Invocation) -> Ordered:
    """The state of each master candidate's copy; nothing where nobody can say. 3.1 has no such lines."""
    try:
        rows = call.client.call("Query", "node", ["name", "sync_state"], ["?", "master_candidate"])["data"]
    except ServerError:
        return Ordered()
    # What follows the colon of a plain value must have none itself, to be read as YAML.
    return Ordered([(name, value.replace(": ", ", ")) for (_, name), (status, value) in rows if status == _NORMAL])


def describe(answer: dict[str, Any], os_path: tuple[str, ...], provider_path: tuple[str, ...]) -> Ordered:
    """Arrange the answer of QueryClusterInfo as 3.1 shows it."""
    enabled = answer["enabled_hypervisors"]
    bits, machine = answer["architecture"]
    return Ordered(
        [
            ("Cluster name", answer["name"]),
            ("Cluster UUID", answer["uuid"]),
            ("Creation time", timestamp(answer["ctime"])),
            ("Modification time", timestamp(answer["mtime"])),
            ("Master node", answer["master"]),
            ("Architecture (this node)", f"{bits} ({machine})"),
            ("Tags", ", ".join(answer["tags"]) or "(none)"),
            ("Default hypervisor", answer["default_hypervisor"]),
            ("Enabled hypervisors", ", ".join(enabled)),
            ("Hypervisor parameters", {name: answer["hvparams"].get(name, {}) for name in enabled}),
            ("OS-specific hypervisor parameters", answer["os_hvp"]),
            ("OS parameters", answer["osparams"]),
            ("Hidden OSes", ", ".join(answer["hidden_os"])),
            ("Blacklisted OSes", ", ".join(answer["blacklisted_os"])),
            ("Cluster parameters", _settings(answer, os_path, provider_path)),
            ("Default node parameters", answer["ndparams"]),
            ("Default instance parameters", answer["beparams"]),
            ("Default nic parameters", answer["nicparams"]),
            ("Default disk parameters", answer["diskparams"]),
            ("Instance policy - limits for instances", _policy(answer["ipolicy"])),
            ("Data collectors", _collectors(answer)),
        ]
    )


def _settings(answer: dict[str, Any], os_path: tuple[str, ...], provider_path: tuple[str, ...]) -> Ordered:
    pool = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in answer["uid_pool"])
    return Ordered(
        [
            ("candidate pool size", answer["candidate_pool_size"]),
            ("maximal number of jobs running simultaneously", answer["max_running_jobs"]),
            ("maximal number of jobs simultaneously tracked by the scheduler", answer["max_tracked_jobs"]),
            ("mac prefix", answer["mac_prefix"]),
            ("master netdev", answer["master_netdev"]),
            ("master netmask", answer["master_netmask"]),
            ("use external master IP address setup script", answer["use_external_mip_script"]),
            ("lvm volume group", answer["volume_group_name"]),
            ("lvm reserved volumes", ", ".join(answer["reserved_lvs"]) or "(none)"),
            ("drbd usermode helper", answer["drbd_usermode_helper"]),
            ("file storage path", answer["file_storage_dir"]),
            ("shared file storage path", answer["shared_file_storage_dir"]),
            ("gluster storage path", answer["gluster_storage_dir"]),
            ("maintenance of node health", answer["maintain_node_health"]),
            ("uid pool", pool),
            ("default instance allocator", answer["default_iallocator"]),
            ("default instance allocator parameters", answer["default_iallocator_params"]),
            ("primary ip version", answer["primary_ip_version"]),
            ("preallocation wipe disks", answer["prealloc_wipe_disks"]),
            ("OS search path", ", ".join(os_path)),
            ("ExtStorage Providers search path", ", ".join(provider_path)),
            ("enabled disk templates", ", ".join(answer["enabled_disk_templates"])),
            ("install image", answer["install_image"]),
            ("instance communication network", answer["instance_communication_network"]),
            ("zeroing image", answer["zeroing_image"]),
            ("compression tools", answer["compression_tools"]),
            ("enabled user shutdown", answer["enabled_user_shutdown"]),
            ("modify ssh setup", answer["modify_ssh_setup"]),
            ("ssh_key_type", answer["ssh_key_type"]),
            ("ssh_key_bits", answer["ssh_key_bits"]),
        ]
    )


def _policy(policy: dict[str, Any]) -> Ordered:
    bounds = [
        {f"{side}/{index}": _spec(pair[side]) for side in ("max", "min")} for index, pair in enumerate(policy["minmax"])
    ]
    shown = Ordered([("bounds specs", bounds)])
    if "std" in policy:
        shown.append(("std", _spec(policy["std"])))
    shown.append(("allowed disk templates", ", ".join(policy["disk-templates"])))
    shown.append(("vcpu-ratio", policy["vcpu-ratio"]))
    shown.append(("spindle-ratio", policy["spindle-ratio"]))
    return shown


def _spec(spec: dict[str, Any]) -> Ordered:
    known = [(key, spec[key]) for key in SPEC_KEYS if key in spec]
    return Ordered(known + [(key, spec[key]) for key in sorted(spec) if key not in SPEC_KEYS])


def _collectors(answer: dict[str, Any]) -> dict[str, Any]:
    active = answer["enabled_data_collectors"]
    intervals = answer["data_collector_interval"]
    return {
        name: Ordered([("active", active[name]), ("interval", f"{intervals[name] / 1e6:.3f}s")])
        for name in active
        if name in intervals
    }


_ROMAN = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)


def romanized(value: Any) -> Any:
    """Write the whole numbers from 1 to 3999 of a nested value in roman numerals, times and versions apart."""
    if isinstance(value, dict):
        plain = ("ctime", "mtime", "data_collector_interval", "serial_no")
        return {key: part if key in plain else romanized(part) for key, part in value.items()}
    if isinstance(value, list):
        return [romanized(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 4000:
        return value
    text = ""
    for worth, letters in _ROMAN:
        count, value = divmod(value, worth)
        text += letters * count
    return text


def verify(call: Invocation) -> int:
    """Submit the verification, then wait for the jobs it makes; a bad finding gives status 1."""
    skipped = [
        check
        for check, field in (("nplusone_mem", "no_nplus1_mem"), ("hvparam_assessment", "no_hvparam_assessment"))
        if call.get(field)
    ]
    opcode = {
        "OP_ID": call.command.op_id,
        **call.parameters("no_nplus1_mem", "no_hvparam_assessment"),
        "skip_checks": skipped,
    }
    batch = jobs.Batch(call)
    result = jobs.submit_or_wait(call, opcode)
    if result is jobs.SUBMITTED:
        return 0
    for ok, job in result["jobs"]:
        batch.adopt(bool(ok), job)
    status = batch.finish()
    failed = sum(1 for ok, _ in batch.results if not ok)
    if failed:
        err(f"{scalar(failed)} job(s) failed while verifying the cluster.")
    return status
