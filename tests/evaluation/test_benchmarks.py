"""The original files of public benchmarks. Every file here is a made-up sample of the same form."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retentive.errors import Invalid
from retentive.evaluation import EvaluationSet, read_evaluation_set
from retentive.evaluation.benchmarks import read_benchmark
from retentive.evaluation.benchmarks.base import Benchmark

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_10_date_time": "9:05 am on 2 June, 2023",
            "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "I sold the boat."}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a photo of a boat"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "I bought it in April."},
            ],
        },
        "qa": [
            {"question": "What was sold?", "answer": "a boat", "evidence": ["D1:1; D:10:01"], "category": 1},
            {"question": "When?", "answer": 2023, "evidence": ["D1:2"], "category": 2},
            {"question": "Who stole it?", "adversarial_answer": "Ana", "evidence": [], "category": 5},
        ],
    }
]

QUESTION: dict[str, Any] = {
    "question_id": "e1",
    "question_type": "single-session-user",
    "question": "Which tea do I like?",
    "answer": "green",
    "question_date": "2023/05/30 (Tue) 23:40",
    "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 08:00"],
    "haystack_session_ids": ["answer_7", "sharegpt_1"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "I like green tea.", "has_answer": True},
            {"role": "assistant", "content": "Noted."},
        ],
        [{"role": "user", "content": "What is a quark?"}],
    ],
    "answer_session_ids": ["answer_7"],
}

BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "time_anchor": "March-15-2024",
        "turns": [
            [
                {"role": "user", "id": 0, "content": "My sprint ends on Friday. ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "Good."},
            ]
        ],
    },
    {"batch_number": 2, "turns": [[{"role": "user", "id": 2, "time_anchor": "April-01-2024", "content": "It moved."}]]},
]
BEAM_QUESTIONS: dict[str, Any] = {
    "knowledge_update": [
        {"question": "When does it end?", "answer": "later", "source_chat_ids": {"old": [0], "new": [2]}}
    ],
    "abstention": [{"question": "Who is Craig?", "ideal_response": "There is no information."}],
}

REALTALK: dict[str, Any] = {
    "name": {"speaker_1": "Ana", "speaker_2": "Ben"},
    "session_1": [
        {"clean_text": text, "speaker": "Ana", "date_time": f"29.12.2023, 22:42:0{at}", "dia_id": f"D1:{at}"}
        for at, text in enumerate(["Hello", "I ski", "I cook", "Bye"], 1)
    ],
    "qa": [{"question": "Hobbies?", "answer": "two", "evidence": ["D1:2-D1:3;D1:4."], "category": 1}],
}

RUN: dict[str, Any] = {
    "tid": 0,
    "message_list": [
        {"mid": 0, "message": "我的上司喜欢茶。", "time": "2024年04月01日 周一 08:30", "place": "x"},
        {"mid": 1, "message": "我去北京。", "time": "2024年04月02日 周二 09:00", "place": "x"},
    ],
}
ASKED: dict[str, Any] = {
    "qid": 0,
    "question": "上司喜欢什么？",
    "answer": "茶",
    "target_step_id": [0],
    "time": "2024年04月03日 周三 07:42",
}

REALMEM: dict[str, Any] = {
    "_metadata": {"person_name": "Ana"},
    "dialogues": [
        {
            "session_uuid": "aa",
            "current_time": "2025-12-15 (Monday)",
            "dialogue_turns": [{"speaker": "User", "is_query": False, "content": "I save for a boat."}],
        },
        {
            "session_uuid": "bb",
            "current_time": "2025-12-20 (Saturday)",
            "dialogue_turns": [
                {"speaker": "User", "is_query": True, "content": "What do I save for?", "category_name": "Static"},
                {"speaker": "Assistant", "content": "A boat.", "memory_session_uuids": ["aa"]},
                {"speaker": "User", "content": "Thanks."},
            ],
        },
    ],
}


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def answers(path: Path) -> Benchmark:
    found = read_benchmark(path)
    assert found is not None
    return found


def relevant(read: EvaluationSet) -> dict[str, list[str]]:
    return {query.id: [*query.relevance] for query in read.queries}


def test_locomo_has_a_project_for_each_conversation_and_sessions_in_their_order(tmp_path: Path) -> None:
    read = read_evaluation_set(write(tmp_path / "locomo10.json", LOCOMO))
    drafts = [*read.drafts()]
    assert [draft.text for draft in drafts] == [
        "Look! [image: a photo of a boat]",
        "I bought it in April.",
        "I sold the boat.",
    ]
    assert drafts[2].session == "conv-1/session_10"
    assert drafts[2].occurred == datetime(2023, 6, 2, 9, 5, tzinfo=UTC)
    assert relevant(read) == {"conv-1/q0": ["conv-1/D1:1", "conv-1/D10:1"], "conv-1/q1": ["conv-1/D1:2"]}
    assert [query.category for query in read.queries] == ["multi-hop", "temporal"]
    assert read.queries[0].asked_at == drafts[2].occurred
    assert [query.kind for query in read.unanswerable] == ["never"]
    assert read.notes == ()


def test_locomo_has_answers_but_none_for_an_adversarial_question(tmp_path: Path) -> None:
    read = answers(write(tmp_path / "locomo10.json", LOCOMO))
    assert read.answers == {"conv-1/q0": "a boat", "conv-1/q1": "2023"}
    assert len(read.queries) == 3


def test_longmemeval_searches_the_history_of_each_question_without_ids_that_tell(tmp_path: Path) -> None:
    other = {**QUESTION, "question_id": "e2_abs"}
    read = read_evaluation_set(write(tmp_path / "longmemeval_s.json", [QUESTION, other]))
    assert relevant(read) == {"e1": ["e1/s0/0"]}
    assert read.corpus.memories == 6
    assert read.corpus.searched == 3
    assert not any("answer" in f"{draft.session}{draft.source}" for draft in read.drafts())
    assert read.queries[0].asked_at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)


def test_longmemevals_oracle_is_searched_as_one_pool_with_each_session_once(tmp_path: Path) -> None:
    only = {name: QUESTION[name][:1] for name in ("haystack_dates", "haystack_session_ids", "haystack_sessions")}
    questions = [QUESTION | only, QUESTION | only | {"question_id": "e3"}]
    read = read_evaluation_set(write(tmp_path / "longmemeval_oracle.json", questions))
    assert relevant(read) == {"e1": ["pool/s0/0"], "e3": ["pool/s0/0"]}
    assert read.corpus.memories == 2
    assert "searched together" in read.notes[0]


def test_beam_reads_a_folder_of_conversations(tmp_path: Path) -> None:
    for name in ("1", "10", "2"):
        write(tmp_path / name / "chat.json", BEAM_CHAT)
        write(tmp_path / name / "probing_questions" / "probing_questions.json", BEAM_QUESTIONS)
    read = read_evaluation_set(tmp_path)
    assert [query.id for query in read.queries] == [f"{name}/knowledge_update/0" for name in ("1", "2", "10")]
    assert relevant(read)["2/knowledge_update/0"] == ["2/0", "2/2"]
    first, second, third = [*read.drafts()][:3]
    assert first.text == "My sprint ends on Friday."
    assert second.occurred == datetime(2024, 3, 15, tzinfo=UTC)
    assert (third.occurred, third.session) == (datetime(2024, 4, 1, tzinfo=UTC), "1/2")
    assert answers(tmp_path / "2").answers["2/abstention/0"] == "There is no information."


def test_realtalk_reads_ranges_of_messages(tmp_path: Path) -> None:
    read = read_evaluation_set(write(tmp_path / "Chat_1.json", REALTALK).parent)
    assert relevant(read) == {"Chat_1/q0": ["Chat_1/D1:2", "Chat_1/D1:3", "Chat_1/D1:4"]}
    assert read.queries[0].asked_at == datetime(2023, 12, 29, 22, 42, 4, tzinfo=UTC)


def test_memdaily_reads_the_whole_file_and_the_single_files_alike(tmp_path: Path) -> None:
    failed = {**RUN, "question_list": [{**ASKED, "question": "[ERRORQ]"}]}
    one = write(tmp_path / "a" / "01_simple_roles.json", [{**RUN, "question_list": [ASKED]}, failed])
    whole = write(tmp_path / "memdaily.json", {"simple": {"roles": [{**RUN, "QA": ASKED}]}})
    for path in (one, whole):
        read = read_evaluation_set(path)
        assert relevant(read) == {"simple_roles/0/q0": ["simple_roles/0/0"]}
        assert read.queries[0].category == "simple"
        assert read.queries[0].asked_at == datetime(2024, 4, 3, 7, 42, tzinfo=UTC)


def test_a_question_of_memdaily_searches_fifty_runs_each_a_session_of_its_own(tmp_path: Path) -> None:
    runs = [{**RUN, "question_list": [ASKED]}] * 51
    read = read_evaluation_set(write(tmp_path / "01_simple_roles.json", runs))
    assert [query.project for query in read.queries] == ["simple_roles 1"] * 50 + ["simple_roles 2"]
    assert (read.corpus.searched, read.corpus.sessions) == (100, 51)


def test_realmem_has_sessions_without_the_query_and_its_answer(tmp_path: Path) -> None:
    read = read_evaluation_set(write(tmp_path / "Ana_dialogues_256k.json", REALMEM))
    assert relevant(read) == {"Ana/1/0": ["Ana/aa"]}
    assert [draft.text for draft in read.drafts()] == ["User: I save for a boat.", "User: Thanks."]
    assert read.queries[0].category == "Static"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"anything": 1}, "is not a file of LoCoMo, LongMemEval, REALTALK, MemDaily, RealMem, BEAM"),
        ([{"conversation": {}, "qa": []}], "there is no 'sample_id'"),
        ([{**QUESTION, "question_date": "yesterday"}], "'yesterday' does not match"),
        ([{**LOCOMO[0]}, {**LOCOMO[0]}], "two memories have the id 'conv-1/D1:1'"),
    ],
)
def test_another_file_or_a_damaged_one_is_refused_with_the_reason(tmp_path: Path, value: object, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        read_evaluation_set(write(tmp_path / "file.json", value))
