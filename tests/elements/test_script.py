"""Script and DriverManager, on every target: what they print and say, and when the router stops."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Handler, script_run, script_text
from mezzo.elements.confparse import unquote_bytes
from mezzo.elements.script_functions import FUNCTIONS
from mezzo.elements.script_text import expand
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.targets import target_names


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """`run(text)`: (lines printed, lines said, why it ended, at what time); the same on every target."""

    def all_targets(text: str, writes: tuple[tuple[str, str], ...] = ()) -> tuple[list[str], list[str], str, int]:
        found = []
        for target in target_names():
            capsys.readouterr()
            with Router.from_click(text, target=target, virtual=True) as router:
                router.output = io.StringIO()
                for path, value in writes:
                    router.write(path, value)
                why = router.run(rounds=100_000)
                printed = capsys.readouterr().out.splitlines()
                found.append((printed, router.output.getvalue().splitlines(), why, router.now_ns))
        assert all(one == found[0] for one in found)
        return found[0]

    return all_targets


def script(text: str) -> str:
    return f"s :: Script({text});"


def call(function: str, text: str) -> str:
    return FUNCTIONS[function][0](text)


def test_Ho04_a_call_is_always_the_handler(run: Any) -> None:
    printed, said, why, _ = run(script("set now 5, print $now, print ${now}, print $(eq $(now) 5), stop"))
    assert (printed, said, why) == (["5", "5", "false"], [], "stopped")


def test_Ho05_a_run_while_it_waits_starts_anew(run: Any) -> None:
    printed, _, _, end = run(script('TYPE PASSIVE, wait 0.1, print "got $1"'), writes=(("s.run", "7"), ("s.run", "8")))
    assert (printed, end) == (["got 8"], 100_000_000)


def test_Ao04_definitions_that_refer_to_definitions(run: Any) -> None:
    assert run("define($A 3, $B $A) Script(print $B, stop);")[0] == ["3"]
    with pytest.raises(MezzoError, match="`\\$A`"):
        compile_text('define($A $B, $B $A) Script(print "v=$A", stop);')


def test_Ao06_empty_last_argument(vectors: Any) -> None:
    vectors("in0 :: Feed -> Strip(1,) -> out0 :: Collect;", {"in0": [b"ab"]}, {"out0": [b"b"]})
    assert compile_text("Idle -> p :: Print(A,) -> Discard").by_name()["p"].label == "A"


FUNCTION_RESULTS = r"""
div 7 2 -> 3.5
idiv 7 2 -> 3
mod 7 3 -> 1
add 1 2.5 -> 3.5
lt 10 9 -> false
lt abc abd -> true
eq 1.0 1 -> true
div 1 0 -> inf
add 10 5 2 -> 17
sub 10 5 2 -> 3
mul 1 2 3 -> 6
div 75 2.5 5 -> 6
idiv -7 2 -> -3
mod -7 3 -> -1
rem 7.5 2 -> 1.5
min 10 6 20 -> 6
max -1 6 3 -> 6
neg 5 -> -5
abs -2.5 -> 2.5
eq 10 0xA -> true
ne 10x 10x -> false
ge 2 2 -> true
not false -> true
and true 1 yes -> true
or 0 no -> false
nand 1 0 -> true
nor 0 0 -> true
if true a b -> a
if 0 a ->
in b a b -> true
in x a b -> false
first a b c -> a
rest a b c -> b c
length hello -> 5
unquote "a b" -> a b
sprintf "%05x" 127 -> 0007f
sprintf "%-4d|%*d|%s%%" 5 3 7 "a b" -> 5   |  7|a b%
sprintf "%#X %o %.2f" 255 8 1.5 -> 0XFF 10 1.50
sprintf %x -1 -> ffffffffffffffff
sprintf "%hd %hx %u" 70000 -1 -1 -> 4464 ffff 18446744073709551615
rem 1e20 3 -> 1
rem -7 2.5 -> -2
add 9223372036854775808 1 -> 9.22337203685e+18
eq 18446744073709551615 18446744073709551614 -> false
true -> true
false -> false
length é -> 2
htons 0x1234 -> 13330
ntohl 1 -> 16777216
add -> 0
"""


@pytest.mark.parametrize("line", FUNCTION_RESULTS.strip().splitlines())
def test_Ho06_functions(line: str) -> None:
    asked, _, result = line.partition("->")
    function, _, text = asked.strip().partition(" ")
    assert call(function, text) == result.strip()


@pytest.mark.parametrize(
    ("function", "text", "trouble"),
    [
        ("add", f"{2**63 - 1} 1", "does not fit 64 bits"),
        ("mul", f"{2**62} 4", "does not fit 64 bits"),
        ("add", "1 x", "expected numbers, not `x`"),
        ("idiv", "1 0", "division by zero"),
        ("mod", "1 0", "division by zero"),
        ("eq", "1", "expected two values"),
        ("sprintf", '"%d"', "too few arguments"),
        ("sprintf", '"%d" 1 2', "too many arguments"),
        ("sprintf", '"%q"', "does not know"),
        ("sprintf", '"%*d" 5000 1', "fills up to 4096"),
        ("idiv", "1e400 2", "is no integer"),
        ("mod", "1.5 1", "expected an integer"),
        ("rem", "1", "expected two numbers"),
        ("rem", "1e400 3", "no remainder"),
        ("neg", f"{-(2**63)}", "does not fit 64 bits"),
        ("cat", "/nonexistent", "No such file"),
        ("cat", "/dev/zero", "more than 16777216 bytes"),
        ("catq", "/", "Is a directory"),
        ("getenv", "", "write getenv NAME"),
        ("kill", "INT", "write kill SIGNAL PROCESS"),
        ("kill", "NOPE 1", "`NOPE` is no signal"),
        ("kill", "TERM -1", "process numbers are 1 or more"),
        ("kill", "TERM 0", "process numbers are 1 or more"),
    ],
)
def test_Ho06_functions_refuse(function: str, text: str, trouble: str) -> None:
    with pytest.raises(ValueError, match=trouble):
        call(function, text)


def test_getenv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEZZO_TEST", "a b")
    assert call("getenv", "MEZZO_TEST") == "a b"
    assert call("getenv", "MEZZO_TEST_NOT default") == "default"
    assert call("getenv", "MEZZO_TEST_NOT") == ""


def test_cat_gives_a_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b'a\r\n"\xff')
    assert call("cat", f"{tmp_path}/f").encode("utf-8", "surrogateescape") == b'a\r\n"\xff'
    assert unquote_bytes(call("catq", f"{tmp_path}/f")) == b'a\r\n"\xff'
    os.mkfifo(tmp_path / "pipe")
    assert call("cat", f"{tmp_path}/pipe") == "", "a pipe without writer is empty"


def test_texts_and_calls_have_an_end(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_text, "MOST_TEXT", 1000)
    deep = "$(first " * 70 + "a" + ")" * 70
    loop = "label l, set i $(add $i 1), set v $v$v, goto l $(lt $i 40)"
    printed, said, why, _ = run(script(f"print {deep}, set v a, set i 0, {loop}, print $(length $v), stop"))
    assert (printed, why) == (["512"], "stopped")
    assert said[1] == "  $(...) stands inside $(...) more than 64 times"
    assert said[3] == "  the text is longer than 1000 characters"
    assert said.count(said[3]) == 10, "one and the same is not said for ever"


def test_scripts_that_call_each_other_for_ever_are_given_up(run: Any) -> None:
    a, b = "a :: Script(TYPE PASSIVE, return $(b.run)a);", "b :: Script(TYPE PASSIVE, return $(a.run)b);"
    _, said, why, _ = run(f"{a} {b} Script(print $(a.run), stop);")
    assert why == "stopped" and "a :: Script: too many jumps, giving up" in said


def test_substitution() -> None:
    values = {"x": "1", "q": 'a "b"', "$": "77", "?": "-1", "#": "3"}
    show = lambda text, quoted=False: expand(text, values.get, lambda inner: f"<{inner}>", quoted)  # noqa: E731
    assert show("$x ${x}y $z ${z-d} ${z}") == "1 1y $z d ${z}"
    assert show("'$x' \"$x\" \"'$x'\"") == "'$x' \"1\" \"'1'\""
    assert show('"$q" $q') == '"a \\"b\\"" a "b"'
    assert show("$$ $? $# ${x}$$x $& $") == "77 -1 3 177x $& $"
    assert show("$q", quoted=True) == '"a \\"b\\""'
    assert show("$(f $x (g) $(h $x))") == "<f 1 (g) <h 1>>"
    assert show("$(f \")\" ')')$") == "<f \")\" ')'>$"
    assert show("$(f") == "$(f"
    assert show('"\\$x"') == '"\\$x"'


def test_loops_and_handlers(run: Any) -> None:
    text = """c :: Counter; InfiniteSource(LIMIT 3) -> c -> Discard;
s :: Script(set x 0, label l, print "x is $x", set x $(add $x 1), goto l $(lt $x 3),
  wait 2, print c.count, print $(c.count), read c.count, write c.reset, print "$? $(c.count)", stop);"""
    printed, said, why, end = run(text)
    assert printed == ["x is 0", "x is 1", "x is 2", "3", "3", "0 0"]
    assert (said, why, end) == (["c.count:", "3"], "stopped", 2_000_000_000)


def test_a_trouble_is_said_and_the_script_goes_on(run: Any) -> None:
    printed, said, _, _ = run(script("write c.reset, print $?, print $(add x), print end, print 'end', stop"))
    assert printed == ["-1", "end"]
    assert said[:2] == ["While executing 's :: Script':", "  there is no element `c`"]
    assert "  s.add: expected numbers, not `x`" in said


def test_quotes(run: Any) -> None:
    instructions = (
        """set x "a  b", print $x, setq y $x, print $y, print "$y", print 'n $y', printn "1 ", print 2, stop"""
    )
    assert run(script(instructions))[0] == ['"a  b"', "a  b", "a  b", "n $y", "1 2"]


def test_init_runs_once(run: Any) -> None:
    text = script("TYPE PASSIVE, init i 5, set i $(add $i 1), print $i")
    assert run(text, writes=(("s.run", ""), ("s.run", "")))[0] == ["6", "7"]


def test_passive_gives_back_a_value(vectors: Any) -> None:
    text = "s :: Script(TYPE PASSIVE, goto neg $(lt $1 0), return $(add $1 $#), label neg, error 'no')"
    with Router.from_click(text) as router:
        router.output = io.StringIO()
        assert router.read("s.run", "4 5 6") == "7"
        with pytest.raises(MezzoError, match="no"):
            router.read("s.run", "-1")
        assert router.read("s.add", "1 2") == "3"
        with pytest.raises(MezzoError, match="write NAME TEXT"):
            router.write("s.set", " ")
        with pytest.raises(MezzoError, match="there is no label `q`"):
            router.write("s.goto", "q")


def test_steps_and_pauses(run: Any) -> None:
    text = script("TYPE PASSIVE, print 1, pause 2, print 2, wait 5, print 3, pause, print 4")
    writes = (("s.run", ""), ("s.step", ""), ("s.step", "2"))
    printed, _, _, end = run(text, writes)
    assert printed == ["1", "2", "3"]
    assert end == 0, "the wait was stepped over"
    assert run(text, (*writes, ("s.step", "")))[0] == ["1", "2", "3", "4"]


def test_goto_handler_and_variables_from_outside(run: Any) -> None:
    text = script("TYPE PASSIVE, print 1, label here, print $v, print $(shift v), print $v")
    assert run(text, (("s.set", "v a b"), ("s.goto", "here")))[0] == ["a b", "a", "b"]


def test_endless_jumps_are_given_up(run: Any) -> None:
    text = "s0 :: Script(label a, goto a); s1 :: Script(wait 1, print 1, stop);"
    printed, said, why, _ = run(text)
    assert (printed, said, why) == (["1"], ["s0 :: Script: too many jumps, giving up"], "stopped")


def test_loop_with_waits_is_no_endless_jump(run: Any) -> None:
    printed, said, why, end = run(script("init i 0, set i $(add $i 1), goto end $(eq $i 1500), wait 1ms, loop"))
    assert (printed, said, why, end) == ([], [], "done", 1_499_000_000)


def test_exit_and_end(run: Any) -> None:
    assert run(script("print 1, exit, print 2"))[0] == ["1"]
    assert run(script("print 1, goto end true, print 2"))[0] == ["1"]
    assert run(script("print 1, goto exit no, print 2"))[0] == ["1", "2"]


def test_files(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "out"
    text = f"Idle -> k :: Counter -> Discard; Script(print >{file} 'a b', print >>{file} k.count, "
    printed, _, _, _ = run(text + f"append k.count {file}, printn $(cat {file}), save k.count {tmp_path}/n, stop);")
    assert printed == ["a b", "0", "0"]
    assert (tmp_path / "n").read_text() == "0\n", "with its line's end, as print has it"
    assert run("k :: Idle; Script(save k.class, append k.name -, stop);")[0] == ["Idle", "k"]


@pytest.mark.parametrize("mode", [">", ">>"])
def test_a_pipe_that_nobody_reads_does_not_hold_up_the_router(run: Any, tmp_path: Path, mode: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    _, said, _, _ = run(script(f"print {mode}{tmp_path}/pipe 'hello', stop"))
    assert "No such device or address" in "\n".join(said)


def test_numbered_arguments_begin_with_one() -> None:
    text = script('TYPE PASSIVE, return "$1 $2 $00 $99999999999999999999|"')
    with Router.from_click(text, target="python") as router:
        assert router.read("s.run", "a") == '"a   |"' and router.read("s.run") == '"   |"'


def test_names_inside_a_compound(run: Any) -> None:
    text = """c :: Counter; Idle -> c -> Discard; x :: { c :: Counter; InfiniteSource(LIMIT 2) -> c -> Discard;
  y :: { s :: Script(wait 1, print c.count, print s.add, stop) } }"""
    assert run(text)[0] == ["2", "0"]


def test_driver_manager(run: Any) -> None:
    text = """InfiniteSource(LIMIT 2, STOP true) -> c :: Counter -> Discard;
DriverManager(wait_stop, print "$(c.count) packets", wait 1s, print 'later', stop);"""
    printed, _, why, end = run(text)
    assert (printed, why, end) == (["2 packets", "later"], "stopped", 1_000_000_000)


def test_driver_manager_without_instructions_stops_at_the_first_stop(run: Any) -> None:
    assert run("InfiniteSource(STOP true, LIMIT 2) -> Discard; DriverManager;")[2] == "stopped"


def test_driver_manager_counts_stops(run: Any) -> None:
    text = "Script(wait 1, stop); Script(wait 2, stop); Script(wait 3, stop); DriverManager(wait_stop 2, print 'two');"
    assert run(text)[0::3] == (["two"], 2_000_000_000)


def test_a_stop_ends_a_wait_of_the_driver_manager(run: Any) -> None:
    text = "Script(wait 1, stop); DriverManager(wait 10, print 'on', stop);"
    assert run(text)[0::3] == (["on"], 1_000_000_000)


def test_one_script_decides_about_stops() -> None:
    with pytest.raises(MezzoError, match="a decides about stops already"):
        Router.from_click("a :: DriverManager; b :: Script(TYPE DRIVER);")


def test_Ho10_packet_script_sends_where_it_says(vectors: Any) -> None:
    text = """in0 :: Feed -> s :: Script(init i 0, set i $(add $i 1), goto exit $(eq $i 3), return $(mod $i 2));
s[0] -> out0 :: Collect; s[1] -> out1 :: Collect;"""
    packets = [b"1", b"2", b"3", b"4", b"5"]
    vectors(text, give={"in0": packets}, want={"out0": [b"2", b"4"], "out1": [b"1", b"5"]})
    typed = "in0 :: Feed -> s :: Script(TYPE PACKET, return 1); s[0] -> out0 :: Collect; s[1] -> out1 :: Collect;"
    vectors(typed, give={"in0": packets}, want={"out0": [], "out1": packets})
    pulled = (
        "in0 :: Feed -> Queue -> Script(init i 0, set i $(add $i 1), return $(sub $i 1)) -> Unqueue -> out0 :: Collect;"
    )
    vectors(pulled, give={"in0": packets}, want={"out0": [b"1"]})


def test_packet_script_writes_while_packets_flow(vectors: Any) -> None:
    """The switch is turned between two packets of one burst."""
    text = """in0 :: Feed -> c :: Classifier(0/61, 0/62, -);
c[0] -> Script(write sw.switch 0) -> Discard; c[1] -> Script(write sw.switch -1) -> Discard;
c[2] -> sw :: Switch -> out0 :: Collect;"""
    packets = [b"1", b"b", b"2", b"3", b"a", b"4"]
    vectors(text, give={"in0": packets}, want={"out0": [b"1", b"4"]})


def test_random_and_now(vectors: Any) -> None:
    with Router.from_click("s :: Script(TYPE PASSIVE);", virtual=True) as router:
        assert router.read("s.now") == "1000000000.000000"
        assert {router.read("s.random", "3 4") for _ in range(40)} == {"3", "4"}
        assert 0 <= int(router.read("s.random")) < 1 << 31
        assert router.read("s.readable", "s.now") == "true"
        assert router.read("s.writable", "s.now") == "false"
        assert router.read("s.readable", "q.now") == "false"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("dance", "`dance` is no instruction; there are append, end"),
        ("goto nowhere", "there is no label `nowhere`; there are begin"),
        ("wait forever", "expected a time"),
        ("set x", "write set VARIABLE TEXT"),
        ("stop now", "it takes no text"),
        ("waitq 1", "`waitq` is no instruction"),
        ("export", "write export VARIABLE TEXT"),
        ("export run 1", "`run` cannot be exported"),
        ("TYPE DANCE", "TYPE DANCE is none that this element has"),
        ("TYPE SIGNAL", "TYPE SIGNAL has the signals' names behind it"),
        ("TYPE PASSIVE 5", "TYPE PASSIVE has nothing behind it"),
        ("TYPE SIGNAL INT NOPE", "`NOPE` is no signal"),
    ],
)
def test_troubles(text: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        compile_text(script(text))


def test_scripts_that_multiply_their_jumps_are_given_up(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand jumps of one script in each of a thousand of another would take hours."""
    monkeypatch.setattr(script_run, "MOST_TOGETHER", 3000)
    text = "a :: Script(TYPE PASSIVE, loop); s :: Script(print $(a.run), loop);"
    printed, said, why, _ = run(text + "Script(wait 1, print 'still here', stop);")
    assert (printed[-1], why) == ("still here", "stopped")
    assert said.count("a :: Script: too many jumps, giving up") <= 4
    assert "s :: Script: too many jumps, giving up" in said


def test_a_script_that_jumps_little_may_be_called_often(run: Any) -> None:
    text = """f :: Script(TYPE PASSIVE, set i 0, label l, set i $(add $i 1), goto l $(lt $i 9), return $i);
s :: Script(set n 0, set t 0, label l, set t $(add $t $(f.run)), set n $(add $n 1), goto l $(lt $n 200), print $t,
  stop);"""
    assert run(text)[0] == ["1800"]


def test_a_fault_in_a_handler_leaves_the_script_usable() -> None:
    text = "s :: Script(TYPE PASSIVE, print $(c.rate), return 5); Idle -> c :: Counter -> Discard;"
    with Router.from_click(text) as router:
        table = router.elements["c"].handler_table
        router.elements["c"].handler_table = {**table, "rate": Handler("rate", read=lambda element, text: 1 // 0)}
        with pytest.raises(ZeroDivisionError):
            router.read("s.run")
        router.elements["c"].handler_table = table
        assert router.read("s.run") == "5"


ODD = [
    "1", "-1", "1.5", "1e400", "9223372036854775807", "-9223372036854775808", "9" * 30, "0x1F", "017", "08", "abc",
    '"a b"', "'x", '"', r"\<00>", r"\<ff", "true", "%d", '"%d %s"', '"%*.*f"', "%", "$", "é", "\udcff", "nan", "inf",
    "", "1_0", "٣", "½", "1" * 5000, '"%-+0 #x"', "%c", "%n", '"%.99999d"', "%5",
]  # fmt: skip


@pytest.mark.parametrize("function", sorted(set(FUNCTIONS) - {"kill"}))
def test_functions_answer_or_refuse_whatever_they_are_given(function: str) -> None:
    dice = random.Random(function)
    for _ in range(300):
        text = " ".join(dice.choice(ODD) for _ in range(dice.randint(0, 4)))
        try:
            assert isinstance(call(function, text), str)
        except ValueError as trouble:
            assert str(trouble)


def test_every_trouble_shows_its_instruction() -> None:
    text = "s :: Script(print 1,\n  dance on, goto nowhere $(lt 1 2),\n  export run 5, wait forever);"
    with pytest.raises(MezzoError) as caught:
        compile_text(text)
    shown = {(d.message.split("`")[1], d.span.line, d.span.column) for d in caught.value.diagnostics}
    assert shown == {("dance", 2, 3), ("nowhere", 2, 13), ("run", 3, 3), ("wait forever", 3, 17)}
