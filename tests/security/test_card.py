"""The privacy card: one page with everything a reader must know, and nothing from a hostile file."""

import dataclasses
from functools import partial
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import command_line
import hdpview as hv
from cells import mixture_view
from hdpview.methods import METHODS
from hdpview.pview import PView
from hdpview.view.card import AUDITED
from repeatable import repeatable_noise

pytestmark = pytest.mark.usefixtures("same_noise")

SCHEMA = hv.Schema(
    [hv.Integer(name="age", min=0, max=9), hv.Category(name="sex", values=("f", "m"), other="other")]
)
TABLE = pa.table({"age": [1, 2, 3], "sex": ["f", "m", "x"], "who": ["a", "a", "b"]})


# Share of ε that the counts of blocks get.
COUNTS_SHARE = {"hdpview": 0.1}


@pytest.fixture(scope="module", params=COUNTS_SHARE)
def view(request: pytest.FixtureRequest) -> PView:
    with repeatable_noise():
        return hv.build(TABLE, SCHEMA, 1, method=request.param, privacy_unit="who", max_rows=2)


def test_the_card_says_what_a_reader_must_know(view):
    text, method = view.privacy_card().text, view.manifest.method
    words = [
        "'who'",
        "At most 2 records",
        "epsilon 1",
        "73.1%",
        "age",
        "integer, 10 values: 0 … 9",
        "choose cuts",
    ]
    words += ["total", method, hv.__version__, f"hdpview audit --method {method}"]
    for word in [*words, f"discrete Laplace of scale {2 / COUNTS_SHARE[method]:g}"]:
        assert word in text


TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr", "td"}


def test_the_card_keeps_what_the_histograms_say_and_is_made_to_be_printed():
    schema = hv.Schema([hv.Integer(name="age", min=0, max=9, nullable=True), hv.Boolean(name="sick")])
    table = pa.table({"age": ["[70-80)"] * 900, "sick": [True, False, False] * 300})
    unread = hv.build(table, schema, 5, accept_losses=True)
    card = unread.privacy_card()
    assert "age: 100% of records" in card.text
    assert "of 1 pairs of attributes were counted together" in card.text
    assert [finding.attribute for finding in unread.diagnosis()] == ["age"]
    assert "@media print" in card.html
    assert "age: 100% of records" in card.html
    read = hv.build(pa.table({"age": [*range(10)] * 90, "sick": [True, False, False] * 300}), schema, 5)
    assert "No sign of unreadable values" in read.privacy_card().text


def test_each_kind_of_promise_is_told_apart(view):
    assert "with c records" in hv.build(TABLE, SCHEMA, 1).privacy_card().text
    counted = pa.table({"age": [1], "sex": ["f"], "n": [3]})
    vouched = hv.build(counted, SCHEMA, 1, count="n", max_rows=4).privacy_card().text
    assert "nobody has more than 4 records" in vouched
    assert "The column 'n' gives the number of records per row" in vouched


def test_a_view_that_is_not_private_says_so_first():
    card = hv.build(TABLE, SCHEMA, 1, test_key=b"k").privacy_card()
    assert card.text.index("NOT PRIVATE") < card.text.index("What is protected")
    assert 'class="no"' in card.html


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)


def test_a_hostile_manifest_cannot_write_html(view):
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    schema = hv.Schema([hv.Category(name=evil, values=(evil,))])
    changed = {"privacy_unit": evil, "method": evil, "schema": schema, "not_private_because": (evil,)}
    hostile = PView(dataclasses.replace(view.manifest, **changed), mixture_view(schema, 1).parts)
    tags = Tags()
    tags.feed(hostile.privacy_card().html)
    assert tags.seen <= TAGS


def test_the_command_writes_the_card_both_ways(view, tmp_path):
    view.save(tmp_path / "v.pview")

    run = partial(command_line.run, "info", "v.pview", cwd=tmp_path)

    assert run("--card").stdout == view.privacy_card().text
    assert run("--card", "-o", "card.html").returncode == 0
    assert (tmp_path / "card.html").read_text() == view.privacy_card().html
    assert run("--card", "-o", "nowhere/card.html").returncode == 2


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_an_audit_on_record(method):
    assert 0 <= AUDITED[method] <= 1
