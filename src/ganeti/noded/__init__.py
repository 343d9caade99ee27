# SPDX-License-Identifier: BSD-2-Clause
"""NodeD: who may call, how calls are carried out, and this node's copy of configuration and queue."""
