# SPDX-License-Identifier: BSD-2-Clause
"""Sockets that listen, at addresses of either kind."""

from __future__ import annotations

import socket

import pytest

from ganeti.system.ip_socket import listen_at


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::"])
def test_small_answers_are_not_held_back(address: str, *, early: bool) -> None:
    """By the side that has accepted the connection: the kernel would wait for the other's acknowledgement."""
    with listen_at(address, 0, early=early) as listener:
        place = (address.replace("::", "::1") if address == "::" else address, listener.getsockname()[1])
        with socket.create_connection(place) as _:
            accepted, _peer = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
