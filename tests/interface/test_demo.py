"""The demo, as `make demo` runs it."""

import os
import subprocess
import sys
from pathlib import Path


def test_commands_that_the_demo_suggests_work_as_printed(tmp_path):
    program = Path(sys.executable).parent / "hdpview"
    environment = {**os.environ, "PATH": "/usr/bin:/bin", "COLUMNS": "110"}

    def run(command: list[str]) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    printed = run([str(program), "demo"])
    suggested = [line.strip() for line in printed.split("5. Try it yourself")[1].splitlines() if line.strip()]
    assert len(suggested) == 6
    assert all(line.startswith(str(program)) for line in suggested)
    for line in suggested:
        if " explore " not in line and "your-table" not in line:
            run(["bash", "-c", line])
    assert (tmp_path / "hdpview-demo/admissions.html").stat().st_size > 100_000
