"""undead, xform, combine, uncombine and those tools whose work the compiler does, as commands."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from mezzo.tools import main as command

DEAD = "Idle -> Counter -> Discard; i :: InfiniteSource -> n :: Null -> q :: Queue -> d :: Discard;"
LIVE = "i :: InfiniteSource;\nq :: Queue;\nd :: Discard;\n\ni -> q\n    -> d;\n"
PATTERN = "elementclass P { input -> Null -> output } elementclass P_Replacement { input -> Counter -> output }"


@pytest.fixture
def tool(capsys):
    """A command of Click's by its name."""

    def call(name, *words):
        capsys.readouterr()
        try:
            status = command.click_tool(name, words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_undead(mezzo, tool):
    assert mezzo("undead", "-e", DEAD) == (0, LIVE, "")
    assert tool("click-undead", "-e", DEAD) == (0, LIVE, "")
    said = mezzo("undead", "-V", "-e", DEAD).err
    assert "expression:1:52: `n` (Null) does nothing" in said


def test_dead_parts_may_be_wrong(mezzo):
    wrong = "c :: Counter; Strip(14) -> t :: Tee(2) -> Queue -> Discard;"
    assert mezzo("undead", "-e", wrong + DEAD) == (0, LIVE, "")
    done = mezzo("undead", "-e", "InfiniteSource -> c :: PaintTee(1) -> Queue -> Discard;")
    assert done.status == 1 and "output 1 of `c`" in done.err


def test_undead_says_when_nothing_is_left(mezzo):
    done = mezzo("undead", "-e", "InfiniteSource -> Discard")
    assert (done.status, done.out.strip()) == (0, "")
    assert "nothing is left (--sink Discard" in done.err
    assert "Discard" in mezzo("undead", "--sink", "Discard", "-e", "InfiniteSource -> Discard").out


def test_undead_of_a_wrong_configuration_says_what_is_wrong(mezzo):
    done = mezzo("undead", "-e", "InfiniteSource -> Discard; InfiniteSource -> Queue -> q :: Queue -> Discard")
    assert done.status == 1 and "put an Unqueue" in done.err


def test_xform(mezzo, tool, tmp_path):
    patterns = tmp_path / "p.clickpat"
    patterns.write_text(PATTERN)
    config = tmp_path / "x.click"
    config.write_text("i :: Idle -> Null -> d :: Discard;")
    expected = "i :: Idle;\nP@1/Counter@1 :: Counter;\nd :: Discard;\n\ni -> P@1/Counter@1\n    -> d;\n"
    assert mezzo("xform", "-p", str(patterns), str(config)) == (0, expected, "")
    assert tool("click-xform", str(config), str(patterns)) == (0, expected, "")
    assert mezzo("xform", "-V", "-e", config.read_text(), str(patterns)).err == "P: replaced 1 times\n"
    back = tmp_path / "y.click"
    back.write_text(expected)
    assert ":: Null;" in mezzo("xform", "-r", "-f", str(back), "-p", str(patterns)).out


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("elementclass X { input -> Null -> output }", "has no patterns"),
        (PATTERN.replace("input -> Null -> output", "input -> output"), "has no elements"),
        (PATTERN.replace("Null -> output", "Null > "), "has no meaning here"),
        (PATTERN.replace("Null", " -> ".join(["Null"] * 201)), "more than 200 elements"),
    ],
)
def test_xform_refuses_odd_patterns(mezzo, tmp_path, pattern, said):
    patterns = tmp_path / "p.clickpat"
    patterns.write_text(pattern)
    done = mezzo("xform", "-p", str(patterns), "-e", "Idle -> Null -> Discard")
    assert done.status == 1 and said in done.err


def test_xform_without_patterns_passes_the_configuration_on(mezzo):
    done = mezzo("xform", "-e", "i :: Idle -> d :: Discard")
    assert done.status == 0 and "no patterns" in done.err and "i -> d;" in done.out


def test_classes_that_are_not_here_pass_the_tools(mezzo, tool):
    text = "i :: Idle -> Strange(1) -> Odd -> d :: Discard"
    assert "Odd@3 :: Odd;" in tool("click-flatten", "-e", text)[1]
    assert "`Odd` is neither a declared element nor an element class" in mezzo("flatten", "-e", text).err
    assert "`odd` is neither" in tool("click-flatten", "-e", "Idle -> odd -> Discard")[2]


def test_combine_and_uncombine(mezzo, tool, tmp_path):
    for name, text in {"A": "x :: X -> y :: ToDevice(eth1)", "B": "x :: FromDevice(eth0) -> y :: Y"}.items():
        (tmp_path / name).write_text(text)
    both = tmp_path / "both"
    words = (f"A={tmp_path}/A", f"B={tmp_path}/B", "A.eth1=B.eth0")
    assert mezzo("combine", *words, "-o", str(both)) == (0, "", "")
    assert both.read_text().startswith("!<arch>\nconfig ")
    in_order = ("-n", "A", "-f", f"{tmp_path}/A", "-nB", f"--file={tmp_path}/B", "-l", "A.eth1=B.eth0")
    assert tool("click-combine", *in_order)[1] == both.read_text()
    assert mezzo("uncombine", str(both), "A").out == "x :: X;\ny :: ToDevice(eth1);\n\nx -> y;\n"
    assert tool("click-uncombine", "-f", str(both), "-n", "B")[1] == "y :: Y;\nx :: FromDevice(eth0);\n\nx -> y;\n"
    assert mezzo("flatten", str(both)).out.startswith("!<arch>")
    assert mezzo("flatten", "--config", str(both)).out == mezzo("combine", "-c", *words).out
    assert "is an archive" not in mezzo("check", str(both)).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("combine",), "no routers are given"),
        (("combine", "-e", "Idle -> Discard", "-e", "Idle -> Discard", "1.x=2.y"), "no element `x`"),
        (("combine", "A=/no/such"), "/no/such: No such file"),
        (("combine", "-n", "a b", "-e", ""), "is no name of a router"),
        (("combine", "-n", "A", "-e", "", "-n", "A", "-e", ""), "two routers are called `A`"),
        (("uncombine", "-e", "Idle -> Discard", "-n", "A"), "was not written by combine"),
        (("buildtool", "elem2make"), "there is nothing to build"),
        (("buildtool", "nonsense"), "there is no build tool"),
        (("mkmindriver",), "no configuration is given"),
        (("mkmindriver", "-E", "Nonsense"), "there is no element class Nonsense"),
        (("devirtualize", "-k", "-e", ""), "no kernel module"),
        (("pretty", "-t", "x", "-e", ""), "templates are not supported"),
        (("clicktest",), "no test is given"),
        (("xml2click",), "name one XML file"),
        (("xml2click", "/no/such"), "No such file"),
    ],
)
def test_the_users_errors_are_messages(mezzo, words, said):
    done = mezzo(*words)
    assert done.status == 1 and said in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("name", ["align", "devirtualize", "fastclassifier"])
def test_what_the_compiler_does_already_is_said_and_passed_on(mezzo, tool, name):
    text = "i :: Idle -> c :: { input -> Counter -> output } -> d :: Discard;"
    flat = mezzo("flatten", "-e", text).out
    done = mezzo(name, "-e", text)
    assert (done.status, done.out) == (0, flat) and "passed on" in done.err
    assert tool(f"click-{name}", "-q", "-e", text) == (0, flat, "")


def test_options_of_clicks_tools_are_taken(tool):
    text = "i :: Idle -> d :: Discard;"
    assert tool("click-fastclassifier", "-qu", "--no-compile", "-e", text)[0] == 0
    assert tool("click-devirtualize", "-q", "-n", "Idle", "-s", "-e", text)[0] == 0
    assert tool("click-flatten", "--expand-vars", "-d", "-e", text)[1] == "d :: Discard\ni :: Idle\n"
    assert tool("click-check", "-p", "-e", text)[1] == "i :: Idle;\nd :: Discard;\n\ni -> d;\n"
    assert tool("click-check", "-e", "Idle -> Nonsense")[0] == 1
    assert tool("click-flatten", "--nonsense")[0] == 1


def test_mkmindriver_says_why_and_lists(mezzo):
    done = mezzo("mkmindriver", "-p", "x", "--list", "-e", "Idle -> Discard", "-E", "Print Queue")
    assert done.out.split() == ["Discard", "Idle", "Print", "Queue"] and "no driver has to be built" in done.err


def test_buildtool_answers_for_classes_and_features(mezzo):
    assert mezzo("buildtool", "provides", "Queue", "IPFilter", "userlevel").status == 0
    assert mezzo("buildtool", "provides", "Queue NoSuchClass").status == 1
    assert mezzo("buildtool", "provides", "linuxmodule").status == 1
    assert mezzo("buildtool", "provides", "linuxmodule|userlevel", "-l") == (0, "1\n", "")
    assert mezzo("buildtool", "provides", "-r", "mine", "mine").status == 0
    assert {"Queue", "userlevel"} <= set(mezzo("buildtool", "provides", "-q").out.split())


def test_flatten_exports(mezzo, tool, tmp_path):
    text = "i :: Idle -> Strange(1) -> d :: Discard"
    flat = mezzo("flatten", "-e", text).out
    assert json.loads(mezzo("flatten", "--json", "-e", text).out)["elements"][1]["config"] == "1"
    xml = mezzo("flatten", "--xml", "-e", text).out
    assert ElementTree.fromstring(xml.encode()).tag.endswith("configuration")
    assert tool("click2xml", "-e", text)[1] == xml
    file = tmp_path / "x.xml"
    file.write_text(xml)
    again = mezzo("xml2click", str(file))
    assert again == tool("xml2click", "-f", str(file)) and again.status == 0
    assert mezzo("flatten", "-e", again.out).out == flat


def test_every_tool_has_its_name_and_version(tool):
    for name in command.click_names()[1:]:
        status, out, _ = tool(name, "--version")
        assert status == 0 and out.startswith(f"{name} (mezzo) ")
        status, out, _ = tool(name, "--help")
        assert status == 0 and out.startswith(f"usage: {name}")


def test_tools_are_installed_by_their_names():
    text = (command.Path(__file__).parents[2] / "pyproject.toml").read_text()
    for name in command.click_names()[1:]:
        assert f'\n{name} = "mezzo.tools.main:main"\n' in text


def test_click_tools_read_standard_input(tool, monkeypatch):
    class Stdin:
        class buffer:
            @staticmethod
            def read():
                return b"i :: Idle -> d :: Discard"

    monkeypatch.setattr("sys.stdin", Stdin)
    assert "i -> d;" in tool("click-flatten")[1]
