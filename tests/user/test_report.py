from pathlib import Path

from tests.user.report import read

XML = """<testsuites><testsuite>
<testcase classname="tests.law.test_a" name="test_good"/>
<testcase classname="tests.law.test_a" name="test_bad"><failure message="no"/></testcase>
<testcase classname="tests.law.test_a" name="test_broken"><error message="no"/></testcase>
<testcase classname="tests.law.test_a" name="test_root[x]"><skipped message="needs root"/></testcase>
<testcase classname="tests.law.test_b" name="test_root"><skipped message="needs root"/></testcase>
</testsuite></testsuites>"""


def test_each_reason_is_listed_with_its_tests(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(XML)
    report = read(path)
    assert report.counts() == "1 passed, 2 failed, 2 could not run"
    assert report.lines()[2:] == [
        "needs root",
        "    tests/law/test_a::test_root[x]",
        "    tests/law/test_b::test_root",
    ]


def test_a_missing_report_counts_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "none.xml").counts() == "0 passed, 0 failed, 0 could not run"
