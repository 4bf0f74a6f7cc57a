"""Retentive with its defaults, but without the judge."""

from __future__ import annotations

from bench.peers.adapters import retentive
from bench.peers.adapters.retentive import PACKAGES, Retentive
from bench.peers.protocol import Setup

__all__ = ["CONFIGURATION", "PACKAGES", "open"]

CONFIGURATION = "as above, but without the judge"


def open(setup: Setup) -> Retentive:
    return retentive.open(setup, judged=False)
