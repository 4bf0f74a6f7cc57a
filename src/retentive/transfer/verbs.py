"""The verbs of `Engine` that import and export."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import IO, TYPE_CHECKING

from retentive.errors import Invalid
from retentive.inference.judge import Judge
from retentive.models import check_name
from retentive.pipeline.embeddings import Embeddings
from retentive.pipeline.recall import RecallLog
from retentive.settings import Settings
from retentive.stores.base import Store

if TYPE_CHECKING:  # imported when they are used: a recall needs none of them
    from retentive.transfer.exporting import ExportResult
    from retentive.transfer.formats.base import ImportIssue
    from retentive.transfer.importing.importer import ImportResult
    from retentive.transfer.importing.log import Imports


class Transfer:
    """The part of `Engine` that imports and exports."""

    store: Store
    settings: Settings
    embeddings: Embeddings
    now: Callable[[], datetime]
    _judge: Judge | None
    _recall_log: RecallLog

    @cached_property
    def imports(self) -> Imports:
        """The imports that can be undone."""
        from retentive.transfer.importing.log import Imports

        return Imports(self.store, after_undo=self._after_undo)

    def _after_undo(self) -> None:
        from retentive.pipeline.review import drop_suggestions

        self.embeddings.embed_missing()
        drop_suggestions(self.store)

    def import_from(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        profile: str | None = None,
        project: str | None = None,
        profiles: Mapping[str, str] | None = None,
        only_profiles: Sequence[str] = (),
        dry_run: bool = False,
        progress: Callable[[int], None] = lambda done: None,
        report: Callable[[ImportIssue], None] = lambda issue: None,
    ) -> ImportResult:
        """Import a file, a folder or a database (`postgresql://…`). Importing it again adds nothing twice.

        The format is detected unless given. Each person of the source (`user_id` in mem0, `profile_id` in tables), and
        each profile of our own export format, is a profile: of the same name, or of the one that `profiles` gives it.
        Memories of nobody go to this engine's profile; with `profile`, all go there. Memories of other profiles than
        `only_profiles` are skipped. All go to `project`, if given. `report` is called for everything that was skipped.
        """
        from retentive.transfer.importing.importer import ImportTarget, import_source, open_source

        check_name("profile", self.settings.profile if profile is None else profile)
        check_name("project", project)
        if isinstance(only_profiles, str):
            raise Invalid(f"only_profiles: a list of names, such as ['{only_profiles:.80}']")
        for name in (*(profiles or {}).values(), *only_profiles):
            check_name("profile", name)
        return import_source(
            self.store,
            None if dry_run else self.embeddings.available(),
            open_source(os.fspath(path), format, self.embeddings.embedder),
            judge=self._judge,
            target=ImportTarget(self.settings.profile, profile, project, profiles or {}, only_profiles),
            clock=self.now,
            dry_run=dry_run,
            progress=progress,
            report=report,
        )

    def export_to(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        everything: bool = False,
        profile: str | None = None,
        project: str | None = None,
        session: str | None = None,
        vectors: bool = False,
        force: bool = False,
        output: IO[bytes] | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> ExportResult:
        """Export memories to a file that `import_from` reads.

        It contains this engine's profile or the given one, or a project or session of it; or, with `everything`, all
        profiles and the saved tuning. If `output` is given, it is written to instead of the file. The format is jsonl;
        or markdown, for people to read, if that is given or the path is a folder.
        """
        from retentive.transfer.exporting import ExportFilter, export_file

        if everything and (profile is not None or project is not None or session is not None):
            raise Invalid("everything exports the whole store; leave it out to export a profile, project or session")
        self._recall_log.record_use()
        return export_file(
            self.store,
            os.fspath(path),
            ExportFilter()
            if everything
            else ExportFilter(self.settings.profile if profile is None else profile, project, session),
            format=format,
            vectors=vectors,
            force=force,
            output=output,
            now=self.now(),
            progress=progress,
        )
