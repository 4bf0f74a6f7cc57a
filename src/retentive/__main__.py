"""`python -m retentive` is the program `retentive`."""

from retentive.cli import main

main()
