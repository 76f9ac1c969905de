"""The documentation site builds without warnings, and its pages load nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from published_text import text_of

ROOT = Path(__file__).parents[2]
# Elements that make a browser fetch something while it shows a page; links are none of them.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video)[^>]*\ssrc=[\"']?(https?:)?//"
    r"|<link[^>]*rel=[\"']?(?:stylesheet|preconnect|preload|icon)[^>]*href=[\"']?(https?:)?//"
    r"|@import\s+url\(|url\([\"']?https?://"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 20
    for page in pages:
        fetched = FETCHED.search(page.read_text(encoding="utf-8"))
        assert fetched is None, f"{page.relative_to(site)}: {fetched}"


def test_reference_names_every_public_name(site):
    import hdpview as hv

    page = (site / "reference/api.html").read_text(encoding="utf-8")
    headings = set(re.findall(r'<h3 id="hdpview\.(?:build\.|refine\.)?(\w+)"', page))
    assert headings == set(hv.__all__) - {"__version__"}


def test_reference_names_every_command(site):
    page = (site / "reference/command-line.html").read_text(encoding="utf-8")
    for command in ("build", "estimate", "query", "publish", "serve", "schema draft", "ledger show"):
        assert re.search(rf"<h2[^>]*>hdpview {command}<", page), command
    assert "--privacy-unit" in page


def test_gallery_holds_a_published_page(site):
    page = (site / "gallery/admissions.html").read_text(encoding="utf-8")
    assert "readmitted" in text_of(page)
    assert "Content-Security-Policy" in page
