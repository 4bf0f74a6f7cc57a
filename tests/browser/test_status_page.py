"""The Status view in a browser."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from retentive.engine import Engine
from retentive.settings import Settings


def panel(page: Page, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def open_status(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/#/status")
    expect(panel(page, "Model and store")).to_be_visible()


def test_memories_over_time_are_shown_as_a_chart_and_as_a_table(page, base_url):
    open_status(page, base_url)
    over_time = panel(page, "Memories over time")
    chart = over_time.get_by_role("img")

    expect(chart).to_have_attribute(
        "aria-label",
        "Memories per month from January 2026 to October 2026; maximum: 11 in May 2026. "
        "All values are in the table below.",
    )
    expect(over_time.locator(".timeline-legend li")).to_have_text(["episodic37", "semantic3", "identity2"])
    expect(chart.locator("title")).to_have_count(10)
    over_time.get_by_text("Show as table").click()
    expect(over_time.get_by_role("row")).to_have_count(9)
    expect(over_time.get_by_role("row", name="May 2026")).to_have_text("May 2026101011")


def test_the_axis_of_a_large_store_is_in_sight_and_slow_recalls_are_in_seconds(page, base_url):
    page.set_viewport_size({"width": 390, "height": 844})
    bucket = {"start": "2026-01-01", "memories": 987_654, "byKind": {"episodic": 987_654}}
    page.route("**/v1/timeline*", lambda route: route.fulfill(json={"by": "month", "buckets": [bucket]}))
    status = page.request.get(f"{base_url}/v1/status").json()
    slow = {**status, "latency": {"whole": {"p50": 12.34, "p95": 1234.5}}}
    page.route("**/v1/status", lambda route: route.fulfill(json=slow))
    open_status(page, base_url)

    labels = page.locator(".timeline text[text-anchor=end]")
    expect(labels.last).to_have_text("1,000,000")
    box, chart = labels.last.bounding_box(), page.locator(".timeline").bounding_box()
    assert box["x"] >= chart["x"]
    expect(page.locator(".status-figure").filter(has_text="Median")).to_have_text("Median recall12.3 ms")
    expect(page.locator(".status-figure").filter(has_text="p95")).to_have_text("p95 recall1.2 s")


def test_the_model_and_the_store_are_shown(page, base_url, engine: Engine):
    open_status(page, base_url)

    model = panel(page, "Model and store")
    expect(model).to_contain_text("memory-small")
    expect(model).to_contain_text("384")
    expect(model).to_contain_text("No recalls since startup.")
    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("42")
    expect(panel(page, "Recall latency by stage")).to_contain_text("No recalls since startup.")


def test_the_view_refreshes_itself_and_shows_the_latency_of_each_stage(page, base_url, engine: Engine):
    page.clock.install()
    open_status(page, base_url)
    engine.recall("What does the cat eat?")
    engine.remember("One more")

    page.clock.run_for(5_100)

    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("43")
    stages = panel(page, "Recall latency by stage")
    for stage in ("whole", "embed", "semantic", "keyword", "rank"):
        row = stages.get_by_role("row", name=stage).first
        expect(row.locator(".number")).to_have_count(2)
        expect(row.locator("svg rect")).to_have_count(3)


@pytest.mark.parametrize("settings", [Settings(store="/srv/my store.db")], ids=["another store"])
def test_suggested_commands_name_the_store_of_the_service(page, base_url, engine):
    status = page.request.get(f"{base_url}/v1/status").json()
    degraded = {**status, "degraded": True, "degradedReason": "the model changed; run: retentive reembed"}
    page.route("**/v1/status", lambda route: route.fulfill(json=degraded))
    open_status(page, base_url)

    notes = page.locator(".status-notes")
    expect(notes).to_contain_text("The model changed; run: retentive --store '/srv/my store.db' reembed")
    expect(notes).to_contain_text("retentive --store '/srv/my store.db' doctor finds the cause")
    engine.forget_scope(engine.scope(), confirm=True)
    page.goto(f"{base_url}/#/memories")
    expect(page.get_by_text("retentive --store '/srv/my store.db' samples")).to_be_visible()


def test_degraded_recalls_are_counted_and_the_remedy_is_shown(page, base_url):
    status = page.request.get(f"{base_url}/v1/status").json()
    degraded = {
        **status, "degraded": True, "degradedReason": "the model's files are gone", "unembedded": 3,
        "recalls": 9, "degradedRecalls": {"keyword-only": 4},
    }  # fmt: skip
    page.route("**/v1/status", lambda route: route.fulfill(json=degraded))
    open_status(page, base_url)

    expect(page.get_by_role("heading", name="Recall is degraded: keyword retriever only")).to_be_visible()
    expect(page.locator(".status-notes")).to_contain_text("The model's files are gone.")
    expect(page.locator(".status-notes")).to_contain_text("retentive doctor")
    expect(page.get_by_role("heading", name="3 memories have no vector")).to_be_visible()
    expect(page.get_by_role("row", name="keyword-only")).to_have_text("keyword-only4")


def test_the_last_figures_stay_while_the_service_does_not_respond(page, base_url, expected_errors):
    expected_errors.append("net::ERR_FAILED")
    page.clock.install()
    open_status(page, base_url)
    page.route("**/v1/status", lambda route: route.abort())
    page.clock.run_for(5_100)

    expect(page.get_by_role("alert")).to_contain_text("The service does not respond")
    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("42")

    page.unroute("**/v1/status")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_required_token_is_requested_and_limits_what_is_shown(page, serve, engine: Engine, expected_errors):
    expected_errors.append("401")
    _, secret = engine.tokens.create()
    page.goto(f"{serve(require_token=True)}/#/status")
    dialog = page.get_by_role("dialog", name="Token required")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("heading", name="Token required")).to_be_visible()

    page.get_by_role("button", name="Enter a token").click()
    dialog.get_by_label("Token").fill(secret)
    dialog.get_by_role("button", name="Use token").click()

    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("42")
    expect(panel(page, "Model and store")).to_contain_text("No recalls since startup.")
    expect(panel(page, "API tokens")).to_have_count(0)


def test_a_late_401_response_does_not_reopen_a_closed_token_dialog(page, serve, expected_errors):
    expected_errors.append("401")
    held: list[Any] = []
    page.route("**/v1/timeline*", lambda route: held.append(route))
    with page.expect_request("**/v1/timeline*"):  # sent before the dialog is closed
        page.goto(f"{serve(require_token=True)}/#/status")
    dialog = page.get_by_role("dialog", name="Token required")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).not_to_be_visible()
    assert held, "no request was held back"

    with page.expect_response("**/v1/timeline*"):
        for route in held:
            route.continue_()
    page.wait_for_timeout(200)

    expect(dialog).not_to_be_visible()
    expect(page.get_by_role("button", name="Enter a token")).to_be_visible()


def test_an_administrator_makes_and_revokes_tokens(page, base_url, engine: Engine):
    open_status(page, base_url)
    tokens = panel(page, "API tokens")
    expect(tokens).to_contain_text("No tokens.")

    tokens.get_by_label("Access").select_option("write")
    tokens.get_by_label("Note").fill("backend")
    tokens.get_by_label("All profiles").check()
    tokens.get_by_role("button", name="Make a token").click()
    expect(tokens.get_by_role("row", name="backend")).to_contain_text("all profileswrite")
    found = engine.tokens.find(tokens.locator(".note code").inner_text())
    assert found is not None
    assert (found.profile, found.access, found.note) == (None, "write", "backend")

    tokens.get_by_role("button", name=f"Revoke token {found.id}").click()
    expect(tokens).to_contain_text("No tokens.")
    assert engine.tokens.list() == []


def test_an_empty_store_shows_how_to_add_memories(page, base_url, engine: Engine):
    engine.forget_scope(engine.scope(), confirm=True)
    open_status(page, base_url)

    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_axe_finds_no_serious_violation_and_nothing_is_too_wide(page, base_url, engine: Engine, width, scheme):
    engine.recall("What does the cat eat?")
    page.request.post(f"{base_url}/v1/context", data={"query": "What does the cat eat?"})
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    open_status(page, base_url)
    page.get_by_text("Show as table").click()
    expect(page.locator(".given-note").first).to_be_visible()

    found = Axe().run(page).response["violations"]
    assert [item["id"] for item in found if item["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_what_agents_were_given_is_shown_and_a_thumb_judges_it_for_the_prompt(page, base_url, engine: Engine):
    cat = engine.remember("The cat eats wet food <b>only</b>", project="home")
    asked = {"query": "What does the cat eat?", "project": "home", "tuning": {"judge": "off", "minRelevance": 0}}
    sent = page.request.post(f"{base_url}/v1/context", data=asked, headers={"X-Client": "codex"}).json()
    page.request.post(f"{base_url}/v1/context", data={"query": "zebra", "tuning": {"minRelevance": 1}})
    assert cat.id in [item["id"] for item in sent["items"]]
    open_status(page, base_url)

    given = panel(page, "Given to agents")
    expect(given).to_contain_text("1 of the latest 2 prompts got memories")
    note = given.locator(".given-note").filter(has_text=cat.text)
    expect(given.locator(".given > li").last).to_contain_text("codex · home")
    expect(note.locator(".given-relevance")).to_contain_text("%")
    up, down = note.get_by_role("button", name="Relevant", exact=True), note.get_by_role("button", name="Not relevant")
    up.click()
    expect(up).to_have_attribute("aria-pressed", "true")
    [judged] = engine.judgements.list()
    assert (judged.query, judged.memory, judged.relevance, judged.project) == (asked["query"], cat.id, 1, "home")
    assert judged.asked_at == engine.given.list()[-1].at

    given.get_by_role("button", name="Reload").click()
    expect(up).to_have_attribute("aria-pressed", "true")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "true")
    assert [one.relevance for one in engine.judgements.list()] == [0]
