# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup: its commands, and what they print."""
