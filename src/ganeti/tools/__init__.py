# SPDX-License-Identifier: BSD-2-Clause
"""Programs beside the daemons: daemon-util, the testbed, set-up of nodes, the placement tools."""
