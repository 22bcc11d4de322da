"""A local web app: one page, static files, and the routes of its parts."""

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from egorecovery.errors import EgoRecoveryError
from egorecovery.studio.access import Access
from egorecovery.studio.guard import Guard
from egorecovery.studio.static_files import static_files


def local_app(*, page: str, routers: Sequence[APIRouter], access: Access) -> Guard:
    """An app behind its guard. `page` is the file below `static/` that `/` shows."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    files = static_files()

    @app.get("/")
    async def front_page() -> Response:
        content, kind = files[page]
        return Response(content, media_type=kind)

    @app.get("/static/{name:path}")
    async def static_file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such file")
        content, kind = files[name]
        return Response(content, media_type=kind)

    for router in routers:
        app.include_router(router)
    app.add_exception_handler(EgoRecoveryError, _explain)
    app.add_exception_handler(OSError, _explain)  # a file that was removed meanwhile, a disk that is gone
    app.add_exception_handler(RequestValidationError, _explain_request)
    app.add_exception_handler(HTTPException, _explain_http)
    return Guard(app, access)  # pyright: ignore[reportArgumentType] - ASGI by protocol, typed more widely there


async def _explain(_: Request, error: Exception) -> Response:
    """A response with the error's own message."""
    return JSONResponse({"error": str(error)}, 422)


async def _explain_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in error.errors())
    return JSONResponse({"error": problems}, 422)


async def _explain_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)
