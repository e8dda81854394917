"""What the service says about itself holds, for requests made up from that and others."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from msgspec import msgpack
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.rewards.service import Service


@schemathesis.serializer("application/msgpack")
def packed(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """Made-up bodies in msgpack too; what it cannot hold is as wrong as anything."""
    try:
        return msgpack.encode(value)
    except OverflowError:
        return b""


@schemathesis.deserializer("application/msgpack")
def unpacked(_: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:
    """Replies in msgpack are held to their schema too."""
    return msgpack.decode(response.content)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_the_document_holds(service: Service, mode: schemathesis.GenerationMode) -> None:
    """No reply is a server's error; media, schemas and statuses are those of the document."""
    document = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) == 5
    for operation in operations:
        if mode.is_negative and operation.path != "/v1/score":
            continue  # Nothing can be wrong with a request that has no body.

        @given(operation.as_strategy(generation_mode=mode))
        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
        def holds(case: schemathesis.Case) -> None:
            # It cannot say that the verifiers of a composite item differ.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        holds()


def test_scoring_is_in_the_document(service: Service) -> None:
    status, document = service.ask("GET", "/openapi.json")
    assert status == 200
    operation = document["paths"]["/v1/score"]["post"]
    media = {"application/json", "application/msgpack"}
    assert set(operation["requestBody"]["content"]) == media
    assert {"200", "401", "413", "415", "422", "429", "503"} <= set(operation["responses"])
    assert {"Item", "Composite", "Check", "Request", "Verdict"} <= set(
        document["components"]["schemas"]
    )


def test_verifiers_publish_their_shapes_and_versions(service: Service) -> None:
    _, content = service.ask("GET", "/v1/verifiers")
    rows = {row["name"]: row for row in content["verifiers"]}
    assert {name: row["runs"] for name, row in rows.items()} == {
        "answer": "inline", "math": "worker",
    }  # fmt: skip
    assert all(len(row["digest"]) == 64 for row in rows.values())
    assert rows["answer"]["digest"] != rows["math"]["digest"]
    assert all(
        set(row) == {"name", "runs", "digest", "gold", "parameters"} for row in rows.values()
    )
