"""The wheel as an analyst installs it: small, and enough to open, ask and publish."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hdpview
from cells import mixture_view
from hdpview.domain import Category, Integer, Schema

pytestmark = pytest.mark.xdist_group("install")

ROOT = Path(__file__).parents[2]
CURATOR_PACKAGES = ["llvmlite", "numba", "opendp"]
MOST_BYTES = 400 * 2**20
PRIVATE_ROOMS = {"counts", "curate", "demo", "forecast", "methods", "partition", "privacy", "refine", "spark"}
RELEASED_ROOMS = {"cli", "domain", "explore", "query", "view"}
SCHEMA = Schema([Integer(name="age", min=17, max=90), Category(name="sex", values=("Female", "Male"))])
ASK = """
import json, sys
import hdpview as hv

lazy = not {"numpy", "pyarrow", "sqlglot"} & set(sys.modules)
view = hv.open("v.pview")
answer = view.count("age BETWEEN 30 AND 39")
groups = view.sql("SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY sex").to_pydict()
view.plot.histogram("age").save("age.json")
view.publish("v.html")
view.save("again.pview")
print(json.dumps({"lazy": lazy, "estimate": answer.estimate, "groups": groups["n"]}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def analyst(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analyst")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (wheel,) = built.glob("*.whl")
    # The tests' own pip, so that the environment holds nothing but what the wheel asks for.
    pip = [sys.executable, "-m", "pip", "--python", folder / "env/bin/python", "install", "--quiet"]
    subprocess.run([*pip, "--no-compile", wheel], check=True, env=_environment())
    mixture_view(SCHEMA, 1).save(folder / "v.pview")
    return folder


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(analyst: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [analyst / "env/bin/python", *words]
    return subprocess.run(command, cwd=analyst, env=_environment(), capture_output=True, text=True)


def test_wheel_and_sdist_hold_what_they_should(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {"hdpview/py.typed", "hdpview/explore/static/index.html", "hdpview/domain/schema.json"} <= inside
    assert "hdpview/demo/admissions.parquet" in inside
    assert not [name for name in inside if not name.startswith(("hdpview/", "hdpview-"))]
    rooms = {name.split("/")[1] for name in inside if name.startswith("hdpview/") and name.count("/") > 1}
    assert rooms == PRIVATE_ROOMS | RELEASED_ROOMS
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "CITATION.cff", "bench/pyproject.toml", "tests/cells.py"} <= packed


def test_an_analyst_installs_little(analyst):
    """Less than 400 MiB including compiled modules, which are as large as their sources."""
    (site,) = (analyst / "env/lib").glob("python*/site-packages")
    assert not [name for name in CURATOR_PACKAGES if (site / name).exists()]
    files = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    n_bytes = sum(path.stat().st_size * (2 if path.suffix == ".py" else 1) for path in files)
    assert n_bytes < MOST_BYTES


def test_an_analyst_opens_asks_and_publishes(analyst):
    done = run(analyst, "-c", ASK)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    view = hdpview.open(analyst / "v.pview")
    assert report["lazy"]
    assert report["estimate"] == view.count("age BETWEEN 30 AND 39").estimate
    groups = view.sql("SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY sex")
    assert report["groups"] == pytest.approx(list(groups["n"]))
    assert (analyst / "v.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (analyst / "again.pview").stat().st_size > 0


def test_the_command_line_of_an_analyst(analyst):
    assert run(analyst, "-m", "hdpview", "--version").stdout == f"hdpview {hdpview.__version__}\n"
    command = [analyst / "env/bin/hdpview", "query", "v.pview", "SELECT COUNT(*) AS n FROM view"]
    asked = subprocess.run(command, cwd=analyst, env=_environment(), capture_output=True, text=True)
    assert (asked.returncode, asked.stdout.split()[:3]) == (0, ["n", "n_lower", "n_upper"]), asked.stderr
    servers = "import hdpview.explore.page_server, hdpview.explore.postgres.listener"
    assert run(analyst, "-c", servers).returncode == 0


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["build", "x.csv", "--schema", "s.toml", "--epsilon", "1", "-o", "x.pview"], "build"),
        (["estimate", "--schema", "s.toml", "--rows", "9", "--epsilon", "1"], "build"),
        (["schema", "draft", "x.csv"], "build"),
        (["curate", "x.csv"], "build"),
        (["demo"], "build"),
        (["plot", "v.pview", "age", "-o", "age.png"], "plot"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_what_is_missing_is_said_in_a_sentence(analyst, words, extra):
    SCHEMA.save(analyst / "s.toml")
    (analyst / "x.csv").write_text("age,sex\n30,Female\n")
    done = run(analyst, "-m", "hdpview", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.endswith(f"pip install 'hdpview[{extra}]'\n")
    assert done.stderr.count("\n") == 1
    if words[0] in ("build", "estimate"):
        code = f"import hdpview as hv\ntry: hv.{words[0]}\nexcept hv.HdpviewError as problem: print(problem)"
        assert "pip install 'hdpview[build]'" in run(analyst, "-c", code).stdout
