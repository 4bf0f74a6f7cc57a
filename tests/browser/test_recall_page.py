"""The view Recall as a person uses it: ask, see why, turn a parameter, watch what moves, keep it, judge, measure."""

from __future__ import annotations

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.surfaces.serving import token

CAT = "what does the cat eat?"
LOGINS = "why did the logins fail?"
ATTACK = '<img src=x onerror="window.ran = 1"><script>window.ran = 1</script> the parrot eats mangoes'


def ask(page: Page, base_url: str, query: str = CAT) -> None:
    """Open the page, ask and wait for the hits."""
    page.goto(f"{base_url}/#/recall")
    page.get_by_label("Query").fill(query)
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()


def turn(page: Page, parameter: str, value: object) -> None:
    """Turn a parameter and wait until the hits show what moved."""
    page.get_by_label(parameter, exact=True).fill(str(value))
    expect(page.locator(".hits.now .move").first).to_be_visible()
    expect(page.locator(".results")).to_have_attribute("aria-busy", "false")


def settings(page: Page, base_url: str) -> dict:
    return page.request.get(f"{base_url}/settings").json()


def texts(page: Page) -> list[str]:
    return page.locator(".hits.now .hit-text").all_inner_texts()


def test_hits_say_what_who_when_where_and_why(page, base_url):
    ask(page, base_url)

    first = page.locator(".hit").first
    expect(first).to_contain_text("The cat is called Möbius")
    expect(first).to_contain_text("sample-assistant")
    expect(first.locator("time")).to_have_attribute("title", re.compile("2026"))
    expect(first.locator(".retriever-chip").first).to_contain_text("meaning #1")
    expect(first.locator(".retriever-chip").last).to_contain_text("words #1")
    expect(page.locator(".hit").nth(2).locator(".retriever-chip").last).to_contain_text("words –")
    expect(page.locator(".took")).to_contain_text(
        re.compile(r"10 memories in [\d.]+ ms from 30 by meaning and 1 by words")
    )
    expect(page.locator("#announcer")).to_have_text(re.compile(r"10 memories in [\d.]+ ms"))


def test_the_bar_of_a_hit_adds_up_to_its_score_and_opens_as_a_table(page, base_url):
    ask(page, base_url)
    why = page.locator(".hit").first.locator(".bar-button")

    why.click()

    rows = page.locator(".hit").first.locator(".hit-why tr")
    given = [float(text.replace("−", "-")) for text in rows.locator("td.number").all_inner_texts()]
    assert sum(given[:-1]) == pytest.approx(given[-1], abs=0.002)
    expect(rows.nth(1)).to_contain_text("meaning")
    expect(rows.last).to_contain_text("Score")
    assert why.locator("rect[data-step=quality]").evaluate("part => part.style.fill").startswith("url(")
    expect(why).to_have_attribute("aria-label", re.compile(r"Why: Score 0\.\d+: meaning \+0\.\d+"))


def test_a_link_opens_its_query_scope_and_limit(page, base_url):
    page.goto(f"{base_url}/#/recall?q=where+is+the+oven&limit=3&project=sample-kitchen")

    page.locator(".hit").first.wait_for()
    assert page.locator(".hit").count() == 3
    expect(page.get_by_label("Project")).to_have_value("sample-kitchen")
    expect(page.get_by_label("Query")).to_have_value("where is the oven")
    for place in page.locator(".hit .provenance").all_inner_texts():
        assert "sample-kitchen" in place


def test_a_turned_parameter_moves_hits_and_is_kept_and_undone(page, base_url):
    ask(page, base_url, LOGINS)
    before = texts(page)
    turn(page, "Semantic weight", 0)
    expect(page.locator(".parameters-state")).to_have_text("1 turned, not kept")
    expect(page.locator(".gone").first).to_be_visible()
    assert settings(page, base_url)["semanticWeight"] == 1.0

    page.get_by_role("button", name="Keep", exact=True).click()

    expect(page.locator(".toast")).to_contain_text("Kept 1 parameter")
    expect(page.locator(".parameters-state")).to_have_text("As in force")
    expect(page.locator(".hits.now .move")).to_have_count(0)
    assert settings(page, base_url)["semanticWeight"] == 0
    assert texts(page) != before

    expect(page.get_by_role("button", name="Undo").first).to_be_focused()
    page.locator(".toast").get_by_role("button", name="Undo").click()

    expect(page.get_by_label("Semantic weight", exact=True)).to_have_value("1")
    expect(page.locator(".hit").first.locator(".retriever-chip").first).to_contain_text("meaning #")
    assert settings(page, base_url)["semanticWeight"] == 1.0


def test_arrows_tell_how_far_each_hit_moved(page, base_url):
    ask(page, base_url, LOGINS)
    before = texts(page)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".hits.now .move").first).to_be_visible()
    after = texts(page)
    for place, text in enumerate(after):
        mark = page.locator(".hits.now .hit").nth(place).locator(".move")
        if text not in before:
            expect(mark).to_have_text("new")
            continue
        by = before.index(text) - place
        expect(mark).to_contain_text("=" if by == 0 else f"{'▲' if by > 0 else '▼'}{abs(by)}")
    page.get_by_role("button", name="Side by side").click()
    assert page.locator(".hits.before .hit-text").all_inner_texts() == before
    page.get_by_role("button", name="Put back").click()
    expect(page.locator(".hits.now .move")).to_have_count(0)
    assert texts(page) == before


def test_parameters_are_drawn_from_the_schema_with_a_way_back_to_the_default(page, base_url):
    schema = page.request.get(f"{base_url}/settings/schema").json()["properties"]
    ask(page, base_url)

    assert {parameter.get_attribute("data-parameter") for parameter in page.locator("[data-parameter]").all()} == set(
        schema
    )
    parameter = page.locator("[data-parameter=keywordWeight]")
    expect(parameter).to_contain_text(schema["keywordWeight"]["description"])
    turn(page, "Keyword weight", 3)
    parameter.get_by_role("button", name="back to the default, 1.4").click()
    expect(page.get_by_label("Keyword weight", exact=True)).to_have_value("1.4")
    expect(page.locator(".parameters-state")).to_have_text("As in force")


def test_parameters_that_the_configuration_sets_cannot_be_turned(page, serve, engine, monkeypatch):
    fixed = engine.settings.model_copy(update={"tuning": {"keyword_weight": 2.0}})
    monkeypatch.setattr(engine, "_settings", fixed)
    ask(page, serve())

    field = page.get_by_label("Keyword weight", exact=True)
    expect(field).to_be_disabled()
    expect(page.locator("[data-parameter=keywordWeight]")).to_contain_text("cannot be turned here")


def test_turned_parameters_are_copied_as_toml_curl_and_python(page, base_url):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, base_url)
    turn(page, "Keyword weight", 3)

    def copied(form: str) -> str:
        page.get_by_label("Copy as").select_option(form)
        expect(page.locator(".toast").last).to_contain_text(f"Copied as {form}")
        return page.evaluate("navigator.clipboard.readText()")

    assert copied("TOML") == "[tuning]\nkeyword_weight = 3\n"
    curl = copied("curl")
    assert f"{base_url}/v1/recall" in curl
    body = json.loads(curl[curl.index("-d '") + 4 : curl.rindex("'")])
    assert (body["query"], body["tuning"]) == (CAT, {"keywordWeight": 3})
    python = copied("Python")
    assert f'engine.recall("{CAT}", limit=10, tuning={{"keyword_weight": 3}})' in python
    compile(python, "copied", "exec")


def test_a_judged_query_shows_up_in_measure_and_can_be_taken_back(page, base_url):
    ask(page, base_url)
    good = page.locator(".hit").first.get_by_role("button", name="A good answer")

    good.click()

    expect(good).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".measure-table")).to_contain_text("In force")
    expect(page.locator(".measured")).to_contain_text(CAT)
    turn(page, "Keyword weight", 0)
    expect(page.locator(".measure-table .difference")).to_be_visible()
    page.reload()
    good = page.locator(".hit").first.get_by_role("button", name="A good answer")
    expect(good).to_have_attribute("aria-pressed", "true")
    good.click()
    expect(good).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".measure-body")).to_contain_text("Judge some hits")


def test_a_search_for_better_parameters_is_watched_and_its_result_kept(page, base_url, engine):
    answers = {
        "what is the budget?": "14,000",
        "who is the carpenter?": "Lindqvist",
        "why no gas?": "asthma",
        "which fuse?": "16 A",
        "does the user eat meat?": "vegetarian",
        "why could nobody sign in?": "ERR_CONN",
        "how to go back to the old version?": "deploy rollback",
        "how long was it down?": "Twelve minutes",
        "how are the retrievers?": "knee",
        "which islands?": "Canary",
        "is the examination over?": "audit is over",
        "what is the pet called?": "Möbius",
    }
    memories = engine.list(limit=100).memories
    for query, words in answers.items():
        engine.judge(query, good=[memory.id for memory in memories if words in memory.text])
    engine.keep_tuning({"semantic_weight": 0.05, "keyword_weight": 5.0, "session_weight": 2.0, "neighbour_weight": 2.0})
    ask(page, base_url)

    page.get_by_role("button", name="Find better parameters").click()

    expect(page.locator(".tune-body .note")).to_contain_text("Better on queries", timeout=60_000)
    page.get_by_role("button", name="Keep these").click()
    expect(page.locator(".toast")).to_contain_text(re.compile(r"Kept \d+ parameter"))
    kept = settings(page, base_url)
    assert (kept["semanticWeight"], kept["keywordWeight"], kept["sessionWeight"]) != (0.05, 5.0, 2.0)


def test_why_not_tells_where_a_memory_fell_out(page, base_url):
    ask(page, base_url)

    page.get_by_role("button", name="Why not?").click()
    dialog = page.get_by_role("dialog", name="Why not?")
    dialog.get_by_label("Find a memory").fill("rollback")
    dialog.get_by_role("button", name=re.compile("Rolling back auth-service")).click()

    expect(dialog.locator(".why-sentence")).to_contain_text("No search brought it")
    expect(dialog.get_by_role("img", name=re.compile(r"It is at place 3\d"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Why not?")).to_be_focused()


def test_markup_in_a_memory_is_shown_as_text_and_runs_nowhere(page, base_url, engine):
    engine.remember(ATTACK, speaker="<b>Eve</b>", project="<i>p</i>", session="<u>s</u>")
    ask(page, base_url, "what does the parrot eat?")

    expect(page.locator(".hit-text").first).to_have_text(ATTACK)
    expect(page.locator(".hit .who").first).to_have_text("<b>Eve</b>")
    page.locator(".bump-figure summary").click()
    expect(page.locator(".bump-figure td, .bump-figure th").filter(has_text="<img").first).to_be_visible()
    page.get_by_role("button", name="Why not?").click()
    page.get_by_label("Find a memory").fill("parrot")
    page.locator(".pick-row").filter(has_text="mangoes").first.click()
    expect(page.locator("dialog blockquote p").first).to_have_text(ATTACK)
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, dialog img, dialog script, main b:has-text('Eve')").count() == 0


def test_the_whole_of_it_works_from_the_keyboard(page, base_url):
    page.goto(f"{base_url}/#/recall")
    page.get_by_role("heading", name="What does your agent remember?").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_label("Query")).to_be_focused()
    page.keyboard.type(CAT)
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()

    cards = page.locator(".hit-card")
    cards.first.focus()
    page.keyboard.press("ArrowDown")
    expect(cards.nth(1)).to_be_focused()
    expect(page.locator(".bump-line.on")).to_have_attribute("aria-label", re.compile("^Hit 2"))
    page.keyboard.press("Tab")
    expect(cards.nth(1).locator(".place")).to_be_focused()
    page.keyboard.press("Tab")
    expect(cards.nth(1).locator(".bar-button")).to_be_focused()
    expect(page.locator(".tip")).to_be_visible()
    page.keyboard.press("Enter")
    expect(cards.nth(1).locator(".why-table")).to_be_visible()
    page.keyboard.press("End")
    expect(cards.last).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Query")).to_be_focused()


def test_a_long_text_is_folded_until_it_is_wished(page, base_url, engine):
    engine.remember("The lighthouse keeper wrote: " + "the lamp must never go out, " * 30 + "and that is all.")
    ask(page, base_url, "what did the lighthouse keeper write?")
    text = page.locator(".hit-text").filter(has_text="The lighthouse keeper")
    expect(text).not_to_contain_text("and that is all.")

    text.get_by_role("button", name="more").click()

    expect(text).to_contain_text("and that is all.")


def test_a_tab_brings_the_query_back(page, base_url):
    ask(page, base_url)
    page.get_by_role("link", name="Status").click()
    expect(page).to_have_title(re.compile("Status"))

    page.get_by_role("link", name="Recall").click()

    page.locator(".hit").first.wait_for()
    expect(page.get_by_label("Query")).to_have_value(CAT)


GLIDES = """
window.glides = {};
const animate = Element.prototype.animate;
Element.prototype.animate = function (frames, options) {
    const from = /translateY[(](.+)px/.exec(frames[0].transform);
    if (from) window.glides[this.dataset.id] = Number(from[1]);
    return animate.call(this, frames, options);
};
"""


def test_hits_glide_from_where_they_were(page, base_url):
    page.add_init_script(GLIDES)
    ask(page, base_url, LOGINS)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".move.up").first).to_be_visible()
    glides = page.evaluate("window.glides")
    for hit in page.locator(".hit:has(.move.up)").all():
        assert glides[hit.get_attribute("data-id")] > 0
    for hit in page.locator(".hit:has(.move.down)").all():
        assert glides[hit.get_attribute("data-id")] < 0
    assert page.locator(".hit").first.get_attribute("data-id") not in glides


def test_nothing_glides_where_motion_is_not_wished(page, base_url):
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script(GLIDES)
    ask(page, base_url, LOGINS)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".move.up").first).to_be_visible()
    assert page.evaluate("window.glides") == {}


def test_line_and_card_point_at_each_other(page, base_url):
    ask(page, base_url)
    line = page.locator(".bump-line[data-id]").last

    line.locator(".bump-place").hover()

    first = page.locator(f".hit[data-id='{line.get_attribute('data-id')}']")
    expect(first).to_have_class(re.compile(r"\bon\b"))
    line.locator(".bump-place").click()
    expect(first.locator(".hit-card")).to_be_focused()


def test_a_recall_without_an_embedder_says_that_it_is_degraded(page, serve, engine, monkeypatch):
    monkeypatch.setattr(engine, "_embedder", None)
    ask(page, serve(), LOGINS)

    expect(page.locator(".took .note")).to_contain_text("Degraded: keyword-only")


def test_a_token_is_asked_for_once_and_kept_in_the_tab(page, serve, engine, expected_errors):
    expected_errors.append("401")
    page.goto(f"{serve(require_token=True)}/#/recall?q=cat")
    dialog = page.get_by_role("dialog", name="A token is needed")
    dialog.wait_for()
    assert page.get_by_role("dialog").count() == 1

    dialog.get_by_label("Token").fill(token(engine, access="read"))
    dialog.get_by_role("button", name="Use this token").click()

    page.locator(".hit").first.wait_for()
    page.reload()
    page.locator(".hit").first.wait_for()


def test_a_token_that_may_not_change_settings_is_told_so(page, serve, engine, expected_errors):
    expected_errors.extend(["401", "403"])
    page.goto(f"{serve(require_token=True)}/#/recall?q=cat")
    page.get_by_label("Token", exact=True).fill(token(engine, access="read"))
    page.get_by_role("button", name="Use this token").click()
    page.locator(".hit").first.wait_for()
    turn(page, "Keyword weight", 3)

    page.get_by_role("button", name="Keep", exact=True).click()

    expect(page.locator(".toast")).to_contain_text("This token may not change settings")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_stands_in_the_way_of_anybody(page, base_url, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    ask(page, base_url, LOGINS)
    page.get_by_label("Preset").select_option("classic-rrf")
    expect(page.locator(".hits.now .move").first).to_be_visible()
    page.locator(".hit").first.get_by_role("button", name="A good answer").click()
    expect(page.locator(".measure-table .difference")).to_be_visible()
    page.locator(".parameter-group").evaluate_all("groups => groups.forEach(group => { group.open = true; })")
    page.locator(".bar-button").first.click()
    assert _serious(page) == []

    page.get_by_role("button", name="Why not?").click()
    page.locator(".pick-row").first.click()
    page.locator(".why-sentence").wait_for()
    assert _serious(page) == []


def _serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    grave = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in grave for node in rule["nodes"]]


@pytest.mark.parametrize("width", [360, 720, 1024, 1600])
def test_nothing_is_wider_than_the_window(page, base_url, width):
    page.set_viewport_size({"width": width, "height": 800})
    ask(page, base_url, LOGINS)
    page.locator(".bar-button").first.click()
    if width < 960:
        page.locator(".parameters-title").click()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = "each => each.filter(one => one.getBoundingClientRect().right > innerWidth + 1).length"
    assert page.locator("main .panel, main .hit-card, header .button").evaluate_all(outside) == 0
