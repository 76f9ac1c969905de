"""The paper's datasets: discretised as it did, marked not private, and originals fetched with checks."""

import gzip
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pooch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hdpview.errors import DataError
from hdpview_bench import datasets, originals
from hdpview_bench.datasets import dataset_counts, discretise
from hdpview_bench.originals import ORIGINALS, Original, fetched

ADULT_ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, "
    "0, 40, United-States, <=50K"
)


def test_codes_are_the_papers():
    """Whole numbers of a small range as they are; others by ⌊bins·(x − min)/(max + 0.1 − min)⌋."""
    table = pa.table({"text": ["b", "a", "b"], "few": [7, 5, 9], "real": [0.0, 0.5, 1.0]})
    counts = discretise(table, 10)
    assert counts.schema.sizes == (2, 5, 10)
    assert counts.schema.learnt_from_data
    assert sorted(counts.exact_codes.tolist()) == sorted([[1, 2, 0], [0, 0, 4], [1, 4, 9]])


def test_a_table_of_your_own_is_named_by_its_path(tmp_path):
    own = pa.table(
        {
            "kind": pa.array(["b", None, "a", "b"]).dictionary_encode(),
            "day": pa.array([date(2024, 1, 1), date(2024, 1, 3), None, date(2024, 1, 2)]),
            "well": [True, None, False, True],
            "price": pa.array([None, "1.50", "9.00", "4.25"]).cast(pa.decimal128(5, 2)),
            "rate": [0.0, float("nan"), 1.0, float("inf")],
            "text": pa.array(["x", None, "x", "y"], pa.large_string()),
        }
    )
    pq.write_table(own, tmp_path / "own.parquet")
    counts = dataset_counts(str(tmp_path / "own.parquet"), None)
    assert datasets.dataset_title(str(tmp_path / "own.parquet")) == "own"
    assert counts.exact_counts.sum() == 4
    assert counts.schema["kind"].values == ("None", "a", "b")
    rows = {int(row[0]): row.tolist() for row in counts.exact_codes if row[0] != 2}
    assert rows[1][1] == 0  # no day
    assert rows[0][2] == 0  # neither well nor unwell
    assert rows[0][4] == 0  # not a number


def test_a_large_table_is_cut_down_after_its_bins_are_known():
    table = pa.table({"x": np.arange(1000)})
    first, second = (discretise(table, 2000, most_rows=100) for _ in range(2))
    assert first.schema.sizes == (1000,)
    assert int(first.exact_counts.sum()) == len(first.exact_counts) == 100
    assert (first.exact_codes == second.exact_codes).all()


def test_bitcoin_and_gowalla_are_prepared_as_in_the_paper(tmp_path):
    names = ("year", "day", "length", "weight", "count", "looped", "neighbors", "income")
    labels = ["white", "princetonLocky", "montrealCryptXXX"]
    columns = {"address": list("abc"), **{name: [1, 50, 100] for name in names}, "label": labels}
    pq.write_table(pa.table(columns), tmp_path / "bitcoin.parquet")
    bitcoin = dataset_counts("bitcoin", tmp_path)
    assert bitcoin.schema.sizes == (*[30] * 8, 2)
    assert bitcoin.exact_codes[:, -1].tolist().count(0) == 2  # black before white
    places = {
        "user": [1, 2, 3],
        "lat": [10.0, 90.0, 400.0],
        "lon": [0.0, 20.0, 30.0],
        "location_id": [1, 2, 3],
    }
    pq.write_table(pa.table(places), tmp_path / "gowalla.parquet")
    gowalla = dataset_counts("gowalla", tmp_path)
    assert gowalla.schema.sizes == (1000, 1000)
    assert gowalla.exact_counts.sum() == 2


def test_first_columns_keep_all_records(tmp_path):
    whole, part = dataset_counts("hospital", None), dataset_counts("hospital@2", None)
    assert part.schema.sizes == whole.schema.sizes[:2]
    expected = np.zeros(part.schema.sizes, int)
    np.add.at(expected, tuple(whole.exact_codes[:, :2].T), whole.exact_counts)
    assert (expected[tuple(part.exact_codes.T)] == part.exact_counts).all()
    assert part.exact_counts.sum() == whole.exact_counts.sum()
    with pytest.raises(DataError, match="1 to"):
        dataset_counts("hospital@99", None)
    with pytest.raises(DataError, match="--data-dir"):
        dataset_counts("adult", tmp_path)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    served = tmp_path / "served"
    served.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(served))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def publish(monkeypatch, name, rows, *files):
    """Let a dataset be found elsewhere, with other checksums and another number of rows."""
    real = ORIGINALS[name]
    files = tuple(file if isinstance(file, tuple) else (file, None) for file in files)
    monkeypatch.setitem(originals.ORIGINALS, name, Original(files, real.read, rows, real.columns))


def test_adult_is_fetched_checked_and_read_as_published(site, monkeypatch):
    folder, url = site
    other = ADULT_ROW.replace("39", "40").replace("<=50K", ">50K.")
    (folder / "adult.data").write_text(ADULT_ROW + "\n\n")
    (folder / "adult.test").write_text(f"|1x3 Cross validator\n{other}\n\n")
    sums = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("adult.data", "adult.test")
    }
    (first, right), wrong = [(f"{url}/{name}", sums[name]) for name in sums], (f"{url}/adult.test", "0" * 64)
    publish(monkeypatch, "adult", 2, first, wrong)
    with pytest.raises(DataError, match=r"Cannot fetch 'adult' from .*adult.test.*--data-dir"):
        fetched("adult")
    publish(monkeypatch, "adult", 2, first, right)
    rows = pq.read_table(fetched("adult")).to_pylist()
    told = [(row["age"], row["workclass"], row["income"]) for row in rows]
    assert told == [(39, "State-gov", "<=50K"), (40, "State-gov", ">50K")]
    (folder / "adult.data").unlink()
    assert dataset_counts("small-adult", None).exact_counts.sum() == 2  # from the cache, without asking again


def test_what_has_another_shape_than_the_original_is_refused(site, monkeypatch):
    folder, url = site
    line = "19,UP,0.1,0.2,0.3,0.4,0.5,0.6,2\n"
    weather = "holiday,temp,rain_1h,snow_1h,clouds_all,weather_main,weather_description"
    content = f"{weather},date_time,traffic_volume\n" + line * 40
    (folder / "traffic.csv.gz").write_bytes(gzip.compress(content.encode()))
    publish(monkeypatch, "traffic", 48_204, f"{url}/traffic.csv.gz")
    with pytest.raises(DataError, match="has 40 rows and 9 columns instead of 48,204 and 9"):
        fetched("traffic")
    publish(monkeypatch, "traffic", 40, f"{url}/traffic.csv.gz")
    assert pq.read_table(fetched("traffic")).num_rows == 40
    heists = (
        "address,year,day,length,weight,count,looped,neighbors,income,label\n"
        + "a,1,2,3,4,5,6,7,8,white\n" * 30
    )
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("BitcoinHeistData.csv", heists)
    publish(monkeypatch, "bitcoin", 30, f"{url}/data.zip")
    assert dataset_counts("bitcoin", None).exact_counts.sum() == 30


def test_check_ins_have_no_header_and_question_marks_are_missing(site, monkeypatch):
    """As in the paper, a question mark in a number of Jm1 drops the row."""
    folder, url = site
    lines = b"0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n" * 20
    (folder / "gowalla.txt.gz").write_bytes(gzip.compress(lines))
    publish(monkeypatch, "gowalla", 20, f"{url}/gowalla.txt.gz")
    assert pq.read_table(fetched("gowalla")).column_names == ["user", "time", "lat", "lon", "location_id"]
    names = [f"c{i}" for i in range(21)] + ["defects"]
    lines = [",".join(["1.5"] * 21 + ["false"])] * 11 + [",".join(["?"] * 21 + ["true"])]
    (folder / "jm1.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    publish(monkeypatch, "jm1", 12, f"{url}/jm1.csv")
    assert dataset_counts("jm1", None).exact_counts.sum() == 11


def test_an_unreachable_site_is_told_in_words(monkeypatch, tmp_path):
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path)
    publish(monkeypatch, "phoneme", 5404, "http://127.0.0.1:9/phoneme.csv")
    with pytest.raises(DataError, match=r"Cannot fetch 'phoneme'.*Give a folder that holds phoneme.parquet"):
        dataset_counts("phoneme", None)
