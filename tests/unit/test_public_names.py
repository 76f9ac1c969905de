"""The public face: exactly these names, and values that cannot be changed."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hdpview
from cells import mixture_view, noisy_view
from hdpview.domain import Boolean, Integer, Schema
from hdpview.methods import DEFAULT_METHOD
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.manifest import Manifest, Spending
from hdpview.view.quality import prior_quality

PUBLIC = [
    "Answer",
    "Answers",
    "Boolean",
    "BudgetError",
    "Category",
    "Comparison",
    "DataError",
    "Date",
    "Datetime",
    "Estimate",
    "Hdpview",
    "HdpviewError",
    "Integer",
    "InternalError",
    "Interval",
    "LossError",
    "MethodError",
    "PView",
    "QualityReport",
    "QueryError",
    "Real",
    "Schema",
    "SchemaError",
    "SchemaWarning",
    "Statistic",
    "TextFormat",
    "ViewFileError",
    "Wishes",
    "__version__",
    "build",
    "estimate",
    "merge",
    "open",
    "preview",
    "refine",
]


def test_the_public_list_is_this_one() -> None:
    """`hdpview.__all__` is exactly the stated list, and `dir` shows no other name."""
    assert sorted(hdpview.__all__) == PUBLIC
    assert sorted(dir(hdpview)) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves(name: str) -> None:
    """Every public name is there, callable or a text; those whose home has another name, or their own, also
    in a process that has imported nothing else.
    """
    program = f"import hdpview; x = hdpview.{name}; assert callable(x) or isinstance(x, str), x"
    if name in ("build", "open"):
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
    found = getattr(hdpview, name)
    assert callable(found) or isinstance(found, str)


def test_public_functions_are_not_hidden_by_modules() -> None:
    """`build`, `estimate` and `open` stay functions whichever modules are loaded, in whichever order."""
    first = "; ".join(f"import hdpview.{home}" for home in sorted(set(hdpview._HOME.values())))
    for order in (first, "import hdpview; hdpview.build, hdpview.estimate, hdpview.open; " + first):
        program = f"{order}\nassert all(map(callable, (hdpview.build, hdpview.estimate, hdpview.open)))"
        subprocess.run([sys.executable, "-c", program], check=True)


def test_unknown_names_are_attribute_errors() -> None:
    """A name that is not public raises AttributeError, so that hasattr works."""
    assert not hasattr(hdpview, "exact_counts")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hdpview.nothing  # noqa: B018


def test_all_errors_are_one_family() -> None:
    """Every public error is an HdpviewError, and none is a builtin error that a bug could raise too."""
    for name in PUBLIC:
        if name.endswith("Error"):
            assert issubclass(getattr(hdpview, name), hdpview.HdpviewError)
            assert not issubclass(getattr(hdpview, name), (ValueError, TypeError, KeyError, OSError))


def test_everything_that_builds_takes_the_default_method_unless_told_otherwise() -> None:
    """`build`, `estimate` and `audit` agree with their commands, which name the method by themselves so that
    they start at once.
    """
    from hdpview.cli import build
    from hdpview_bench.audit.run import audit
    from hdpview_bench.cli import audit as audit_command

    for function in (
        hdpview.build,
        hdpview.estimate,
        audit,
        build.build,
        build.estimate,
        audit_command.audit,
    ):
        assert inspect.signature(function).parameters["method"].default in (DEFAULT_METHOD, None)


def small_view() -> PView:
    manifest = Manifest(
        schema=Schema([Integer(name="a", min=0, max=3), Integer(name="b", min=0, max=1)]),
        method="hdpview",
        epsilon=Fraction(1),
        spending=(Spending("noise on counts", Fraction(1), 1),),
        settings={"bias_ratio": 1.6},
        parameters={"epsilon_cut": 0.1},
        library_version="0",
    )
    lower = np.array([[0, 0], [2, 0]], np.int32)
    blocks = Blocks(lower, lower + 2, np.array([5, -1]), np.array([2, 2], np.int32), 1.0)
    return PView(manifest, (ViewPart(blocks, prior_quality(blocks)),))


@pytest.mark.parametrize(
    "part", ["view", "blocks", "mixture", "table", "quality", "manifest", "schema", "attribute", "spending"]
)
def test_no_field_can_be_set(part: str) -> None:
    """No field of a view, its blocks, its manifest, its schema or its ledger of spending can be assigned or
    deleted.
    """
    view = small_view()
    owner: Any = {
        "view": view,
        "blocks": view.blocks,
        "mixture": mixture_view(view.schema, 1).parts[0].components,
        "table": mixture_view(view.schema, 1).parts[0].tables[0],
        "quality": view.parts[0].quality,
        "manifest": view.manifest,
        "schema": view.schema,
        "attribute": view.schema.attributes[0],
        "spending": view.manifest.spending[0],
    }[part]
    for field in dataclasses.fields(owner):
        with pytest.raises(AttributeError):
            setattr(owner, field.name, None)
        with pytest.raises(AttributeError):
            delattr(owner, field.name)


def test_no_method_of_a_view_can_be_replaced() -> None:
    """A view's methods cannot be shadowed by assigning to the view."""
    with pytest.raises(AttributeError):
        small_view().count = None  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("name", ["lower", "upper", "noisy_counts", "depth", "weight"])
def test_no_array_of_blocks_can_be_written(name: str) -> None:
    """Bounds, counts and depths of blocks are read-only arrays."""
    array = getattr(small_view().blocks, name)
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 0


def test_no_array_of_a_mixture_can_be_written() -> None:
    """Weights, bins, shapes, shares, fits and released counts are read-only arrays."""
    (part,) = mixture_view(small_view().schema, 1).parts
    of_attributes = [*part.components.bin_of_code, *part.components.within_bin_share, *part.components.share]
    of_tables = [array for table in part.tables for array in (table.counts, *table.shape.bin_of_code)]
    for array in (part.components.weight, part.components.fit_index, *of_attributes, *of_tables):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("name", ["settings", "parameters"])
def test_no_mapping_of_a_manifest_can_be_written(name: str) -> None:
    """What a manifest says of settings and parameters cannot be changed, nor by whoever made it."""
    with pytest.raises(TypeError):
        getattr(small_view().manifest, name)["epsilon"] = 3.0


def test_a_manifest_can_be_pickled() -> None:
    """Read-only mappings do not keep a view from being sent to another process."""
    manifest = small_view().manifest
    assert pickle.loads(pickle.dumps(manifest)) == manifest


def test_the_number_of_records_told_is_the_one_answered() -> None:
    """What a view says of itself, and what it answers when asked for the count of everything, is one number,
    and never below 0.
    """
    empty = noisy_view(Schema([Boolean(name="a")]), seed=0, n_cuts=0)
    blocks = dataclasses.replace(empty.blocks, noisy_counts=np.array([-7]))
    below = PView(empty.manifest, (ViewPart(blocks, prior_quality(blocks)),))
    assert below.info()["estimated_records"] == below.count().estimate == 0
    assert "about 0 records" in repr(below)


def test_info_is_a_copy() -> None:
    """Changing what `info` returned changes nothing in the view."""
    view = small_view()
    before = view.info()
    for value in view.info().values():
        if isinstance(value, (dict, list)):
            value.clear()
    assert view.info() == before
