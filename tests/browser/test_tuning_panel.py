"""The tuning of the Recall view in a browser: parameters, presets, saving, judgements, evaluation."""

from __future__ import annotations

import json
import re
import shlex
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Request, expect

from retentive.engine import Engine
from retentive.ranking import Tuning
from retentive.settings import Settings
from tests.browser.recall_steps import (
    CAT,
    LOGINS,
    open_advanced,
    recall,
    save_tuning,
    saved_settings,
    set_parameter,
    texts,
)
from tests.surfaces.serving import token

DEFAULT = Tuning()
WEIGHTS = DEFAULT.semantic_weight + DEFAULT.keyword_weight


def test_a_changed_parameter_reorders_the_hits_and_is_saved_and_undone(page, base_url):
    recall(page, base_url, LOGINS)
    before = texts(page)
    set_parameter(page, "Semantic weight", 0)
    expect(page.locator(".tuning-state")).to_have_text("1 unsaved change")
    expect(page.locator(".removed").first).to_be_visible()
    assert saved_settings(page, base_url)["semanticWeight"] == 1.0

    save_tuning(page)

    expect(page.locator(".toast")).to_contain_text("Saved 1 parameter")
    expect(page.locator(".tuning-state")).to_have_text("Saved")
    expect(page.locator(".hits.shown .move")).to_have_count(0)
    assert saved_settings(page, base_url)["semanticWeight"] == 0
    assert texts(page) != before

    expect(page.get_by_role("button", name="Undo").first).to_be_focused()
    page.locator(".toast").get_by_role("button", name="Undo").click()

    expect(page.get_by_label("Semantic weight", exact=True)).to_have_value("1")
    expect(page.locator(".hit").first.locator(".bar-button")).to_have_attribute("aria-label", re.compile("semantic"))
    assert saved_settings(page, base_url)["semanticWeight"] == 1.0


def test_arrows_show_the_change_of_rank_of_each_hit(page, base_url):
    recall(page, base_url, LOGINS)
    before = texts(page)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".hits.shown .move").first).to_be_visible()
    after = texts(page)
    for index, text in enumerate(after):
        mark = page.locator(".hits.shown .hit").nth(index).locator(".move")
        if text not in before:
            expect(mark).to_have_text("new")
            continue
        change = before.index(text) - index
        expect(mark).to_contain_text("=" if change == 0 else f"{'▲' if change > 0 else '▼'}{abs(change)}")
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator(".hits.saved .hit-text")).to_have_text(before)
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator(".hits.shown .move")).to_have_count(0)
    expect(page.locator(".hits.shown .hit-text")).to_have_text(before)


def test_parameters_are_built_from_the_schema_and_can_be_reset_to_the_default(page, base_url):
    schema = page.request.get(f"{base_url}/settings/schema").json()["properties"]
    recall(page, base_url)

    parameters = page.locator("[data-parameter]")
    expect(parameters).to_have_count(len(schema))
    assert {parameter.get_attribute("data-parameter") for parameter in parameters.all()} == set(schema)
    parameter = page.locator("[data-parameter=keywordWeight]")
    expect(parameter).to_contain_text(schema["keywordWeight"]["description"])
    set_parameter(page, "Keyword weight", 3)
    parameter.get_by_role("button", name=f"reset to the default, {DEFAULT.keyword_weight:g}").click()
    expect(page.get_by_label("Keyword weight", exact=True)).to_have_value(f"{DEFAULT.keyword_weight:g}")
    expect(page.locator(".tuning-state")).to_have_text("Saved")


@pytest.mark.parametrize("settings", [Settings(store="", tuning={"keyword_weight": 2.0})], ids=["configured"])
def test_parameters_set_by_the_configuration_are_read_only(page, base_url):
    recall(page, base_url)

    field = page.get_by_label("Keyword weight", exact=True)
    expect(field).to_be_disabled()
    expect(page.locator("[data-parameter=keywordWeight]")).to_contain_text("cannot be changed here")


def test_unsaved_changes_are_copied_as_toml_curl_and_python(page, base_url):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    recall(page, base_url)
    set_parameter(page, "Keyword weight", 3)

    def copied(format: str) -> str:
        page.get_by_label("Copy as").select_option(format)
        expect(page.locator(".toast").last).to_contain_text(f"Copied as {format}")
        return page.evaluate("navigator.clipboard.readText()")

    assert copied("TOML") == "[tuning]\nkeyword_weight = 3\n"
    curl = copied("curl")
    assert f"{base_url}/v1/recall" in curl
    body = json.loads(curl[curl.index("-d '") + 4 : curl.rindex("'")])
    assert (body["query"], body["tuning"]) == (CAT, {"keywordWeight": 3})
    python = copied("Python")
    assert f'engine.recall("{CAT}", limit=10, tuning={{"keyword_weight": 3}})' in python
    compile(python, "copied", "exec")


def test_a_copied_request_names_the_profile_that_is_chosen(page, base_url, engine: Engine):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    name = "Zoë's 日本"
    engine.remember("the cat eats salmon", profile=name)
    page.goto(f"{base_url}/#/recall?{urlencode({'profile': name, 'q': CAT})}")
    page.locator(".hit").first.wait_for()

    def copied(format: str) -> str:
        page.get_by_label("Copy as").select_option(format)
        expect(page.locator(".toast").last).to_contain_text(f"Copied as {format}")
        return page.evaluate("navigator.clipboard.readText()")

    words = shlex.split(copied("curl"))
    assert f"X-Profile: {name}" in words
    assert json.loads(words[words.index("-d") + 1])["query"] == CAT
    python = copied("Python")
    assert f'engine.recall("{CAT}", limit=10, profile="{name}")' in python
    compile(python, "copied", "exec")


def test_a_judged_query_appears_in_the_evaluation_and_the_judgement_can_be_removed(page, base_url):
    recall(page, base_url)
    relevant = page.locator(".hit").first.get_by_role("button", name="Relevant", exact=True)

    relevant.click()

    expect(relevant).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".metrics")).to_contain_text("Saved")
    expect(page.locator(".judged-query")).to_contain_text(CAT)
    set_parameter(page, "Keyword weight", 0)
    expect(page.locator(".metrics .difference")).to_be_visible()
    page.reload()
    relevant = page.locator(".hit").first.get_by_role("button", name="Relevant", exact=True)
    expect(relevant).to_have_attribute("aria-pressed", "true")
    relevant.click()
    expect(relevant).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".evaluation-body")).to_contain_text("Judge hits to see quality metrics")


def test_a_parameter_search_shows_its_progress_and_its_result_is_saved(page, base_url, engine):
    answers = {
        "what is the budget?": "14,000",
        "who is the carpenter?": "Lindqvist",
        "why no gas?": "asthma",
        "which fuse?": "16 A",
        "does the user eat meat?": "vegetarian",
        "why could nobody sign in?": "ERR_CONN",
        "how to go back to the old version?": "deploy rollback",
        "how long was it down?": "Twelve minutes",
        "how are the legs?": "knee",
        "which islands?": "Canary",
        "is the examination over?": "audit is over",
        "what is the pet called?": "Möbius",
    }
    memories = engine.list(limit=100).memories
    for query, words in answers.items():
        engine.judge(query, good=[memory.id for memory in memories if words in memory.text])
    poor = {"semantic_weight": 0.0, "keyword_weight": 5.0, "session_weight": 2.0, "neighbour_weight": 2.0}
    engine.tuning.save({**poor, "max_document_frequency": 0.01})  # so poor that twelve queries show a significant gain
    recall(page, base_url)

    page.get_by_role("button", name="Find better parameters").click()

    expect(page.locator(".search-body .note")).to_contain_text("Better on held-out queries", timeout=60_000)
    page.get_by_role("button", name="Save these values").click()
    expect(page.locator(".toast")).to_contain_text(re.compile(r"Saved \d+ parameter"))
    saved = saved_settings(page, base_url)
    assert (saved["semanticWeight"], saved["keywordWeight"], saved["sessionWeight"]) != (0, 5.0, 2.0)


def test_a_token_without_write_access_gets_a_message_on_saving(page, serve, engine, expected_errors):
    expected_errors.extend(["401", "403"])
    page.goto(f"{serve(require_token=True)}/#/recall?q=cat")
    page.get_by_label("Token", exact=True).fill(token(engine, access="read"))
    page.get_by_role("button", name="Use token").click()
    page.locator(".hit").first.wait_for()
    set_parameter(page, "Keyword weight", 3)

    save_tuning(page)

    expect(page.locator(".toast")).to_contain_text("This token may not change settings")


def set_basic(page: Page, control: str, position: int) -> None:
    """Move the slider of a basic control."""
    page.get_by_label(control, exact=True).fill(str(position))


def test_a_basic_control_sets_the_parameters_behind_it_and_returns_to_the_saved_ones(page, base_url):
    recall(page, base_url)
    open_advanced(page)
    expect(page.get_by_label("Preset")).to_have_value("default")

    set_basic(page, "Balance", 0)
    set_basic(page, "Context", 2)
    set_basic(page, "Recency", 3)
    page.get_by_label("Judge", exact=True).select_option("off")

    values = {
        "Semantic weight": f"{WEIGHTS:g}", "Keyword weight": "0", "Neighbour weight": "0.4", "Session weight": "0.8",
        "Half life days": "30", "Judge": "off",
    }  # fmt: skip
    for name, value in values.items():
        expect(page.get_by_label(name, exact=True)).to_have_value(value)
    expect(page.get_by_label("Decay", exact=True)).to_be_checked()
    expect(page.get_by_label("Preset").locator("option:checked")).to_have_text("changed from default")
    set_basic(page, "Balance", round(100 * DEFAULT.keyword_weight / WEIGHTS))  # the step nearest to the saved weights
    set_basic(page, "Context", 1)
    set_basic(page, "Recency", 0)
    page.get_by_label("Judge", exact=True).select_option("order")
    expect(page.locator(".tuning-state")).to_have_text("Saved")
    expect(page.get_by_label("Preset")).to_have_value("default")


@pytest.mark.parametrize("settings", [Settings(store="", tuning={"keyword_weight": 2.0})], ids=["configured"])
def test_a_basic_control_of_a_configured_parameter_is_disabled(page, base_url):
    recall(page, base_url)

    expect(page.get_by_label("Balance")).to_be_disabled()
    expect(page.get_by_label("Context", exact=True)).to_be_enabled()


def test_the_preset_in_force_is_shown_by_its_name(page, base_url, engine):
    engine.tuning.save({"preset": "classic-rrf"})
    recall(page, base_url)
    preset = page.get_by_label("Preset")
    expect(preset).to_have_value("classic-rrf")

    set_parameter(page, "RRF k", 30)

    expect(preset.locator("option:checked")).to_have_text("changed from classic-rrf")
    preset.select_option("default")
    expect(preset).to_have_value("default")
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(preset).to_have_value("classic-rrf")


def test_the_effect_on_the_own_metrics_is_shown_before_a_tuning_is_saved(page, base_url):
    recall(page, base_url)
    set_basic(page, "Balance", 100)
    page.get_by_role("button", name="Save…").click()
    dialog = page.get_by_role("dialog", name="Save this tuning?")
    expect(dialog).to_contain_text("There are no judgements yet")
    expect(dialog).to_contain_text("press the thumb up")
    dialog.get_by_role("button", name="Cancel").click()
    page.locator(".hit").filter(has_text="Möbius").get_by_role("button", name="Relevant", exact=True).click()
    expect(page.locator(".metrics .difference")).to_be_visible()

    page.get_by_role("button", name="Save…").click()

    expect(dialog.get_by_role("row", name="Semantic weight")).to_contain_text("1 → 0")
    for row in ("Saved", "Unsaved", "Difference"):
        expect(dialog.locator(".metrics").get_by_role("rowheader", name=row, exact=True)).to_be_visible()
    expect(dialog).to_contain_text("Mean over 1 judged query.")
    assert saved_settings(page, base_url)["semanticWeight"] == 1.0
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("Saved 2 parameters")
    assert saved_settings(page, base_url)["semanticWeight"] == 0


def test_hits_stay_in_sight_on_a_phone_while_a_parameter_is_changed(page, base_url):
    page.set_viewport_size({"width": 390, "height": 844})
    recall(page, base_url, LOGINS)
    expect(page.locator(".tuning-title")).to_contain_text("default")

    page.locator(".tuning-title").click()
    page.get_by_label("Balance").fill("100")
    expect(page.locator(".hits.shown .move").first).to_be_visible()

    sheet = page.locator(".tuning").bounding_box()
    first = page.locator(".hit-card").first.bounding_box()
    slider = page.get_by_label("Balance").bounding_box()
    assert sheet["height"] <= 844 / 2
    assert sheet["y"] + sheet["height"] == pytest.approx(844, abs=1)
    assert first["y"] >= 0
    assert first["y"] + 80 < sheet["y"], "the text of the first hit is covered"
    assert sheet["y"] < slider["y"] < 844


COUNT_ELEMENTS = """
window.created = 0;
for (const name of ["createElement", "createElementNS"]) {
    const create = Document.prototype[name];
    Document.prototype[name] = function (...names) {
        window.created += 1;
        return create.apply(this, names);
    };
}
"""

MOVE_SLIDER = """
async () => {
    const slider = document.querySelector(".basic-parameters input[type=range]");
    let current = 0;
    for (let position = 0; position < 60; position += 1) {
        slider.value = position;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise((resolve) => requestAnimationFrame(resolve));
        const shown = document.querySelector(".basic-value").textContent;
        if (shown === `${100 - position} : ${position}` && Number(slider.value) === position) current += 1;
    }
    return current / 60;
}
"""


def test_a_slider_moves_over_fifty_hits_with_one_recall_at_a_time_and_the_same_cards(page, base_url, engine):
    page.add_init_script(COUNT_ELEMENTS)
    engine.remember_many({"text": f"The baker at number {n} sells bread", "session": f"s{n % 4}"} for n in range(60))
    page.goto(f"{base_url}/#/recall?q=which+baker+sells+bread&limit=50")
    expect(page.locator(".hit")).to_have_count(50)
    whole = page.evaluate("document.querySelectorAll('main *').length")
    page.locator(".hit").evaluate_all("hits => hits.forEach(hit => { hit.built = 'before'; })")
    sent, running, most = [], set(), [0]

    def on_request(request: Request) -> None:
        if request.url.endswith("/compare"):
            sent.append(request)
            running.add(request)
            most[0] = max(most[0], len(running))

    page.on("request", on_request)
    page.on("requestfinished", lambda request: running.discard(request))
    page.evaluate("window.created = 0")

    assert page.evaluate(MOVE_SLIDER) == 1, "a frame shows an old position of the slider"
    expect(page.locator(".basic-value").first).to_have_text("41 : 59")
    expect(page.locator(".hits.shown .move").first).to_be_visible()
    expect(page.locator(".results")).to_have_attribute("aria-busy", "false")

    assert 1 <= len(sent) <= 60
    assert most[0] == 1, "recalls ran at the same time"
    assert page.evaluate("window.created") / len(sent) < whole / 2, "a recall builds most of the page anew"
    kept = page.locator(".hit").evaluate_all("hits => hits.filter(hit => hit.built === 'before').length")
    assert kept == 50 - page.locator(".hits.shown .move.new").count()
