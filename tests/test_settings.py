"""Arguments go over the environment, the environment over the file, the file over the defaults."""

from __future__ import annotations

import json

import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.ranking import preset
from retentive.settings import load_settings


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_anything_the_store_is_in_the_users_data_folder(here):
    settings = load_settings(environment={})

    assert settings.store.endswith("memories.db")
    assert (settings.profile, settings.embedder.name, settings.tuning) == ("default", "memory-small", {})


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
        ("[embedder]\ntimeout = 0", "embedder.timeout: input should be greater than 0"),
        ("[tuning]\nrrf_k = -1", "rrf_k"),
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


HALVES = {"semantic_weight": 0.5, "keyword_weight": 0.5}
HYBRID_BLOCKS = [
    ({}, preset("weighted")),
    ({"vectorWeight": 70, "textWeight": 30}, preset("weighted")),
    ({"vectorWeight": 2, "textWeight": 2, "fusion": "weighted"}, preset("weighted").with_parameters(**HALVES)),
    ({"fusion": "rrf", "vectorWeight": 0.7, "textWeight": 0.3}, preset("classic-rrf")),
    ({"fusion": "rrf", "rrfK": 5}, preset("classic-rrf").with_parameters(rrf_k=5)),
    ({"enabled": False, "vectorWeight": 0.7, "textWeight": 0.3}, preset("semantic-only")),
    (
        {"minScore": 0.35, "scoreNormalization": "none"},
        preset("weighted").with_parameters(min_score=0.35),
    ),
    ({"fusion": "rrf", "minScore": 0.35, "scoreNormalization": "zScore"}, preset("classic-rrf")),
    (
        {"candidateMultiplier": 8, "mmr": {"enabled": True, "lambda": 0.75}, "temporalDecay": {"enabled": True}},
        preset("weighted").with_parameters(min_candidates=80, diversity=0.25, decay=True),
    ),
]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("block", "tuning"), HYBRID_BLOCKS)
def test_a_hybrid_block_is_a_whole_tuning_in_json_files(tmp_path, block, tuning, nested):
    of_agent = {"gateway": {"port": 1}, "agents": {"defaults": {"memorySearch": {"query": {"hybrid": block}}}}}
    (tmp_path / "old.json").write_text(json.dumps(of_agent if nested else {"hybrid": block}))

    settings = load_settings(environment={}, config=tmp_path / "old.json")

    # also over parameters that were saved in the store
    assert settings.tuned({"quality": "add", "keyword_weight": 5, "time_weight": 2}) == tuning


OPENCLAW = """
// OpenClaw writes JSON5
{
  gateway: {port: 0x1F,}, /* not ours */
  agents: {defaults: {memorySearch: {
    provider: 'openai', // with "quotes" and 'it\\'s'
    sources: ["memory", "sessions",],
    query: {maxResults: 6, minScore: .35, hybrid: {vectorWeight: +.5, textWeight: 0.5, "scoreNormalization": 'minmax',
      reranker: {enabled: true}}},
  }}},
}
"""


def test_the_configuration_of_openclaw_is_read_with_its_comments_and_what_is_not_taken_is_told(tmp_path, caplog):
    path = tmp_path / "openclaw.json"
    path.write_text(OPENCLAW)

    settings = load_settings(environment={}, config=path)

    assert settings.tuned({}) == preset("relative-score").with_parameters(**HALVES, min_score=0.35)
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith(f"{path}: not taken from agents.defaults.memorySearch: ")
    assert set(told.rpartition(": ")[2].split(", ")) == {
        "provider",
        "sources",
        "query.maxResults",
        "query.hybrid.reranker",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"tuning": {"rrf_k": 5}', "line 1 column 24"),
        ("{tuning: sometimes}", "line 1"),
        ("{\n  // a comment\n  tuning: {rrf_k: 5} }}", "line 3"),
        ("{'profile': 'ana}", "line 1"),
    ],
)
def test_the_place_of_a_mistake_in_json_is_named(tmp_path, text, says):
    (tmp_path / "retentive.json").write_text(text)

    with pytest.raises(Invalid, match=f"is not valid JSON: .*{says}"):
        load_settings(environment={}, config=tmp_path / "retentive.json")


@pytest.mark.parametrize(
    ("block", "tuning"),
    [
        ("{}", preset("weighted")),
        ("{vectorWeight = 70, textWeight = 30}", preset("weighted")),
        ('{fusion = "rrf", vectorWeight = 0.7, rrfK = 5}', preset("classic-rrf").with_parameters(rrf_k=5)),
        ("{enabled = false}", preset("semantic-only")),
    ],
)
def test_a_hybrid_block_is_a_whole_tuning_in_toml_files(tmp_path, block, tuning):
    (tmp_path / "old.toml").write_text(f"hybrid = {block}\n[tuning]\ndedup = false\n")

    settings = load_settings(environment={}, config=tmp_path / "old.toml")

    assert settings.tuned({}) == tuning.with_parameters(dedup=False)


@pytest.mark.parametrize(("block", "tuning"), HYBRID_BLOCKS)
def test_a_hybrid_block_or_preset_is_understood_wherever_parameters_are(tmp_path, block, tuning):
    with Engine.open("memory://", embedder="none", tuning={"decay": True}) as engine:
        assert engine.query("x", tuning={"hybrid": block}).tuning == tuning
        assert engine.query("x", tuning={"preset": "classic-rrf"}).tuning == preset("classic-rrf")
        assert engine.query("x", tuning={"hybrid": block, "rrfK": 9}).tuning == tuning.with_parameters(rrf_k=9)
    in_environment = load_settings(environment={"RETENTIVE_TUNING_HYBRID": json.dumps(block)})
    assert in_environment.tuned({"decay": True}) == tuning


def test_a_json_config_file_is_found_beside_a_toml_file(here):
    (here / "retentive.json").write_text('{"profile": "ana", "tuning": {"preset": "steep-rrf", "rrf_k": 7}}')

    settings = load_settings(environment={})

    assert settings.profile == "ana"
    assert settings.tuned({}) == preset("steep-rrf").with_parameters(rrf_k=7)


@pytest.mark.parametrize(("text", "says"), [("{", "old.json is not valid JSON"), ("[]", "a JSON object")])
def test_a_json_config_file_that_is_none_is_named(tmp_path, text, says):
    (tmp_path / "old.json").write_text(text)

    with pytest.raises(Invalid, match=says):
        load_settings(environment={}, config=tmp_path / "old.json")


@pytest.mark.parametrize("block", ["{weights = 1}", '{fusion = "full"}', "{vectorWeight = 0, textWeight = 0}", "3"])
def test_a_block_of_older_configurations_that_is_wrong_is_named(tmp_path, block):
    (tmp_path / "old.toml").write_text(f"hybrid = {block}\n")

    with pytest.raises(Invalid, match="hybrid"):
        load_settings(environment={}, config=tmp_path / "old.toml")


def test_parameters_in_any_spelling_replace_those_of_the_layer_below(here):
    (here / "retentive.toml").write_text(
        '[tuning]\nrrfK = 7\nmin-relevance = 0.2\nsource_weights = { "a/*" = 0.5, "b/*" = 2.0 }\n'
    )
    environment = {"RETENTIVE_TUNING_RRF_K": "8", "RETENTIVE_TUNING_SOURCE_WEIGHTS": '{"b/*": 3}'}

    tuning = load_settings(environment=environment).tuned({})

    assert (tuning.rrf_k, tuning.min_relevance, dict(tuning.source_weights)) == (8, 0.2, {"b/*": 3})
