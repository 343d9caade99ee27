# SPDX-License-Identifier: BSD-2-Clause
"""Opcodes about backups: exports of instances, kept on nodes. `OP_INSTANCE_CREATE` imports them."""
