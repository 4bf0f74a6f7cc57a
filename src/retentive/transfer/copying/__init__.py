"""Copies everything in one store to another, and verifies by checksums that the two agree.

`copy_store` copies, `verify_stores` compares, and `finish_copy` ends a copy.
"""

from retentive.transfer.copying.copier import CopyOptions, CopyResult, copy_store, finish_copy
from retentive.transfer.copying.verification import Check, Verification, verify_stores

__all__ = ["Check", "CopyOptions", "CopyResult", "Verification", "copy_store", "finish_copy", "verify_stores"]
