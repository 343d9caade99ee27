# SPDX-License-Identifier: BSD-2-Clause
"""Operations on external storage."""
