"""Takes everything in one store to another, and shows that the two agree.

`copy_store` copies, `verify_stores` compares, and `finish` ends a copy.
"""

from retentive.transfer.copying.checkpoint import finish
from retentive.transfer.copying.transfer import Copied, Options, copy_store
from retentive.transfer.copying.verification import Check, Likeness, Verified, verify_stores

__all__ = ["Check", "Copied", "Likeness", "Options", "Verified", "copy_store", "finish", "verify_stores"]
