"""Random questions from the OpenAPI description are answered as described, without internal errors."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from hdpview.explore.page_server import create_app

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = settings(
    max_examples=15, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_made_up_questions_meet_no_fault(hospital, mode):
    app = create_app({"hospital.pview": hospital})
    app.state.start_statements()  # which takes longer on a busy machine than a question may
    asked: set[str] = set()
    for found in schemathesis.openapi.from_asgi(
        "/api/openapi.json", app, headers={"host": "127.0.0.1"}
    ).get_all_operations():
        operation = found.ok()
        if mode == GenerationMode.NEGATIVE and operation.path == "/api/views":
            continue  # it has no parameter that could be invalid

        @EXAMPLES
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            case.call_and_validate(checks=CHECKS, headers={"host": "127.0.0.1"})
            asked.add(case.path)

        ask()
    assert asked >= set(app.openapi()["paths"]) - {"/api/views"}
