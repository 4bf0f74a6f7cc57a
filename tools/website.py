"""Build the documents as a site: `python -m tools.website` writes build/site, `… serve` serves it while you write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = "build/site"


def run(command: str, *options: str, root: Path = ROOT) -> Path:
    """Run the site generator on the documents below `root` and return the folder of the site."""
    subprocess.run([sys.executable, "-m", "zensical", command, *options], cwd=root, check=True)
    return root / SITE


def build(root: Path = ROOT) -> Path:
    """Build the site and return its folder. A broken link or anchor is an error."""
    return run("build", "--strict", "--clean", root=root)


def main(arguments: list[str]) -> None:
    """Build the site, or serve it and rebuild it when a document changes."""
    try:
        if arguments[:1] == ["serve"]:
            run("serve", *arguments[1:])
        else:
            print(f"the documents are in {build().relative_to(ROOT)}/index.html")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
