# SPDX-License-Identifier: BSD-2-Clause
"""gnt-network: its commands, and what they print."""
