# SPDX-License-Identifier: BSD-2-Clause
"""OS definitions: reading them, and running their scripts."""
