# SPDX-License-Identifier: BSD-2-Clause
"""No secret of a testbed's cluster is shown: every testbed of a test run is watched from its start to its end.

`watch_testbeds` has each `bed.up` begin a watch and each `bed.down` end it. At the end no secret that the cluster has
had may stand in a command line or the environment of its processes, in its logs, in its job files, or in a file that
other users can read. What is found fails the module's last test, by the place and the kind of secret, never the secret.

What a test types is its own affair: processes whose words are those that it has typed are left out, and values
of ``--os-parameters-secret`` and ``--os-parameters-private`` that it types become secrets of that cluster. So does what
it hands to `keep`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.system.programs.secret_sampler import SHORTEST

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import loopback, machine, processes
from ganeti.tools.testbed.layout import Layout, Node

SAMPLER = Path(__file__).parent / "programs/secret_sampler.py"
LOGS, JOBS = "var/log/ganeti", "var/lib/ganeti/queue"
API_TOKEN = ("token of the remote API", r"gnt_[A-Za-z0-9_-]{30,}")
PARAMETERS = {"--os-parameters-secret": "secret parameter", "--os-parameters-private": "private parameter"}
OF_SCRIPTS = "OSP_"
"""What OS scripts get their parameters by, secret ones too."""
MAY_SHOW = {("drbdsetup", "secret of DRBD")}
"""DRBD's tool takes the secret of a connection nowhere else (docs/operator/security.md)."""
FILES_AT_ONCE = 500


@dataclass
class Watch:
    """One testbed's. *seen* holds what the sampler has noted, once it has ended."""

    bed: Layout
    sampler: subprocess.Popen[str] | None = None
    typed: set[str] = field(default_factory=set)
    secrets: dict[str, str] = field(default_factory=dict)
    """Each secret to its kind, and where it has been."""
    begun_s: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        nodes = [[node.name, str(node.pid_file), str(root(self.bed, node))] for node in self.bed.nodes]
        words = [sys.executable, "-IS", str(SAMPLER)]
        self.sampler = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.sampler.stdin is not None
        self.sampler.stdin.write(json.dumps(nodes) + "\n")
        self.sampler.stdin.flush()

    def type(self, words: Sequence[str]) -> None:
        """Take note of what a test types."""
        self.typed.add(as_typed((os.path.basename(words[0]), *words[1:])))
        for option, value in options(words):
            for pair in value.split(","):
                secret = pair.partition("=")[2]
                if len(secret) >= SHORTEST:
                    self.secrets[secret] = PARAMETERS[option]

    def end(self) -> list[str]:
        """End the sampler and give every place where a secret is shown, while the nodes still run."""
        assert self.sampler is not None
        ended_s = time.monotonic()
        seen = json.loads(self.sampler.communicate()[0])
        self.secrets.update({text: what for what, text in seen["secrets"] if text not in self.secrets})
        shown = sorted({*self.shown_by_processes(seen), *self.shown_in_files()})
        cost = f"{seen['cpu_s']:.2f} s beside {ended_s - self.begun_s:.0f} s, {time.monotonic() - ended_s:.2f} s after"
        print(f"secrets: {len(self.secrets)} looked for in {len(seen['commands'])} command lines: {cost}")
        return shown

    def shown_by_processes(self, seen: dict[str, Any]) -> Iterator[str]:
        lines = [(node, "\0".join(words), words) for node, words in seen["commands"]]
        everything = "\n".join(line for _, line, _ in lines)
        settings = [entry for entry in seen["settings"] if not entry[2].startswith(OF_SCRIPTS)]
        every_setting = "\n".join(entry for _, _, entry in settings)
        for kind, secret in self._texts():
            if secret.search(everything):
                for node, line, words in lines:
                    of_tool = (_program(words), kind.partition(" of node")[0]) in MAY_SHOW
                    if secret.search(line) and not of_tool and not self._is_typed(words):
                        yield f"{node}: the command line of {_program(words)} shows a {kind}"
            if secret.search(every_setting):
                for node, program, entry in settings:
                    if secret.search(entry):
                        name = entry.partition("=")[0]
                        yield f"{node}: the environment of {os.path.basename(program)} shows a {kind} as {name}"

    def _texts(self) -> Iterator[tuple[str, re.Pattern[str]]]:
        yield from ((kind, re.compile(re.escape(text))) for text, kind in self.secrets.items())
        yield API_TOKEN[0], re.compile(API_TOKEN[1])

    def _is_typed(self, words: Sequence[str]) -> bool:
        """Whether a test has typed this, or a shell that a test has given it; interpreters come before programs."""
        for first in range(len(words) - 1):
            command = as_typed((os.path.basename(words[first]), *words[first + 1 :]))
            if any(command in text for text in self.typed):
                return True
        return False

    def shown_in_files(self) -> Iterator[str]:
        for node in self.bed.nodes:
            place = root(self.bed, node)
            jobs = list(below(place / JOBS))
            logs = [*below(place / LOGS), *(path for path in [node.console_log] if path.exists())]
            private = {text for text, kind in self.secrets.items() if kind == PARAMETERS["--os-parameters-private"]}
            for paths, secrets in (
                (logs, set(self.secrets)),
                (jobs, set(self.secrets) - private),
                (readable(place), set(self.secrets)),
                (readable(live(self.bed, node)), set(self.secrets)),
            ):
                paths = list(paths)
                for path in [*with_words(paths, "-F", secrets), *with_words(paths, "-E", {API_TOKEN[1]})]:
                    text = Path(path).read_text("latin-1")
                    kinds = {self.secrets[secret] for secret in secrets if secret in text} or {API_TOKEN[0]}
                    yield from (f"{node.name}: {path} shows a {kind}" for kind in kinds)


def root(bed: Layout, node: Node) -> Path:
    """What the node has written, seen from outside."""
    return loopback.root(node) if bed.unprivileged else node.upper


def live(bed: Layout, node: Node) -> Path:
    """What the node loses with its power."""
    pid = processes.recall(node.pid_file)
    return Path("/nonexistent" if bed.unprivileged or pid is None else f"/proc/{pid}/root/run")


def as_typed(words: Iterable[str]) -> str:
    """One line, without what a shell takes away."""
    return " ".join(words).translate(dict.fromkeys(map(ord, "\\\"'")))


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in PARAMETERS:
            yield name, value if equals else following


def below(place: Path) -> Iterator[Path]:
    """All files."""
    for directory, _, names in os.walk(place):
        yield from (path for name in names if (path := Path(directory, name)).is_file() and not path.is_symlink())


def readable(place: Path) -> Iterator[Path]:
    """The files that every user of the node can read: their directories let everybody through."""
    for directory, inner, names in os.walk(place):
        inner[:] = [name for name in inner if name != "usr" and _mode(directory, name) & stat.S_IXOTH]
        for name in names:
            mode = _mode(directory, name)
            if stat.S_ISREG(mode) and mode & stat.S_IROTH:
                yield Path(directory, name)


def _mode(directory: str, name: str) -> int:
    try:
        return os.lstat(os.path.join(directory, name)).st_mode
    except OSError:
        return 0


def with_words(paths: Sequence[Path], kind: str, words: Iterable[str]) -> Iterator[str]:
    """The files that hold one of the words; grep gets them on its standard input, where nobody sees them."""
    patterns = "".join(f"{word}\n" for word in words)
    for first in range(0, len(paths) if patterns else 0, FILES_AT_ONCE):
        some = map(str, paths[first : first + FILES_AT_ONCE])
        grep = ("grep", "-lsa", kind, "-f", "-", "--", os.devnull, *some)
        done = subprocess.run(grep, input=patterns, capture_output=True, text=True, check=False, encoding="latin-1")
        yield from done.stdout.splitlines()


def _program(words: Sequence[str]) -> str:
    """A process by what may be said of it: the last word before its options that is no interpreter's."""
    plain = [os.path.basename(word) for word in words[:3] if word.startswith("/") or word is words[0]]
    return plain[-1]


_watches: dict[str, Watch] = {}


def keep(bed: Layout, what: str, secret: str) -> None:
    """Have a secret of this cluster watched that no file of its nodes holds: *what* names it in findings."""
    if (watch := _watches.get(str(bed.directory))) is not None:
        watch.secrets[secret] = what


def watch_testbeds() -> None:
    """From now on each testbed of this process is watched."""
    if getattr(testbed.up, "watched", False):
        return
    up, down, command_line = testbed.up, testbed.down, machine.command_line

    def watched_up(*args: Any, **options: Any) -> Layout:
        bed = up(*args, **options)
        if options.get("needed_by_package"):
            return bed  # Debian's Ganeti runs in it, which is not ours to judge
        watch = _watches[str(bed.directory)] = Watch(bed)
        watch.begin()
        return bed

    def watched_down(bed: Layout) -> None:
        watch = _watches.pop(str(bed.directory), None)
        try:
            shown = watch.end() if watch is not None else []
        finally:
            down(bed)
        assert not shown, "secrets are shown:\n" + "\n".join(shown)

    def noted_command_line(bed: Layout, name: str, command: Sequence[str]) -> list[str]:
        if (watch := _watches.get(str(bed.directory))) is not None:
            watch.type(command)
        return command_line(bed, name, command)

    watched_up.watched = True  # type: ignore[attr-defined]
    watched_up.__kwdefaults__ = up.__kwdefaults__
    testbed.up, testbed.down, machine.command_line = watched_up, watched_down, noted_command_line
