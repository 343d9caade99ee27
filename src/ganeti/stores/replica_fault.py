# SPDX-License-Identifier: BSD-2-Clause
"""Why a copy cannot do what it was asked. Imports nothing: a node that holds no copy loads this alone."""


class ReplicaFaultError(Exception):
    """*reason* is one of those of `ports/replica.py`, *sentence* tells people."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence
