"""Made-up clones: files in the formats of the source repositories, with a few lines each."""

from __future__ import annotations

import json
from pathlib import Path


def clone(folder: Path, files: dict[str, object]) -> Path:
    """Write files into a folder: text as it is, a list of lines of JSON for `.jsonl` names, JSON for all others."""
    for name, content in files.items():
        path = folder / name.removesuffix("l" if name.endswith(".jsonl") else "")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            text = content
        elif name.endswith(".jsonl") and isinstance(content, list):
            text = "\n".join(json.dumps(line) for line in content)
        else:
            text = json.dumps(content)
        path.write_text(text, encoding="utf-8")
    return folder
