"""The Memories view in a browser: browsing, editing, forgetting, adding and importing."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from retentive.engine import Engine
from tests.transfer.formats.samples import a_chatgpt_conversation

EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script> & <b>bold</b>"
SESSION = "#/memories?project=sample-kitchen&session=sample-kitchen-plan"

Api = Callable[..., Any]


@pytest.fixture
def api(page: Page, base_url: str) -> Api:
    """Send requests to the service beside the page."""

    def send(method: str, path: str, body: Any = None) -> Any:
        answer = page.request.fetch(f"{base_url}{path}", method=method, data=body)
        assert answer.ok, answer.text()
        return answer.json() if answer.body() else None

    return send


def in_session(api: Api, session: str) -> list[dict[str, Any]]:
    found = api("GET", f"/v1/memories?session={session}&onlySession=true&limit=1000")["memories"]
    return sorted(found, key=lambda memory: memory["position"])


def judgements(api: Api) -> set[tuple[str, str, int]]:
    return {(one["query"], one["memory"], one["relevance"]) for one in api("GET", "/v1/judgements")["judgements"]}


def rows(page: Page) -> Any:
    return page.locator(".memory-opener")


def open_first(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/{SESSION}")
    rows(page).first.click()
    expect(editor(page)).to_be_visible()


def editor(page: Page) -> Any:
    return page.get_by_role("region", name="Memory", exact=True)


def jsonl(tmp_path: Path) -> Path:
    """Write 500 lines, two of them invalid: one is not JSON, one has a blank text."""
    lines = [
        json.dumps({"text": f"At {at} the tide gauge stood at {at % 7} metres", "session": "tide"}) for at in range(500)
    ]
    lines[17] = '{"text": "cut off'
    lines[333] = json.dumps({"text": "  ", "session": "tide"})
    path = tmp_path / "tide.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def drop(page: Page, path: Path) -> None:
    """Drop a file on the page."""
    expect(rows(page).first).to_be_visible()
    page.evaluate(
        """([name, text]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], name, { type: "application/jsonl" }));
            for (const type of ["dragenter", "dragover", "drop"]) {
                const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
                document.body.dispatchEvent(new DragEvent(type, options));
            }
        }""",
        [path.name, path.read_text()],
    )


def import_note(page: Page) -> Any:
    return page.locator(".import .note")


# Browsing


def test_the_catalogue_opens_a_session_in_order(page, base_url, api):
    page.goto(f"{base_url}/#/memories")
    catalogue = page.get_by_role("navigation", name="Projects and sessions")
    catalogue.get_by_role("button", name="sample-kitchen-plan").click()

    turns = in_session(api, "sample-kitchen-plan")
    expect(page.locator(".turn-text")).to_have_text([memory["text"] for memory in turns])
    expect(page.locator(".turn-top strong")).to_have_text([memory["speaker"] for memory in turns])
    expect(page.locator(".day")).to_have_text(["Monday, 2 March 2026"])
    assert "session=sample-kitchen-plan" in page.url


def test_scrolling_to_the_end_loads_the_next_page(page, base_url, engine: Engine):
    engine.remember_many([{"text": f"Bus {at} was late", "project": "buses"} for at in range(130)])
    page.goto(f"{base_url}/#/memories?project=buses")
    expect(rows(page).first).to_contain_text("Bus 129")

    rows(page).last.scroll_into_view_if_needed()
    expect(rows(page)).to_have_count(100)
    rows(page).last.scroll_into_view_if_needed()

    expect(rows(page)).to_have_count(130)
    expect(rows(page).last).to_contain_text("Bus 0")
    expect(page.get_by_role("button", name="Load more")).to_be_hidden()


def test_kinds_selected_in_the_header_filter_the_list(page, base_url, api):
    page.goto(f"{base_url}/#/memories")
    expect(rows(page)).to_have_count(42)
    page.get_by_label("identity").check()

    expect(rows(page)).to_have_count(len(api("GET", "/v1/memories?kinds=identity")["memories"]))
    expect(page.locator(".memory .tag")).to_have_text(["identity", "identity"])


def test_a_link_to_a_memory_of_a_session_scrolls_to_it_and_marks_it(page, base_url, engine: Engine, api):
    engine.remember_many([{"text": f"Step {at}", "session": "long walk"} for at in range(300)])
    target = in_session(api, "long%20walk")[270]

    page.goto(f"{base_url}/#/memories?session=long+walk&id={target['id']}")

    expect(rows(page).filter(has_text="Step 270")).to_be_in_viewport()
    expect(rows(page).filter(has_text="Step 270")).to_have_attribute("aria-current", "true")
    expect(editor(page).get_by_label("Text")).to_have_value("Step 270")


def test_the_editor_links_to_the_session_of_the_memory(page, base_url):
    page.goto(f"{base_url}/#/memories")
    rows(page).filter(has_text="14,000 at the most").click()
    editor(page).get_by_role("button", name="sample-kitchen-plan").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("sample-kitchen-plan")
    expect(page.locator(".turn").filter(has_text="14,000 at the most").locator("button")).to_have_attribute(
        "aria-current", "true"
    )


def test_an_empty_store_shows_how_to_add_memories(page, base_url, engine: Engine):
    engine.forget_scope(engine.scope(), confirm=True)
    page.goto(f"{base_url}/#/memories")

    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()
    expect(page.get_by_text('retentive remember "I am allergic to peanuts"')).to_be_visible()
    expect(page.get_by_text(f"curl {base_url}/v1/memories")).to_be_visible()


def test_a_list_that_fails_to_load_shows_the_error_and_can_be_retried(page, base_url, expected_errors):
    expected_errors.append("503")
    page.route("**/v1/memories?*", lambda route: route.fulfill(status=503, json={"detail": "the store is away"}))
    page.goto(f"{base_url}/#/memories")
    expect(page.locator(".memory-list .note.error")).to_contain_text("the store is away")

    page.unroute("**/v1/memories?*")
    page.get_by_role("button", name="Try again").click()

    expect(rows(page)).to_have_count(42)


def test_a_required_token_is_requested(page, serve, expected_errors):
    expected_errors.append("401")
    page.goto(f"{serve(require_token=True)}/#/memories")

    expect(page.get_by_role("dialog", name="Token required")).to_be_visible()


# Changing


def test_an_edit_is_saved_and_undone(page, base_url, api):
    before = in_session(api, "sample-kitchen-plan")[0]
    open_first(page, base_url)
    editor(page).get_by_label("Text").fill("We got the keys on a Monday.")
    editor(page).get_by_label("Speaker").fill("Bo")
    editor(page).get_by_label("Kind").select_option("semantic")
    editor(page).get_by_label("Importance").fill("0.9")
    editor(page).get_by_label("Occurred").fill("2026-03-01T09:30:00")
    editor(page).get_by_label("Source").fill("diary.md")
    editor(page).get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("Saved")).to_be_visible()

    after = api("GET", f"/v1/memories/{before['id']}")
    assert {name: after[name] for name in ("text", "speaker", "kind", "importance", "source")} == {
        "text": "We got the keys on a Monday.", "speaker": "Bo", "kind": "semantic", "importance": 0.9,
        "source": "diary.md",
    }  # fmt: skip
    assert after["occurred"] == "2026-03-01T09:30:00+00:00"
    expect(rows(page).first).to_contain_text("We got the keys on a Monday.")

    page.get_by_role("button", name="Undo").click()
    expect(rows(page).first).to_contain_text(before["text"])
    expect(page.get_by_text("Undone")).to_be_visible()
    assert api("GET", f"/v1/memories/{before['id']}") == before
    expect(editor(page).get_by_label("Text")).to_have_value(before["text"])


def test_only_changed_fields_are_sent(page, base_url):
    open_first(page, base_url)
    editor(page).get_by_label("Speaker").fill("Bo")
    with page.expect_request(lambda request: request.method == "PATCH") as sent:
        editor(page).get_by_role("button", name="Save changes").click()

    assert sent.value.post_data_json == {"speaker": "Bo"}


def test_a_rejected_edit_is_reverted_and_the_typed_text_stays(page, base_url, api, expected_errors):
    expected_errors.append("422")
    before = in_session(api, "sample-kitchen-plan")[0]
    open_first(page, base_url)
    editor(page).get_by_label("Text").fill("   ")
    editor(page).get_by_role("button", name="Save changes").click()

    expect(editor(page).get_by_role("alert")).to_contain_text("must not be blank")
    expect(editor(page).get_by_label("Text")).to_have_attribute("aria-invalid", "true")
    expect(editor(page).get_by_label("Text")).to_have_value("   ")
    expect(rows(page).first).to_contain_text(before["text"])


def test_a_memory_is_pinned_and_unpinned(page, base_url, api):
    open_first(page, base_url)
    memory = in_session(api, "sample-kitchen-plan")[0]
    pin = editor(page).get_by_role("button", name="Evergreen")
    pin.click()

    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".turn").first).to_contain_text("evergreen")
    expect(page.get_by_text("Saved")).to_be_visible()
    assert api("GET", f"/v1/memories/{memory['id']}")["evergreen"] is True

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone")).to_be_visible()
    assert api("GET", f"/v1/memories/{memory['id']}") == memory


@pytest.mark.parametrize("way", ["another memory", "another view", "escape", "back"])
def test_unsaved_changes_are_discarded_only_after_confirmation(page, base_url, way):
    page.goto(f"{base_url}/#/recall")
    page.get_by_role("link", name="Memories").click()
    rows(page).first.click()
    editor(page).get_by_label("Speaker").fill("Xenia")
    leave = {
        "another memory": lambda: rows(page).nth(2).click(),
        "another view": lambda: page.get_by_role("link", name="Status").click(),
        "escape": lambda: page.keyboard.press("Escape"),
        "back": lambda: page.go_back(),
    }[way]

    leave()
    page.get_by_role("dialog", name="Discard unsaved changes?").get_by_role("button", name="Continue editing").click()
    expect(editor(page).get_by_label("Speaker")).to_have_value("Xenia")

    leave()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    where = {"another memory": "#/memories?id=", "another view": "#/status", "escape": "#/memories", "back": "#/recall"}
    expect(page).to_have_url(re.compile(re.escape(where[way])))
    if way == "another memory":
        expect(editor(page).get_by_label("Speaker")).not_to_have_value("Xenia")
    else:
        expect(editor(page)).to_be_hidden()


# Forgetting


def test_an_undone_forget_restores_the_memory_and_its_judgements(page, base_url, engine: Engine, api):
    stored = engine.remember(
        "The spare key is under the third pot",
        session="keys", speaker="Ana", kind="semantic", importance=0.83, source="note.md", evergreen=True,
        metadata={"pot": {"colour": "red", "places": [1, 2.5, None]}}, occurred="2025-02-03T04:05:06.789012+00:00",
    )  # fmt: skip
    other = engine.remember("The door creaks", session="doors")
    engine.judge("Where is the key?", good={stored.id: 3}, bad=[other.id])
    engine.judge("What is red?", bad=[stored.id])
    before, judged = api("GET", f"/v1/memories/{stored.id}"), judgements(api)
    page.goto(f"{base_url}/#/memories?session=keys")
    rows(page).first.click()
    editor(page).get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog", name="Forget 1 memory?")
    expect(dialog).to_contain_text("The spare key is under the third pot")
    dialog.get_by_role("button", name="Forget 1 memory").click()
    expect(rows(page)).to_have_count(0)
    assert page.request.get(f"{base_url}/v1/memories/{stored.id}").status == 404

    page.get_by_role("button", name="Undo").click()

    expect(rows(page)).to_have_count(1)
    assert api("GET", f"/v1/memories/{stored.id}") == before
    assert judgements(api) == judged


def test_several_memories_are_forgotten_together_and_restored_at_their_positions(page, base_url, api):
    before = in_session(api, "sample-kitchen-plan")
    page.goto(f"{base_url}/{SESSION}")
    for at in (1, 2, 5):
        page.locator(".memory-select input").nth(at).check(force=True)
    page.get_by_role("button", name="Forget 3 memories…").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget 3 memories").click()
    expect(rows(page)).to_have_count(5)
    assert [memory["position"] for memory in in_session(api, "sample-kitchen-plan")] == [0, 3, 4, 6, 7]

    page.get_by_role("button", name="Undo").click()

    expect(page.locator(".turn-text")).to_have_text([memory["text"] for memory in before])
    assert in_session(api, "sample-kitchen-plan") == before


# Adding


def test_the_form_stores_a_memory(page, base_url, api):
    page.goto(f"{base_url}/#/memories?project=sample-kitchen")
    page.get_by_role("button", name="Remember…").click()
    form = page.get_by_role("dialog", name="Remember a memory")
    form.get_by_label("Text").fill("The oven light is broken")
    form.get_by_label("Speaker").fill("Ben")
    form.get_by_label("Session").fill("sample-kitchen-done")
    form.get_by_role("button", name="Remember", exact=True).click()

    expect(rows(page).first).to_contain_text("The oven light is broken")
    newest = api("GET", "/v1/memories?limit=1")["memories"][0]
    assert (newest["text"], newest["project"], newest["session"], newest["speaker"], newest["position"]) == (
        "The oven light is broken", "sample-kitchen", "sample-kitchen-done", "Ben", 4,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["dropped", "chosen"])
def test_a_file_is_imported_once_and_without_its_invalid_lines(page, base_url, api, tmp_path, expected_errors, way):
    expected_errors.append("422")
    path = jsonl(tmp_path)
    page.goto(f"{base_url}/#/memories")

    def start_import() -> None:
        if way == "dropped":
            drop(page, path)
        else:
            with page.expect_file_chooser() as chooser:
                page.get_by_role("button", name="Import…").click()
            chooser.value.set_files(path)

    start_import()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(import_note(page)).to_have_text(
        "498 memories added. 2 lines were rejected. Total: 540 memories.", timeout=60_000
    )
    expect(page.locator(".import tbody tr")).to_have_text(
        ["18not valid JSON" + '{"text": "cut off', "334text: must not be blank"]
    )
    stored = in_session(api, "tide")
    assert len(stored) == 498
    assert [memory["text"] for memory in stored] == [
        f"At {at} the tide gauge stood at {at % 7} metres" for at in range(500) if at not in (17, 333)
    ]

    page.get_by_role("region", name="Import", exact=True).get_by_role("button", name="Close").click()
    start_import()
    expect(import_note(page)).to_contain_text("498 lines were already imported; nothing was added.", timeout=60_000)
    assert api("GET", "/v1/stats")["memories"] == 540


def test_a_json_array_is_imported_too(page, base_url, api, tmp_path):
    path = tmp_path / "two.json"
    path.write_text(json.dumps([{"text": "First of two"}, {"text": "Second of two", "kind": "identity"}], indent=2))
    page.goto(f"{base_url}/#/memories")
    drop(page, path)

    expect(import_note(page)).to_have_text("2 memories added. Total: 44 memories.")
    assert [memory["text"] for memory in api("GET", "/v1/memories?limit=2")["memories"]] == [
        "Second of two",
        "First of two",
    ]


def test_a_rejected_line_that_the_error_does_not_name_is_found(page, base_url, api, tmp_path, expected_errors):
    expected_errors.append("409")
    known = api("GET", "/v1/memories?limit=1")["memories"][0]["id"]
    lines = [{"text": f"Line {at}"} for at in range(20)]
    lines[13]["id"] = known
    path = tmp_path / "conflict.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    page.goto(f"{base_url}/#/memories")
    drop(page, path)

    expect(import_note(page)).to_contain_text("19 memories added. 1 line was rejected.", timeout=30_000)
    expect(page.locator(".import tbody tr")).to_contain_text(["14"])


def test_a_cancelled_import_can_be_resumed(page, base_url, api, tmp_path, expected_errors):
    expected_errors.append("422")
    path = jsonl(tmp_path)
    page.goto(f"{base_url}/#/memories")
    held: list[Any] = []
    page.route("**/v1/memories", lambda route: held.append(route))
    drop(page, path)
    page.get_by_role("region", name="Import", exact=True).get_by_role("button", name="Cancel").click()
    expect(import_note(page)).to_contain_text("Cancelled.")
    page.unroute("**/v1/memories")

    page.get_by_role("button", name="Resume").click()

    expect(import_note(page)).to_contain_text("Total: 540 memories.", timeout=60_000)


# Markup


def test_markup_in_a_memory_is_text_everywhere(page, base_url, engine: Engine):
    stored = engine.remember(
        EVIL, speaker=EVIL, session=EVIL, project=EVIL, source=EVIL, metadata={EVIL: [EVIL, {"deep": EVIL}]}
    )
    page.goto(f"{base_url}/#/memories")
    expect(rows(page).first.locator(".memory-text")).to_have_text(EVIL)
    expect(page.locator(".catalogue-name").filter(has_text="onerror").first).to_have_text(EVIL)
    rows(page).first.click()
    expect(editor(page).get_by_label("Text")).to_have_value(EVIL)
    expect(editor(page).locator(".value-tree .value-text")).to_have_text([EVIL, EVIL])
    editor(page).get_by_role("button", name=EVIL).click()
    expect(page.locator(".turn-text")).to_have_text(EVIL)
    expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
    editor(page).get_by_role("button", name="Forget…").click()
    expect(page.locator(".forget-text")).to_have_text(EVIL)
    page.get_by_role("button", name="Cancel").click()
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.locator("main img, main b, main script")).to_have_count(0)
    assert stored.text == EVIL
    assert page.title() == "Memories · Retentive"


# Accessibility and layout


def test_the_view_works_by_keyboard(page, base_url, api):
    page.goto(f"{base_url}/{SESSION}")
    expect(rows(page)).to_have_count(8)
    page.locator(".histogram summary").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(rows(page).first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows(page).nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(editor(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(editor(page)).to_have_count(0)
    expect(rows(page).nth(2)).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Delete")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(7)
    expect(rows(page).nth(6)).to_be_focused()
    assert len(in_session(api, "sample-kitchen-plan")) == 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_no_serious_violation(page, base_url, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{base_url}/#/memories")
    expect(rows(page)).to_have_count(42)
    assert serious(page) == []
    page.goto(f"{base_url}/{SESSION}")
    rows(page).nth(3).click()
    expect(editor(page)).to_be_visible()
    assert serious(page) == []
    editor(page).get_by_role("button", name="Forget…").click()
    assert serious(page) == []


@pytest.mark.parametrize("width", [360, 768, 1024, 1600])
def test_nothing_is_wider_than_the_window(page, base_url, engine: Engine, width):
    engine.remember("w" * 400, session="s" * 200, project="p" * 200, speaker="x" * 200, metadata={"m" * 200: "v" * 400})
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{base_url}/#/memories")
    expect(rows(page)).to_have_count(43)
    assert not is_too_wide(page)
    rows(page).first.click()
    expect(editor(page)).to_be_visible()
    assert not is_too_wide(page)
    page.goto(f"{base_url}/#/memories?session={'s' * 200}")
    expect(rows(page)).to_have_count(1)
    assert not is_too_wide(page)
    parts = page.locator(".turn-top strong, .turn-text")
    assert parts.evaluate_all("parts => parts.every(part => part.getBoundingClientRect().right <= innerWidth)")


def test_a_text_has_the_direction_of_its_language_and_a_speaker_its_first_letter(page, base_url, engine: Engine):
    for text, speaker in (("The cat sleeps", "Ana"), ("القطة تأكل السمك", "ليلى"), ("Fish again", "👩‍👧 Fox")):
        engine.remember(text, speaker=speaker, session="languages")
    page.goto(f"{base_url}/#/memories?session=languages")
    expect(page.locator(".speaker-mark")).to_have_text(["A", "ل", "👩‍👧"])
    direction = "texts => texts.map(text => getComputedStyle(text).direction)"
    assert page.locator(".turn-text").evaluate_all(direction) == ["ltr", "rtl", "ltr"]
    page.goto(f"{base_url}/#/recall?q=القطة")
    expect(page.locator(".hit").first).to_contain_text("القطة")
    assert page.locator(".hit-text").first.evaluate("text => getComputedStyle(text).direction") == "rtl"


def is_too_wide(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def serious(page: Page) -> list[str]:
    """Return the serious and critical violations that axe-core reports."""
    found = Axe().run(page).response["violations"]
    return [
        f"{item['id']}: {item['nodes'][0]['html'][:200]}" for item in found if item["impact"] in ("serious", "critical")
    ]


def test_the_history_of_a_fact_is_a_line_of_versions_and_a_date_shows_what_was_true_then(
    page: Page, base_url: str, api: Api
):
    old = api(
        "POST",
        "/v1/memories",
        {"text": f"Ana lives in Paris {EVIL}", "key": "home", "occurred": "2024-01-01T00:00:00Z"},
    )
    new = api(
        "POST", "/v1/memories", {"text": "Ana lives in Berlin", "key": "home", "occurred": "2025-03-01T00:00:00Z"}
    )
    try:
        page.goto(f"{base_url}/#/memories?id={new['id']}")
        history = editor(page).get_by_role("region", name="History")
        versions = history.get_by_role("listitem")
        expect(versions).to_have_count(2)
        expect(versions.nth(0)).to_contain_text("Ana lives in Paris <img")
        expect(versions.locator(".fact-period")).to_have_text(
            ["1 Jan 2024 – 1 Mar 2025, no longer true", "1 Mar 2025 – now"]
        )
        history.get_by_label("What was true on").fill("2024-06-30")
        expect(history.get_by_role("status")).to_contain_text("Ana lives in Paris")
        history.get_by_label("What was true on").fill("2023-06-30")
        expect(history.get_by_role("status")).to_have_text("Nothing of this was known then.")
        versions.nth(0).get_by_role("button").click()
        expect(editor(page).get_by_label("Text")).to_have_value(old["text"])
        assert page.title() != "broken"
    finally:
        api("POST", "/v1/memories/forget", {"ids": [old["id"], new["id"]]})


def test_a_zip_archive_of_chatgpt_is_imported_by_the_service(page, base_url, api, tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([a_chatgpt_conversation()]))
    page.goto(f"{base_url}/#/memories")
    before = api("GET", "/v1/stats")["memories"]
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import…").click()
    chooser.value.set_files(path)
    expect(import_note(page)).to_have_text(f"3 memories added. Total: {before + 3} memories.", timeout=60_000)
