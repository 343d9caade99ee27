# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node: its commands, and what they print."""
