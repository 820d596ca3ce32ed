"""The API against its own specification: random requests of every kind, each answered as the document says."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from coordinator.shell.web.access import Role
from tests.coordinator.shell.web.test_api import Service
from tests.coordinator.shell.web.test_roles import ROUTES

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)) for method, rule in ROUTES if rule.startswith("/api/v1/")
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service"), unlimited=True)
    made.admin = made.token(Role.ADMIN)
    yield made
    made.database.close()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda value: value)
def test_every_answer_is_one_that_the_document_announces(service, method, path):
    operation = schemathesis.openapi.from_wsgi("/docs/openapi.json", service.app)[path][method]

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy())
    def announced(case) -> None:
        headers = {"Authorization": f"Bearer {service.admin}"}
        case.call_and_validate(headers=headers, checks=CHECKS)

    announced()
