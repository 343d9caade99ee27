# SPDX-License-Identifier: BSD-2-Clause
"""Tags: the commands that each program has for them."""
