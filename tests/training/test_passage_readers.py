"""Readers of passages and texts, on made-up files in the formats of the repositories; and what is built of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from training.build import Builder
from training.sources import knowledge, passages, tasks, texts
from training.sources.reading import some

from tests.training.clones import clone


def _pairs(lines: Any) -> list[tuple[str, str]]:
    return [(line["question"], line["passage"]) for line in lines]


def test_of_a_long_paragraph_the_sentences_around_the_answer_are_kept(tmp_path: Path) -> None:
    sentences = [f"Sentence {number} " + "has words " * 14 + "." for number in range(10)]
    context = " ".join(sentences)
    asked = [
        {"question": "What does sentence nine have?", "answers": [{"answer_start": context.index("Sentence 9")}]},
        {"question": "What does sentence four have?", "answers": [{"answer_start": context.index("Sentence 4")}]},
        {"question": "What here?", "answers": [{"answer_start": 0}]},
    ]
    short = {
        "context": "Tern nests\nare shallow.",
        "qas": [{"question": "How are tern nests?", "answers": [{"answer_start": 0}]}],
    }
    data = [{"paragraphs": [{"context": context, "qas": asked}, short]}]
    found = dict(_pairs(passages.xquad(clone(tmp_path, {"xquad.en.json": {"data": data}}))))
    assert found["How are tern nests?"] == "Tern nests are shallow."
    kept = found["What does sentence nine have?"]
    assert [f"Sentence {number} " in kept for number in range(10)] == [False] * 5 + [True] * 5
    kept = found["What does sentence four have?"]
    assert [f"Sentence {number} " in kept for number in range(10)] == [False] * 4 + [True] * 5 + [False]
    assert len(found) == 3, "a question of two words is left out"


def test_sharc_gives_scenarios_and_questions_with_their_own_rule_text(tmp_path: Path) -> None:
    rule = "## Boats\n\nYou need a permit."
    rows = [
        {"snippet": rule, "question": "Do I need one?", "scenario": "I sail.", "answer": "Yes"},
        {"snippet": rule, "question": "Do I need one?", "scenario": "", "answer": "Which boat?"},
        {"snippet": rule, "question": "Can I claim a refund?", "scenario": "", "answer": "Irrelevant"},
    ]
    found = _pairs(passages.sharc(clone(tmp_path, {"data/sharc1_dev.json": rows})))
    text = "## Boats You need a permit."
    assert found == [("I sail. Do I need one?", text), ("Do I need one?", text)]


def test_wow_gives_sentences_that_most_annotators_found_relevant(tmp_path: Path) -> None:
    def sentence(text: str, relevance: str, confidence: float) -> dict[str, Any]:
        label = f"Gull <knowledge_separator> {text}"
        return {"label": label, "relevance": relevance, "confidence": confidence}

    marked = [sentence("Gulls â\x80\x94 loud.", "relevant", 0.8), sentence("No.", "relevant", 0.6)]
    dialogue = {
        "turns": ["Hi.", "Do you like the gulls?"],
        "annotated_sentences": [*marked, sentence("x", "notRelevant", 0.9)],
    }
    folder = clone(tmp_path, {f"wow++/{name}": {name: dialogue} for name in passages.WOW_FILES})
    assert _pairs(passages.wow(folder)) == [("Do you like the gulls?", "Gull: Gulls — loud.")]
    assert list(passages.wow_texts(folder)) == [{"text": "Do you like the gulls?"}]


def test_dstc9_questions_get_the_name_of_what_they_are_about(tmp_path: Path) -> None:
    docs = {
        "0": {"title": "Is the lift new?", "body": "No lift."},
        "1": {"title": "Has the Otter a lift?", "body": "No."},
    }
    taxi = {"*": {"name": None, "docs": {"0": {"title": "Can I pay by card?", "body": "Yes."}}}}
    data = {"hotel": {"1": {"name": "THE OTTER INN", "docs": docs}}, "taxi": taxi}
    found = _pairs(knowledge.dstc9_questions(clone(tmp_path, {"data_eval/knowledge.json": data})))
    assert found == [
        ("Is the lift new? (The Otter Inn)", "No lift."),
        ("Has the Otter a lift?", "No."),
        ("Can I pay by card?", "Yes."),
    ]


def test_dstc11_gives_questions_reviews_that_bear_on_a_users_question_and_review_sentences(tmp_path: Path) -> None:
    reviews = {"0": {"sentences": {"0": "The beds were soft.", "1": "The soup was cold."}}}
    hotel = {"name": "OTTER INN", "reviews": reviews, "faqs": {"0": {"question": "Is there a sauna?", "answer": "No."}}}
    place = {"domain": "hotel", "entity_id": 3}
    snippets = [
        place | {"doc_type": "review", "doc_id": 0, "sent_id": 0},
        place | {"doc_type": "faq", "doc_id": 0},
    ]
    files = {
        "data/knowledge.json": {"hotel": {"3": hotel}},
        "data/val/logs.json": [[{"text": "Hi"}, {"text": "Can I relax there?"}], [{"text": "Book it, please, now."}]],
        "data/val/labels.json": [{"target": True, "knowledge": snippets}, {"target": False}],
    }
    folder = clone(tmp_path, files)
    assert _pairs(knowledge.dstc11_questions(folder)) == [("Is there a sauna? (Otter Inn)", "No.")]
    assert _pairs(knowledge.dstc11_reviewed(folder)) == [
        ("Can I relax there?", "Otter Inn: The beds were soft."),
        ("Can I relax there?", "Otter Inn: Is there a sauna? No."),
    ]
    assert list(knowledge.dstc11_texts(folder)) == [{"text": "The beds were soft."}, {"text": "The soup was cold."}]


def test_squad_sentences_and_disfluent_questions_are_read_from_their_files(tmp_path: Path) -> None:
    files: dict[str, object] = {
        "train.json": {"1": {"disfluent": "Who er what is a tern?", "original": "What is\ta tern?"}}
    }
    for part in texts.SQUAD_PARTS:
        files[f"data/processed/src-{part}.txt"] = f"the {part} tern is a `` bird '' .\n"
        files[f"data/processed/tgt-{part}.txt"] = "what is a tern ?\n"
    folder = clone(tmp_path, files)
    assert _pairs(texts.squad_sentences(folder)) == [
        ("what is a tern?", 'the dev tern is a "bird".'),
        ("what is a tern?", 'the test tern is a "bird".'),
    ]
    assert _pairs(texts.disfl_qa(folder)) == [("Who er what is a tern?", "What is a tern?")]


def test_texts_are_read_from_topical_chat_taskmaster_and_clinc(tmp_path: Path) -> None:
    message = {"content": [{"message": "Terns fly very  far."}, {"message": "Wow!"}]}
    files: dict[str, object] = {f"conversations/{name}.json": {"1": message} for name in texts.TOPICAL_FILES}
    order = [{"utterances": [{"text": "One tea to go."}, {"text": "one TEA to go."}]}]
    files |= {f"TM-4-2024/data/{name}": order for name in tasks.TASKMASTER_FILES}
    files["data/data_full.json"] = {"train": [["book me a tern tour", "travel"]], "test": [["hello", "greeting"]]}
    folder = clone(tmp_path, files)
    assert list(texts.topical_chat(folder)) == [{"text": "Terns fly very far."}]
    assert list(tasks.taskmaster(folder)) == [{"text": "One tea to go."}]
    assert list(texts.clinc(folder)) == [{"text": "book me a tern tour"}]


def test_some_are_the_same_ones_whatever_else_there_is_before_them() -> None:
    listed = [f"text {number}" for number in range(100)]
    chosen = some(listed, 10)
    assert len(chosen) == 10
    assert chosen == sorted(chosen, key=listed.index)
    assert set(some(listed[::-1], 10)) == set(chosen)
    assert some(listed[:3], 10) == listed[:3]


def test_a_line_is_built_once_whatever_its_source_and_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"train": [["Book me a tern tour", "travel"], ["sell me a tern nest", "trade"]]}
    clone(tmp_path / "clinc" / "oos-eval", {"data/data_full.json": data})
    dialogue = {"turns": ["book me a tern tour", "It flies far, I hear."], "annotated_sentences": []}
    clone(tmp_path / "alexa" / "wow-plus-plus", {f"wow++/{name}": {"1": dialogue} for name in passages.WOW_FILES})
    builder = Builder(tmp_path, set())
    assert list(builder.texts()) == [
        {"source": "clinc-oos", "text": "Book me a tern tour"},
        {"source": "clinc-oos", "text": "sell me a tern nest"},
        {"source": "wow++", "text": "It flies far, I hear."},
    ]
    assert [(one.source, one.lines) for one in builder.counts] == [("clinc-oos", 2), ("wow++", 1)]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["texts", "clinc-oos", "2", "lines"]


def test_a_clone_without_a_file_that_its_reader_needs_is_named_and_left_out(tmp_path: Path) -> None:
    files: dict[str, object] = {"TM-4-2024/data/data_00.json": [{"utterances": [{"text": "One tea to go."}]}]}
    folder = clone(tmp_path / "google-research-datasets" / "Taskmaster", files)
    builder = Builder(tmp_path, set())
    assert list(builder.texts()) == []
    assert builder.missing["taskmaster4"] == f"the clone has no {folder / 'TM-4-2024/data/data_01.json'}"
    assert builder.missing["clinc-oos"] == f"no clone at {tmp_path / 'clinc/oos-eval'}"
