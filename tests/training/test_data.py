"""The training data: what is kept out, what is sampled, what is asked."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
from training.build import Builder, evaluation_shingles
from training.heldout import write_sets
from training.packed import Conversation, Question, Turn, held_out_groups, read_conversations, split_held_out, write
from training.questions import ask_about, asked_turns, rename_speakers, word_weights
from training.sampling import PER_VISIT, QuerySampler, choose, weights_of
from training.sources import CONVERSATIONS, PASSAGES, TEXTS

from retentive.evaluation import read_evaluation_set

SOURCES = tomllib.loads(Path("training/sources.toml").read_text(encoding="utf-8"))["source"]


def _scene(id: str, *, source: str = "friendsqa", questions: int = 4) -> Conversation:
    turns = (Turn("Anna", "I bought a kiln for the pottery studio."), Turn("Ben", "Where did you put the kiln, Anna?"))
    return Conversation(source, id, turns, (Question("What did Anna buy?", (0,)),) * questions)


def _scenes() -> list[Conversation]:
    scenes = [_scene(f"dev/s01_e{episode:02}_c{scene:02}/0") for episode in range(20) for scene in range(3)]
    meetings = [_scene(f"train/ES20{n:02}{day}#0", source="qmsum") for n in range(10) for day in "abc"]
    return [*scenes, *meetings, _scene("1", source="realmem")]


def test_a_fifth_of_the_questions_is_kept_out_and_episodes_and_series_of_meetings_stay_whole() -> None:
    train, kept = split_held_out(_scenes())
    assert Counter(one.source for one in kept) == {"friendsqa": 12, "qmsum": 6}
    episodes = [{one.id.split("_c")[0] for one in part if one.source == "friendsqa"} for part in (train, kept)]
    assert not episodes[0] & episodes[1]
    series = [{one.id[:12] for one in part if one.source == "qmsum"} for part in (train, kept)]
    assert not series[0] & series[1]


def test_what_is_kept_out_does_not_depend_on_order() -> None:
    scenes = _scenes()
    assert held_out_groups(scenes) == held_out_groups(scenes[::-1])


def test_kept_out_conversations_become_evaluation_sets_of_the_product(tmp_path: Path) -> None:
    write(tmp_path / "conversations.jsonl.xz", (one.to_dict() for one in _scenes()))
    _, kept = split_held_out(read_conversations(tmp_path))
    assert write_sets(kept, tmp_path / "sets") == {"friendsqa": (24, 48), "qmsum": (12, 24)}
    read = read_evaluation_set(tmp_path / "sets" / "friendsqa-heldout")
    assert len(read.queries) == 48
    draft = next(iter(read.drafts()))
    assert (draft.text, draft.speaker) == ("Anna: I bought a kiln for the pottery studio.", "Anna")


def test_queries_are_drawn_by_weight_and_several_of_one_conversation_together() -> None:
    conversation = np.array([0] * 30 + [1] * 2 + [2] * 4, np.int32)
    weight = np.array([1.0] * 32 + [0.25] * 3 + [0.0])
    sampler = QuerySampler(conversation, weight, seed=3)
    drawn = [sampler.draw(1) for _ in range(3000)]
    counts = np.bincount(np.concatenate(drawn), minlength=36)
    assert {len(one) for one in drawn} <= {2, 3, PER_VISIT}
    assert counts[35] == 0
    assert abs(counts[:30].mean() / counts[30:32].mean() - 1) < 0.25
    assert abs(counts[32:35].mean() / counts[30:32].mean() - 0.25) < 0.1


def test_a_source_without_a_weight_of_its_own_counts_fully() -> None:
    sources = np.array(["about", "friendsqa"])
    assert weights_of(sources, np.array([1, 0, 1], np.int32), {"about": 0.5}).tolist() == [1.0, 0.5, 1.0]


def test_candidates_are_the_evidence_its_neighbours_the_nearest_and_then_random_turns() -> None:
    near = np.array([9, 8, 7, *range(7), *range(10, 100)])
    found = choose(near, [50], [8], 1000, 32, np.random.default_rng(1)).tolist()
    assert found[:3] == [1050, 1049, 1051]
    assert 1009 in found
    assert 1008 not in found
    assert len(set(found)) == 32
    assert choose(near[:3] - 7, [], [], 0, 6, np.random.default_rng(1)).tolist()[3:] == [-1, -1, -1]


def test_harvested_questions_name_the_speaker_and_words_of_the_turn() -> None:
    scene = _scene("dev/s01_e01_c01/0")
    weights = word_weights([scene])
    assert asked_turns(scene) == [(1, "Where did you put the kiln, Anna?")]
    question = ask_about(scene.turns[0], weights, random.Random(1))
    assert question is not None
    assert "Anna" in question
    assert any(word in question for word in ("bought", "kiln", "pottery", "studio"))
    assert ask_about(Turn("Ben", "No, it is."), weights, random.Random(1)) is None


def test_numbered_speakers_get_names_in_turns_and_questions() -> None:
    turns = (Turn("User 1", "I bake."), Turn("User 2", "I knit."))
    renamed = rename_speakers(Conversation("x", "1", turns, (Question("User 2 knits.", (1,)),)), random.Random(1))
    assert renamed.questions[0].text == f"{renamed.turns[1].speaker} knits."
    assert renamed.turns[0].speaker != renamed.turns[1].speaker


def test_every_source_has_a_repository_a_licence_and_what_is_taken_and_every_reader_a_source() -> None:
    assert all(one["repository"] and one["licence"] and one["taken"] for one in SOURCES)
    commits = {name: one["commit"] for one in SOURCES for name in (one["name"], *one.get("also", ()))}
    assert set(commits) == {*CONVERSATIONS, *PASSAGES, *TEXTS}
    assert all(len(commit) == 40 for commit in commits.values())


def test_conversations_with_a_text_of_an_evaluation_set_are_left_out(tmp_path: Path) -> None:
    write_sets([_scene("dev/s01_e01_c01/0")], tmp_path / "sets")
    clone = tmp_path / "tenurehq" / "precisionMemBench" / "fixtures"
    clone.mkdir(parents=True)
    beliefs = '[{"_id": "b", "content": "%s"}]'
    cases = '[{"query": "What was bought?", "expect": {"pinnedFacts": {"mustInclude": ["b"]}}}]'
    (clone / "retrieval.cases.json").write_text(cases)
    forbidden = evaluation_shingles([tmp_path / "sets" / "friendsqa-heldout"])
    for text, left in (("Where did you put the kiln, Anna?", 0), ("We use MongoDB.", 1)):
        (clone / "beliefs.seed.json").write_text(beliefs % text)
        builder = Builder(tmp_path, forbidden)
        assert len(list(builder.conversations())) == left
        assert set(builder.missing) == set(CONVERSATIONS) - {"precisionmem"}
