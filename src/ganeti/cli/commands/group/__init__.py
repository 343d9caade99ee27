# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group: its commands, and what they print."""
