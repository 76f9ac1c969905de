"""An argument that nobody takes is an error, wherever settings of a method may be given."""

from functools import partial

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
def test_an_unknown_argument_is_refused(call, method):
    with pytest.raises(hv.MethodError, match="Unknown argument 'colour'"):
        call(method=method, colour=1)


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("hdpview", {"privacy_unti": "patient_id"}, "Did you mean 'privacy_unit'"),
        (hv.Hdpview(), {"privacy_unti": "patient_id"}, "Did you mean 'privacy_unit'"),
        ("hdpview", {"bias_ration": 2.0}, "Did you mean 'bias_ratio'"),
        (hv.Hdpview(), {"bias_ratio": 2.0}, r"Hdpview\(bias_ratio=…\)"),
        (None, {}, "method must be one of mixture, hdpview, or a method object, not None"),
    ],
)
def test_methods_and_settings_are_checked(method, settings, words):
    with pytest.raises(hv.MethodError, match=words):
        CALLS["build"](method=method, **settings)
