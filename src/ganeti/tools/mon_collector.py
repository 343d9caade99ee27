# SPDX-License-Identifier: BSD-2-Clause
"""``mon-collector COLLECTOR``: what one collector of the monitoring finds on this node, as JSON (spec: cli, 3).

Files may stand in for what is read of the node. Who owns a device or a volume is told by files, by the node's own copy
of the configuration if it is a master candidate, by the tags of volumes, and by a ConfD of Ganeti 3.1 that is named;
else reports name no instance.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti.base.errors import ParameterError
from ganeti.base.paths import Paths
from ganeti.node.collectors import diskstats, drbd, inst_status_xen, lv
from ganeti.node.collectors.report import PERFORMANCE, STATUS, UnreadableError, report
from ganeti.tools.htools.command_line.declaring import Option
from ganeti.tools.htools.command_line.help import completion_lines, table, version_text
from ganeti.tools.htools.command_line.parsing import taken_apart
from ganeti.tools.htools.haskell.endless import EndlessError, UnfinishedError, read_file, read_stream
from ganeti.tools.htools.haskell.failures import failed_open
from ganeti.tools.htools.haskell.json_mistakes import words_of

if TYPE_CHECKING:
    from ganeti.node.collectors.owners import Owned

PROGRAM = "mon-collector"
EXIT_FAILURE, EXIT_BAD_LINE = 1, 2
_LVS_TIMEOUT_S = _PATIENCE_S = 60
_LARGEST_MIB = 64
"""What the kernel or LVM says of a node is far below it."""
_LARGEST_PORT = 65535

Values = dict[str, str | None]


class _UnreadableFileError(ParameterError):
    """A file that stands in for an answer of ConfD is not there."""


class Collector(NamedTuple):
    """One collector: what it is for, its options, what makes its report, and what completion hears of arguments."""

    purpose: str
    options: Sequence[Option]
    collect: Callable[[Values], dict[str, Any]]
    arguments: Sequence[str] = ("file 0 0",)
    takes_none: bool = True
    """Whether it says so, if it gets arguments."""


def _file(names: str, explanation: str) -> Option:
    return Option(names, "FILE", "", explanation, completion="file")


_COMMON = (
    Option("V,version", "", "", "show the version"),
    Option("h,help", "", "", "show this help"),
    Option("help-completion", "", "", "list options and kinds of values for completion scripts"),
)
_CONFD = (
    Option("a,address", "IP_ADDR", "", "address of the ConfD to ask", completion="file", shown="127.0.0.1"),
    Option("p,port", "PORT", "", "UDP port of the ConfD to ask", completion="integer", shown="1814"),
)


def _diskstats(values: Values) -> dict[str, Any]:
    data = diskstats.read(_text(values.get("file") or diskstats.PLACE))
    return report(diskstats.NAME, diskstats.CATEGORY, PERFORMANCE, data, time.time_ns())


def _drbd(values: Values) -> dict[str, Any]:
    text, owners = _text(values.get("drbd-status") or drbd.PLACE), {}
    if "drbd-status" not in values and "drbd-pairing" not in values and (own := _by_own_config()):
        owners = own.minors
    if place := values.get("drbd-pairing"):
        content = _text(place, _UnreadableFileError)
        try:
            owners = drbd.owners(_parsed(content))
        except UnreadableError as error:
            print(f"Can't get pairing info: {error}", file=sys.stderr)
    return report(drbd.NAME, drbd.CATEGORY, STATUS, drbd.read(text, owners), time.time_ns())


def _lv(values: Values) -> dict[str, Any]:
    text = _text(place) if (place := values.get("file")) else _said_by(lv.COMMAND)
    volumes = lv.read(text, {})
    if "instances" not in values:
        volumes = _with_known_owners(text, values)
    if place := values.get("instances"):
        content = _text(place)
        try:
            volumes = lv.read(text, lv.owners(_parsed(content)))
        except UnreadableError as error:
            raise UnreadableError(f"Unable to obtain the list of instances: Not a list of instances: {error}") from None
    return report(lv.NAME, lv.CATEGORY, PERFORMANCE, volumes, time.time_ns())


def _with_known_owners(text: str, values: Values) -> list[dict[str, Any]]:
    """The volumes with owners by the ConfD that is named, or else by what this node knows of its own volumes."""
    own = _by_confd(values) if values.keys() & {"address", "port"} else None
    if own is not None or values.get("file") is not None:
        return lv.read(text, own.volumes if own is not None else {})
    own = _by_own_config()
    return lv.read(text, own.volumes) if own is not None else lv.read_by_tags(text)


def _paths() -> Paths:
    return Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"))


def _by_own_config() -> "Owned | None":
    from ganeti.noded.access import own_name
    from ganeti.tools.own_config import owners_by_own_config

    paths = _paths()
    try:
        return owners_by_own_config(paths, own_name(paths))
    except (OSError, ValueError):
        return None


def _by_confd(values: Values) -> "Owned | None":
    from ganeti.calls.confd_client import ConfdClient, place_of, volumes_by_confd
    from ganeti.noded.access import own_name

    paths = _paths()
    try:
        key = Path(paths.hmac_key).read_bytes()
        name = own_name(paths)
    except (OSError, ValueError):
        return None
    if not key.strip():
        return None
    return volumes_by_confd(ConfdClient([place_of(values.get("address"), values.get("port"))], key), name)


def _xen(values: Values) -> dict[str, Any]:
    """The guests of Xen, which this release does not drive: what 3.0 says where its tools are missing."""
    key = _paths().hmac_key
    try:
        Path(key).read_bytes()
    except OSError as error:
        raise ParameterError(
            f"Can't get instance info from ConfD: {failed_open(error).replace('openFile', 'openBinaryFile', 1)}"
        ) from None
    for tool in inst_status_xen.TOOLS:
        if shutil.which(tool) is not None:
            raise ParameterError("Can't get instance info from ConfD: this release has neither Xen nor a ConfD to ask")
    data = inst_status_xen.without_tools()
    return report(inst_status_xen.NAME, inst_status_xen.CATEGORY, STATUS, data, time.time_ns())


COLLECTORS = {
    "diskstats": Collector(
        "Reports what the kernel counts of each disk: reads, writes, time spent.",
        (_file("f,file", f"read FILE in place of {diskstats.PLACE}"),),
        _diskstats,
    ),
    "drbd": Collector(
        "Reports the state of each DRBD device and its instance.",
        (
            _file("s,drbd-status", f"read FILE in place of {drbd.PLACE}"),
            _file("p,drbd-pairing", "read the instance of each DRBD minor from FILE"),
        ),
        _drbd,
    ),
    "inst-status-xen": Collector("Reports the state of the node's Xen instances.", _CONFD, _xen, (), False),
    "lv": Collector(
        "Reports each logical volume and its instance.",
        (
            _file("f,file", f"read FILE in place of the output of {lv.COMMAND[0]}"),
            *_CONFD,
            _file("i,instances", "read the instances from FILE, as JSON"),
        ),
        _lv,
    ),
}
_COMPLETED = ("drbd", "inst-status-xen", "diskstats", "lv")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    first = words[0] if words else ""
    if first in COLLECTORS:
        return _run(COLLECTORS[first], words[1:])
    if first == "--version":
        print(version_text(PROGRAM))
    elif first == "--help-completion":
        print(f"choices={','.join(_COMPLETED)} 1 1")
    else:
        print(_usage(), end="")
        return 0 if first == "--help" else EXIT_FAILURE
    return 0


def _run(collector: Collector, words: Sequence[str]) -> int:
    options = [*collector.options, *_COMMON]
    found, arguments, complaint = taken_apart(options, words)
    values = {option.long: value for option, value in found}
    if complaint:
        sys.stderr.write(f"Command line error: {complaint}\n{_help(options)}")
        return EXIT_BAD_LINE
    if (port := values.get("port")) is not None and not _is_port(port):
        sys.stderr.write(f"Error while parsing command line arguments:\nreading port: cannot parse string '{port}'\n")
        return EXIT_FAILURE
    if "help" in values:
        print(_help(options), end="")
    elif "version" in values:
        print(version_text(PROGRAM), end="")
    elif "help-completion" in values:
        print(completion_lines(options), *(f"{line}\n" for line in collector.arguments), sep="", end="")
    elif arguments and collector.takes_none:
        return _fail(f"This program takes exactly zero arguments, got '{' '.join(arguments)}'")
    else:
        return _show(collector, values)
    return 0


def _show(collector: Collector, values: Values) -> int:
    try:
        print(json.dumps(collector.collect(values), separators=(",", ":")), flush=True)
    except BrokenPipeError:
        return EXIT_FAILURE
    except _UnreadableFileError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except ParameterError as error:
        return _fail(str(error))
    return 0


def _fail(sentence: str) -> int:
    print(f"Error: {sentence}", file=sys.stderr)
    return EXIT_FAILURE


def _is_port(text: str) -> bool:
    digits = text.lstrip("0")
    return (
        text.isascii() and digits.isdigit() and len(digits) <= len(str(_LARGEST_PORT)) and int(digits) <= _LARGEST_PORT
    )


def _text(place: str, missing: type[ParameterError] | None = None) -> str:
    try:
        return read_file(place, _LARGEST_MIB, _PATIENCE_S).decode()
    except (EndlessError, UnfinishedError) as error:
        raise UnreadableError(f"reading from file: {error}") from None
    except OSError as error:
        if missing is not None:
            raise missing(failed_open(error)) from None
        raise UnreadableError(f"reading from file: {failed_open(error)}") from None
    except UnicodeDecodeError:
        raise UnreadableError(f"reading from file: {place}: it is not text") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(words_of(error)) from None
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"Malformed JSON: {error}") from None


def _said_by(command: Sequence[str]) -> str:
    """What a program prints, whose complaints go to standard error; raises `ParameterError` if it fails."""
    name = command[0]
    try:
        status, said = _run_to_its_end(command)
        text = said.decode()
    except OSError as error:
        words = failed_open(error).replace("openFile", "readCreateProcess: posix_spawnp", 1).removeprefix(f"{name}: ")
        raise ParameterError(f"running command: {name}: {words}") from None
    except UnicodeDecodeError:
        raise ParameterError(
            f"running command: {name}: what it prints is not text: rename what has an odd name"
        ) from None
    except (UnfinishedError, subprocess.TimeoutExpired):
        raise ParameterError(f"running command: {name}: no answer within {_LVS_TIMEOUT_S} s") from None
    except EndlessError:
        raise ParameterError(
            f"running command: {name}: its answer has no end within {_LARGEST_MIB} MiB: see what '{name}' prints"
        ) from None
    if status:
        shown = " ".join([name, *(f'"{word}"' for word in command[1:])])
        raise ParameterError(f"running command: readCreateProcess: {shown} (exit {status}): failed")
    return text


def _run_to_its_end(command: Sequence[str]) -> tuple[int, bytes]:
    """The exit status and what it prints; a program that goes on for too long is killed."""
    deadline = time.monotonic() + _LVS_TIMEOUT_S
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0) as process:
        assert process.stdout is not None
        try:
            said = read_stream(process.stdout, command[0], _LARGEST_MIB, _LVS_TIMEOUT_S)
            return process.wait(max(0.0, deadline - time.monotonic())), said
        except BaseException:
            process.kill()
            raise


def _usage() -> str:
    width = max(map(len, COLLECTORS))
    lines = [
        f"Usage: {PROGRAM} {{command}} [options...] [argument...]",
        f"{PROGRAM} COMMAND --help shows the options of one.",
        *("", "Commands:"),
    ]
    lines += [f" {name:{width}} - {collector.purpose}" for name, collector in COLLECTORS.items()]
    return "\n".join(lines) + "\n"


def _help(options: Sequence[Option]) -> str:
    head = version_text(PROGRAM).splitlines()[0]
    return f"{head}\nUsage: {PROGRAM} [OPTION...]\n{table(options)}"


if __name__ == "__main__":
    sys.exit(main())
