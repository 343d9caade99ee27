# SPDX-License-Identifier: BSD-2-Clause
"""Options and arguments of the tools, declared once."""
