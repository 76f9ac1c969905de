"""The public face: exactly these names, and values that cannot be changed."""

import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import hdpview
from cells import mixture_view, noisy_view
from hdpview.domain import Boolean, Integer, Schema
from hdpview.pview import PView
from hdpview.view.data import ViewPart
from hdpview.view.quality import prior_quality

PUBLIC = """
Answer Answers Boolean BudgetError Category Comparison DataError Date Datetime Estimate Hdpview
HdpviewError Integer InternalError Interval LossError MethodError PView QualityReport QueryError
Real Schema SchemaError SchemaWarning Statistic TextFormat ViewFileError Wishes __version__ build
estimate merge open preview refine
""".split()  # noqa: SIM905 a list would take a line for each


def test_the_public_list_is_this_one():
    assert sorted(hdpview.__all__) == PUBLIC
    assert sorted(dir(hdpview)) == PUBLIC


def test_every_public_name_resolves_whatever_is_imported_first():
    """Functions are not hidden by modules of their name."""
    modules = "; ".join(f"import hdpview.{home}" for home in sorted(set(hdpview._HOME.values())))
    names = ", ".join(f"hdpview.{name}" for name in PUBLIC)
    for first in (modules, f"import hdpview; {names}; {modules}", "import hdpview"):
        program = f"{first}\nassert all(callable(each) or isinstance(each, str) for each in ({names}))"
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_unknown_names_are_attribute_errors():
    assert not hasattr(hdpview, "exact_counts")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hdpview.nothing  # noqa: B018


def test_all_errors_are_one_family():
    for name in PUBLIC:
        if name.endswith("Error"):
            assert issubclass(getattr(hdpview, name), hdpview.HdpviewError)
            assert not issubclass(getattr(hdpview, name), (ValueError, TypeError, KeyError, OSError))


SCHEMA = Schema([Integer(name="a", min=0, max=3), Integer(name="b", min=0, max=1)])


def test_nothing_of_a_view_can_be_changed():
    view = noisy_view(SCHEMA, 1)
    (mixture,) = mixture_view(SCHEMA, 1).parts
    components, table = mixture.components, mixture.tables[0]
    manifest = view.manifest
    owners: list[Any] = [view, view.blocks, components, table, view.parts[0].quality, manifest, view.schema]
    for owner in (*owners, view.schema.attributes[0], manifest.spending[0]):
        for name in ("count", *(field.name for field in dataclasses.fields(owner))):
            with pytest.raises(AttributeError):
                setattr(owner, name, None)
            with pytest.raises(AttributeError):
                delattr(owner, name)
    for mapping in (manifest.settings, manifest.parameters):
        with pytest.raises(TypeError):
            mapping["epsilon"] = 3.0
    arrays = [getattr(view.blocks, name) for name in ("lower", "upper", "noisy_counts", "depth", "weight")]
    arrays += [components.weight, components.fit_index, table.counts, *table.shape.bin_of_code]
    arrays += [*components.bin_of_code, *components.within_bin_share, *components.share]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_manifest_can_be_pickled():
    manifest = noisy_view(SCHEMA, 1).manifest
    assert pickle.loads(pickle.dumps(manifest)) == manifest


def test_the_number_of_records_told_is_the_one_answered():
    empty = noisy_view(Schema([Boolean(name="a")]), seed=0, n_cuts=0)
    blocks = dataclasses.replace(empty.blocks, noisy_counts=np.array([-7]))
    below = PView(empty.manifest, (ViewPart(blocks, prior_quality(blocks)),))
    assert below.info()["estimated_records"] == below.count().estimate == 0
    assert "about 0 records" in repr(below)


def test_info_is_a_copy():
    view = noisy_view(SCHEMA, 1)
    before = view.info()
    for value in view.info().values():
        if isinstance(value, (dict, list)):
            value.clear()
    assert view.info() == before
