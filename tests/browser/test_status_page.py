"""The view Status, as a person sees it."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from retentive.engine import Engine


def part(page: Page, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def open_status(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/#/status")
    expect(part(page, "What it is made of")).to_be_visible()


def test_memories_by_kind_over_time_are_drawn_and_told_in_figures(page, base_url):
    open_status(page, base_url)
    over_time = part(page, "Memories over time")
    chart = over_time.get_by_role("img")

    expect(chart).to_have_attribute(
        "aria-label",
        "Memories a month from January 2026 to October 2026; most in May 2026, 11. The table below has every figure.",
    )
    expect(over_time.locator(".timeline-legend li")).to_have_text(["episodic37", "semantic3", "identity2"])
    expect(chart.locator("title")).to_have_count(10)
    over_time.get_by_text("As a table").click()
    expect(over_time.get_by_role("row")).to_have_count(9)
    expect(over_time.get_by_role("row", name="May 2026")).to_have_text("May 2026101011")


def test_it_tells_what_it_is_made_of(page, base_url, engine: Engine):
    open_status(page, base_url)

    made = part(page, "What it is made of")
    expect(made).to_contain_text("bge-small-en-v1.5-int8")
    expect(made).to_contain_text("384")
    expect(made).to_contain_text("None: there was no recall yet.")
    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("42")
    expect(part(page, "Recall by stage")).to_contain_text("No recall yet since the start.")


def test_it_looks_again_by_itself_and_shows_how_long_the_stages_took(page, base_url, engine: Engine):
    page.clock.install()
    open_status(page, base_url)
    engine.recall("What does the cat eat?")
    engine.remember("One more")

    page.clock.run_for(5_100)

    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("43")
    stages = part(page, "Recall by stage")
    for stage in ("whole", "embed", "semantic", "keyword", "rank"):
        row = stages.get_by_role("row", name=stage).first
        expect(row.locator(".number")).to_have_count(2)
        expect(row.locator("svg rect")).to_have_count(3)


def test_recalls_that_lacked_something_are_counted_and_it_is_said_what_to_do(page, base_url):
    real = page.request.get(f"{base_url}/v1/status").json()
    ill = {
        **real, "degraded": True, "degradedReason": "the model's files are gone", "unembedded": 3,
        "recalls": 9, "degradedRecalls": {"keyword-only": 4},
    }  # fmt: skip
    page.route("**/v1/status", lambda route: route.fulfill(json=ill))
    open_status(page, base_url)

    expect(page.get_by_role("heading", name="Recall finds by words alone")).to_be_visible()
    expect(page.locator(".status-notes")).to_contain_text("the model's files are gone")
    expect(page.locator(".status-notes")).to_contain_text("retentive doctor")
    expect(page.get_by_role("heading", name="3 memories wait for a vector")).to_be_visible()
    expect(page.get_by_role("row", name="keyword-only")).to_have_text("keyword-only4")


def test_figures_stay_when_the_service_no_longer_answers_and_go_on_when_it_does(page, base_url, expected_errors):
    expected_errors.append("net::ERR_FAILED")
    page.clock.install()
    open_status(page, base_url)
    page.route("**/v1/status", lambda route: route.abort())
    page.clock.run_for(5_100)

    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("42")

    page.unroute("**/v1/status")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_without_a_token_it_asks_for_one_and_then_shows_what_the_token_may_see(
    page, serve, engine: Engine, expected_errors
):
    expected_errors.append("401")
    _, secret = engine.create_token()
    page.goto(f"{serve(require_token=True)}/#/status")
    asked = page.get_by_role("dialog", name="A token is needed")
    asked.get_by_role("button", name="Close").click()
    expect(page.get_by_role("heading", name="A token is needed")).to_be_visible()

    page.get_by_role("button", name="Enter a token").click()
    asked.get_by_label("Token").fill(secret)
    asked.get_by_role("button", name="Use this token").click()

    expect(page.locator(".status-figure").filter(has_text="Memories")).to_contain_text("42")
    expect(part(page, "What it is made of")).to_contain_text("not shown to a token")


def test_a_refusal_that_comes_late_does_not_open_again_what_was_closed(page, serve, expected_errors):
    expected_errors.append("401")
    held: list[Any] = []
    page.route("**/v1/timeline*", lambda route: held.append(route))
    page.goto(f"{serve(require_token=True)}/#/status")
    asked = page.get_by_role("dialog", name="A token is needed")
    asked.get_by_role("button", name="Close").click()
    expect(asked).not_to_be_visible()
    assert held, "nothing was asked for that could come late"

    with page.expect_response("**/v1/timeline*"):
        for route in held:
            route.continue_()
    page.wait_for_timeout(200)

    expect(asked).not_to_be_visible()
    expect(page.get_by_role("button", name="Enter a token")).to_be_visible()


def test_a_store_without_memories_says_how_to_begin(page, base_url, engine: Engine):
    engine.forget_scope(engine.scope(), confirm=True)
    open_status(page, base_url)

    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_axe_finds_nothing_serious_and_nothing_is_too_wide(page, base_url, engine: Engine, width, scheme):
    engine.recall("What does the cat eat?")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    open_status(page, base_url)
    page.get_by_text("As a table").click()

    found = Axe().run(page).response["violations"]
    assert [item["id"] for item in found if item["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
