# SPDX-License-Identifier: BSD-2-Clause
"""The daemons: options and wiring."""
