"""Keeps a folder of notes in step: its files are the truth, and memories follow them.

What is known of each file stands in the store itself (`notes`), so that a restart finds what changed meanwhile. `plan`
says what a file asks for, `sync` looks at the folder once and carries it out, `loop` does so for as long as it is let.
"""

from recollect.watching.alone import alone
from recollect.watching.loop import Stop, keep_in_step
from recollect.watching.notes import open_notes
from recollect.watching.sync import Change, FolderSync

__all__ = ["Change", "FolderSync", "Stop", "alone", "keep_in_step", "open_notes"]
