"""The API against its own specification: random requests of every kind, each answered as the document says."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from nightjar.coordinator.access import Role
from nightjar.coordinator.web.admission import MOST_BODY_BYTES
from tests.coordinator.web.test_api import Service
from tests.coordinator.web.test_roles import ROUTES

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)) for method, rule in ROUTES if rule.startswith("/api/v1/")
]


WHO = [None, Role.VIEWER, Role.OPERATOR, Role.ADMIN]
EXAMPLES = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service"), unlimited=True)
    made.headers = {None: {}} | {role: {"Authorization": f"Bearer {made.token(role)}"} for role in Role}
    yield made
    made.database.close()


def operation_of(service, method, path):
    return schemathesis.openapi.from_wsgi("/docs/openapi.json", service.app)[path][method]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda value: value)
def test_every_answer_to_everybody_is_one_that_the_document_announces(service, method, path):
    @EXAMPLES
    @given(operation_of(service, method, path).as_strategy(), st.sampled_from([*WHO, Role.ADMIN, Role.ADMIN]))
    def announced(case, role) -> None:
        case.call_and_validate(headers=service.headers[role], checks=CHECKS)

    announced()


def is_refused(ctx, response, case):
    """Not accepted; too large is one more way not to be what the document allows."""
    return response.status_code == 413 or negative_data_rejection(ctx, response, case)


WITH_INPUT = [(method, path) for method, path in OPERATIONS if method == "POST"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), WITH_INPUT, ids=lambda value: value)
def test_input_that_the_document_does_not_allow_is_refused(service, method, path):
    operation = operation_of(service, method, path)

    @EXAMPLES
    @given(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def refused(case) -> None:
        case.call_and_validate(headers=service.headers[Role.ADMIN], checks=[*CHECKS, is_refused])

    refused()


def test_a_body_that_is_too_large_is_refused_in_words_as_the_document_announces(service):
    client = service.app.test_client()
    paths = client.get("/docs/openapi.json").get_json()["paths"]
    assert {path for _, path in WITH_INPUT if "413" not in paths[path]["post"]["responses"]} == set()
    answer = client.post("/api/v1/claims", json={"name": "x" * MOST_BODY_BYTES}, headers=service.headers[Role.ADMIN])
    assert (answer.status_code, "65,536 bytes" in answer.get_json()["detail"]) == (413, True)
