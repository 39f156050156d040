"""The runner of Click's test files: what a file means, what is equal, and whole runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from mezzo.tools._clicktest_file import Section, read_tests, split_commands
from mezzo.tools._clicktest_match import BadPattern, compare


def differs(found: str, expected: str, kind: str = "expect", ignore: str = "", ignore_kind: str = "ignore", **how):
    sections = [Section(kind, expected, "t", 1, how.get("any_case", False), how.get("any_space", False))]
    return compare(found, sections, [Section(ignore_kind, ignore, "t", 1, any_space=how.get("loose", False))])


# What is equal


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("a\nb\n", "a\nb"),
        ("\na  \n\nb\n\n", "a\nb\n"),
        ("foobar\n", "foo{{(bar)?}}"),
        ("foo\n", "foo{{(bar)?}}"),
        ("1.5 ms (3)\n", r"{{\d+}}.{{\d}} ms (3)"),
        ("foo\n", "foo      {{? in the right order}}"),
        ("foox\n", "foo {{? why }} x"),
        ("7\n15\n5\n", "{{~ 5 - 15}}\n{{~5-15}}\n{{~ 15 - 5}}"),
        ("95\n105\n", "{{~ 100 +- 5}}\n{{~ 100 +- 5%}}"),
        ("6.5\n5.\n", "{{~ 5.0 - 15}}\n{{~ 5.0 - 15}}"),
        ("x9y\n", "{{x{{~ 5 - 15}}y}}"),
        ("}} {{\n", "}} {{"),
        ("", ""),
        ("\xff\x85\n", "\xff\x85"),
        ("clicktest_subtest 2\na\n", "a"),
    ],
)
def test_expected_lines(found, expected):
    assert differs(found, expected) is None


@pytest.mark.parametrize(
    ("found", "expected", "line"),
    [
        ("a\nb\n", "a\nc\n", 2),
        ("a\n", "a\nb\n", 2),
        ("a\nb\n", "a\n", 2),
        ("fooba\n", "foo{{(bar)?}}", 1),
        ("4\n", "{{~ 5 - 15}}", 1),
        ("106\n", "{{~ 100 +- 5%}}", 1),
        ("6.5\n", "{{~ 5 - 15}}", 1),
        ("a  b\n", "a b", 1),
        ("axb\n", "a.b", 1),
        ("FOO\n", "foo", 1),
        (" a\n", "a", 1),
    ],
)
def test_unexpected_lines(found, expected, line):
    difference = differs(found, expected)
    assert difference is not None and difference.line == line


def test_flags_and_kinds():
    assert differs("FOO bar", "{{foo}} bar", any_case=True) is None
    assert differs("FOO BAR", "{{foo}} bar", any_case=True) is not None
    assert differs("FOO", "fo+", kind="expectx", any_case=True) is None
    assert differs("w1   w2", "w1 w2", any_space=True) is None
    assert differs("w1 w2", "{{w1 w2}}", any_space=True) is not None  # blanks inside braces count
    assert differs("a12\nb", r"a\d+" + "\nb", kind="expectx") is None
    assert differs("a12", "a{{?hm}}{{~ 10 - 12}}", kind="expectx") is None
    assert differs("a\n\n", "a\n", kind="expectv") is not None
    assert differs("a {{x}}\n", "a {{x}}\n", kind="expectv") is None
    assert differs("ab", r"a\z", kind="expectx") is not None and differs("a", r"a\z", kind="expectx") is None


def test_ignored_lines():
    assert differs("a\nskip me\nb", "a\nb", ignore="skip {{.*}}") is None
    assert differs("a\nskip me\nb", "a\nb", ignore="skip.*") is not None
    assert differs("a\nskip me  \nb", "a\nb", ignore="skip.*", ignore_kind="ignorex") is None
    assert differs("a\ns.*\nb", "a\nb", ignore="s.*", ignore_kind="ignorev") is None
    assert differs("a\ns k i p\nb", "a\nb", ignore="skip", loose=True) is None
    assert differs("skip", "skip", ignore="skip") is not None  # never from what is expected


def test_one_of_several_is_enough_and_the_furthest_is_told():
    sections = [Section("expect", text, "t", 1) for text in ("x", "a\nb", "a\nc")]
    assert compare("a\nc\n", sections, []) is None
    difference = compare("a\nd\n", sections, [])
    assert difference is not None and (difference.line, difference.expected) == (2, "b")


def test_an_expression_that_is_none():
    with pytest.raises(BadPattern, match="no regular expression"):
        differs("a", "{{(}}")


# What a file says


def read(text: str):
    return read_tests(text, "x.clicktest")


def test_sections_of_a_file():
    (test,) = read(
        "before\n# comment\n%info\nA test\n%require -q\nfalse\n%script\necho a\necho b\n%file -d IN sub/IN2\n"
        "x%a\n b\n%file +3 IN3\nab\n\nrest\n%stdin\nin\n%expect -iw stdout\nA\n%cut\nold\n%end\nof\n"
        "%expect -e BIN\nAAEC\n"
        "%ignorex\n#.*\n\\%x\n"
    )
    assert test.troubles == [] and test.info == "A test\n"
    assert [c.text for c in test.script] == ["echo a", "echo b"] and test.script[1].place == "x.clicktest:9"
    assert [(c.text, c.quiet) for c in test.require] == [("false", True)]
    assert test.files["IN"] == test.files["sub/IN2"] == "%a\nb\n" and test.files["IN3"] == "ab\n"
    assert test.files["stdin"] == "in\n"
    (stdout,) = test.expects["stdout"]
    assert (stdout.any_case, stdout.any_space, stdout.text) == (True, True, "A\n")
    assert test.expects["BIN"][0].kind == "expectv" and test.expects["BIN"][0].text == "\x00\x01\x02"
    assert test.ignores["all"][0].text == "#.*\n%x\n"


def test_several_tests_in_one_file_and_its_end():
    assert len(read("%script\na\n%eot\n\n")) == 1
    tests = read("%script\na\n%eot\n%script\nb\n%eof\n%script\nc\n")
    assert [(t.name, [c.text for c in t.script]) for t in tests] == [
        ("x.clicktest", ["a"]),
        ("x.clicktest<2>", ["b"]),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it tests nothing"),
        ("just text\n", "it tests nothing"),
        ("%bogus\n", "there is no section `%bogus`"),
        ("%\n", "must be followed by the name"),
        ("%file ../x\n", "no name for a file"),
        ("%file /etc/passwd\n", "no name for a file"),
        ("%file a/../../x\n", "no name for a file"),
        ("%file a\n%file a\n", "already there"),
        ("%expect a\n%expect a\n", "already there; alternatives have -a"),
        ("%file -w a\n", "has no -w"),
        ("%file +9 a\nx\n", "7 bytes too early"),
        ("%file stdout\n", "has no meaning"),
        ("%expect all\n", "has no meaning"),
        ("%expect -e a\nA===A\n", "not base 64"),
        ("%script\necho 'x\n", "' is not closed"),
        ("%include /no/such\n", "No such file"),
    ],
)
def test_files_that_make_no_sense(text, said):
    assert said in " ".join(read(text)[0].troubles)


def test_an_included_file_has_its_own_places(tmp_path):
    (tmp_path / "more").write_text("%script\nfalse\n")
    (test,) = read_tests("%include more\n%file A\nx\n", str(tmp_path / "t.clicktest"))
    assert test.script[0].place == f"{tmp_path}/more:2" and test.files == {"A": "x\n"}
    (tmp_path / "round").write_text("%include round\n")
    assert "without end" in " ".join(read_tests("%include round\n", str(tmp_path / "t.clicktest"))[0].troubles)


def test_scripts_are_split_where_commands_end():
    text = "echo 'a\nb' \"c\nd\"\nf () {\n  x\n}\necho \\\n y # it's\n\n`echo\nz`\necho '\\'\nlast"
    commands, trouble = split_commands(text, "f", 1)
    assert trouble == ""
    assert [c.text for c in commands] == [
        "echo 'a\nb' \"c\nd\"", "f () {\n  x\n}", "echo \\\n y # it's", "`echo\nz`", "echo '\\'", "last",
    ]  # fmt: skip
    assert [c.place for c in commands] == ["f:1", "f:4", "f:7", "f:10", "f:12", "f:13"]


# Whole runs

GOOD = """%info
Counters count.
%script
echo $GREETING; cat; cat IN >&2
./there
test -z "$VALGRIND"; pwd | sed 's,.*/,,' > sub/OUT
%stdin
from stdin
%file IN
to stderr
%expect
hello
from stdin
here
%expect stderr
to stderr
%expect sub/OUT
clicktest{{.*}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "there").chmod(0o755)
    return tmp_path


def test_a_test_that_passes(mezzo, folder):
    (folder / "a.clicktest").write_text(GOOD)
    done = mezzo("clicktest", "a.clicktest", "GREETING=hello")
    assert done == (0, "", "clicktest: 1 success, 0 failures, 0 skipped\n")
    assert sorted(p.name for p in folder.iterdir()) == ["a.clicktest", "there"]


def test_failures_name_their_lines(mezzo, folder):
    (folder / "a.clicktest").write_text(
        "%script\necho fine\necho out >&2; false\n%eot\n"
        "%script\necho one; echo two\n%expect\none\nthree {{? counted}}\n"
        "%eot\n%script\ntrue\n%expect OUT\nx\n%eot\n%script\ntestie_subtest B\necho b\n%expect\na\n"
    )
    done = mezzo("clicktest", "a.clicktest")
    assert done.status == 1
    assert done.err.splitlines() == [
        "a.clicktest:3: failure at 'echo out >&2; false'",
        "a.clicktest:3:   out",
        "a.clicktest:9: standard output has unexpected value starting at line 2",
        "a.clicktest:9: stdout:2: expected 'three'",
        "a.clicktest:9: stdout:2: but got  'two'",
        "a.clicktest:9: stdout:2: counted",
        "a.clicktest<3>: OUT: there is no such file",
        "a.clicktest:20: subtest B: standard output has unexpected value starting at line 2",
        "a.clicktest:20: stdout:2: expected 'a'",
        "a.clicktest:20: stdout:2: but got  'b'",
        "clicktest: 0 successes, 4 failures, 0 skipped",
    ]


def test_requirements_skip(mezzo, folder):
    (folder / "a.clicktest").write_text("%require\ntrue\nfalse\n%script\nfalse\n")
    done = mezzo("clicktest", "a.clicktest")
    assert done.status == 1  # all were skipped
    assert done.err.splitlines()[:2] == [
        "clicktest: requirement failures blocked 1 test, use '-V' for details",
        "clicktest: (command 'false')",
    ]
    assert "requirement failure at 'false'" in mezzo("clicktest", "-V", "a.clicktest").err
    (folder / "b.clicktest").write_text("%script\ntrue\n")
    done = mezzo("clicktest", ".")
    assert done.status == 0 and done.err.endswith("clicktest: 1 success, 0 failures, 1 skipped\n")


def test_a_file_that_makes_no_sense_is_status_2(mezzo, folder):
    (folder / "a.clicktest").write_text("%nonsense\n")
    assert mezzo("clicktest", "a.clicktest").status == 2
    (folder / "b.clicktest").write_text("%script\necho a\n%expect\n{{(}}\n")
    done = mezzo("clicktest", "b.clicktest")
    assert done.status == 2 and "no regular expression" in done.err
    assert mezzo("clicktest", "/no/such").status == 2


@pytest.mark.slow
def test_what_a_script_leaves_running_is_ended_and_it_may_not_last(mezzo, folder):
    (folder / "a.clicktest").write_text("%script\nsleep 77 & echo $! > ../pid\nsleep 78\n")
    begun = time.monotonic()
    done = mezzo("clicktest", "-t", "0.3", "a.clicktest")
    assert done.status == 1 and "timed out after 0.3 sec at 'sleep 78'" in done.err
    assert time.monotonic() - begun < 20
    state = folder / "pid"
    status = f"/proc/{state.read_text().strip()}/stat"
    try:
        with open(status) as stream:
            assert stream.read().split(")")[1].split()[0] == "Z"  # ended, and waits for somebody to ask
    except FileNotFoundError:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_by_a_signal_leaves_nothing(folder, number):
    (folder / "a.clicktest").write_text("%script\necho $$ > ../pid\nsleep 79\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "mezzo", "clicktest", "-j", "2", "a.clicktest", "a.clicktest", "a.clicktest"],
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 30
    while not (folder / "pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    child.send_signal(number)
    assert child.wait(20) in (130, 128 + number)
    assert not list(folder.glob("clicktest*"))


def test_results_as_json_several_at_a_time_and_shown_files(mezzo, folder):
    for i in range(4):
        text = f"%info\nnumber {i}\n%script\necho {i}; echo x\n%expect\n{i % 3}\n%ignore\nx\n"
        (folder / f"{i}.testie").write_text(text)
    done = mezzo("clicktest", "--json", "-j", "3", ".")
    found = json.loads(done.out)
    assert [r["status"] for r in found] == ["passed", "passed", "passed", "failed"]
    assert done.status == 1 and found[3]["messages"][0].startswith("3.testie:6: standard output")
    assert "0.testie: Success!" in mezzo("clicktest", "-VV", "0.testie").err
    assert "  number 0\n" in mezzo("clicktest", "-VV", "0.testie").err
    assert f"0.testie: stdout\n{'=' * 79}\n0\n{'=' * 79}\n" in mezzo("clicktest", "-s", "stdout", "0.testie").out
    assert "\n0\nx\n=" in mezzo("clicktest", "-S", "stdout", "0.testie").out


def test_files_of_a_test_are_written_out(mezzo, folder):
    (folder / "a.clicktest").write_text(GOOD)
    assert mezzo("clicktest", "-e", "a.clicktest").status == 0
    assert (folder / "IN").read_text() == "to stderr\n" and "echo $GREETING" in (folder / "%script").read_text()


@pytest.mark.slow
def test_click_and_its_tools_are_mezzo_in_scripts(mezzo, folder):
    (folder / "a.clicktest").write_text(
        "%require\nclick-buildtool provides Counter\n%script\n"
        "$VALGRIND click -e 'InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard' -h c.count > A\n"
        "click-flatten CONFIG | click-undead | click-xform > B\n"
        "%file CONFIG\nis :: InfiniteSource -> { input -> Null -> output } -> q :: Queue -> td :: ToDump(x);\n"
        "%expect A\n5\n%expect B\nis :: InfiniteSource;\nq :: Queue;\ntd :: ToDump(x);\nis -> q\n    -> td;\n"
    )
    done = mezzo("clicktest", "a.clicktest")
    assert done.status == 0, done.err
