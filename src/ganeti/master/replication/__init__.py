# SPDX-License-Identifier: BSD-2-Clause
"""How copies of the configuration and the queue are kept at the master candidates."""
