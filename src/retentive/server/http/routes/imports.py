"""Import a file of another program."""

from __future__ import annotations

from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Annotated

from fastapi import APIRouter, Body, Query
from fastapi.responses import JSONResponse

from retentive.models import MAX_NAME
from retentive.server.http.auth import WriteView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import FILE_TYPE, FileRoute
from retentive.server.http.response_models import Imported

router = APIRouter(prefix="/v1/import", tags=["memories"], route_class=FileRoute)


@router.post("", response_model=Imported, summary="Import a file of another program", responses=problem_responses(501))
def import_file(
    view: WriteView,
    body: Annotated[bytes, Body(media_type=FILE_TYPE, description="The file as it is.")],
    name: Annotated[str, Query(min_length=1, max_length=MAX_NAME, description="The name of the file.")],
    project: Annotated[str | None, Query(max_length=MAX_NAME, description="Project for all of its memories.")] = None,
) -> JSONResponse:
    """Imports a file that `retentive import` reads, such as an export of ChatGPT as a zip archive, into the profile.

    What was imported before is not added again. Larger files than a request may have are imported on the command line.
    """
    with TemporaryDirectory(prefix="retentive-import-") as folder:
        path = Path(folder) / (PurePath(name.replace("\\", "/").replace("\0", "")).name[-100:].strip(".") or "file")
        path.write_bytes(body)
        done = view.import_from(path, project=project)
    return json_response(
        {
            "format": done.format,
            "added": done.added,
            "existing": done.existing,
            "skipped": done.skipped,
            "warnings": done.warnings,
            "truncated": done.truncated,
        }
    )
