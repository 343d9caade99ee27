# SPDX-License-Identifier: BSD-2-Clause
"""A ConfD that answers what it is told to, or lies, or loses datagrams."""

import hashlib
import hmac
import json
import socket
import threading
from typing import Any

from ganeti.wire.confd import MAGIC, Kind, Question, reply

KEY_FILE = b"0123456789abcdef\n"
VOLUME = {"dev_type": "plain", "logical_id": ["xenvg", "one.disk0"]}
PARTS = [{"dev_type": "plain", "logical_id": ["xenvg", f"two.disk0_{end}"]} for end in ("data", "meta")]
MIRRORED = {"dev_type": "drbd", "logical_id": ["uuid-a", "uuid-b", 11000, 0, 0, "secret"], "children": PARTS}
ANSWERS: dict[tuple[int, Any], Any] = {
    (Kind.NODE_INSTANCES, "node1.x"): [[{"name": "one.x"}], [{"name": "two.x"}]],
    (Kind.INSTANCE_DISKS, "one.x"): [VOLUME],
    (Kind.INSTANCE_DISKS, "two.x"): [MIRRORED],
}


class FakeConfd:
    """Answers those who sign with *key*; *lost* of their datagrams get lost, and lies come before each answer."""

    def __init__(self, key: bytes = KEY_FILE, lost: int = 0, lies: bool = False, serial: int = 5) -> None:
        self.key, self.lost, self.lies = key, lost, lies
        self.serial = serial
        self.answers = dict(ANSWERS)
        self.asked: list[tuple[int, Any]] = []
        """All that reached it, lost ones too."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._socket.sendto(b"end", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while (received := self._socket.recvfrom(4096))[0] != b"end":
            datagram, sender = received
            message = json.loads(json.loads(datagram[len(MAGIC) :])["msg"])
            question = Question(message["type"], message["query"], message["rsalt"])
            if json.loads(datagram[len(MAGIC) :]) != self._signed_by_us(datagram):
                continue
            self.asked.append((question.kind, question.query))
            if self.lost:
                self.lost -= 1
                continue
            if self.lies:
                for lie in (b"", b"plj0{", reply(question, [[], []], 9, b"stranger")):
                    self._socket.sendto(lie, sender)
            known = (question.kind, question.query) in self.answers
            answer = self.answers.get((question.kind, question.query), 0)
            self._socket.sendto(reply(question, answer, self.serial, self.key, 0 if known else 1), sender)

    def _signed_by_us(self, datagram: bytes) -> Any:
        outer = json.loads(datagram[len(MAGIC) :])
        text = (outer["salt"] + outer["msg"]).encode()
        return outer | {"hmac": hmac.new(self.key, text, hashlib.sha1).hexdigest()}
