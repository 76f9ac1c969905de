"""Draws the hospital admissions of the demo, all invented: EVERY RECORD IS FICTITIOUS, drawn by the rules in
this file from a fixed seed. `python -m hdpview_bench.hospital` writes the file that the package ships.

No person, hospital or district behind them exists and no real data went into them; the weights are plausible
guesses, not findings. That is why, unlike anything private in this package, the table may be reproducible and
its exact counts shown.

The rules follow the order in which a hospital learns things, each drawn given the ones before:

    patient (age, sex, region, insurance, smoker) ─▶ dates ─▶ diagnosis ─▶ admission ─▶ ward ─▶ stay ─▶ cost
                                                       └─ season ─┘                        blood pressure,
                                                       readmitted
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.random import Generator
from numpy.typing import NDArray

import hdpview.demo

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FIRST_MINUTE = np.datetime64("2020-01-01T00:00", "m")
# The file of the demo holds whole numbers of so much: half the bytes.
STORED_UNITS = {"cost": 0.01, "systolic_bp": 0.1}
MAX_ADMISSIONS = 6  # of one patient
_N_DAYS = 1827  # to the end of 2024
_LONGEST_GAP = 300  # days between admissions: MAX_ADMISSIONS - 1 of them fit into the period
_DAYS_PER_YEAR = 365.25
_AGE_BANDS = (15, 45, 65)  # children, younger adults, middle age, older people

# Blemishes: the last values of sexes (1), regions (2), insurances (1) and diagnoses (2) are not in the
# schema; they count as `other`.
_SEXES = {"Female": 0.515, "Male": 0.483, "U": 0.002}
_REGIONS = {
    "Northmoor": 0.27, "Eastvale": 0.19, "Harrowick": 0.14, "Sarnmouth": 0.11, "Westerlea": 0.08,
    "Kelbridge": 0.07,
    "Dunfold": 0.05, "Ashmere": 0.04, "Loxley Bay": 0.025, "Upper Thane": 0.015,
    "Overseas": 0.007, "New Sarn": 0.003,
}  # fmt: skip
_WEALTHY = ("Westerlea", "Ashmere", "Upper Thane")
_INSURANCES = ("public", "private", "self-pay", "charity")
_ADMISSIONS = ("emergency", "planned", "transfer")
_WARDS = {  # crowns per admission, crowns per night
    "general medicine": (600, 420), "surgery": (2600, 610), "cardiology": (1900, 680),
    "oncology": (2300, 740),
    "maternity": (1100, 480), "paediatrics": (500, 450), "psychiatry": (300, 310),
    "intensive care": (4800, 1900),
}  # fmt: skip


@dataclass(frozen=True)
class _Diagnosis:
    by_age: tuple[float, float, float, float]  # relative frequency in each age band
    emergency: float  # share of emergencies
    wards: dict[str, float]  # shares; children and intensive care come on top
    nights: float  # median stay of a young adult
    only: str | None = None  # the one sex it concerns
    winter: float = 0.0  # swing over the year: positive peaks in mid-January, negative in mid-July


_DIAGNOSES = {
    "respiratory": _Diagnosis((34, 9, 13, 19), 0.78, {"general medicine": 1.0}, 3.0, winter=0.65),
    "circulatory": _Diagnosis((1, 5, 24, 31), 0.62, {"cardiology": 0.75, "general medicine": 0.25}, 4.0),
    "cancer": _Diagnosis((2, 5, 20, 17), 0.18, {"oncology": 0.7, "surgery": 0.3}, 4.5),
    "injury": _Diagnosis((22, 16, 10, 11), 0.9, {"surgery": 0.8, "general medicine": 0.2}, 1.8, winter=-0.25),
    "digestive": _Diagnosis((16, 15, 16, 11), 0.48, {"surgery": 0.6, "general medicine": 0.4}, 2.2),
    "mental health": _Diagnosis((4, 13, 8, 4), 0.55, {"psychiatry": 0.9, "general medicine": 0.1}, 9.0),
    "urinary": _Diagnosis((6, 8, 8, 9), 0.4, {"general medicine": 0.6, "surgery": 0.4}, 1.8),
    "infection": _Diagnosis((14, 5, 4, 6), 0.82, {"general medicine": 1.0}, 3.5, winter=0.2),
    "pregnancy": _Diagnosis((0, 52, 0, 0), 0.3, {"maternity": 1.0}, 2.0, only="Female"),
    "prostate": _Diagnosis((0, 0, 7, 10), 0.12, {"surgery": 0.7, "oncology": 0.3}, 2.0, only="Male"),
    "ophthalmic": _Diagnosis((0.3, 0.3, 0.6, 1.2), 0.1, {"surgery": 1.0}, 0.4),
    "dental": _Diagnosis((0.8, 0.5, 0.2, 0.1), 0.2, {"surgery": 1.0}, 0.3),
}  # fmt: skip


def invent_admissions(n_rows: int = 50_000, seed: int = 2022) -> pa.Table:
    """Invented admissions, in order of patient and date: the columns of `hospital_schema`, `patient_id` and
    `insurance`.

    A patient has 1 to 6 rows, which agree on what does not change. The same arguments give the same table.
    """
    rng = np.random.default_rng(seed)
    first_age = _first_ages(rng, n_rows)
    patient, nth, day = _visits(rng, first_age, n_rows)
    n_patients = int(patient.max(initial=-1)) + 1
    first_age = first_age[:n_patients]
    sex = rng.choice(len(_SEXES), n_patients, p=list(_SEXES.values()))
    region = rng.choice(len(_REGIONS), n_patients, p=list(_REGIONS.values()))
    insurance, insured_unknown = _insurance(rng, first_age, region)
    smoker, smoker_unknown = _smoking(rng, first_age, sex)

    # From here on one entry per admission.
    sex, region, insurance, smoker = sex[patient], region[patient], insurance[patient], smoker[patient]
    age = (first_age[patient] + (day - day[np.arange(n_rows) - nth]) / _DAYS_PER_YEAR).astype(np.int64)
    diagnosis = _diagnosis(rng, age, sex, smoker, day)
    admission = _admission(rng, diagnosis, age)
    ward = _ward(rng, diagnosis, admission, age)
    until_next = np.where(np.append(nth[1:], 0) > 0, np.append(day[1:], 0) - day, _N_DAYS)
    stay = np.minimum(_stay(rng, diagnosis, ward, age), until_next)
    back = (nth > 0) & (day - np.roll(day + stay, 1) <= 30)
    pressure, unmeasured = _blood_pressure(rng, age, diagnosis, smoker)
    hour = np.where(
        admission == _ADMISSIONS.index("planned"), rng.uniform(7, 11, n_rows), rng.uniform(0, 24, n_rows)
    )
    minutes = (day * 1440 + (hour * 60).astype(np.int64)).astype("timedelta64[m]")
    return pa.table(
        {
            "patient_id": pa.array([f"P{number:06d}" for number in patient.tolist()], pa.string()),
            "age": pa.array(age.astype(np.int16)),
            "sex": _texts(sex, _SEXES),
            "region": _texts(region, _REGIONS),
            "insurance": _texts(insurance, _INSURANCES, insured_unknown[patient]),
            "admitted": pa.array((FIRST_MINUTE + minutes).astype("datetime64[us]")),
            "admission": _texts(admission, _ADMISSIONS),
            "diagnosis": _texts(diagnosis, _DIAGNOSES),
            "ward": _texts(ward, _WARDS),
            "stay_days": pa.array(stay.astype(np.int16)),
            "cost": pa.array(_cost(rng, ward, stay)),
            "systolic_bp": pa.array(pressure, mask=unmeasured),
            "smoker": pa.array(smoker, mask=smoker_unknown[patient]),
            "readmitted": pa.array(back),
        }
    )


def _first_ages(rng: Generator, n_patients: int) -> Floats:
    """Ages on the first admission, in years: mostly older people; a few above 95."""
    means, spreads = np.array([5.0, 32.0, 67.0]), np.array([5.0, 8.0, 13.0])
    group = rng.choice(3, n_patients, p=[0.1, 0.27, 0.63])
    return np.clip(np.abs(rng.normal(means[group], spreads[group])), 0.0, 104.0)


def _visits(rng: Generator, first_age: Floats, n_rows: int) -> tuple[Ints, Ints, Ints]:
    """For each row its patient, that patient's rows before it, and the day, rising by patient."""
    # the old and ill come back more often
    n_visits = 1 + rng.binomial(MAX_ADMISSIONS - 1, 0.05 + 0.0025 * first_age)
    patient = np.repeat(np.arange(n_rows), n_visits)[:n_rows]
    first_row = np.cumsum(n_visits) - n_visits
    nth = np.arange(n_rows) - first_row[patient]
    soon = rng.random(n_rows) < 0.35
    gap = np.where(soon, rng.exponential(20.0, n_rows), rng.uniform(20.0, _LONGEST_GAP, n_rows)).astype(
        np.int64
    )
    since_any = np.cumsum(np.where(nth > 0, np.clip(gap, 1, _LONGEST_GAP), 0))
    since_first = since_any - since_any[first_row[patient]]
    span = np.zeros(n_rows, dtype=np.int64)
    np.maximum.at(span, patient, since_first)
    first_day = (rng.random(n_rows) * (_N_DAYS - span)).astype(np.int64)
    return patient, nth, first_day[patient] + since_first


def _insurance(rng: Generator, age: Floats, region: Ints) -> tuple[Ints, Bools]:
    """The kind of insurance, and whether it is missing from the record."""
    wealthy = np.isin(region, [list(_REGIONS).index(name) for name in _WEALTHY])
    private = 0.08 + 0.22 * wealthy + 0.05 * (age > 50)
    self_pay = np.where(age < 45, 0.09, 0.03)
    charity = np.full(len(age), 0.004)
    kind = _pick(rng, np.stack([1 - private - self_pay - charity, private, self_pay, charity], axis=1))
    return kind, rng.random(len(age)) < 0.02


def _smoking(rng: Generator, age: Floats, sex: Ints) -> tuple[Bools, Bools]:
    """Whether a patient smokes, and whether that is missing: children are hardly ever asked."""
    share = np.array([0.0, 0.27, 0.25, 0.12])[_band(age)] * np.where(
        sex == list(_SEXES).index("Male"), 1.25, 0.85
    )
    return rng.random(len(age)) < share, rng.random(len(age)) < np.where(age < 15, 0.95, 0.11)


def _diagnosis(rng: Generator, age: Ints, sex: Ints, smoker: Bools, day: Ints) -> Ints:
    """Given age band, sex, smoking and season, which swings as a cosine around mid-January."""
    season = np.cos(2 * np.pi * (day - 15) / _DAYS_PER_YEAR)
    by_band = np.array([diagnosis.by_age for diagnosis in _DIAGNOSES.values()]).T
    weights = by_band[_band(age)]
    for i, (name, diagnosis) in enumerate(_DIAGNOSES.items()):
        weights[:, i] *= 1 + diagnosis.winter * season
        if diagnosis.only is not None:
            weights[:, i] *= sex == list(_SEXES).index(diagnosis.only)
        if name in ("respiratory", "circulatory", "cancer"):
            weights[:, i] *= np.where(smoker, 1.5, 1.0)
    return _pick(rng, weights)


def _admission(rng: Generator, diagnosis: Ints, age: Ints) -> Ints:
    emergency = np.array([diagnosis.emergency for diagnosis in _DIAGNOSES.values()])[diagnosis]
    emergency = np.minimum(emergency + 0.1 * (age >= 75), 0.95)
    transfer = 0.1 * (1 - emergency)
    return _pick(rng, np.stack([emergency, 1 - emergency - transfer, transfer], axis=1))


def _ward(rng: Generator, diagnosis: Ints, admission: Ints, age: Ints) -> Ints:
    """By diagnosis; most children lie in paediatrics, and some emergencies in intensive care."""
    wards = list(_WARDS)
    shares = np.array(
        [[diagnosis.wards.get(ward, 0.0) for ward in wards] for diagnosis in _DIAGNOSES.values()]
    )
    usual = _pick(rng, shares[diagnosis])
    luck = rng.random(len(age))
    critical = (admission == _ADMISSIONS.index("emergency")) & (luck < 0.03 + 0.05 * (age >= 65))
    child = (age < _AGE_BANDS[0]) & (luck < 0.93)
    return np.where(
        critical, wards.index("intensive care"), np.where(child, wards.index("paediatrics"), usual)
    )


def _stay(rng: Generator, diagnosis: Ints, ward: Ints, age: Ints) -> Ints:
    """Nights, from 0: log-normal around a median that grows with age."""
    median = np.array([diagnosis.nights for diagnosis in _DIAGNOSES.values()])[diagnosis] * np.exp(
        (age - 30) / 80
    )
    severity = np.where(ward == list(_WARDS).index("intensive care"), 1.8, 1.0)
    return (median * severity * rng.lognormal(0.0, 0.75, len(age))).astype(np.int64)


def _cost(rng: Generator, ward: Ints, stay: Ints) -> Floats:
    """Crowns: what the ward takes per admission and per night, log-normal around it."""
    base, nightly = np.array(list(_WARDS.values())).T
    cost: Floats = (base[ward] + nightly[ward] * stay) * rng.lognormal(0.0, 0.4, len(ward))
    return np.round(cost, 2)


def _blood_pressure(rng: Generator, age: Ints, diagnosis: Ints, smoker: Bools) -> tuple[Floats, Bools]:
    """Systolic blood pressure in mmHg, and whether it is missing."""
    circulatory = diagnosis == list(_DIAGNOSES).index("circulatory")
    expected = 98 + 0.48 * np.minimum(age, 80) + 12 * circulatory + 3 * smoker
    return np.round(rng.normal(expected, 14.0), 1), rng.random(len(age)) < np.where(age < 15, 0.6, 0.08)


def _band(age: Ints | Floats) -> NDArray[np.intp]:
    return np.searchsorted(_AGE_BANDS, age, side="right")


def _pick(rng: Generator, weights: Floats) -> Ints:
    """One column per row, drawn in proportion to weights of shape (n, n_columns)."""
    reach = np.cumsum(weights, axis=1)
    target = rng.random((len(weights), 1)) * reach[:, -1:]
    return np.asarray(np.sum(reach <= target, axis=1), dtype=np.int64)


def _texts(codes: Ints, names: Iterable[str], missing: Bools | None = None) -> pa.StringArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=missing), pa.array(list(names), pa.string())
    ).dictionary_decode()


def write_compactly(table: pa.Table, path: Path) -> None:
    """Write admissions in the form that `hdpview.demo.hospital_table` reads."""
    minutes = (table["admitted"].to_numpy() - FIRST_MINUTE).astype("timedelta64[m]").astype(np.int32)
    columns = {"admitted": pa.array(minutes)}
    for name, unit in STORED_UNITS.items():
        missing = table[name].is_null().to_numpy()
        whole = np.rint(table[name].fill_null(0).to_numpy() / unit).astype(np.int32)
        columns[name] = pa.array(whole, mask=missing)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    texts = ["sex", "region", "insurance", "admission", "diagnosis", "ward"]
    encoding = dict.fromkeys(columns, "BYTE_STREAM_SPLIT") | {"patient_id": "DELTA_BYTE_ARRAY"}
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=texts, column_encoding=encoding
    )


if __name__ == "__main__":
    write_compactly(invent_admissions(), Path(hdpview.demo.__file__).parent / "admissions.parquet")
