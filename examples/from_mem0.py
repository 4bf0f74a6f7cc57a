"""Move from mem0: import an export, see what was taken and what was not, and recall with reasons.

    python examples/from_mem0.py mem0-export.json

Without a file it reads `examples/data/mem0-export.json`, a sample made for this script. Save your own with
`json.dump(Memory().get_all(user_id="sam"), file)`. It needs `pip install 'retentive[import]'`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from retentive import Engine

SAMPLE = Path(__file__).parent / "data" / "mem0-export.json"


def main(export: str = str(SAMPLE), store: str = "from-mem0.db") -> None:
    """Import an export twice, which adds nothing twice, and recall from it."""
    with Engine.open(store) as engine:
        trial = engine.import_from(export, dry_run=True)
        print(f"{trial.format}: {trial.added} would be added, {sum(trial.skipped.values())} skipped")
        for reason, count in trial.skipped.items():
            print(f"  {count} × {reason}")
        done = engine.import_from(export)
        again = engine.import_from(export)
        print(f"{done.added} added; a second import adds {again.added}")
        print("profiles:", ", ".join(profile.name for profile in engine.profiles()))

        # mem0: memory.search("when can we meet?", user_id="sam")
        for hit in engine.recall("when can we meet?", profile="sam", limit=2):
            steps = ", ".join(f"{reason.step} {reason.change:+.2f}" for reason in hit.why if reason.change)
            print(f"{hit.rank}. {hit.memory.text}  ({steps})")
        print(f"to undo it: engine.imports.undo('{done.run}')")


if __name__ == "__main__":
    main(*sys.argv[1:])
