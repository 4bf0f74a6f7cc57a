"""The generated reference pages are up to date and complete."""

from __future__ import annotations

import re

import pytest
import typer
from tools import references
from tools.settings_reference import settings_reference, variable

from retentive.cli.app import app
from retentive.errors import Invalid
from retentive.lazy_models import LazyModel
from retentive.ranking import PRESETS, Tuning
from retentive.settings import EmbedderSettings, Settings, load_settings


def test_the_references_are_up_to_date():
    assert [page.name for page in references.stale()] == [], "run: make references"


def test_a_reference_that_is_out_of_date_is_reported_and_written_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(references, "DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    references.main([])
    assert references.stale() == []
    page = tmp_path / "docs" / "cli-reference.md"
    page.write_text(page.read_text(encoding="utf-8").replace("--importance", "--weight"), encoding="utf-8")

    with pytest.raises(SystemExit, match=r"out of date: cli-reference\.md; run: make references"):
        references.main(["--check"])
    references.main([])

    assert references.stale() == []
    assert capsys.readouterr().out.splitlines()[-1] == "wrote docs/cli-reference.md"


def test_every_command_and_option_is_in_the_reference():
    page = (references.DOCS / "cli-reference.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (retentive [\w -]+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))
    found = {}

    def walk(command, name):
        for word, below in getattr(command, "commands", {}).items():
            found[f"{name} {word}"] = [
                option
                for one in below.params
                if one.name != "help"
                for option in ([one.metavar] if one.param_type_name == "argument" and one.metavar else one.opts)
            ]
            walk(below, f"{name} {word}")

    walk(typer.main.get_command(app), "retentive")
    assert sections.keys() == found.keys()
    for name, options in found.items():
        for option in options:
            assert option in sections[name] or option.upper() in sections[name], (name, option)


def test_every_parameter_and_preset_is_in_the_reference():
    page = settings_reference()

    for name in (*Tuning.model_fields, *PRESETS):
        assert f"| `{name}` |" in page, name


def keys(model: type[LazyModel], prefix: str = "") -> dict[str, object]:
    """Return every setting with its default, by its name in the config file."""
    found: dict[str, object] = {}
    for name in model.model_fields:
        value = getattr(model(), name)
        if isinstance(value, LazyModel):
            found |= keys(type(value), f"{name}.")
        elif name != "tuning":
            found[f"{prefix}{name}"] = value
    return found


@pytest.mark.parametrize("key", keys(Settings))
def test_every_setting_is_in_the_reference_and_is_read_from_its_variable(key):
    row = re.search(rf"^\| `{re.escape(key)}` \| `(\w+)` \| (.*?) \|.*\| (.*) \|$", settings_reference(), re.MULTILINE)
    assert row is not None
    assert row[1] == variable(key)
    assert row[3], "it has no description"
    nonsense = "no setting has this value"

    assert _read(key, {row[1]: nonsense}) == nonsense


def _read(key: str, environment: dict[str, str]) -> str:
    """Return the value that a setting takes from the environment, also if it is refused."""
    try:
        value: object = load_settings({}, environment=environment)
    except Invalid as refused:
        return next(iter(environment.values())) if f"{key}: " in str(refused) else str(refused)
    for part in key.split("."):
        value = getattr(value, part)
    value = value.name if isinstance(value, EmbedderSettings) else value  # its variable is the name of the embedder
    return value[0] if isinstance(value, tuple) else getattr(value, "get_secret_value", lambda: str(value))()
