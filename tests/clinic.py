"""An invented raw export of a hospital: semicolons, decimal commas, a Windows encoding, German dates, age
bands, question marks, impossible heights, codes beside texts, identifiers, and 40 columns."""

from pathlib import Path

import numpy as np

N_CODES = 27  # further columns with plain codes


def write_clinic(path: Path, n_rows: int = 2_000) -> None:
    rng = np.random.default_rng(7)
    stay = [str(days) if days % 7 else "NA" for days in rng.geometric(0.2, n_rows).clip(1, 60)]
    heights = np.where(rng.random(n_rows) < 0.01, 999, rng.integers(150, 200, n_rows))
    columns = {
        "Fall_id": [f"F{i:06d}" for i in range(n_rows)],
        "Patient_id": rng.integers(1, n_rows, n_rows),
        "Altersgruppe": rng.choice(["[0-10)", "[10-20)", "[50-60)", "[70-80)", "[80-90)"], n_rows),
        "age": rng.integers(0, 100, n_rows),
        "Geschlecht": rng.choice(["w", "m", "?"], n_rows, p=[0.5, 0.48, 0.02]),
        "Größe": [f"{cm},{mm}" for cm, mm in zip(heights, rng.integers(0, 9, n_rows), strict=True)],
        "Kosten": [f"{k}.{e:03d},{c:02d}" for k, e,
            c in zip(rng.integers(1, 9, n_rows), rng.integers(0, 1000, n_rows), rng.integers(0, 100, n_rows),
                strict=True)],
        "Aufnahme": [f"{d:02d}.{m:02d}.{y}" for d, m,
            y in zip(rng.integers(1, 29, n_rows), rng.integers(1, 13, n_rows),
                rng.integers(2019, 2024, n_rows), strict=True)],
        "Tage": stay,
        "Diagnose": rng.choice(["410", "428", "486", "250.6", "?"], n_rows),
        "Fachrichtung": rng.choice(["Chirurgie", "Innere", "Gynäkologie", "HNO", "?"], n_rows,
            p=[0.2, 0.3, 0.2, 0.1, 0.2]),
        "Notfall": rng.choice(["Yes", "No"], n_rows),
        "Anteil_percent": rng.integers(0, 101, n_rows),
        **{f"Code{i:02d}": rng.choice(["A", "B", "C", ""], n_rows) for i in range(N_CODES)},
    }  # fmt: skip
    lines = [";".join(columns), *(";".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
