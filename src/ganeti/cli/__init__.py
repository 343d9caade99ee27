# SPDX-License-Identifier: BSD-2-Clause
"""The commands: parser, tables made from the declarations, output."""
