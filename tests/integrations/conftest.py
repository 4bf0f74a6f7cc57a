"""What the tests of adapters share: a household's memories, and no word to anybody outside."""

from __future__ import annotations

import os

import pytest

from retentive.engine import Engine

# Read when the framework is imported: it would report its use to its makers.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

HOUSEHOLD = (
    {"text": "The spare key is under the blue pot", "project": "home", "speaker": "Ana", "metadata": {"room": "porch"}},
    {"text": "The plumber comes on Monday at nine", "project": "home", "occurred": "2026-05-04T09:00:00+00:00"},
    {"text": "Ana is allergic to peanuts", "kind": "semantic", "importance": 0.9, "source": "doctor"},
    {"text": "The boiler was serviced in April", "project": "home", "session": "boiler"},
)


@pytest.fixture
def household(engine: Engine) -> Engine:
    """An engine with a few memories of one household, and one of somebody else's."""
    engine.remember_many(HOUSEHOLD)
    engine.remember("The spare key of the neighbours is in the mailbox", profile="neighbours")
    return engine
