# SPDX-License-Identifier: BSD-2-Clause
"""Python imports this first where its directory is on the path: the daemons of a campaign learn the counted opcode."""

import tests.campaign.opcode  # noqa: F401 - declares an opcode and its changes
