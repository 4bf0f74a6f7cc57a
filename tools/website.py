"""The documents as a site: `python -m tools.website` builds it into build/site; with `serve` behind it, shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

ROOT = Path(__file__).parents[1]
SITE = "build/site"

_PAGE = re.compile(r'"([\w./-]+\.md)"')
_EMPTY = re.compile(r'\n *\{ "[^"]+" = \[\n *\] \},')


def settings(root: Path) -> str:
    """The generator's settings, without the pages that are not written yet and sections that have none."""
    lines = (root / "zensical.toml").read_text(encoding="utf-8").splitlines()
    there = [line for line in lines if not (named := _PAGE.search(line)) or (root / "docs" / named[1]).is_file()]
    return _EMPTY.sub("", "\n".join(there))


def run(command: str, *options: str, root: Path = ROOT) -> Path:
    """The folder of the site, after the generator has run on the documents below `root`."""
    # A file of its own beside ours: the generator takes only what lies below its settings.
    with NamedTemporaryFile("w", encoding="utf-8", dir=root, prefix=".zensical-", suffix=".toml") as config:
        config.write(settings(root))
        config.flush()
        words = [sys.executable, "-m", "zensical", command, "--config-file", config.name, *options]
        subprocess.run(words, cwd=root, check=True)
    return root / SITE


def build(root: Path = ROOT) -> Path:
    """The folder of the site. A link or an anchor that leads nowhere stops it."""
    return run("build", "--strict", "--clean", root=root)


def main(arguments: list[str]) -> None:
    """Build the site, or serve it and follow what is written."""
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
