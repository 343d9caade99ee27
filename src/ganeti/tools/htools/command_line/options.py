# SPDX-License-Identifier: BSD-2-Clause
"""What the command line of a placement tool may ask for, with the defaults of 3.1 (spec: htools, 15)."""

from __future__ import annotations


class BadValue(ValueError):
    """The value of an option makes no sense; the message is the sentence for the user."""


class Spec:
    """The instance an option describes: MiB of disk and memory, CPUs, spindles."""

    __slots__ = ("cpus", "disk_mib", "memory_mib", "spindles")

    def __init__(self, disk_mib: int, memory_mib: int, cpus: int, spindles: int) -> None:
        self.disk_mib, self.memory_mib, self.cpus, self.spindles = disk_mib, memory_mib, cpus, spindles


class Options:
    """What the command line asks for; attributes have the defaults of 3.1.

    None is "not given". `print_nodes` is the list of fields (`[]` for the default ones), `commands_file` where
    `print_commands` go if not to standard output, `arguments` what is no option.
    """

    show_help = False
    show_version = False
    show_completion = False
    verbosity = 1
    # Where the cluster comes from
    luxi: str | None = None
    rapi: str | None = None
    text_data: str | None = None
    ialloc_source: str | None = None
    # How it is changed before it is used
    static_node_memory_mib = 4096
    max_cpu_ratio: float | None = None
    min_disk_ratio = 0.0
    exclusion_tags: list[str] | None = None
    select_instances: list[str] | None = None
    utilization_file: str | None = None
    ignore_utilization = False
    mond: bool | None = None
    mond_xen = False
    mond_data: str | None = None
    exit_on_missing_mond_data = False
    # What is shown and written
    print_nodes: list[str] | None = None
    print_instances = False
    print_commands = False
    commands_file: str | None = None
    print_moves = False
    machine_readable = False
    headers = True
    save: str | None = None
    output_directory = "."
    why = False
    html: str | None = None
    # Balancing
    group: str | None = None
    evacuation = False
    restricted_migration = False
    disk_moves = True
    instance_moves = True
    ignore_soft_errors = False
    capacity_checks = True
    max_length = -1
    min_score = 1e-9
    min_gain = 1e-2
    min_gain_limit = 1e-1
    simulation = True
    solver = False
    link_speed_mbit = 1000.0
    # Jobs
    execute = False
    first_job_group = False
    dry_run = False
    priority: str | None = None
    reason: str | None = None
    job_delay_s = 10.0
    # Allocation, capacity, rolling reboots
    restrict_allocation_to: list[str] | None = None
    disk_template: str | None = None
    spindle_use: int | None = None
    standard_spec: Spec | None = None
    tiered_spec: Spec | None = None
    independent_groups = False
    accept_existing_errors = False
    node_tags: list[str] | None = None
    offline_maintenance = False
    full_evacuation = False
    skip_non_redundant = False
    ignore_non_redundant = False
    force = False
    one_step_only = False
    minimal_resources = 2.0
    target_resources = 2.0

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.simulate: list[str] = []
        self.offline: list[str] = []
        self.exclude_instances: list[str] = []

    @property
    def first_number(self) -> int:
        """What the first node and group are called by number: those of simulated clusters are counted from one."""
        return 1 if self.simulate and not self.rapi and self.luxi is None else 0
