"""`python -m recollect` is the program `recollect`."""

from recollect.cli import main

main()
