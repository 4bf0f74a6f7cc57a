"""Run all attacks one after the other, each for some seconds: `python -m tests.attack --seconds 60 --seed 7`."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys

ATTACKS = (
    "kill",
    "kill_postgres",
    "kill_index",
    "forgotten",
    "concurrency",
    "fuzz",
    "isolation",
    "corruption",
    "disk_full",
    "embedder_faults",
    "imports",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--seconds", default="60", help="of each attack")
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=ATTACKS)
    given = parser.parse_args()
    options = ["--seconds", given.seconds, "--seed", given.seed]
    failed = [
        name
        for name in given.only
        if subprocess.run([sys.executable, "-m", f"tests.attack.{name}", *options], check=False).returncode
    ]
    print(f"attack: {len(given.only)} attacks, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
