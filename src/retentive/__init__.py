"""Retentive: a memory for AI agents. Keyword and semantic search, fused, explained and tunable."""

from __future__ import annotations

TYPE_CHECKING = False  # the module `typing` takes a tenth of the time of a hook to import
if TYPE_CHECKING:
    from typing import Any

    from retentive.aio import AsyncEngine
    from retentive.engine import Engine
    from retentive.errors import (
        Conflict,
        Damaged,
        Invalid,
        MissingExtra,
        NotFound,
        Refused,
        RetentiveError,
        Unavailable,
        VersionConflict,
    )
    from retentive.inference.embedders import Embedder
    from retentive.inference.judge import Judge
    from retentive.models import (
        Filter,
        Hit,
        Kind,
        Memory,
        Model,
        NamedPeriod,
        Query,
        Reason,
        Recall,
        RetrieverReport,
        Scalar,
        Scope,
    )
    from retentive.notebook import show_progress
    from retentive.pipeline.access_tokens import Access, AccessTokens, Token
    from retentive.pipeline.embeddings import Embeddings
    from retentive.pipeline.explain import Explanation, Outcome, RetrieverRank
    from retentive.pipeline.given import Given, GivenLog, GivenNote
    from retentive.pipeline.judgements import JudgementLog
    from retentive.pipeline.query_options import QueryOptions
    from retentive.pipeline.remember import Draft, DraftFields, MemoryChanges
    from retentive.pipeline.retrievers import Retriever
    from retentive.pipeline.review import Review, Reviews, Status, Suggestion
    from retentive.pipeline.similar import Similar
    from retentive.pipeline.timeline import Bucket, Timeline, TimelineBy
    from retentive.pipeline.tuning_history import SavedTuning, TuningChange
    from retentive.ranking import PRESETS, Tuning
    from retentive.settings import EmbedderSettings, Settings
    from retentive.stores.base import Store
    from retentive.stores.damage import Damage, Repair
    from retentive.stores.values import (
        Backup,
        Compaction,
        Judgement,
        OnDuplicate,
        Page,
        Profile,
        Project,
        Session,
        Stats,
    )
    from retentive.tenancy import ProfileView
    from retentive.transfer.exporting.jsonl import ExportResult
    from retentive.transfer.formats.base import ImportIssue
    from retentive.transfer.importing.importer import ImportInterrupted, ImportResult
    from retentive.transfer.importing.log import ImportRun, Imports, UndoResult

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Access",
    "AccessTokens",
    "AsyncEngine",
    "Backup",
    "Bucket",
    "Compaction",
    "Conflict",
    "Damage",
    "Damaged",
    "Draft",
    "DraftFields",
    "Embedder",
    "EmbedderSettings",
    "Embeddings",
    "Engine",
    "Explanation",
    "ExportResult",
    "Filter",
    "Given",
    "GivenLog",
    "GivenNote",
    "Hit",
    "ImportInterrupted",
    "ImportIssue",
    "ImportResult",
    "ImportRun",
    "Imports",
    "Invalid",
    "Judge",
    "Judgement",
    "JudgementLog",
    "Kind",
    "Memory",
    "MemoryChanges",
    "MissingExtra",
    "Model",
    "NamedPeriod",
    "NotFound",
    "OnDuplicate",
    "Outcome",
    "Page",
    "Profile",
    "ProfileView",
    "Project",
    "Query",
    "QueryOptions",
    "Reason",
    "Recall",
    "Refused",
    "Repair",
    "RetentiveError",
    "Retriever",
    "RetrieverRank",
    "RetrieverReport",
    "Review",
    "Reviews",
    "SavedTuning",
    "Scalar",
    "Scope",
    "Session",
    "Settings",
    "Similar",
    "Stats",
    "Status",
    "Store",
    "Suggestion",
    "Timeline",
    "TimelineBy",
    "Token",
    "Tuning",
    "TuningChange",
    "Unavailable",
    "UndoResult",
    "VersionConflict",
    "show_progress",
]

_MODULES = {
    "aio": "AsyncEngine",
    "engine": "Engine",
    "errors": "Conflict Damaged Invalid MissingExtra NotFound Refused RetentiveError Unavailable VersionConflict",
    "inference.embedders": "Embedder",
    "inference.judge": "Judge",
    "models": "Filter Hit Kind Memory Model NamedPeriod Query Reason Recall RetrieverReport Scalar Scope",
    "notebook": "show_progress",
    "pipeline.access_tokens": "Access AccessTokens Token",
    "pipeline.embeddings": "Embeddings",
    "pipeline.explain": "Explanation Outcome RetrieverRank",
    "pipeline.given": "Given GivenLog GivenNote",
    "pipeline.judgements": "JudgementLog",
    "pipeline.query_options": "QueryOptions",
    "pipeline.remember": "Draft DraftFields MemoryChanges",
    "pipeline.retrievers": "Retriever",
    "pipeline.review": "Review Reviews Status Suggestion",
    "pipeline.similar": "Similar",
    "pipeline.timeline": "Bucket Timeline TimelineBy",
    "pipeline.tuning_history": "SavedTuning TuningChange",
    "ranking": "PRESETS Tuning",
    "settings": "EmbedderSettings Settings",
    "stores.base": "Store",
    "stores.damage": "Damage Repair",
    "stores.values": "Backup Compaction Judgement OnDuplicate Page Profile Project Session Stats",
    "tenancy": "ProfileView",
    "transfer.exporting.jsonl": "ExportResult",
    "transfer.formats.base": "ImportIssue",
    "transfer.importing.importer": "ImportInterrupted ImportResult",
    "transfer.importing.log": "ImportRun Imports UndoResult",
}
"""The module of each public name. A name is imported at its first use, so that the command line starts quickly."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(f"retentive.{module}"), name)
    raise AttributeError(f"module 'retentive' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
