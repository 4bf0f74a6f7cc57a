"""Readers of conversations, on made-up files in the formats of the repositories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training.packed import Conversation, Question, Turn
from training.sources import crd3, dialogues, memory_benchmarks, realmem, tasks, vehicles

from tests.training.clones import clone


def _asked(one: Conversation) -> list[tuple[str, list[str]]]:
    """The questions with the texts of their evidence."""
    return [(question.text, [one.turns[at].text for at in question.gold]) for question in one.questions]


def test_ikat_gives_statements_as_turns_and_utterances_with_marked_statements_as_questions(tmp_path: Path) -> None:
    exchange = {"resolved_utterance": "Which bread can I bake?", "response": "Any of rye. " * 6}
    old = {"number": "1-1", "ptkb": {"2": "I own an oven.", "1": "I eat no wheat.", "10": "I ski."}}
    old["turns"] = [exchange | {"ptkb_provenance": [1]}, {"resolved_utterance": "Yes.", "response": "Good."}]
    old["turns"][1]["ptkb_provenance"] = [2]
    new = {"number": "1", "ptkb": ["I ski.", "I eat no wheat."]}
    new["responses"] = [exchange | {"relevant_ptkbs": ["I eat no wheat."]}]
    files: dict[str, object] = {name: [] for name in memory_benchmarks.IKAT_FILES.values()}
    files |= {memory_benchmarks.IKAT_FILES["2023"]: [old], memory_benchmarks.IKAT_FILES["2025"]: [new]}
    folder = clone(tmp_path, files)
    first, second = memory_benchmarks.ikat(folder)
    assert [turn.text for turn in first.turns] == ["I eat no wheat.", "I own an oven.", "I ski."]
    assert _asked(first) == _asked(second) == [("Which bread can I bake?", ["I eat no wheat."])]
    assert (first.id, second.id) == ("2023/1-1", "2025/1")
    answers = list(memory_benchmarks.ikat_responses(folder))
    assert [line["question"] for line in answers] == ["Which bread can I bake?"] * 2


def test_madial_asks_what_the_user_said_before_the_assistant_recalls(tmp_path: Path) -> None:
    said = ["<BOD>\n", '<Ida>: "Hello!"\n', '<Assistant>: "Hi."\n', '<Ida>: "I built a raft."\n']
    said += ['<Ida>: "It floats."\n', '<Assistant>: "As the last one did?"\n', '<Ida>: "Yes"\n']
    memories = [
        {"7": {"time": "2024-01-02", "event": "Ida built a boat."}},
        {"9": {"time": "2024-02-03", "event": "x"}},
    ]
    folder = clone(
        tmp_path,
        {
            "data/en/MADial-Bench-en-memory.jsonl": memories,
            "data/en/MADial-Bench-en-dialogue.jsonl": [{"dialogue": said, "test-turn": [5], "relevant-id": [7, 99]}],
        },
    )
    (one,) = memory_benchmarks.madial(folder)
    assert _asked(one) == [("Ida: I built a raft. Ida: It floats.", ["Ida built a boat. (2024-01-02)"])]


def _proactive(tmp_path: Path) -> Path:
    said = [("user", "I swim at dawn.", ["u1"]), ("assistant", "Cold?", []), ("user", "At dawn, yes.", ["u1", "u2"])]
    turns = [{"role": role, "content": text, "planted_pairs": units} for role, text, units in said]
    turns += [{"role": "user", "content": f"Dawn {number}.", "planted_pairs": ["u3"]} for number in range(7)]
    asked = [{"question": f"About {units}", "source_pairs": units} for units in (["u1"], ["u2", "u9"], ["u3"], ["u9"])]
    units = [{"id": "u1", "natural_expression": "Swims at\ndawn."}, {"id": "u3", "proactive_trigger": "Dawn."}]
    files: dict[str, object] = {}
    for domain in memory_benchmarks.PROACTIVE_DOMAINS:
        here = domain == "pet"
        files[f"data/{domain}/step4_conversations.json"] = [{"turns": turns}] if here else []
        files[f"data/{domain}/step5_proactive_questions.json"] = asked if here else []
        files[f"data/{domain}/step1_concept_pairs.json"] = units if here else []
    return clone(tmp_path, files)


def test_proactivemembench_finds_evidence_where_units_were_planted(tmp_path: Path) -> None:
    folder = _proactive(tmp_path)
    (one,) = (one for one in memory_benchmarks.proactivemem(folder) if one.turns)
    assert _asked(one) == [
        ("About ['u1']", ["I swim at dawn.", "At dawn, yes."]),
        ("About ['u2', 'u9']", ["At dawn, yes."]),
    ]
    assert [(line["question"], line["passage"]) for line in memory_benchmarks.proactivemem_units(folder)] == [
        ("Swims at dawn.", "I swim at dawn."),
        ("Swims at dawn.", "At dawn, yes."),
        ("Dawn.", "Dawn 0."),
        ("Dawn.", "Dawn 1."),
    ]


def test_recall_bench_finds_evidence_by_words_that_are_rare_in_the_scenario(tmp_path: Path) -> None:
    said = ["The kiln is in Oslo.", "Noted: Oslo.", "A new kiln came.", *["A kiln again."] * 4, "The stove too."]
    messages = [{"role": "user", "content": text} for text in said]
    queries = [
        {"question": "Where does the kiln stand?", "should_recall": ["kiln", "oslo|Bergen"]},
        {"question": "How many kilns are there?", "should_recall": ["kiln"]},
        {"question": "Any stove?", "should_recall": ["stove"]},
    ]
    scenario = {"sessions": [{"messages": messages}], "queries": queries}
    folder = clone(tmp_path, {"scenarios/v1/clay.json": scenario, "scenarios/v1/notes.json": {"about": "no scenario"}})
    one, empty = memory_benchmarks.recall_bench(folder)
    assert (one.id, one.turns[0].speaker) == ("v1/clay", "User")
    assert _asked(one) == [("Where does the kiln stand?", ["The kiln is in Oslo.", "Noted: Oslo."])]
    assert not empty.questions


def test_vehiclemembench_finds_evidence_by_time_and_words_and_keeps_the_turns_around_it(tmp_path: Path) -> None:
    lines = [f"[2025-03-01 07:00] Ada Ek: Small talk {number}." for number in range(500)]
    lines[250] = "[2025-03-02 08:01] Ada Ek: I set the seat to warm."
    lines[251] = "[2025-03-02 08:02] Bo Ek: Nice weather."
    lines[252] = "[2025-03-02 09:02] Bo Ek: I set the seat to warm."
    memory = "[March 2, 2025] At 8:00 AM, Ada drove. She set the seat to warm."
    asked = [
        {"query": "Ada  is cold.", "gold_memory": memory},
        {"query": "Bo?", "gold_memory": "[March 9, 2025] None."},
    ]
    files = {
        "benchmark/history/history_1.txt": "\n".join(lines),
        "benchmark/qa_data/qa_1.json": {"related_to_vehicle_preference": asked},
    }
    (one,) = vehicles.vehiclemem(clone(tmp_path, files))
    assert _asked(one) == [("Ada is cold.", ["I set the seat to warm."])]
    assert one.turns[one.questions[0].gold[0]].speaker == "Ada Ek"
    assert len(one.turns) == 389
    assert one.questions[0].gold == (194,)


def _realmem_session(id: str, said: list[dict[str, Any]], memories: list[dict[str, Any]]) -> dict[str, Any]:
    turns = [{"speaker": "User" if at % 2 == 0 else "Assistant", **one} for at, one in enumerate(said)]
    kind = "Enhanced" if id == "pad" else "Trip_1"
    return {
        "session_identifier": f"{kind}:S1",
        "session_uuid": id,
        "dialogue_turns": turns,
        "extracted_memory": memories,
    }


def _realmem(tmp_path: Path) -> Path:
    first = [{"content": "I sail\n to Crete."}, {"content": "When?"}, {"content": "In May."}, {"content": "Fine."}]
    memories = [
        {
            "content": "【Trip】 The user sails to Crete.",
            "source_turn": 9,
            "source_content_snapshot": "I sail to Crete.",
        },
        {"content": "In May.", "source_turn": 3, "source_content_snapshot": "unknown"},
    ]
    used = [{"session_uuid": "a", "content": one["content"]} for one in memories]
    second = [{"content": "What shall I pack?", "is_query": True}, {"content": "A hat.", "memory_used": used}]
    padding = [{"content": "A text of somebody else."}, {"content": "Indeed."}]
    sessions = [
        _realmem_session("a", first, memories),
        _realmem_session("pad", padding, []),
        _realmem_session("b", second, []),
    ]
    return clone(tmp_path, {"dataset/Mia_Berg_dialogues_256k.json": {"dialogues": sessions}})


def test_realmem_finds_evidence_by_the_memories_that_an_answer_used(tmp_path: Path) -> None:
    (one,) = realmem.realmem(_realmem(tmp_path))
    assert one.id == "Mia_Berg#0"
    assert one.turns[:2] == (Turn("Mia Berg", "I sail to Crete."), Turn("Assistant", "When?"))
    assert len(one.turns) == 4, "neither queries and their answers nor padding are turns"
    assert _asked(one) == [("What shall I pack?", ["I sail to Crete.", "In May."])]


def test_realmem_memories_stand_with_the_turns_they_come_from(tmp_path: Path) -> None:
    lines = list(realmem.realmem_memories(_realmem(tmp_path)))
    assert lines == [{"question": "The user sails to Crete.", "passage": "I sail to Crete."}]


def test_realmem_is_cut_between_sessions_and_a_question_goes_to_the_part_with_most_of_its_evidence(
    tmp_path: Path,
) -> None:
    memories = [{"content": f"memory {at}", "source_turn": at + 1} for at in range(2)]
    sessions = [_realmem_session(str(n), [{"content": f"{n}/{at}"} for at in range(150)], memories) for n in range(3)]
    for text, used in (("Mostly the first?", ["00", "01", "20"]), ("As much of both?", ["00", "20"])):
        named = [{"session_uuid": one[0], "content": f"memory {one[1]}"} for one in used]
        sessions[2]["dialogue_turns"] += [
            {"speaker": "User", "content": text, "is_query": True},
            {"speaker": "Assistant", "content": "Yes.", "memory_used": named},
        ]
    folder = clone(tmp_path, {"dataset/Mia_Berg_dialogues_256k.json": {"dialogues": sessions}})
    first, second = realmem.realmem(folder)
    assert (len(first.turns), len(second.turns)) == (300, 150)
    assert _asked(first) == [("Mostly the first?", ["0/0", "0/1"])]
    assert not second.questions


def _sgd(tmp_path: Path) -> Path:
    schema = [
        {
            "service_name": "RentalBoats_1",
            "slots": [
                {"name": "harbour", "description": "The harbour to sail from"},
                {"name": "price", "description": "Price of a day"},
                {"name": "crewed", "description": "Whether a crew comes along"},
            ],
        }
    ]

    def turn(speaker: str, text: str, *actions: tuple[str, str, str]) -> dict[str, Any]:
        listed = [{"act": act, "slot": slot, "values": [value]} for act, slot, value in actions]
        return {"speaker": speaker, "utterance": text, "frames": [{"service": "RentalBoats_1", "actions": listed}]}

    turns = [turn("USER", "A boat from Kiel, please.", ("INFORM", "harbour", "Kiel"))]
    turns += [turn("SYSTEM", "One costs 90 a day.", ("OFFER", "price", "90"))]
    turns += [turn("USER", "Is a crew included?"), turn("SYSTEM", "It is.", ("INFORM", "crewed", "True"))]
    turns += [turn("SYSTEM", "Another costs 80.", ("OFFER", "price", "80"))]
    turns += [turn("SYSTEM", "From Kiel, is that right?", ("CONFIRM", "harbour", "Kiel"))]
    turns += [turn("USER", f"Thanks and goodbye, number {number}.") for number in range(8)]
    dialogue = {"dialogue_id": "1_1", "services": ["RentalBoats_1"], "turns": turns}
    short = dialogue | {"dialogue_id": "1_2", "turns": turns[:9]}
    files: dict[str, object] = {name: [] for name in tasks.SGD_FILES}
    files |= {f"{part}/schema.json": schema for part in tasks.SGD_TEXT_FILES}
    for part, numbers in tasks.SGD_TEXT_FILES.items():
        files |= {f"{part}/dialogues_{number:03}.json": [] for number in numbers}
    files[tasks.SGD_FILES[0]] = [dialogue, short]
    return clone(tmp_path, files)


def test_sgd_asks_for_slots_of_one_value_where_it_was_informed_or_offered(tmp_path: Path) -> None:
    (one,) = tasks.sgd(_sgd(tmp_path))
    assert one.id == "1_1"
    assert one.turns[1] == Turn("System", "One costs 90 a day.")
    (question,) = one.questions
    assert question.gold == (0,)
    assert question.text in {template.format("harbour to sail from") for template in tasks.TEMPLATES}


def test_sgd_texts_are_utterances_of_four_words_or_more_each_once(tmp_path: Path) -> None:
    texts = [line["text"] for line in tasks.sgd_texts(_sgd(tmp_path))]
    assert texts[:3] == ["A boat from Kiel, please.", "One costs 90 a day.", "Is a crew included?"]
    assert len(texts) == len(set(texts)) == 12


def test_crd3_takes_the_part_with_most_summary_sentences_that_share_words_with_an_aligned_turn(tmp_path: Path) -> None:
    def piece(text: str, first: int, last: int, said: dict[int, str]) -> dict[str, Any]:
        turns = [
            {"NAMES": ["ODA", "PER"], "UTTERANCES": said.get(at, f"Roll number {at}, please.").split("|"), "NUMBER": at}
            for at in range(first, last + 1)
        ]
        return {"CHUNK": text, "ALIGNMENT": {"TURN START": first, "TURN END": last}, "TURNS": turns}

    told = "The goblin steals a golden lantern from the old lighthouse. It rains."
    other = "Nobody knows why the dragon sleeps in that quiet northern valley."
    said = {310: "The goblin steals the|golden lantern", 320: "A lighthouse", 5: "dragon"}
    folder = clone(
        tmp_path,
        {
            "data/aligned data/c=2/C1E001_2_0.json": [piece(other, 0, 299, said), piece(told, 300, 520, said)],
            "data/aligned data/c=2/C1E001_2_1.json": [],
        },
    )
    (one,) = crd3.crd3(folder)
    assert (one.id, len(one.turns), one.turns[0].speaker) == ("C1E001_2_0", 200, "Oda")
    assert _asked(one) == [(told.removesuffix(" It rains."), ["The goblin steals the golden lantern"])]
    assert {"text": "The goblin steals the golden lantern"} in list(crd3.crd3_texts(folder))


def test_a_meeting_of_many_turns_is_cut_into_equal_parts_and_empty_turns_are_left_out(tmp_path: Path) -> None:
    said = [{"speaker": "Chair", "content": f"Item {number} ."} for number in range(500)]
    said[299]["content"] = "{vocalsound}"
    said[300]["content"] = "The budget for paint is four thousand , is n't it ?"
    said[301]["content"] = "The budget, hm."
    query = {
        "query": "How large is the budget for paint ?",
        "answer": "Four thousand .",
        "relevant_text_span": [["290", "310"]],
    }
    meeting = {"meeting_transcripts": said, "specific_query_list": [query]}
    (one,) = dialogues.qmsum(clone(tmp_path, {"data/ALL/train/Board.json": meeting}))
    assert (one.id, len(one.turns)) == ("train/Board#1", 249)
    assert _asked(one) == [("How large is the budget for paint?", ["The budget for paint is four thousand, isn't it?"])]
    assert one.questions[0].gold == (49,)


def test_friendsqa_leaves_out_questions_about_the_script(tmp_path: Path) -> None:
    said = [{"speakers": ["Una", "Vic"], "utterance": "I 'm gon na paint the `` red '' door ."}]
    answers = [{"utterance_id": 0}]
    asked = ["What will Una paint ?", "Where does the scene take place ?", "Who paints ?"]
    paragraph = {"utterances:": said, "qas": [{"question": text, "answers": answers} for text in asked]}
    files = {
        "dat/friendsqa_dev.json": {"data": [{"title": "s01_e01_c01", "paragraphs": [paragraph]}]},
        "dat/friendsqa_tst.json": {"data": []},
    }
    (one,) = dialogues.friendsqa(clone(tmp_path, files))
    assert one.turns == (Turn("Una and Vic", 'I\'m gonna paint the "red" door.'),)
    assert one.questions == (Question("What will Una paint?", (0,)),)


def test_molweni_keeps_five_questions_of_a_dialogue_with_an_answer(tmp_path: Path) -> None:
    said = [{"speaker": "kim", "text": "which port ?"}, {"speaker": "lou", "text": "port 22"}]
    place = len("kim: which port ? lou: ")
    asked = [{"question": f"Which port in case {number}?", "answers": [{"answer_start": place}]} for number in range(9)]
    asked.append({"question": "Which port has no answer?", "answers": []})
    test = {"data": {"dialogues": [{"edus": said, "qas": asked}]}}
    (one,) = dialogues.molweni(clone(tmp_path, {"MRC(withDiscourse)/test.json": test}))
    assert len(one.questions) == 5
    assert {question.gold for question in one.questions} == {(1,)}


def test_precisionmembench_does_not_take_what_must_be_excluded_as_evidence(tmp_path: Path) -> None:
    beliefs = [{"_id": name, "content": f"Belief {name}."} for name in "abcdef"]
    rules = {"pinned": {"mustInclude": ["a"], "mustExclude": ["b"]}, "other": {"shouldOnlyInclude": ["c"]}}
    cases = [{"query": "Which?", "expect": rules}, {"query": "All?", "expect": {"pinned": {"mustInclude": [*"abcd"]}}}]
    files = {"fixtures/beliefs.seed.json": beliefs, "fixtures/retrieval.cases.json": cases}
    (one,) = dialogues.precisionmem(clone(tmp_path, files))
    assert _asked(one) == [("Which?", ["Belief a.", "Belief c."])]


def test_a_persona_statement_is_asked_for_in_the_third_person(tmp_path: Path) -> None:
    rows = '"user 1 personas","user 2 personas","Best Generated Conversation"\n'
    rows += '"I have two goats.\nI paint.","My boat is green.","User 1: I have two goats!\nUser 2: Do they bite?"\n'
    files = {f"data/Synthetic-Persona-Chat_{part}.csv": rows for part in dialogues.PERSONA_PARTS}
    folder = clone(tmp_path, files)
    valid, test = dialogues.persona_chat(folder)
    assert (valid.id, test.id) == ("valid/0", "test/0")
    assert _asked(valid) == [("User 1 has two goats.", ["I have two goats!"])]
    assert list(dialogues.persona_texts(folder)) == [{"text": "I have two goats!"}]
