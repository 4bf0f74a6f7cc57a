"""Copies everything in one store to another, and verifies that the two agree.

`copy_store` copies, `verify_stores` compares, and `finish_copy` ends a copy.
"""

from retentive.transfer.copying.checkpoint import finish_copy
from retentive.transfer.copying.copier import CopyOptions, CopyResult, copy_store
from retentive.transfer.copying.verification import Check, SearchSimilarity, Verification, verify_stores

__all__ = [
    "Check",
    "CopyOptions",
    "CopyResult",
    "SearchSimilarity",
    "Verification",
    "copy_store",
    "finish_copy",
    "verify_stores",
]
