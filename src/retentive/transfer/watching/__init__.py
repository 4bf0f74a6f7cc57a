"""Watches a folder of text files and keeps memories of their passages: the files are the source, memories follow.

`state` is what the store knows of each file, so that a restart finds what changed meanwhile. `sync` updates the
memories once, `loop` does so whenever a file changes.
"""

from retentive.transfer.watching.loop import StopFlag, folder_lock, watch_folder
from retentive.transfer.watching.state import open_folder_state, watched_folders
from retentive.transfer.watching.sync import FileChange, FolderSync

__all__ = [
    "FileChange",
    "FolderSync",
    "StopFlag",
    "folder_lock",
    "open_folder_state",
    "watch_folder",
    "watched_folders",
]
