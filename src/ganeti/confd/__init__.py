# SPDX-License-Identifier: BSD-2-Clause
"""ConfD: answers about the configuration from a candidate's own copy, with or without a master (S2.14, S2.15)."""
