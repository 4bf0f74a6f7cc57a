"""The Chat view in a browser, with a fake LLM server over real HTTP: what is sent, shown and stored of each turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retentive.engine import Engine
from retentive.settings import LlmSettings, Settings
from tests.browser.test_memories_page import EVIL, is_too_wide, serious
from tests.surfaces.chatting import said, until
from tests.surfaces.model_server import ModelServer, event, fails, hangs, model_server, stream_of, streams

CAT = "what does the cat eat?"
SESSION = "#/chat?session=evening"


@pytest.fixture(scope="module")
def running_llm() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def llm(running_llm: ModelServer) -> ModelServer:
    """The LLM server of the service."""
    running_llm.forget()
    return running_llm


@pytest.fixture
def settings(llm: ModelServer) -> Settings:
    return Settings(store="", llm=LlmSettings(url=llm.url, model="stand-in"))


def open_chat(page: Page, base_url: str) -> None:
    """Open the view and wait until it knows the models."""
    page.goto(f"{base_url}/{SESSION}")
    expect(page.get_by_role("button", name="New chat")).to_be_visible()
    expect(page.get_by_label("Model")).to_have_text("stand-in")
    page.wait_for_load_state("networkidle")


def send(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.keyboard.press("Enter")


def answer(page: Page) -> Any:
    return page.locator(".chat-answer").last


def show(page: Page, part: str) -> Any:
    """Open one of the lists beside the conversation, and return its items."""
    page.get_by_role("button", name=part).click()
    return page.locator(".turn-panel .turn-item")


def test_an_answer_is_streamed_and_the_turn_shows_what_was_recalled_left_out_and_remembered(
    page, base_url, engine: Engine, llm
):
    engine.remember(f"The cat eats mice {EVIL}")
    open_chat(page, base_url)
    llm.script = [streams(stream_of("Only the ", "salmon pâté", " 🐟."), every=5)]
    send(page, CAT)

    expect(answer(page).locator(".chat-text")).to_have_text("Only the salmon pâté 🐟.")
    recalled = page.locator(".turn-panel .turn-item")
    expect(recalled.filter(has_text="The cat is called Möbius")).to_contain_text("%")
    expect(recalled.locator(".turn-text-link").filter(has_text="onerror")).to_have_text(f"The cat eats mice {EVIL}")
    for text in recalled.locator(".turn-text-link").all_inner_texts():
        assert text.split("<")[0] in llm.context
    assert [message["role"] for message in llm.prompt] == ["system", "user"]
    expect(page.get_by_role("button", name="Remembered 2")).to_be_visible()
    expect(show(page, "Remembered").locator(".turn-text-link")).to_have_text([CAT, "Only the salmon pâté 🐟."])
    left_out = show(page, "Left out")
    expect(left_out.first).to_contain_text("It is not relevant enough")
    assert said(engine, "evening") == [("user", CAT), ("assistant", "Only the salmon pâté 🐟.")]
    assert serious(page) == []

    send(page, "and the dog?")

    expect(answer(page).locator(".chat-text")).to_have_text("You said: and the dog?")
    sent = [(one["role"], one["content"]) for one in llm.prompt if one["role"] != "system"]
    assert sent == [("user", CAT), ("assistant", "Only the salmon pâté 🐟."), ("user", "and the dog?")]
    page.get_by_role("link", name="Memories").click()
    page.get_by_role("link", name="Chat").click()
    expect(page.locator(".chat-turn")).to_have_count(2)
    assert page.title() == "Chat · Retentive"


def test_a_stopped_answer_is_kept_as_incomplete_and_can_be_repeated(page, base_url, engine: Engine, llm):
    open_chat(page, base_url)
    llm.script = [hangs(event("Only the "))]
    send(page, CAT)
    expect(answer(page).locator(".chat-text")).to_have_text("Only the")
    page.get_by_role("button", name="Stop").click()

    expect(answer(page)).to_contain_text("Stopped.")
    expect(show(page, "Remembered").last).to_contain_text("incomplete")
    until(llm.left.is_set)
    answer(page).get_by_role("button", name="Try again").click()
    expect(answer(page).locator(".chat-text")).to_have_text(f"You said: {CAT}")
    expect(page.get_by_role("button", name="Remembered 3")).to_be_visible()
    assert said(engine, "evening") == [("user", CAT), ("assistant", "Only the "), ("assistant", f"You said: {CAT}")]


def test_a_key_that_the_llm_rejects_is_an_error_of_the_llm_and_asks_for_no_token(page, base_url, llm, expected_errors):
    expected_errors.append("401")
    open_chat(page, base_url)
    llm.script = [fails(401, "Incorrect API key provided")]
    send(page, CAT)

    expect(answer(page).locator(".note.error")).to_have_text("Incorrect API key provided")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_an_error_of_the_llm_is_shown_and_remember_can_be_off(page, base_url, engine: Engine, llm, expected_errors):
    expected_errors.append("503")
    page.set_viewport_size({"width": 390, "height": 844})
    engine.remember("The cat eats fish", speaker="S" * 100, session="s" * 100)
    open_chat(page, base_url)
    llm.script = [fails(503, "the model is overloaded")]
    page.get_by_label("Remember", exact=True).uncheck()
    send(page, CAT)

    expect(answer(page).locator(".note.error")).to_have_text("the model is overloaded")
    answer(page).get_by_role("button", name="Try again").click()
    expect(answer(page).locator(".chat-text")).to_have_text(f"You said: {CAT}")
    show(page, "Remembered")
    expect(page.locator(".turn-panel")).to_contain_text("Remember is off")
    expect(show(page, "Recalled").filter(has_text="S" * 100)).to_be_visible()
    assert said(engine, "evening") == []
    assert not is_too_wide(page)
    assert serious(page) == []


@pytest.mark.parametrize("settings", [Settings(store="")])
def test_without_an_llm_the_context_that_would_be_sent_is_shown(page, base_url, engine: Engine):
    page.goto(f"{base_url}/{SESSION}")
    expect(page.get_by_text("No LLM is configured.")).to_be_visible()
    expect(page.locator(".chat-no-llm")).to_contain_text("RETENTIVE_LLM_URL=")
    page.get_by_role("textbox", name="Message").fill(CAT)
    page.get_by_role("button", name="Show context").click()

    expect(page.locator(".chat-unsent")).to_contain_text('"The cat is called Möbius and eats only the salmon pâté."')
    expect(page.locator(".turn-panel .turn-item").first).to_contain_text("Möbius")
    assert said(engine, "evening") == []
    assert serious(page) == []


MARKDOWN = """## Plan
Feed **Möbius** *twice*,
with `pâté <b>`:

1. in the morning
2. at night
   - not `mice`

> as [agreed](https://example.org/a_b(c)) on 2 * 3 * 4 snake_case_names

```html
<script>alert(1)</script>
**no bold**
```
[bad](javascript:alert(1)) ![pixel](https://example.org/p.png) <img src=x onerror=alert(1)> **open
"""
RENDERED = (
    "<h4>Plan</h4><p>Feed <strong>Möbius</strong> <em>twice</em>,\nwith <code>pâté &lt;b&gt;</code>:</p>"
    "<ol><li>in the morning</li><li>at night<ul><li>not <code>mice</code></li></ul></li></ol>"
    '<blockquote><p>as <a href="https://example.org/a_b(c)">agreed</a> on 2 * 3 * 4 snake_case_names</p></blockquote>'
    "<pre><code>&lt;script&gt;alert(1)&lt;/script&gt;\n**no bold**</code></pre>"
    '<p>[bad](javascript:alert(1)) <a href="https://example.org/p.png">pixel</a> '
    "&lt;img src=x onerror=alert(1)&gt; **open</p>"
)


def test_the_markdown_of_an_answer_is_shown_and_its_html_stays_text(page, base_url, llm):
    open_chat(page, base_url)
    llm.script = [streams(stream_of(*re.findall(r"(?s).{1,7}", MARKDOWN)))]
    send(page, CAT)

    expect(page.get_by_role("button", name="Remembered 2")).to_be_visible()
    shown = answer(page).locator(".chat-markdown").inner_html()
    assert re.sub(r' (class|tabindex|target|rel)="[^"]*"', "", shown) == RENDERED
    assert answer(page).locator("a").first.get_attribute("rel") == "noopener noreferrer nofollow"
    assert serious(page) == []
