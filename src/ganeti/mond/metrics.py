# SPDX-License-Identifier: BSD-2-Clause
"""Reports as gauges and counters in Prometheus' text format. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti.node.collectors import cgroups, cpu_load, diagnose, diskstats, drbd, storage
from ganeti.node.collectors.instances import PAUSED, RUNNING
from ganeti.wire.diagnose_report import STATUSES

CONTENT_TYPE = "text/plain"
_SECTOR_BYTES = 512


class Sample(NamedTuple):
    """One line; `_FAMILIES` says what the name means."""

    name: str
    labels: Mapping[str, str]
    value: float


_FAMILIES = {
    "ganeti_node_cpus": ("gauge", "Processors of the node."),
    "ganeti_node_cpu_load": ("gauge", "Processors busy in the mean of the last ten minutes."),
    "ganeti_disk_reads_total": ("counter", "Reads that the disk has completed."),
    "ganeti_disk_read_bytes_total": ("counter", "Bytes read from the disk."),
    "ganeti_disk_writes_total": ("counter", "Writes that the disk has completed."),
    "ganeti_disk_written_bytes_total": ("counter", "Bytes written to the disk."),
    "ganeti_storage_size_bytes": ("gauge", "Size of the file system that holds the directory."),
    "ganeti_storage_free_bytes": ("gauge", "What is free of it."),
    "ganeti_instance_running": ("gauge", "1 if the guest runs on this node."),
    "ganeti_instance_paused": ("gauge", "1 if the guest is on this node and does not run."),
    "ganeti_instance_status": ("gauge", "0 as it should be, 1 being mended, 2 not known, 4 needs a person."),
    "ganeti_instance_cpu_load": ("gauge", "Processors the guest has kept busy in the mean of the last ten minutes."),
    "ganeti_instance_resident_bytes": ("gauge", "Memory of the node that the guest has."),
    "ganeti_instance_cgroup_cpu_seconds_total": ("counter", "Processor time of the guest's own control group."),
    "ganeti_instance_cgroup_memory_bytes": ("gauge", "Memory of the guest's own control group."),
    "ganeti_drbd_status": ("gauge", "0 as it should be, 1 being mended, 2 not known, 4 needs a person."),
    "ganeti_node_diagnose": ("gauge", "1 for what the node's diagnose command says."),
    "ganeti_node_diagnose_refused_total": ("counter", "How often the diagnose command was refused, or what it said."),
    "ganeti_collector_up": ("gauge", "1 if the collector has done its work."),
    "ganeti_collector_failures_total": ("counter", "How often the collector could not do its work."),
}


def metrics(reports: Sequence[Mapping[str, Any]], failures: Mapping[str, int], refused_diagnoses: int = 0) -> str:
    """All reports as one page."""
    found: dict[str, list[Sample]] = {name: [] for name in _FAMILIES}
    for told in reports:
        name, data = str(told["name"]), told["data"]
        broken = isinstance(data, dict) and "error" in data
        samples = [] if broken else list(_reader_of(name)(data))
        for sample in [*samples, Sample("ganeti_collector_up", {"collector": name}, 0 if broken else 1)]:
            found[sample.name].append(sample)
    for name, count in failures.items():
        found["ganeti_collector_failures_total"].append(
            Sample("ganeti_collector_failures_total", {"collector": name}, count)
        )
    found["ganeti_node_diagnose_refused_total"] = [Sample("ganeti_node_diagnose_refused_total", {}, refused_diagnoses)]
    lines: list[str] = []
    for family, samples in found.items():
        if samples:
            kind, meaning = _FAMILIES[family]
            lines += [f"# HELP {family} {meaning}", f"# TYPE {family} {kind}", *map(_line, samples)]
    return "\n".join(lines) + "\n"


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
    value = int(sample.value) if float(sample.value).is_integer() else sample.value
    return f"{sample.name}{{{labels}}} {value}" if labels else f"{sample.name} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _cpu_load(data: Any) -> Iterator[Sample]:
    yield Sample("ganeti_node_cpus", {}, data["cpu_number"])
    yield Sample("ganeti_node_cpu_load", {}, data["cpu_total"])


def _diskstats(data: Any) -> Iterator[Sample]:
    for disk in data:
        device = {"device": disk["name"]}
        yield Sample("ganeti_disk_reads_total", device, disk["readsNum"])
        yield Sample("ganeti_disk_read_bytes_total", device, disk["secRead"] * _SECTOR_BYTES)
        yield Sample("ganeti_disk_writes_total", device, disk["writes"])
        yield Sample("ganeti_disk_written_bytes_total", device, disk["secWritten"] * _SECTOR_BYTES)


def _storage(data: Any) -> Iterator[Sample]:
    for place in data:
        yield Sample("ganeti_storage_size_bytes", {"path": place["path"]}, place["size"])
        yield Sample("ganeti_storage_free_bytes", {"path": place["path"]}, place["free"])


def _instances(data: Any) -> Iterator[Sample]:
    for own in data["instances"]:
        label = {"instance": own["name"]}
        yield Sample("ganeti_instance_running", label, own["actualState"] == RUNNING)
        yield Sample("ganeti_instance_paused", label, own["actualState"] == PAUSED)
        yield Sample("ganeti_instance_status", label, own["status"]["code"])


def _guest_load(data: Any) -> Iterator[Sample]:
    for name, value in data.items():
        yield Sample("ganeti_instance_cpu_load", {"instance": name}, value)


def _guest_memory(data: Any) -> Iterator[Sample]:
    for name, value in data.items():
        yield Sample("ganeti_instance_resident_bytes", {"instance": name}, value)


def _guest_groups(data: Any) -> Iterator[Sample]:
    for name, own in data.items():
        for family, key in (
            ("ganeti_instance_cgroup_cpu_seconds_total", "cpu_seconds"),
            ("ganeti_instance_cgroup_memory_bytes", "memory_bytes"),
        ):
            if own[key] is not None:
                yield Sample(family, {"instance": name}, own[key])


def _drbd(data: Any) -> Iterator[Sample]:
    yield Sample("ganeti_drbd_status", {}, data["status"]["code"])


def _diagnose(data: Any) -> Iterator[Sample]:
    for status in STATUSES:
        yield Sample("ganeti_node_diagnose", {"status": status}, data["status"] == status)


def _nothing(data: Any) -> Iterator[Sample]:
    return iter(())


_READERS: dict[str, Callable[[Any], Iterator[Sample]]] = {
    cpu_load.NAME: _cpu_load,
    diskstats.NAME: _diskstats,
    storage.NAME: _storage,
    cgroups.NAME: _guest_groups,
    "inst-cpu-load": _guest_load,
    "kvm-inst-rss": _guest_memory,
    drbd.NAME: _drbd,
    diagnose.NAME: _diagnose,
}


def _reader_of(name: str) -> Callable[[Any], Iterator[Sample]]:
    return _instances if name.startswith("inst-status-") else _READERS.get(name, _nothing)
