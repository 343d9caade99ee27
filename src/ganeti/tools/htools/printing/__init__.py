# SPDX-License-Identifier: BSD-2-Clause
"""What the tools print: tables, reports, dumps, pages."""
