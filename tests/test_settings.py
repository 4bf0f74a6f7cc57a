"""Arguments go over the environment, the environment over the file, the file over the defaults."""

from __future__ import annotations

import pytest

from retentive.errors import Invalid
from retentive.settings import load_settings


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_anything_the_store_is_in_the_users_data_folder(here):
    settings = load_settings(environment={})

    assert settings.store.endswith("memories.db")
    assert (settings.profile, settings.embedder.name, settings.tuning) == ("default", "bge-small", {})


def test_each_layer_goes_over_the_one_below(here):
    (here / "retentive.toml").write_text(
        'store = "file.db"\nprofile = "file"\n'
        '[embedder]\nname = "none"\ntimeout = 3\n'
        "[tuning]\nrrf_k = 7\ndecay = true\n"
    )
    environment = {"RETENTIVE_PROFILE": "env", "RETENTIVE_TUNING_RRF_K": "8", "RETENTIVE_EMBEDDER_MODEL": "m"}

    settings = load_settings({"profile": "argument", "store": None}, environment=environment)

    assert (settings.store, settings.profile) == ("file.db", "argument")
    assert (settings.embedder.name, settings.embedder.timeout, settings.embedder.model) == ("none", 3, "m")
    assert settings.tuning == {"rrf_k": 8, "decay": True}
    assert settings.tuned({"rrf_k": 1, "dedup": False}).model_dump(include={"rrf_k", "decay", "dedup"}) == {
        "rrf_k": 8,
        "decay": True,
        "dedup": False,
    }


def test_the_named_config_file_is_the_one_read(here, tmp_path):
    (tmp_path / "a.toml").write_text('profile = "a"\n')

    assert load_settings(environment={"RETENTIVE_CONFIG": "a.toml"}).profile == "a"
    assert load_settings(environment={}, config=tmp_path / "a.toml").profile == "a"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("store = ", "not valid TOML"),
        ("colour = 1", "colour"),
        ("[embedder]\ntimeout = 0", "embedder.timeout"),
        ("[tuning]\nrrf_k = 0", "rrf_k"),
        ("[tuning]\nnonsense = 0", "no parameter 'nonsense'"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(here, toml, says):
    (here / "retentive.toml").write_text(toml)

    with pytest.raises(Invalid, match=says):
        load_settings(environment={})


def test_a_key_is_not_shown(here):
    settings = load_settings(environment={"RETENTIVE_EMBEDDER_API_KEY": "sk-secret"})

    assert settings.embedder.api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(settings)


@pytest.mark.parametrize(
    ("block", "parameters"),
    [
        ("{}", {"fusion": "weighted", "semantic_weight": 0.7, "keyword_weight": 0.3, "rrf_k": 60}),
        ("{vectorWeight = 0.5}", {"fusion": "weighted", "semantic_weight": 0.5, "keyword_weight": 0.3, "rrf_k": 60}),
        ('{fusion = "rrf", rrfK = 5}', {"fusion": "rrf", "semantic_weight": 0.7, "keyword_weight": 0.3, "rrf_k": 5}),
    ],
)
def test_the_block_of_older_configurations_is_understood(tmp_path, block, parameters):
    (tmp_path / "old.toml").write_text(f"hybrid = {block}\n[tuning]\ndedup = false\n")

    settings = load_settings(environment={}, config=tmp_path / "old.toml")

    assert settings.tuning == {**parameters, "dedup": False}


@pytest.mark.parametrize("block", ["{weights = 1}", '{fusion = "full"}', "3"])
def test_a_block_of_older_configurations_that_is_wrong_is_named(tmp_path, block):
    (tmp_path / "old.toml").write_text(f"hybrid = {block}\n")

    with pytest.raises(Invalid, match="hybrid"):
        load_settings(environment={}, config=tmp_path / "old.toml")
