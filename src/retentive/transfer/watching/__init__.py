"""Keeps a folder of notes in step: its files are the truth, and memories follow them.

What is known of each file stands in the store itself (`notes`), so that a restart finds what changed meanwhile. `plan`
says what a file asks for, `sync` looks at the folder once and carries it out, `loop` does so for as long as it is let.
"""

from retentive.transfer.watching.lock import alone
from retentive.transfer.watching.loop import Stop, keep_in_step
from retentive.transfer.watching.notes import open_notes
from retentive.transfer.watching.sync import Change, FolderSync

__all__ = ["Change", "FolderSync", "Stop", "alone", "keep_in_step", "open_notes"]
