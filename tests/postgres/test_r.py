"""R with RPostgreSQL and dbplyr, and the vignette."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from analyst import QUESTIONS, assert_same
from served import Served

VIGNETTE = Path(__file__).parents[2] / "examples" / "long_stays.R"
_CONNECT = """
suppressMessages({{library(DBI); library(RPostgreSQL); library(dplyr); library(dbplyr)}})
con <- dbConnect(PostgreSQL(), host = "127.0.0.1", port = {port}, user = "analyst", dbname = "hdpview")
"""


def run_r(program: str, *arguments: str) -> str:
    if shutil.which("Rscript") is None:
        pytest.fail("R is not installed. Run `make test`, which installs it.")
    done = subprocess.run(
        ["Rscript", "--vanilla", "-", *arguments], input=program, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed(served: Served, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What one R prints, which takes seconds to start: the analyst's answers, then those to dplyr's verbs."""
    questions = tmp_path_factory.mktemp("r") / "questions.txt"
    questions.write_text("\n".join(" ".join(each.split()) for each in QUESTIONS) + "\n")
    program = _CONNECT.format(port=served.port) + (
        "in_full <- function(x) {\n"
        "  if (is.numeric(x)) sprintf('%.17g', x) else if (inherits(x, 'POSIXt')) format(x, "
        "'%Y-%m-%d') else as.character(x)\n"
        "}\n"
        f"for (sql in readLines('{questions}')) {{\n"
        "  rows <- dbGetQuery(con, sql)\n"
        "  cat(do.call(paste, c(lapply(rows, in_full), sep = '\\t')), sep = '\\n')\n"
        "  cat('--\\n')\n"
        "}\n"
        "stopifnot(setequal(dbListTables(con), c('admissions', 'Odd View')), dbExistsTable(con, "
        "'admissions'))\n"
        "admissions <- tbl(con, 'admissions')\n"
        "found <- admissions %>% filter(age > 65, sex == 'Female') %>% group_by(ward) %>%\n"
        "  summarise(n = n(), cost = mean(cost, na.rm = TRUE)) %>% arrange(desc(n)) %>% collect()\n"
        "cat(sprintf('%.17g', found$n[found$ward == 'surgery']), '\\n')\n"
        "old <- admissions %>% mutate(old = age > 65) %>% group_by(old) %>%\n"
        "  summarise(rate = mean(as.numeric(readmitted), na.rm = TRUE)) %>% collect()\n"
        "cat(nrow(old), nrow(admissions %>% head(3) %>% collect()), nrow(admissions %>% count(sex) %>% "
        "collect()), '\\n')\n"
        "ranked <- admissions %>% count(sex, ward) %>% group_by(sex) %>% slice_max(n, n = 2) %>% collect()\n"
        "shares <- admissions %>% count(ward) %>% mutate(share = n / sum(n, na.rm = TRUE)) %>% collect()\n"
        "cat(nrow(ranked), sprintf('%.12g', sum(shares$share)), '\\n')\n"
    )
    return [part.strip("\n") for part in run_r(program).split("--\n")]


def test_r_gets_the_numbers_of_python(served, printed, expected):
    answers = printed[: len(QUESTIONS)]
    for ours, text, question in zip(expected, answers, QUESTIONS, strict=True):
        assert_same(ours, [line.split("\t") for line in text.splitlines()], question)


def test_dbplyr_writes_questions_that_are_answered(served, printed):
    n, sizes, windows = printed[len(QUESTIONS)].splitlines()
    expected = served.view.count("age > 65 AND sex = 'Female' AND ward = 'surgery'").estimate
    assert float(n) == pytest.approx(expected, rel=1e-12)
    assert sizes.split() == ["2", "3", "3"]
    assert [float(each) for each in windows.split()] == pytest.approx([6, 1.0])


def test_the_vignette_runs_and_answers_its_question(served):
    answer = json.loads(
        run_r(VIGNETTE.read_text(encoding="utf-8"), str(served.port)).strip().splitlines()[-1]
    )
    assert answer["low"] <= answer["odds_ratio"] <= answer["high"]
