# SPDX-License-Identifier: BSD-2-Clause
"""Notes what every process of a testbed shows of itself, and every secret that its nodes' files hold meanwhile.

Told on standard input, in one line of JSON, the nodes: ``[[name, pid file, root of its files], ...]``. At the end of
that input it prints what it has noted, as `Sampler.told` gives it. A program of its own, so that neither the time nor
the locks of the test's process are touched. Where the kernel announces each program that starts (proc connector, to
root only), none is missed that lives for a fraction of a millisecond; elsewhere all processes are looked through ten
times a second. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import re
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from glob import glob

CONNECTOR, PROC_EVENTS, EXEC = 11, 1, 2
ATTACH_FILTER = 26
SELDOM_S, OFTEN_S = 1.0, 0.1
KEYS = ("var/lib/ganeti/*.pem", "var/lib/ganeti/ca.key", "root/.ssh/id_*", "etc/ssh/ssh_host_*_key")
WORDS = ("var/lib/ganeti/hmac.key", "var/lib/ganeti/cluster-domain-secret")
USERS = "var/lib/ganeti/rapi/users"
CONFIG = "var/lib/ganeti/config.data"
SHORTEST = 8
"""A shorter word stands in any text by chance."""
LONG_LINE = 40
OPENSSH = b"openssh-key-v1\0"


class Sampler:
    def __init__(self, nodes: list[list[str]]) -> None:
        self.nodes = nodes
        self.namespaces: dict[int, str] = {}
        self.commands: set[tuple[str, bytes]] = set()
        self.settings: dict[tuple[str, bytes], bytes] = {}
        self.secrets: dict[str, str] = {}
        self._known: dict[str, set[str]] = {}
        self._changed: dict[str, tuple[int, int]] = {}

    def look_through(self) -> None:
        """Everything that runs now: processes change their names, and forks announce no program."""
        for name, pid_file, root in self.nodes:
            with contextlib.suppress(OSError, ValueError):
                with open(pid_file) as file:
                    init = file.read().split()[0]
                namespace = os.stat(f"/proc/{init}/ns/pid").st_ino
                self.namespaces[namespace] = name
                place = f"/proc/{init}/root/proc"
                now = {entry for entry in os.listdir(place) if entry.isdigit()}
                for entry in now:
                    self._note(name, f"{place}/{entry}", seen=entry in self._known.get(name, ()))
                self._known[name] = now
            for what, path in _files(root):
                self._read(name, what, path)

    def started(self, pid: int) -> None:
        """A program has just begun."""
        with contextlib.suppress(OSError):
            node = self.namespaces.get(os.stat(f"/proc/{pid}/ns/pid").st_ino)
            if node is not None:
                self._note(node, f"/proc/{pid}")

    def _note(self, node: str, place: str, *, seen: bool = False) -> None:
        with contextlib.suppress(OSError):
            with open(f"{place}/cmdline", "rb") as file:
                words = file.read()
            if (node, words) in self.commands and seen:
                return
            self.commands.add((node, words))
            with open(f"{place}/environ", "rb") as file:
                entries = file.read().split(b"\0")
            for entry in entries:
                self.settings.setdefault((node, entry), words)

    def _read(self, node: str, what: str, path: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(path)
            change = (status.st_mtime_ns, status.st_ino)
            if self._changed.get(path) == change:
                return
            with open(path, encoding="latin-1") as file:
                text = file.read()
            self._changed[path] = change
            for kind, secret in found_in(what, text):
                if len(secret) >= SHORTEST:
                    self.secrets.setdefault(secret, f"{kind} of {node}")
            if what == "config":
                for name in set(re.findall(r'"(?:vnc|spice)_password_file": ?"(/[^"]+)"', text)):
                    self._read(node, "word", path.removesuffix(f"/{CONFIG}") + name)

    def told(self) -> str:
        """``commands``: node and words of each; ``settings``: node, program and ``NAME=VALUE`` of each; ``secrets``:
        kind and text of each; ``cpu_s``: the time that this has computed.
        """

        def plain(text: bytes) -> str:
            return text.decode("latin-1")

        return json.dumps(
            {
                "commands": [[node, plain(words).rstrip("\0").split("\0")] for node, words in self.commands],
                "settings": [
                    [node, plain(words.partition(b"\0")[0]), plain(entry)]
                    for (node, entry), words in self.settings.items()
                ],
                "secrets": [[what, text] for text, what in self.secrets.items()],
                "cpu_s": time.process_time(),
            }
        )


def _files(root: str) -> Iterator[tuple[str, str]]:
    for pattern in KEYS:
        yield from (("key", path) for path in glob(f"{root}/{pattern}") if not path.endswith(".pub"))
    yield from (("word", f"{root}/{name}") for name in WORDS)
    yield "users", f"{root}/{USERS}"
    yield "config", f"{root}/{CONFIG}"


def found_in(what: str, text: str) -> Iterator[tuple[str, str]]:
    """The secrets in a file's text: (kind, secret). *what* is ``key``, ``word``, ``users`` or ``config``."""
    if what == "key":
        for block in re.findall(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)-----END", text, re.DOTALL):
            public = _public_part(block)
            for line in block.splitlines():
                if len(line) > LONG_LINE and line not in public:
                    yield "private key", line
    elif what == "word":
        yield "secret word", text.strip()
    elif what == "users":
        for line in text.splitlines():
            parts = line.partition("#")[0].split()
            if len(parts) > 1:
                yield "password of the remote API", parts[1].rpartition("}")[2]
    else:
        for disk in json.loads(text).get("disks", {}).values():
            yield from (("secret of DRBD", word) for word in _drbd_secrets(disk))


def _public_part(block: str) -> str:
    """What the text of an OpenSSH key has in common with all keys, and with its public key; nothing for others."""
    raw = base64.b64decode(block)
    if not raw.startswith(OPENSSH):
        return ""
    place = len(OPENSSH)
    for _ in range(3):  # cipher, derivation, its options
        place += 4 + int.from_bytes(raw[place : place + 4], "big")
    end = place + 8 + int.from_bytes(raw[place + 4 : place + 8], "big")
    return base64.b64encode(raw[place + 8 : end]).decode() + "\n" + base64.b64encode(raw[:end]).decode()


def _drbd_secrets(disk: dict) -> Iterator[str]:
    logical = disk.get("logical_id") or []
    if disk.get("dev_type") == "drbd" and logical and isinstance(logical[-1], str):
        yield logical[-1]
    for child in disk.get("children") or []:
        yield from _drbd_secrets(child)


def announcements() -> socket.socket | None:
    """A socket that tells of each program that starts on this machine, of nothing else; None where nobody tells."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, CONNECTOR)
        steps = ((0x20, 0, 0, 36), (0x15, 0, 1, EXEC << 24), (6, 0, 0, 0xFFFFFFFF), (6, 0, 0, 0))
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        made.setsockopt(
            socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
        )
        made.bind((0, PROC_EVENTS))
        listen = struct.pack("=IIIIHHI", PROC_EVENTS, 1, 0, 0, 4, 0, 1)
        made.send(struct.pack("=IHHII", 16 + len(listen), 3, 0, 0, 0) + listen)
        made.setblocking(False)
    except OSError:
        return None
    return made


def main() -> None:
    sampler = Sampler(json.loads(sys.stdin.readline()))
    told = announcements() if sys.byteorder == "little" else None
    every_s = OFTEN_S if told is None else SELDOM_S
    watched = select.poll()
    watched.register(0, select.POLLIN | select.POLLHUP)
    if told is not None:
        watched.register(told, select.POLLIN)
    next_s, ended = 0.0, False
    while not ended:
        now_s = time.monotonic()
        if now_s >= next_s:
            sampler.look_through()
            next_s = now_s + every_s
        for descriptor, _ in watched.poll(max(0.0, next_s - time.monotonic()) * 1000):
            ended = ended or descriptor == 0
            while told is not None and descriptor == told.fileno():
                try:
                    sampler.started(struct.unpack_from("=I", told.recv(256), 52)[0])
                except BlockingIOError:
                    break
                except OSError:
                    continue  # more were told than there was room for
    sampler.look_through()
    sys.stdout.write(sampler.told())


if __name__ == "__main__":
    main()
