"""The OpenAPI document, with the route that FastAPI does not see."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, TypeAdapter

from rewards.front import SCORE
from rewards.media import JSON, MSGPACK
from rewards.schema import Composite, Item, Request, Response

_REF = "#/components/schemas/{model}"


class Problem(BaseModel):
    """What is wrong at `loc`, and what was expected there."""

    model_config = ConfigDict(frozen=True)

    loc: list[int | str]
    msg: str
    type: str


class Malformed(BaseModel):
    """A body is not what it should be."""

    model_config = ConfigDict(frozen=True)

    detail: list[Problem]


class Refused(BaseModel):
    """A request is not answered, for a reason other than its body's content."""

    model_config = ConfigDict(frozen=True)

    detail: str


_REFUSALS = {
    401: "The token is missing or wrong", 408: "The body did not arrive in time",
    413: "The body is too large", 415: "Another medium", 429: "The queue is full",
    503: "The service is stopping",
}  # fmt: skip


_CACHE_CONTROL = {
    "name": "Cache-Control", "in": "header", "required": False, "schema": {"type": "string"},
    "description": "With `no-cache` every item is checked; no verdict is one that was remembered",
}  # fmt: skip


def described(app: FastAPI, *, guarded: bool) -> dict[str, Any]:
    """The document of `app` and of scoring; `guarded` if a token is needed. Made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        document["paths"][SCORE] = {"post": _operation(schemas)}
        if guarded:
            _guard(document)
        app.openapi_schema = document
    return app.openapi_schema


def _operation(schemas: dict[str, Any]) -> dict[str, Any]:
    body = _schema(Item | Composite | Request, schemas)
    responses = {
        "200": _reply("Verdicts in the order of the items", _schema(Response, schemas), MSGPACK),
        "422": _reply("Something is wrong with the body", _schema(Malformed, schemas)),
    }
    refused = _schema(Refused, schemas)
    for status, text in _REFUSALS.items():
        responses[str(status)] = _reply(text, refused)
    return {
        "summary": "Score",
        "description": "Verdicts on one item, or on `items`, in their order.",
        "operationId": "score",
        "parameters": [_CACHE_CONTROL],
        "requestBody": {"required": True, "content": _content(body, MSGPACK)},
        "responses": dict(sorted(responses.items())),
    }


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of `kind`; the models in it go to `schemas`."""
    schema = TypeAdapter(kind).json_schema(ref_template=_REF)
    schemas.update(schema.pop("$defs", {}))
    if "title" in schema and schema.get("type") == "object":
        schemas[schema["title"]] = schema
        return {"$ref": _REF.format(model=schema["title"])}
    return schema


def _reply(text: str, schema: dict[str, Any], *media: str) -> dict[str, Any]:
    return {"description": text, "content": _content(schema, *media)}


def _content(schema: dict[str, Any], *media: str) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind in (JSON, *media)}


def _guard(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path != "/healthz":
                operation["security"] = [{"token": []}]
                operation["responses"].setdefault("401", {"description": _REFUSALS[401]})
