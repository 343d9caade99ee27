# SPDX-License-Identifier: BSD-2-Clause
"""The command line of `burnin`, and its run: stage after stage, jobs of all instances one by one or side by side."""

import argparse
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

from ganeti.base.errors import WRONG_INPUT, CommandError, GanetiError, PrerequisiteError, from_wire
from ganeti.base.units import parse_size_mib
from ganeti.node.catalogue import build_catalogue
from ganeti.tools.burnin import stages
from ganeti.tools.burnin.stages import REBOOT_TYPES, BurninPlan, Stage
from ganeti.tools.htools.command_line.option_values import luxi_socket
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.programs.execution import GONE, Origin, statuses, submit
from ganeti.tools.htools.programs.session import Session
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS

NAME = "burnin"
SWITCHES = (
    *("failover", "migrate", "move", "importexport", "startstop", "reinstall", "reboot", "renamesame"),
    *("activate-disks", "add-disks", "add-nics"),
)
FIELDS = tuple(switch.replace("-", "_") for switch in SWITCHES)
_FIRST_POLL_S, _LONGEST_POLL_S = 0.1, 1.0
_PAGE_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        with Session(luxi_socket()) as session:
            wanted = check(options, session)
            return Run(session, options).all(wanted)
    except (GanetiError, ToolError, OSError) as err:
        print(f"{NAME}: {err}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Make instances, do to them all that a cluster must be able to do, and remove them."
    )
    parser.add_argument("instances", nargs="+", metavar="INSTANCE", help="names that no instance has")
    parser.add_argument("-o", "--os", required=True, help="the OS that instances get")
    parser.add_argument("--disk-size", default="128m", help="sizes of the disks, with commas between them (128m)")
    parser.add_argument("--disk-growth", default="128m", help="by how much each disk grows; 0 for not (128m)")
    parser.add_argument("--mem-size", help="memory, both largest and smallest")
    parser.add_argument("--maxmem-size", default="256m", help="largest memory (256m)")
    parser.add_argument("--minmem-size", default="128m", help="smallest memory (128m)")
    parser.add_argument("--vcpu-count", type=int, default=3, help="virtual processors (3)")
    for switch in SWITCHES:
        parser.add_argument(f"--no-{switch}", action="store_true", help=f"leave this out: {switch}")
    parser.add_argument("--no-nics", action="store_true", help="instances without NICs")
    parser.add_argument("--no-confd", action="store_true", help="do not ask whether instances run after each stage")
    parser.add_argument("--reboot-types", default=",".join(REBOOT_TYPES), help="kinds of reboots, with commas between")
    parser.add_argument("--rename", metavar="NAME", help="give the first instance this name, and its own again")
    parser.add_argument("-t", "--disk-template", default="file", help="template of the disks (file)")
    parser.add_argument("-n", "--nodes", default="", help="nodes to be used, with commas between them (all)")
    parser.add_argument("-I", "--iallocator", help="let this allocator choose the nodes")
    parser.add_argument("-p", "--parallel", action="store_true", help="the jobs of a stage side by side")
    parser.add_argument("--net-timeout", type=float, default=15.0, help="patience with --http-check, in seconds (15)")
    parser.add_argument(
        *("-C", "--http-check"), action="store_true", help="instances must answer http://NAME/hostname.txt"
    )
    parser.add_argument("-K", "--keep-instances", action="store_true", help="do not remove instances at the end")
    return parser


def check(options: argparse.Namespace, session: Session) -> BurninPlan:
    """Raises `PrerequisiteError` before anything is made."""
    templates = build_catalogue().templates
    if options.disk_template not in templates:
        raise PrerequisiteError(
            f"There is no disk template {options.disk_template}: there are {', '.join(sorted(templates))}", WRONG_INPUT
        )
    kinds = options.reboot_types.split(",")
    if unknown := set(kinds) - set(REBOOT_TYPES):
        raise PrerequisiteError(
            f"There is no reboot type {', '.join(sorted(unknown))}: use {', '.join(REBOOT_TYPES)}", WRONG_INPUT
        )
    disks = [parse_size_mib(text) for text in options.disk_size.split(",")]
    growth = [parse_size_mib(text) for text in options.disk_growth.split(",")]
    if len(growth) not in (1, len(disks)):
        raise PrerequisiteError("--disk-growth needs one size, or one for each disk", WRONG_INPUT)
    least, most = options.mem_size or options.minmem_size, options.mem_size or options.maxmem_size
    backend = {"minmem": parse_size_mib(least), "maxmem": parse_size_mib(most), "vcpus": options.vcpu_count}
    nodes = options.nodes.split(",") if options.nodes else []
    if not nodes and not options.iallocator:
        rows = session.ask("Query", "node", ["name"], ["&", ["=", "offline", False], ["=", "vm_capable", True]])["data"]
        nodes = [name for ((_, name),) in rows]
    found = {name for ((_, name),) in session.ask("Query", "instance", ["name"], None)["data"]}
    if there := found & {*options.instances, options.rename}:
        raise PrerequisiteError(f"{', '.join(sorted(map(str, there)))} exists already: give other names", WRONG_INPUT)
    return BurninPlan(
        instances=options.instances,
        system=options.os,
        template=templates[options.disk_template],
        nodes=[] if options.iallocator else nodes,
        allocator=options.iallocator,
        disks=disks,
        growth=growth if len(growth) == len(disks) else growth * len(disks),
        backend=backend,
        reboot_types=kinds,
        rename=options.rename,
        nics=not options.no_nics,
        left_out=frozenset(field for field in FIELDS if getattr(options, f"no_{field}")),
    )


class Run:
    """One run; whatever fails, the instances are removed unless they shall be kept."""

    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        self._session = session
        self._options = options
        self._origin = Origin(NAME, "", "")

    def all(self, wanted: BurninPlan) -> int:
        began_s, status = time.monotonic(), 0
        try:
            self._stage(stages.making(wanted))
            self._look(wanted)
            for stage in stages.stages(wanted):
                self._stage(stage)
                self._look(wanted)
        except (GanetiError, ToolError, KeyboardInterrupt) as err:
            print(f"{NAME}: {str(err) or 'interrupted'}", file=sys.stderr)
            status = 1
        if not self._options.keep_instances:
            self._remove()
        print(f"- {'Failed' if status else 'Done'} after {time.monotonic() - began_s:.0f} s")
        return status

    def _stage(self, stage: Stage) -> None:
        """Run the jobs of a stage; raises `CommandError` for the first that failed."""
        print(f"- {stage.title}", flush=True)
        sets = [stage.jobs] if self._options.parallel else [[job] for job in stage.jobs]
        for jobs in sets:
            if numbers := submit(self._session, [job for job in jobs if job], self._origin):
                self._wait(numbers)

    def _wait(self, numbers: list[int]) -> None:
        pause_s = _FIRST_POLL_S
        while not all(status in FINAL_STATUSES or status == GONE for status in statuses(self._session, numbers)):
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)
        for number, status in zip(numbers, statuses(self._session, numbers), strict=True):
            if status != SUCCESS:
                raise CommandError(f"job {number} ended with {status}: {self._why(number)}")

    def _why(self, number: int) -> str:
        """What the job says itself, if it says anything."""
        rows = self._session.ask("QueryJobs", [number], ["opresult"])
        for result in reversed(rows[0][0] if rows and rows[0] else []):
            if isinstance(result, list | tuple) and len(result) == 2 and isinstance(result[1], list | tuple):
                return str(from_wire(result)) if result[1] else str(result[0])
        return f"see gnt-job info {number}"

    def _look(self, wanted: BurninPlan) -> None:
        """What others see of the instances: their pages, and their states in lists."""
        if self._options.http_check:
            for name in wanted.instances:
                self._await_page(name)
        if self._options.no_confd:
            return
        rows = self._session.ask("Query", "instance", ["name", "status"], None)["data"]
        found = {name: status for ((_, name), (_, status)) in rows}
        for name in wanted.instances:
            if found.get(name) != "running":
                raise CommandError(f"Instance {name} should run and is {found.get(name, 'gone')}")

    def _await_page(self, name: str) -> None:
        deadline_s = time.monotonic() + self._options.net_timeout
        url = f"http://{name}/hostname.txt"
        while True:
            try:
                with urllib.request.urlopen(url, timeout=_PAGE_S) as page:
                    told = page.read(256).decode(errors="replace").strip()
            except (urllib.error.URLError, OSError) as err:
                if time.monotonic() > deadline_s:
                    raise CommandError(f"{url} does not answer: {err}") from err
                time.sleep(_LONGEST_POLL_S)
                continue
            if told != name:
                raise CommandError(f"{url} says '{told}'")
            return

    def _remove(self) -> None:
        """Remove what is there of them, under the other name too."""
        names = {*self._options.instances, *([self._options.rename] if self._options.rename else [])}
        rows = self._session.ask("Query", "instance", ["name"], None)["data"]
        there = [name for ((_, name),) in rows if name in names]
        if there:
            self._stage(stages.removing(there))


if __name__ == "__main__":
    sys.exit(main())
