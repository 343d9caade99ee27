# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as typed data: the objects of `config.data` 3.1 (protocols, section 14).

All are frozen: a change makes a new object (`msgspec.structs.replace`), so a view stays what it was.
`to_plain` and `from_plain` are the layout of `config.data`; keys this version does not know are kept in
`unknown` and written back as they came.
"""

from typing import Any, ClassVar, Self

import msgspec

from ganeti.base.errors import ConfigurationError

CONFIG_VERSION = 3010000
"""Version number in the file: major · 1000000 + minor · 10000."""

Plain = dict[str, Any]


class ConfigObject(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything stored; `unknown` holds what a later or an earlier version wrote."""

    nested: ClassVar[dict[str, type["ConfigObject"]]] = {}
    """Fields that hold lists of configuration objects."""

    unknown: Plain = {}

    @classmethod
    def from_plain(cls, data: Plain) -> Self:
        """Read the `config.data` form; raises `ConfigurationError` naming the object and the field."""
        known: Plain = {}
        unknown: Plain = {}
        fields = cls.__struct_fields__
        for key, value in data.items():
            if key in fields and key != "unknown":
                if value is None and key not in _nullable(cls):
                    continue
                known[key] = value
            else:
                unknown[key] = value
        for key, nested_cls in cls.nested.items():
            if known.get(key):
                known[key] = [nested_cls.from_plain(item) for item in known[key]]
        if unknown:
            known["unknown"] = unknown
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as err:
            label = data.get("name") or data.get("cluster_name") or data.get("uuid") or "without a name"
            raise ConfigurationError(f"{cls.__name__} {label} cannot be read: {err}") from err

    def to_plain(self) -> Plain:
        """Give the `config.data` form: optional fields that are unset are left out, as 3.1 does."""
        plain: Plain = {}
        for key in self.__struct_fields__:
            if key == "unknown":
                continue
            value = getattr(self, key)
            if value is None:
                continue
            if key in self.nested:
                value = [item.to_plain() for item in value]
            plain[key] = value
        plain.update(self.unknown)
        return plain


_NULLABLE: dict[type[ConfigObject], frozenset[str]] = {}


def _nullable(cls: type[ConfigObject]) -> frozenset[str]:
    """Fields for which null is a value; a null elsewhere means "absent", as old files have it."""
    if cls not in _NULLABLE:
        fields = msgspec.structs.fields(cls)
        _NULLABLE[cls] = frozenset(field.name for field in fields if field.default is None)
    return _NULLABLE[cls]


class Stored(ConfigObject, frozen=True, kw_only=True):
    """What has an identity of its own in the configuration."""

    uuid: str
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


class Cluster(Stored, frozen=True, kw_only=True):
    cluster_name: str
    master_node: str
    master_ip: str
    master_netdev: str
    master_netmask: int = 32
    rsahostkeypub: str = ""
    dsahostkeypub: str | None = None
    highest_used_port: int = 10999
    tcpudp_port_pool: list[int] = []
    mac_prefix: str = "aa:00:00"
    volume_group_name: str | None = None
    reserved_lvs: list[str] = []
    drbd_usermode_helper: str | None = None
    use_external_mip_script: bool = False
    file_storage_dir: str = ""
    shared_file_storage_dir: str = ""
    gluster_storage_dir: str = ""
    enabled_hypervisors: list[str] = []
    hvparams: dict[str, Plain] = {}
    os_hvp: dict[str, dict[str, Plain]] = {}
    beparams: dict[str, Plain] = {}
    osparams: dict[str, Plain] = {}
    osparams_private_cluster: dict[str, Plain] = {}
    nicparams: dict[str, Plain] = {}
    ndparams: Plain = {}
    diskparams: dict[str, Plain] = {}
    candidate_pool_size: int = 10
    modify_etc_hosts: bool = False
    modify_ssh_setup: bool = False
    maintain_node_health: bool = False
    uid_pool: list[list[int]] = []
    default_iallocator: str = ""
    default_iallocator_params: Plain = {}
    hidden_os: list[str] = []
    blacklisted_os: list[str] = []
    primary_ip_family: int = 2
    prealloc_wipe_disks: bool = False
    ipolicy: Plain = {}
    hv_state_static: Plain = {}
    disk_state_static: Plain = {}
    enabled_disk_templates: list[str] = []
    candidate_certs: dict[str, str] = {}
    max_running_jobs: int = 20
    max_tracked_jobs: int = 25
    install_image: str = ""
    instance_communication_network: str = ""
    zeroing_image: str = ""
    compression_tools: list[str] = msgspec.field(default_factory=lambda: ["gzip", "gzip-fast", "gzip-slow"])
    enabled_user_shutdown: bool = False
    data_collectors: dict[str, Plain] = {}
    ssh_key_type: str = "rsa"
    ssh_key_bits: int = 2048
    capacity_params: Plain | None = None
    """Ours (S1.66): in what capacity is counted where neither a node group nor a request says so."""
    diagnose_data_collector_filename: str | None = None
    """Ours (S4.10): the command that says how a node is; empty for none."""
    tags: list[str] = []

    @property
    def name(self) -> str:
        return self.cluster_name


class Node(Stored, frozen=True, kw_only=True):
    name: str
    primary_ip: str
    secondary_ip: str
    group: str
    master_candidate: bool = False
    offline: bool = False
    drained: bool = False
    master_capable: bool = True
    vm_capable: bool = True
    powered: bool = True
    ndparams: Plain = {}
    hv_state_static: Plain | None = None
    disk_state_static: Plain | None = None
    tags: list[str] = []

    @property
    def usable_for_instances(self) -> bool:
        """Whether new instances may be put here (S1.76, S5.31)."""
        return self.vm_capable and not self.offline and not self.drained


class NodeGroup(Stored, frozen=True, kw_only=True):
    name: str
    members: list[str] = []
    ndparams: Plain = {}
    alloc_policy: str = "preferred"
    ipolicy: Plain = {}
    diskparams: dict[str, Plain] = {}
    networks: dict[str, Plain] = {}
    hv_state_static: Plain | None = None
    disk_state_static: Plain | None = None
    capacity_params: Plain | None = None
    """Ours (S1.66): in what the capacity of this group is counted."""
    tags: list[str] = []


class Nic(ConfigObject, frozen=True, kw_only=True):
    mac: str
    uuid: str = ""
    ip: str | None = None
    nicparams: Plain = {}
    network: str | None = None
    name: str | None = None


class Disk(Stored, frozen=True, kw_only=True):
    dev_type: str
    logical_id: list[Any] = []
    size: int = 0
    mode: str = "rw"
    iv_name: str = ""
    nodes: list[str] = []
    children: list["Disk"] = []
    name: str | None = None
    spindles: int | None = None
    params: Plain | None = None
    forthcoming: bool | None = None
    generation: int | None = None
    """Of the newest copy that is known, where each node keeps one of its own and says which is the newer one."""

    snapshots: dict[str, float] | None = None
    """Those that may be there, with the times they were taken in seconds since 1970, where no storage can say so."""

    def promoted(self) -> "Disk":
        """As it is once another node is primary by force: newer than whatever the former one writes by itself."""
        if self.generation is None:
            return self
        return msgspec.structs.replace(self, generation=(self.generation // TERM + 1) * TERM)


TERM = 10**9
"""Generations of one primary: it counts within them each time that its copy goes on alone."""

Disk.nested = {"children": Disk}


OF_BACKUP = "backup/"
"""Begins `Instance.reverting` where that is no snapshot, whose name has no slash."""


class Instance(Stored, frozen=True, kw_only=True):
    nested = {"nics": Nic}

    name: str
    primary_node: str = ""
    os: str = ""
    hypervisor: str = ""
    hvparams: Plain = {}
    beparams: Plain = {}
    osparams: Plain = {}
    osparams_private: Plain = {}
    admin_state: str = "down"
    admin_state_source: str = "admin"
    nics: list[Nic] = []
    disks: list[str] = []
    disks_active: bool = False
    network_port: int | None = None
    forthcoming: bool | None = None
    tags: list[str] = []
    reverting: str | None = None
    """The snapshot that its disks are taken back to, or `OF_BACKUP` and the id of a backup.

    Until all of them are, some hold another state than others.
    """


class Network(Stored, frozen=True, kw_only=True):
    name: str
    network: str
    mac_prefix: str | None = None
    network6: str | None = None
    gateway: str | None = None
    gateway6: str | None = None
    reservations: str | None = None
    ext_reservations: str | None = None
    tags: list[str] = []


class FilterRule(ConfigObject, frozen=True, kw_only=True):
    uuid: str
    watermark: int = 0
    priority: int = 0
    predicates: list[Any] = []
    action: Any = "CONTINUE"
    reason_trail: list[Any] = []

    @property
    def name(self) -> str:
        return self.uuid


class Renamed(ConfigObject, frozen=True, kw_only=True):
    """Some of its fields are called otherwise in `config.data`: `plain_names` says how.

    Those of `own` are no fields of Ganeti's: they are written only where they are not as they begin.
    """

    plain_names: ClassVar[dict[str, str]] = {}
    own: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_plain(cls, data: Plain) -> Self:
        names = {plain: field for field, plain in cls.plain_names.items()}
        return super().from_plain({names.get(key, key): value for key, value in data.items()})

    def to_plain(self) -> Plain:
        usual = {field.name: field.default for field in msgspec.structs.fields(type(self)) if field.name in self.own}
        plain = {key: value for key, value in super().to_plain().items() if key not in usual or value != usual[key]}
        return {self.plain_names.get(key, key): value for key, value in plain.items()}


class Incident(Renamed, Stored, frozen=True, kw_only=True):
    """A defect that a node's diagnose command has told of, and what came of it (S4.15, S4.29)."""

    plain_names = {"repair_status": "repair-status"}
    own = ("confirmed", "last_jobs")

    node: str
    """UUID of the node."""
    original: Plain
    """The object that the collector gave."""
    action: str
    repair_status: str = "noted"
    jobs: list[int] = []
    tag: str = ""
    confirmed: bool = False
    """Two looks, one after the other, have found it. Nothing is done before."""
    last_jobs: list[int] | None = None
    """Those of the latest round."""


class Maintenance(Renamed, frozen=True, kw_only=True):
    """What the maintenance daemon keeps, and how it is to act (S4.33)."""

    nested = {"incidents": Incident}
    plain_names = {
        "round_delay_s": "roundDelay",
        "balance_threshold": "balanceThreshold",
        "repair_instances": "repairInstances",
        "balance_dynamic": "balanceDynamic",
        "balance_disk_moves": "balanceDiskMoves",
        "load_threshold": "loadThreshold",
        "cool_down_s": "coolDown",
        "nodes_at_once": "nodesAtOnce",
        "keep_redundancy": "keepRedundancy",
        "round_began_s": "roundBegan",
    }
    own = (
        *("repair_instances", "balance_dynamic", "balance_disk_moves", "nodes_at_once", "keep_redundancy"),
        *("load_threshold", "cool_down_s"),
        *("round_began_s", "submitting"),
    )

    round_delay_s: int = 300
    jobs: list[int] = []
    """Those of the round that is under way."""
    balance: bool = False
    balance_threshold: float = 0.1
    evacuated: list[str] = []
    """Names of instances that were moved, and of which no load is known yet."""
    incidents: list[Incident] = []
    repair_instances: bool = False
    balance_dynamic: bool = False
    """By the load that nodes measure."""
    balance_disk_moves: bool = False
    load_threshold: float = 0.1
    """By measured load only where the busiest node is this much above the mean, as a share of its processors."""
    cool_down_s: int = 600
    """By measured load an instance that was changed stays for so long: MonD tells means of ten minutes."""
    nodes_at_once: int = 2
    """How many nodes may be out of service by its doing."""
    keep_redundancy: bool = True
    """Evacuate a node only where the others can take over from any one of them afterwards."""
    round_began_s: float = 0.0
    submitting: str = ""
    """Stands in the reasons of the jobs of a round whose numbers are not known yet."""
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


class BackupSchedule(ConfigObject, frozen=True, kw_only=True):
    """What is backed up by itself, how often, and how much of it is kept."""

    name: str
    scope: str
    """``instance``, ``tag``, ``group`` or ``cluster``: what `target` names."""
    target: str = ""
    """UUID of the instance or the group, or the tag."""
    node: str
    """UUID of the node that keeps the backups."""
    interval_s: int
    keep: int
    """How many backups of each instance stay."""
    prove_interval_s: int = 0
    """How often the newest backup is booted; 0 for never."""


class Backups(ConfigObject, frozen=True, kw_only=True):
    """Keys and schedules of incremental backups."""

    nested = {"schedules": BackupSchedule}

    keys: dict[str, str] = {}
    """By id, in hexadecimal; the last one seals new backups."""
    schedules: list[BackupSchedule] = []
    tried: dict[str, float] = {}
    """When a job was last submitted for an instance, in seconds since 1970, by ``create UUID`` and ``prove UUID``."""
    done: dict[str, float] = {}
    """When the newest backup of an instance was made, and when one was proved last, by the same keys."""
    serial_no: int = 1
    ctime: float = 0.0
    mtime: float = 0.0


KINDS: dict[str, type[ConfigObject]] = {
    "cluster": Cluster,
    "maintenance": Maintenance,
    "backups": Backups,
    "nodes": Node,
    "nodegroups": NodeGroup,
    "instances": Instance,
    "networks": Network,
    "disks": Disk,
    "filters": FilterRule,
}
"""The top-level entries of `config.data` and what they hold, most by uuid; those of `SINGLES` are one object."""

CLUSTER_KEY = "cluster"
"""Key under which the one cluster object is stored."""
MAINTENANCE_KEY = "maintenance"
BACKUPS_KEY = "backups"
SINGLES = {"cluster": CLUSTER_KEY, "maintenance": MAINTENANCE_KEY, "backups": BACKUPS_KEY}
"""Entries that are one object, with the key it is stored under; all but the first may be missing."""
CONTAINERS = tuple(kind for kind in KINDS if kind not in SINGLES)
