"""An argument that nobody takes is an error, wherever settings of a method may be given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import hdpview as hv
from hdpview_bench.audit.run import audit

SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=9)])
TABLE = pa.table({"age": [1, 2, 3], "patient_id": [1, 1, 2]})
CALLS = {
    "build": partial(hv.build, TABLE, SCHEMA, 1, test_key=b"k"),
    "estimate": partial(hv.estimate, SCHEMA, 100, 1),
    "audit": partial(audit, runs=100),
}


@pytest.mark.parametrize("method", ["hdpview", hv.Hdpview()])
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_an_unknown_argument_is_refused(call: Callable[..., Any], method: Any) -> None:
    """With a method's name and with a method object alike: nothing that was written is left unread."""
    with pytest.raises(hv.MethodError, match="Unknown argument 'colour'"):
        call(method=method, colour=1)


@pytest.mark.parametrize("method", ["hdpview", hv.Hdpview()])
def test_a_misspelt_argument_of_build_is_recognised(method: Any) -> None:
    """`privacy_unti` would protect rows where persons were meant."""
    with pytest.raises(hv.MethodError, match="Did you mean 'privacy_unit'"):
        CALLS["build"](method=method, privacy_unti="patient_id")


def test_settings_beside_a_method_object_are_refused() -> None:
    """The object has its own, and which of the two counts would be a guess."""
    with pytest.raises(hv.MethodError, match=r"Hdpview\(bias_ratio=…\)"):
        CALLS["build"](method=hv.Hdpview(), bias_ratio=2.0)


def test_a_misspelt_setting_is_recognised() -> None:
    """Settings of the method are among what may have been meant."""
    with pytest.raises(hv.MethodError, match="Did you mean 'bias_ratio'"):
        CALLS["build"](method="hdpview", bias_ration=2.0)
