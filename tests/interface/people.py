"""A small invented table for trying the command line on, blemishes included."""

import csv
import random
from pathlib import Path

EDUCATION = ["School", "Bachelor", "Master", "Doctorate", "Diploma"]


def write_people(path: Path, n_rows: int = 3_000, seed: int = 1) -> None:
    rng = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "age", "hours", "education", "hired", "member"])
        for i in range(n_rows):
            age = min(99, int(rng.gauss(45, 15)))
            hired = f"{rng.randint(2014, 2024)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
            member = rng.choice(["true", "false", ""])
            writer.writerow(
                [f"person {i}", age, round(rng.uniform(0, 60), 1), rng.choice(EDUCATION), hired, member]
            )
