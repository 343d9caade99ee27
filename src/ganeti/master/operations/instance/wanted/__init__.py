# SPDX-License-Identifier: BSD-2-Clause
"""What is asked for of an instance, read, typed and checked, before anything is done."""
