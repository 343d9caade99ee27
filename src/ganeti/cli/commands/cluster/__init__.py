# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster: its commands, and what they print."""
