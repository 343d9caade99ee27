# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes about networks: their addresses, and the node groups they are connected to."""
