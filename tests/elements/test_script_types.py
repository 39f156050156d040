"""Scripts of TYPE PROXY and PACKET, exported variables, and handlers that are for scripts alone, on every target."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names

PROXY = """p :: Script(TYPE PROXY, init last none, goto set $(eq $0 level), goto name $(eq $0 name_of),
  error "there is no `$0` here",
  label set, goto ask $(not $write), setq last $args, end,
  label ask, return $last,
  label name, return "$# $2");
"""


@pytest.fixture(params=target_names())
def proxy(request: pytest.FixtureRequest) -> Any:
    with Router.from_click(PROXY, target=request.param) as router:
        router.output = io.StringIO()
        yield router


def test_a_proxy_script_answers_to_any_name(proxy: Any) -> None:
    assert proxy.read("p.level") == "none"
    proxy.write("p.level", "'high up'")
    assert proxy.read("p.level") == "high up"
    assert proxy.read("p.name_of", "a b c") == '"3 b"'
    assert proxy.read("p.add", "1 2") == "3", "what every script has stays what it is"
    assert proxy.read("p.readable", "p.anything p.name") == "true"


def test_a_proxy_script_refuses_with_its_error(proxy: Any) -> None:
    with pytest.raises(MezzoError, match=r"p\.width: .*there is no `width` here"):
        proxy.read("p.width")
    with pytest.raises(MezzoError, match=r"p\.width: .*there is no `width` here"):
        proxy.write("p.width", "5")
    assert proxy.output.getvalue() == "", "the caller has the error; it is not said twice"


def test_other_scripts_answer_to_their_own_names_only() -> None:
    with Router.from_click("s :: Script(TYPE PASSIVE, return 1);") as router:
        assert router.read("s.run") == "1"
        with pytest.raises(MezzoError, match="`s` has no handler `level`"):
            router.read("s.level")


@pytest.mark.parametrize("target", target_names())
def test_exported_variables_are_handlers(target: str) -> None:
    text = """s :: Script(TYPE PASSIVE, export x $(c.count), exportq y "a b", export z, init w 1, set x $(add $x $w));
c :: Counter; Idle -> c -> Discard;"""
    with Router.from_click(text, target=target) as router:
        assert [router.read(f"s.{v}") for v in "xyz"] == ["0", "a b", ""]
        router.write("s.run")
        router.write("s.run")
        assert [router.read(f"s.{v}") for v in "xyz"] == ["2", "a b", ""], "they are set at the start only"
        assert "x\tr\n" in router.read("s.handlers")
        with pytest.raises(MezzoError, match="has no handler `w`"):
            router.read("s.w")


def test_what_an_init_asks_need_not_stand_before(capsys: pytest.CaptureFixture[str]) -> None:
    text = """s :: Script(TYPE PASSIVE, init n $(q.capacity), init m $(no.where), return $n);
Idle -> q :: Queue(7) -> Discard;"""
    with Router.from_click(text, virtual=True) as router:
        assert router.read("s.run") == "7"
        with pytest.raises(MezzoError, match="there is no variable `m`"):
            router.read("s.get", "m")
    assert "While executing 's :: Script':\n  there is no element `no`" in capsys.readouterr().err


def test_a_packet_script_knows_the_input(vectors: Any) -> None:
    text = """in0, in1 :: Feed; s :: Script(return $(sub 1 $input)); in0 -> [0] s; in1 -> [1] s;
s[0] -> out0 :: Collect; s[1] -> out1 :: Collect;"""
    vectors(text, give={"in0": [b"a", b"b"], "in1": [b"c"]}, want={"out0": [b"c"], "out1": [b"a", b"b"]}, drops={})


@pytest.mark.parametrize(
    ("script", "passes"),
    [
        ("end", True),
        ("TYPE PUSH", True),
        ("return true", True),
        ("return false", False),
        ("return 0", True),
        ("exit", False),
        ("error", False),
        ("return 7", False),
        ("return -1", False),
        ("return soon", False),
        ("pause", False),
        ("wait 1ms, return 0", False),
        ("label l, goto l", False),
    ],
)
def test_where_a_packet_goes(script: str, passes: bool, vectors: Any, capsys: pytest.CaptureFixture[str]) -> None:
    drops = {} if passes else {("s", "script"): 2}
    for road in ("-> s -> out0 :: Collect", "-> Queue -> s -> Unqueue -> out0 :: Collect"):
        text = f"s :: Script({script}); in0 :: Feed {road};"
        want = {"out0": [b"a", b"b"] if passes else []}
        vectors(text, give={"in0": [b"a", b"b"]}, want=want, drops=drops)


def test_a_pulled_script_pushes_to_its_other_outputs(vectors: Any) -> None:
    text = """in0 :: Feed -> Queue -> s :: Script(init i 1, set i $(sub 1 $i), return $i);
s[0] -> Unqueue -> out0 :: Collect; s[1] -> out1 :: Collect;"""
    packets = [b"1", b"2", b"3", b"4"]
    vectors(text, give={"in0": packets}, want={"out0": [b"1", b"3"], "out1": [b"2", b"4"]}, drops={})


def test_packets_meet_scripts_on_the_thread_of_python() -> None:
    text = """InfiniteSource(LIMIT 40) -> Queue -> s :: Script(init i 0, set i $(add $i 1)) -> u :: Unqueue -> Discard;
t :: InfiniteSource(LIMIT 40) -> p :: Script(end) -> Discard; StaticThreadSched(u 1);"""
    with Router.from_click(text, threads=2) as router:
        assert router.run() == "done"
        assert router.read("s.get", "i") == "40"
        assert {router.read(f"{name}.home_thread") for name in ("u", "t")} == {"0"}
        assert "its packets meet `s`, which is Python" in str(router.plan.warnings[0].message)


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("Script(TYPE PACKET, end);", "a script of TYPE PACKET has inputs"),
        ("Idle -> Script(TYPE ACTIVE) -> Discard;", "the others have no ports"),
        ("Script(TYPE PROXY) -> Discard;", "the others have no ports"),
        ("s :: Script; Idle -> Queue -> s -> Unqueue -> Discard; InfiniteSource -> [1] s;", "has one input"),
    ],
)
def test_ports_and_types_go_together(text: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        Router.from_click(text)


def test_what_reads_the_machine_is_private() -> None:
    with Router.from_click("s :: Script(TYPE PASSIVE);") as router:
        table = router.handlers.table(router.elements["s"])
        assert {name for name, handler in table.items() if handler.private} == {"cat", "catq", "getenv", "kill"}


def test_bytes_go_through_whole(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """As Click's own test of quoting: what a passive script returns is not cut at spaces, nor at odd bytes."""
    text = r"""s0 :: Script(
  printn >FILE $(s.run "\<0a 09 01 ff>"), printn $(s.run "\<ff 0a>"), readq length "\<0a 09 01>",
  printq unquote "'a  b'", printnq first '"x y"', stop); s :: Script(TYPE PASSIVE, returnq $1);"""
    with Router.from_click(text.replace("FILE", str(tmp_path / "f")), virtual=True) as router:
        router.run(rounds=100)
    assert (tmp_path / "f").read_bytes() == b"\n\t\x01\xff"
    assert capfdbinary.readouterr() == (b'\xff\na  b\n"x y"', b"s0.length:\n3\n")


@pytest.mark.parametrize("label", ["stop", "end", "exit", "error", "begin", "loop"])
def test_goto_takes_the_ends_for_labels(label: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"Script(init i 0, print $i, set i $(add $i 1), goto {label} $(lt $i 2), print 'on', pause);"
    with Router.from_click(text, virtual=True) as router:
        why = router.run(rounds=100)
    again = label in ("begin", "loop")
    assert capsys.readouterr().out.split() == (["0", "1", "on"] if again else ["0"])
    assert why == ("stopped" if label == "stop" else "done")


def test_given_variables(capsys: pytest.CaptureFixture[str]) -> None:
    text = """s :: Script(TYPE PASSIVE,
  print $$, print "$0 $write $# $1 ${2} $3.", print $(shift) $args, set write 7, print $write);
Script(write s.run a b c, print $(hasname s), print $(hasname s t), stop);"""
    with Router.from_click(text, virtual=True) as router:
        router.run(rounds=100)
    found = capsys.readouterr().out.splitlines()
    assert found == [str(os.getpid()), "run true 3 a b c.", "a b c", "7", "true", "false"]
