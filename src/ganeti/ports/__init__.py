# SPDX-License-Identifier: BSD-2-Clause
"""Protocols: what an operation or a node driver may ask of the world."""
