"""Retentive: a memory for AI agents. Keyword and semantic search, fused, explained and tunable."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retentive.aio import AsyncEngine
    from retentive.engine import Engine, Imports, QueryOptions
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
    from retentive.inference.embedders.base import Embedder
    from retentive.inference.rerankers import Reranker
    from retentive.models import (
        Bucket,
        Compaction,
        Damage,
        Explanation,
        Filter,
        Hit,
        Judgement,
        Kind,
        Memory,
        Model,
        Outcome,
        Page,
        Profile,
        Project,
        Query,
        Reason,
        Recall,
        Repair,
        RetrieverReport,
        Scalar,
        Scope,
        Session,
        Standing,
        Stats,
        Timeline,
        TimelineBy,
    )
    from retentive.pipeline.access_tokens import Access, AccessTokens, Token
    from retentive.pipeline.embeddings import Embeddings
    from retentive.pipeline.judgements import JudgementLog
    from retentive.pipeline.remember import Draft, DraftFields, MemoryChanges
    from retentive.pipeline.retrievers import Retriever
    from retentive.pipeline.tuning_history import SavedTuning, TuningChange
    from retentive.ranking import PRESETS, Tuning
    from retentive.settings import EmbedderSettings, Settings
    from retentive.stores.base import Store
    from retentive.tenancy import ProfileView
    from retentive.transfer.exporting.jsonl import ExportResult
    from retentive.transfer.formats.base import ImportIssue
    from retentive.transfer.importing.importer import ImportInterrupted, ImportResult
    from retentive.transfer.importing.log import ImportRun, UndoResult

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Access",
    "AccessTokens",
    "AsyncEngine",
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
    "Hit",
    "ImportInterrupted",
    "ImportIssue",
    "ImportResult",
    "ImportRun",
    "Imports",
    "Invalid",
    "Judgement",
    "JudgementLog",
    "Kind",
    "Memory",
    "MemoryChanges",
    "MissingExtra",
    "Model",
    "NotFound",
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
    "Reranker",
    "RetentiveError",
    "Retriever",
    "RetrieverReport",
    "SavedTuning",
    "Scalar",
    "Scope",
    "Session",
    "Settings",
    "Standing",
    "Stats",
    "Store",
    "Timeline",
    "TimelineBy",
    "Token",
    "Tuning",
    "TuningChange",
    "Unavailable",
    "UndoResult",
    "VersionConflict",
]

_MODULES = {
    "aio": "AsyncEngine",
    "engine": "Engine Imports QueryOptions",
    "errors": "Conflict Damaged Invalid MissingExtra NotFound Refused RetentiveError Unavailable VersionConflict",
    "inference.embedders.base": "Embedder",
    "inference.rerankers": "Reranker",
    "models": "Bucket Compaction Damage Explanation Filter Hit Judgement Kind Memory Model Outcome Page Profile "
    "Project Query Reason Recall Repair RetrieverReport Scalar Scope Session Standing Stats Timeline TimelineBy",
    "pipeline.access_tokens": "Access AccessTokens Token",
    "pipeline.embeddings": "Embeddings",
    "pipeline.judgements": "JudgementLog",
    "pipeline.remember": "Draft DraftFields MemoryChanges",
    "pipeline.retrievers": "Retriever",
    "pipeline.tuning_history": "SavedTuning TuningChange",
    "ranking": "PRESETS Tuning",
    "settings": "EmbedderSettings Settings",
    "stores.base": "Store",
    "tenancy": "ProfileView",
    "transfer.exporting.jsonl": "ExportResult",
    "transfer.formats.base": "ImportIssue",
    "transfer.importing.importer": "ImportInterrupted ImportResult",
    "transfer.importing.log": "ImportRun UndoResult",
}
"""The module of each public name. A name is imported at its first use, so that the command line starts quickly."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(f"retentive.{module}"), name)
    raise AttributeError(f"module 'retentive' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
