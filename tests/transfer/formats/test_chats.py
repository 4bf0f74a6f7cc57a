"""Conversations of ChatGPT, Claude and Claude Code: messages with their speakers, times and order."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retentive.transfer.formats import streams
from retentive.transfer.formats.chatgpt import ChatGpt
from retentive.transfer.formats.claude import Claude
from retentive.transfer.formats.claude_code import ClaudeCode
from tests.transfer.formats.samples import (
    BEGAN,
    a_chatgpt_conversation,
    chatgpt_conversation,
    chatgpt_node,
    claude_conversation,
    claude_message,
    code_line,
    entries,
    items,
    reasons,
    texts,
    truncated,
    warnings,
    write_json,
    write_lines,
    write_zip,
)


def chatgpt(tmp_path, *conversations):
    return entries(ChatGpt(), write_json(tmp_path / "conversations.json", list(conversations)))


def claude(tmp_path, *conversations):
    return entries(Claude(), write_json(tmp_path / "conversations.json", list(conversations)))


def code(tmp_path, *found):
    return entries(ClaudeCode(), write_lines(tmp_path / "s1.jsonl", found))


def test_a_conversation_of_chatgpt_is_a_session_with_speakers_times_and_order(tmp_path):
    first, second, third = items(chatgpt(tmp_path, a_chatgpt_conversation()))

    assert first.draft == {
        "text": "Gas or induction for the kitchen?",
        "session": "chatgpt:The kitchen",
        "position": 1,
        "speaker": "user",
        "occurred": datetime.fromtimestamp(BEGAN + 2, UTC),
        "source": "chatgpt:c1/m1",
        "metadata": {"title": "The kitchen"},
    }
    assert (second.draft["speaker"], second.draft["metadata"]["model"]) == ("assistant", "gpt-x")
    assert [one.draft["position"] for one in (first, second, third)] == [1, 2, 3]
    assert first.key == "c1/m1"


def test_only_the_current_branch_is_read_and_the_others_are_reported(tmp_path):
    found = chatgpt(
        tmp_path,
        chatgpt_conversation(
            chatgpt_node("a", "root", "user", "first try"),
            chatgpt_node("b", "a", "assistant", "an answer nobody kept"),
            chatgpt_node("c", "a", "assistant", "the answer that was kept"),
            chatgpt_node("d", "c", "user", "thanks"),
            current="d",
        ),
    )

    assert texts(found) == ["first try", "the answer that was kept", "thanks"]
    assert reasons(found) == ["not on the current branch"]


def test_a_message_without_a_time_has_that_of_the_one_before_it(tmp_path):
    found = chatgpt(
        tmp_path,
        chatgpt_conversation(
            chatgpt_node("a", "root", "user", "Asked.", create_time=None),
            chatgpt_node("b", "a", "user", "Asked again.", create_time=BEGAN + 90),
            chatgpt_node("c", "b", "assistant", "Answered.", create_time=None),
        ),
    )

    began = datetime.fromtimestamp(BEGAN, UTC)
    late = began + timedelta(seconds=90)
    assert [item.draft["occurred"] for item in items(found)] == [began, late, late]


@pytest.mark.parametrize("current", ["gone", None])
def test_without_a_current_node_the_branch_with_the_latest_message_is_taken(tmp_path, current):
    conversation = chatgpt_conversation(
        chatgpt_node("a", "root", "user", "query"),
        chatgpt_node("bbb", "a", "assistant", "later"),
        chatgpt_node("cc", "a", "assistant", "earlier"),
    )

    found = chatgpt(tmp_path, {**conversation, "current_node": current})

    assert texts(found) == ["query", "later"]
    assert warnings(found) == ["current_node does not exist; the branch with the latest message was read"]


def test_a_tree_with_a_cycle_is_followed_once(tmp_path):
    found = chatgpt(
        tmp_path,
        chatgpt_conversation(chatgpt_node("a", "b", "user", "one"), chatgpt_node("b", "a", "assistant", "two")),
    )

    assert sorted(texts(found)) == ["one", "two"]


def test_a_conversation_of_ten_thousand_turns_is_read(tmp_path):
    nodes = [chatgpt_node(f"n{at}", f"n{at - 1}" if at else "root", "user", f"turn {at}") for at in range(10_000)]

    found = items(chatgpt(tmp_path, chatgpt_conversation(*nodes)))

    assert [one.draft["text"] for one in found] == [f"turn {at}" for at in range(10_000)]


@pytest.mark.parametrize(
    ("role", "content", "fields", "reason"),
    [
        ("tool", "42 results", {}, "a tool result"),
        ("assistant", {"content_type": "execution_output", "text": "42"}, {}, "a tool result"),
        ("system", "", {}, "a system prompt"),
        ("assistant", {"content_type": "thoughts", "thoughts": []}, {}, "thinking"),
        ("assistant", {"content_type": "reasoning_recap", "content": "thought a while"}, {}, "thinking"),
        ("user", {"content_type": "user_editable_context", "user_profile": "x"}, {}, "custom instructions"),
        ("assistant", {"content_type": "code", "text": "search('x')"}, {"recipient": "web"}, "a tool call"),
        (
            "user",
            "hidden",
            {"metadata": {"is_visually_hidden_from_conversation": True}},
            "a message hidden in ChatGPT",
        ),
        ("user", "  ", {}, "no text"),
        ("user", {"content_type": "text"}, {}, "no text"),
        ("robot", "hello", {}, "a message of the unknown role 'robot'"),
    ],
)
def test_messages_of_chatgpt_that_nobody_wrote_are_skipped_with_their_reason(tmp_path, role, content, fields, reason):
    found = chatgpt(tmp_path, chatgpt_conversation(chatgpt_node("a", "root", role, content, **fields)))

    assert (texts(found), reasons(found)) == ([], [reason])


def test_parts_that_are_not_text_are_left_out_with_a_warning(tmp_path):
    parts = [{"content_type": "image_asset_pointer", "asset_pointer": "x"}, "What is this?", {"text": "spoken"}]

    found = chatgpt(
        tmp_path,
        chatgpt_conversation(
            chatgpt_node("a", "root", "user", {"content_type": "multimodal_text", "parts": parts}),
            chatgpt_node("b", "a", "assistant", {"content_type": "poem", "parts": ["A lamp."]}),
        ),
    )

    assert texts(found) == ["What is this?\nspoken", "A lamp."]
    assert warnings(found) == [
        "left out: image_asset_pointer",
        "content of the unknown type 'poem' was read as text",
    ]


def test_an_archive_of_chatgpt_is_read_with_all_its_parts_and_other_files_are_reported(tmp_path):
    path = write_zip(
        tmp_path / "export.zip",
        {
            "x/conversations-001.json": json.dumps([a_chatgpt_conversation("c2")]),
            "x/conversations-000.json": json.dumps([a_chatgpt_conversation("c1")]),
            "x/user.json": "{}",
            "x/chat.html": "<html>",
        },
    )

    found = entries(ChatGpt(), path)

    assert [one.draft["session"] for one in items(found)] == ["chatgpt:The kitchen"] * 3 + [
        "chatgpt:The kitchen (c2)"
    ] * 3
    assert warnings(found) == ["this file of the archive is not read"]
    assert truncated(entries(ChatGpt(), write_zip(tmp_path / "none.zip", {"a.txt": "x"}))) != []


def test_conversations_with_the_same_title_have_sessions_of_their_own_whatever_their_order(tmp_path):
    def conversation(id: str, title: str | None, created: float):
        return {**a_chatgpt_conversation(id), "title": title, "create_time": created}

    old, new = conversation("c-of-the-older-one", "New  chat\n", 1), conversation("c-of-the-newer-one", "New chat", 2)
    other, untitled = conversation("c3", "Bread", 3), conversation("c4", None, 4)

    for order in ([old, new, other, untitled], [untitled, other, new, old]):
        found = items(chatgpt(tmp_path, *order))
        sessions = {one.key.partition("/")[0]: one.draft["session"].removeprefix("chatgpt:") for one in found}
        assert sessions == {
            "c-of-the-older-one": "New chat",
            "c-of-the-newer-one": "New chat (c-of-the)",
            "c3": "Bread",
            "c4": "c4",
        }


def test_a_zip_bomb_is_not_unpacked_and_the_files_before_it_are_read(tmp_path, monkeypatch):
    path = write_zip(
        tmp_path / "bomb.zip",
        {
            "conversations-0.json": json.dumps([a_chatgpt_conversation()]),
            "conversations-1.json": b"[" + b" " * 40_000_000,
        },
    )

    found = entries(ChatGpt(), path)

    assert len(items(found)) == 3
    assert "looks like a zip bomb; the limit is 200." in truncated(found)[0]
    monkeypatch.setattr(streams, "MAX_UNPACKED_BYTES", 1000)
    assert "bytes or more; the limit is 1,000" in truncated(entries(ChatGpt(), path))[0]


def test_links_in_a_folder_are_not_followed(tmp_path):
    secret = write_lines(tmp_path / "secret.jsonl", [code_line("1", "user", "secret")])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.jsonl").symlink_to(secret)
    (tmp_path / "folder" / "conversations.json").symlink_to(write_json(tmp_path / "c.json", [a_chatgpt_conversation()]))

    assert entries(ClaudeCode(), tmp_path / "folder") == []
    assert entries(ChatGpt(), tmp_path / "folder") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"id": "c", "mapping": []},
        {"id": "c", "mapping": {"a": 1, "b": {"message": 7}, "c": {"message": {"author": 1, "content": [2]}}}},
        {"id": 7, "mapping": {"a": {"message": {"author": {"role": ["user"]}, "content": {"parts": 3}}}}},
        {"mapping": {"a": {"parent": {"x": 1}, "message": {"author": {"role": "user"}, "content": {"parts": [[1]]}}}}},
        {"id": "c", "current_node": 5, "mapping": {"a": {"message": {"author": {"role": "user"}, "create_time": "?"}}}},
        7, "text", None, [],
    ],
)  # fmt: skip
def test_a_conversation_that_makes_no_sense_does_not_stop_the_others(tmp_path, wrong):
    found = chatgpt(tmp_path, wrong, a_chatgpt_conversation())

    assert len(items(found)) == 3


def test_a_conversation_of_claude_is_a_session_with_speakers_times_and_order(tmp_path):
    found = claude(
        tmp_path,
        claude_conversation(
            claude_message("a", "human", "When do roses bloom?"), claude_message("b", "assistant", "In June.")
        ),
    )

    first, second = items(found)
    assert first.draft == {
        "text": "When do roses bloom?",
        "session": "claude:Garden",
        "position": 0,
        "speaker": "user",
        "occurred": datetime(2026, 5, 28, 20, 26, 40, 123456, UTC),
        "source": "claude:u1/a",
        "metadata": {"title": "Garden"},
    }
    assert (second.draft["speaker"], second.draft["position"]) == ("assistant", 1)


def test_blocks_of_claude_that_are_not_text_are_skipped_one_by_one(tmp_path):
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I looked it up."},
        {"type": "tool_use", "name": "search"},
        {"type": "tool_result", "content": "…"},
        {"type": "text", "text": "In June."},
        {"type": "hologram"},
    ]

    found = claude(tmp_path, claude_conversation(claude_message("a", "assistant", "", content=content)))

    assert texts(found) == ["I looked it up.\n\nIn June."]
    assert reasons(found) == [
        "thinking", "a tool call", "a tool result", "a block of the unknown type 'hologram'",
    ]  # fmt: skip


def test_old_messages_of_claude_without_blocks_and_attachments_are_read_leniently(tmp_path):
    old = {"uuid": "a", "sender": "human", "text": "Hello", "attachments": [{"file_name": "plan.pdf"}], "files": 3}

    found = claude(tmp_path, claude_conversation(old, {"sender": "bot"}, "x", claude_message("b", "assistant", " ")))

    assert texts(found) == ["Hello"]
    assert warnings(found) == ["left out: the attachment 'plan.pdf'"]
    assert reasons(found) == [
        "a message of the unknown sender 'bot'", "a message that is not an object", "no text",
    ]  # fmt: skip
    assert items(found)[0].draft["occurred"] == datetime(2026, 5, 28, 20, 0, tzinfo=UTC)


def test_what_was_pasted_into_a_message_of_claude_is_a_memory_before_it(tmp_path):
    pasted = {"file_name": "paste.txt", "file_type": "txt", "extracted_content": "Rose, Tulip, Iris"}

    found = claude(
        tmp_path,
        claude_conversation(
            claude_message("a", "human", "Which bloom in June?", attachments=[pasted], files=[{"file_name": "a.jpg"}]),
            claude_message("b", "human", "", content=[], attachments=[{**pasted, "file_name": ""}], created_at=None),
            claude_message("c", "assistant", "Roses."),
        ),
    )

    assert [(item.draft["position"], item.draft["text"], item.draft["speaker"]) for item in items(found)] == [
        (0, "Rose, Tulip, Iris", "user"),
        (1, "Which bloom in June?", "user"),
        (2, "Rose, Tulip, Iris", "user"),
        (4, "Roses.", "assistant"),
    ]
    assert [item.draft["metadata"].get("attachment") for item in items(found)] == [
        "paste.txt",
        None,
        "pasted text",
        None,
    ]
    assert len({item.draft["occurred"] for item in items(found)}) == 1  # one without a time came with the one before
    assert len({item.key for item in items(found)}) == 4
    assert (reasons(found), warnings(found)) == ([], ["left out: the attachment 'a.jpg'"])


def test_an_unpacked_export_is_read_from_its_folder(tmp_path):
    write_json(tmp_path / "data" / "conversations.json", [claude_conversation(claude_message("a", "human", "Hello"))])
    write_json(tmp_path / "data" / "users.json", [])

    assert Claude().recognises(tmp_path / "data")
    assert texts(entries(Claude(), tmp_path / "data")) == ["Hello"]


def test_a_transcript_of_claude_code_is_a_session_in_the_project_it_began_in(tmp_path):
    found = code(
        tmp_path,
        {"type": "summary", "summary": "Lamp", "leafUuid": "x"},
        code_line("1", "user", "The lamp flickers."),
        code_line("2", "assistant", [{"type": "text", "text": "I will look."}], cwd="/home/sam/work/lighthouse/src"),
    )

    first, second = items(found)
    assert first.draft == {
        "text": "The lamp flickers.",
        "project": "lighthouse",
        "session": "claude-code:s1",
        "position": 1,
        "speaker": "user",
        "occurred": datetime(2026, 5, 28, 20, 26, 40, 123000, UTC),
        "source": "claude-code:s1/1",
        "metadata": {},
    }
    assert (second.draft["project"], second.draft["position"]) == ("lighthouse", 2)
    assert reasons(found) == ["a line of the type 'summary'"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (code_line("1", "user", [{"type": "tool_result", "content": "x" * 9999}]), "a tool result"),
        (code_line("1", "assistant", [{"type": "thinking", "thinking": "hm"}]), "thinking"),
        (code_line("1", "user", "go on", isSidechain=True), "the work of a subagent"),
        (code_line("1", "user", "Caveat: …", isMeta=True), "written by the program itself"),
        (code_line("1", "user", "<command-name>/clear</command-name>"), "a command of the program"),
        (code_line("1", "user", "<system-reminder>be good</system-reminder>"), "no text"),
        (code_line("1", "assistant", "API Error", isApiErrorMessage=True), "an error of the service"),
        (code_line("1", "file-history-snapshot", ""), "a line of the type 'file-history-snapshot'"),
        (code_line("", "user", "no id"), "a message without a session or an id"),
        ("not JSON", "it is not JSON (Expecting value)"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[1]", "a JSON object was expected, not list"),
        ('{"type": "user", "message": 3, "uuid": "1", "sessionId": "s"}', "no text"),
    ],
)
def test_lines_of_claude_code_that_are_no_conversation_are_skipped_with_their_reason(tmp_path, line, reason):
    found = code(tmp_path, line, code_line("9", "user", "hello"))

    assert (texts(found), reasons(found)) == (["hello"], [reason])


def test_reminders_inside_a_message_are_taken_out(tmp_path):
    found = code(tmp_path, code_line("1", "user", "Fix it.\n<system-reminder>be\ngood</system-reminder>\n"))

    assert texts(found) == ["Fix it."]


def test_a_folder_of_transcripts_is_read_and_an_incomplete_line_is_reported(tmp_path):
    write_lines(tmp_path / "-home-sam" / "a.jsonl", [code_line("1", "user", "one")])
    (tmp_path / "-home-sam" / "b.jsonl").write_text(json.dumps(code_line("2", "user", "two")) + '\n{"type": "us')

    found = entries(ClaudeCode(), tmp_path)

    assert ClaudeCode().recognises(tmp_path)
    assert texts(found) == ["one", "two"]
    assert truncated(found) == ["the last line is incomplete: it is not JSON (Unterminated string starting at)"]


@pytest.mark.parametrize(
    ("format", "names"),
    [(ClaudeCode(), ["a.jsonl", "b.jsonl"]), (Claude(), ["conversations-0.json", "conversations-1.json"])],
)
def test_a_file_of_a_folder_that_cannot_be_read_does_not_keep_the_others_from_it(tmp_path, monkeypatch, format, names):
    write_lines(tmp_path / "b.jsonl", [code_line("u1", "user", "Good morning.")])
    write_json(tmp_path / "conversations-1.json", [claude_conversation(claude_message("a", "human", "Good morning."))])
    (tmp_path / names[0]).touch()
    path_open = Path.open

    def refuse(self, *args, **options):
        if self.name == names[0]:
            raise PermissionError(13, "Permission denied")
        return path_open(self, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    found = entries(format, tmp_path)

    assert texts(found) == ["Good morning."]
    assert "Permission denied" in truncated(found)[0]
