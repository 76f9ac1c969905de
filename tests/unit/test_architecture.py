"""Two sides and one door: who may import whom."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hdpview

ROOT = Path(hdpview.__file__).parent
FOUNDATION = ["_version", "errors", "jit", "machine", "progress", "domain"]
RELEASED = ["view", "query", "wishes", "pview", "explore"]  # each may use those before it
PRIVATE = ["privacy", "counts", "partition", "spark"]  # likewise
BOTH_SIDES = ["methods", "build", "refine", "forecast", "demo", "curate", "cli"]
ENTRANCES = ["__init__", "__main__"]
# The rooms that a room may import; it may import no others.
MAY_IMPORT = {
    "_version": set(),
    "errors": set(),
    "jit": set(),
    "machine": {"errors"},
    "progress": set(),
    "domain": {"errors", "machine"},
    **{room: {*FOUNDATION, *RELEASED[:i]} for i, room in enumerate(RELEASED)},
    **{room: {*FOUNDATION, *PRIVATE[:i]} for i, room in enumerate(PRIVATE)},
}
MAY_IMPORT["pview"] |= {
    "explore"
}  # a view can open the explorer's page: imported inside a function, and on the released side
FILES = sorted(ROOT.rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def room_of(module: str) -> str:
    return module.split(".")[1]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(source: str, module: str, is_package: bool) -> set[str]:
    """All modules of this package that a source imports, at its top or inside functions, by absolute or
    relative name."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = (
                module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            )
            base = ".".join([*parent, *([node.module] if node.module else [])])
            imported |= {f"{base}.{alias.name}" for alias in node.names} | {base}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "__import__",
        ):
            imported |= {
                arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            }
    return {name for name in imported if name.startswith("hdpview.")}


def known_modules() -> set[str]:
    return {module_name(file) for file in FILES}


def imported_rooms(file: Path) -> set[str]:
    module = module_name(file)
    rooms = {room_of(name) for name in imports_of(file.read_text(), module, file.name == "__init__.py")}
    known = {room_of(name) for name in known_modules()}
    return {_home(room) if room not in known else room for room in rooms} - {room_of(module)}


def _home(name: str) -> str:
    return hdpview._HOME.get(name, name).split(".")[0]


def test_the_import_finder_sees_every_kind_of_import():
    source = (
        "import hdpview.partition.local\nfrom hdpview import build\nfrom . import kernels\nfrom ..counts "
        "import sparse as s\n"
        "def f():\n    from hdpview.privacy.budget import Budget\n    import_module('hdpview.methods')\n"
    )
    imported = imports_of(source, "hdpview.query.answers", is_package=False)
    assert {"partition", "build", "query", "counts", "privacy", "methods"} == {
        room_of(name) for name in imported
    }


def test_every_room_has_its_place():
    rooms = {room_of(module_name(file)) for file in FILES}
    assert rooms <= {*FOUNDATION, *RELEASED, *PRIVATE, *BOTH_SIDES, *ENTRANCES}


@pytest.mark.parametrize(
    "file", [file for file in FILES if room_of(module_name(file)) in MAY_IMPORT], ids=module_name
)
def test_a_room_imports_only_what_stands_before_it_on_its_side(file):
    assert imported_rooms(file) <= MAY_IMPORT[room_of(module_name(file))]


@pytest.mark.parametrize("file", sorted((ROOT / "methods").glob("*.py")), ids=module_name)
def test_methods_never_import_each_other(file):
    if file.name == "__init__.py":
        return
    modules = known_modules()
    others = {
        name
        for name in imports_of(file.read_text(), module_name(file), False)
        if name in modules and room_of(name) == "methods"
    }
    assert others <= {"hdpview.methods.protocol"}
    assert "hdpview.methods" not in imports_of(file.read_text(), module_name(file), False)


@pytest.mark.parametrize("room", ["counts", "domain", "view", "partition", "explore/postgres"])
def test_the_map_of_a_room_names_every_file(room):
    described = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""
    words = set(re.findall(r"\w+", described))
    assert {file.stem for file in (ROOT / room).glob("*.py")} - {"__init__"} <= words


def test_the_package_itself_imports_lazily():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    tree.body = [node for node in tree.body if not _is_type_checking(node)]
    assert imports_of(ast.unparse(tree), "hdpview.__init__", is_package=True) <= {
        "hdpview._version", "hdpview._version.__version__", "hdpview.errors", "hdpview.errors.missing_extra",
    }  # fmt: skip


def names_in(source: str) -> set[str]:
    """Identifiers, attributes, arguments, keywords, imported names and texts of a source; docstrings
    aside."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node) is not None
        ):
            docstrings.add(node.body[0].value)
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            names.add(node.value)
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.add(value)
    return names


def test_the_name_finder_sees_every_kind_of_name():
    source = (
        "import exact_a as exact_b\ndef exact_c(exact_d):\n    exact_e = x.exact_f\n    f(exact_g=1, "
        "y='exact_h')\nclass exact_i: pass"
    )
    assert {name for name in names_in(source) if name.startswith("exact_")} == {
        f"exact_{letter}" for letter in "abcdefghi"
    }


@pytest.mark.parametrize(
    "file", [file for file in FILES if room_of(module_name(file)) in RELEASED], ids=module_name
)
def test_nothing_on_the_released_side_is_called_exact(file):
    assert not {name for name in names_in(file.read_text()) if name.startswith("exact_")}


@pytest.mark.parametrize(
    "module", ["", ".query.evaluate", ".explore.page_server", ".explore.notebook", ".explore.postgres"]
)
def test_opening_or_serving_a_view_loads_no_private_code(module):
    program = (
        f"import sys, hdpview{module}\nprint(*(name for name in sys.modules if name.startswith('hdpview.')))"
    )
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert not {name for name in loaded if room_of(name) in {*PRIVATE, *BOTH_SIDES}}
    assert not module or f"hdpview{module}" in loaded


def attributes_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return names | {value for value in constants if isinstance(value, str)}


def test_exact_values_are_read_by_the_mechanism_alone():
    readers = {module_name(file) for file in FILES if "_exact_value" in attributes_in(file)}
    assert readers == {"hdpview.privacy.exact", "hdpview.privacy.mechanism"}
    unprotecting = {module_name(file) for file in FILES if "unprotected" in attributes_in(file)}
    assert unprotecting == {"hdpview.forecast.measured_errors"}


def test_noise_is_drawn_by_the_mechanism_alone():
    drawing = {module_name(file) for file in FILES if "import opendp" in file.read_text()}
    assert drawing == {"hdpview.privacy.mechanism"}
    choosing = {
        module_name(file)
        for file in FILES
        if "hdpview.privacy.choice.choose" in imports_of(file.read_text(), module_name(file), False)
    }
    assert choosing == {"hdpview.privacy.mechanism", "hdpview.partition.rational"}


@pytest.mark.parametrize("room", ["methods", "build", "forecast", "curate", "cli"])
def test_no_method_sees_a_cell(room):
    files = [file for file in FILES if room_of(module_name(file)) == room]
    arrays = {"exact_codes", "exact_counts", "exact_sum", "exact_columns", "exact_rows", "exact_sums"}
    invented = {"hdpview.forecast.invented", "hdpview.forecast.measured_errors", "hdpview.forecast.trial"}
    allowed = {"methods": {"hdpview.methods.quality"}, "forecast": invented}
    seeing = {module_name(file) for file in files if arrays & attributes_in(file)}
    assert seeing <= allowed.get(room, set())
