"""Queries about the asker, and the memories that the user said."""

from __future__ import annotations

import pytest

from retentive.models import Hit
from retentive.ranking.rank import by_speaker, is_about_asker
from retentive.ranking.tuning import Tuning
from tests.ranking.build import applied
from tests.stores.build import memory


@pytest.mark.parametrize(
    "text", ["When did I wash my car?", "what's MY favourite tea", "Where do I live?", "I'm allergic to what?"]
)
def test_a_query_in_the_first_person_is_about_the_asker(text: str):
    assert is_about_asker(text)


@pytest.mark.parametrize(
    "text",
    [
        "Which hotel did you recommend to me?",
        "When did Ada wash her car?",
        "an iPhone",
        "the myth of Sisyphus",
        "我的钥匙",
    ],
)
def test_a_query_about_somebody_else_is_not(text: str):
    assert not is_about_asker(text)


def test_what_the_user_said_or_nobody_in_particular_gains_by_the_weight_and_the_reason_says_so():
    said = [Hit(memory(at, "tea", speaker=speaker), 0.5) for at, speaker in enumerate(("user", "assistant", None))]

    raised, other, note = applied(by_speaker, said, about_asker=True, tuning=Tuning(speaker_weight=0.2))

    for hit in (raised, note):
        assert hit.score == pytest.approx(0.6)
        assert (hit.why[-1].step, hit.why[-1].change) == ("speaker", pytest.approx(0.1))
    assert other == said[1]


@pytest.mark.parametrize(("about_asker", "weight"), [(False, 0.2), (True, 0.0)])
def test_without_a_weight_or_in_a_query_about_somebody_else_nothing_changes(about_asker: bool, weight: float):
    said = [Hit(memory(1, "tea", speaker="user"), 0.5)]

    assert applied(by_speaker, said, about_asker=about_asker, tuning=Tuning(speaker_weight=weight)) == said
