# SPDX-License-Identifier: BSD-2-Clause
"""Watches guests from the guest LAN: takes the beats they acknowledge, and pings each of them regularly.

It runs at the hub, alone and isolated (``python -IS observer.py PORT SECONDS TARGET...``), and prints a line an event,
times on the monotonic clock: ``ready``, ``beat TIME NAME NUMBER``, ``ping TIME ADDRESS``. It ends with its input.
"""

import os
import selectors
import socket
import struct
import sys
import time

ECHO_REQUEST, ECHO_REPLY = 8, 0
ECHO_REQUEST_6, ECHO_REPLY_6 = 128, 129


def checksum(packet: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


class Observer:
    """One loop over the listening socket, the guests' connections, and the pings."""

    def __init__(self, port: int, ping_every_s: float, targets: list[str]) -> None:
        self._ping_every_s = ping_every_s
        self._targets = targets
        self._identity = os.getpid() & 0xFFFF
        self._sequence = 0
        self._rests: dict[socket.socket, bytes] = {}
        self._events = selectors.DefaultSelector()
        self._six = any(":" in target for target in targets)
        family = socket.AF_INET6 if self._six else socket.AF_INET
        self._icmp = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6 if self._six else socket.IPPROTO_ICMP)
        self._icmp.setblocking(False)
        self._events.register(self._icmp, selectors.EVENT_READ, self._take_reply)
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._server = socket.create_server(("", port), family=family, backlog=64, dualstack_ipv6=both)
        self._server.setblocking(False)
        self._events.register(self._server, selectors.EVENT_READ, self._take_guest)
        self._events.register(sys.stdin, selectors.EVENT_READ, lambda _: sys.exit(0))

    def run(self) -> None:
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            for key, _ in self._events.select(max(0.0, due - time.monotonic())):
                key.data(key.fileobj)
            if time.monotonic() >= due:
                due = max(due + self._ping_every_s, time.monotonic())
                self._ping()

    def _ping(self) -> None:
        self._sequence = (self._sequence + 1) & 0xFFFF
        body = struct.pack("!HH", self._identity, self._sequence)
        if self._six:
            head = struct.pack("!BBH", ECHO_REQUEST_6, 0, 0)  # its checksum is the kernel's work
        else:
            head = struct.pack("!BBH", ECHO_REQUEST, 0, checksum(struct.pack("!BBH", ECHO_REQUEST, 0, 0) + body))
        for target in self._targets:
            try:
                self._icmp.sendto(head + body, (target, 0))
            except OSError:
                continue  # nobody there now: no reply, which is what is measured

    def _take_reply(self, source: socket.socket) -> None:
        packet, sender = source.recvfrom(2048)
        start = 0 if self._six else (packet[0] & 15) * 4
        kind, _, _, identity = struct.unpack("!BBHH", packet[start : start + 6])
        if kind == (ECHO_REPLY_6 if self._six else ECHO_REPLY) and identity == self._identity:
            print(f"ping {time.monotonic():.4f} {sender[0]}", flush=True)

    def _take_guest(self, source: socket.socket) -> None:
        guest, _ = source.accept()
        guest.setblocking(False)
        self._rests[guest] = b""
        self._events.register(guest, selectors.EVENT_READ, self._take_beats)

    def _take_beats(self, guest: socket.socket) -> None:
        try:
            piece = guest.recv(65536)
        except OSError:
            piece = b""
        if not piece:
            self._events.unregister(guest)
            guest.close()
            return
        *lines, self._rests[guest] = (self._rests[guest] + piece).split(b"\n")
        for line in lines:
            name, _, number = line.decode(errors="replace").partition(" ")
            print(f"beat {time.monotonic():.4f} {name} {number}", flush=True)


if __name__ == "__main__":
    Observer(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]).run()
