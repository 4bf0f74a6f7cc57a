"""What a user does in the Recall view."""

from __future__ import annotations

from playwright.sync_api import Page, expect

CAT = "what does the cat eat?"
LOGINS = "why did the logins fail?"


def recall(page: Page, base_url: str, query: str = CAT) -> None:
    """Open the page, submit a query and wait for the hits."""
    page.goto(f"{base_url}/#/recall")
    page.get_by_label("Query").fill(query)
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()


def open_advanced(page: Page) -> None:
    """Show all parameters."""
    page.locator(".advanced").wait_for()
    page.locator(".advanced, .parameter-group").evaluate_all(
        "groups => groups.forEach(group => { group.open = true; })"
    )


def set_parameter(page: Page, parameter: str, value: object) -> None:
    """Change a tuning parameter and wait until the hits show their changes of rank."""
    open_advanced(page)
    page.get_by_label(parameter, exact=True).fill(str(value))
    expect(page.locator(".hits.shown .move").first).to_be_visible()
    expect(page.locator(".results")).to_have_attribute("aria-busy", "false")


def save_tuning(page: Page) -> None:
    """Save the unsaved changes, after the effect on the judged queries is shown."""
    page.get_by_role("button", name="Save…").click()
    page.get_by_role("dialog", name="Save this tuning?").get_by_role("button", name="Save", exact=True).click()


def saved_settings(page: Page, base_url: str) -> dict:
    return page.request.get(f"{base_url}/settings").json()


def texts(page: Page) -> list[str]:
    """Return the texts of the hits; their inner texts are empty while they are out of sight."""
    return page.locator(".hits.shown .hit-text").all_text_contents()
