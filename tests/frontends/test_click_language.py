"""The Click language: what a text means, as the flat text it comes out as."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.frontends.click import Flat, parse_click, unparse
from mezzo.frontends.click.archive import write_archive
from mezzo.runtime import Router


def flat(text: str, **options: object) -> str:
    result = parse_click(text, **options)  # type: ignore[arg-type]
    return unparse(result.elements, result.connections, result.requirements)


def links(text: str) -> list[str]:
    return [f"{c.src}[{c.src_port}]->[{c.dst_port}]{c.dst}" for c in parse_click(text).connections]


def configs(text: str, **options: object) -> dict[str, str]:
    return {e.name: e.config for e in parse_click(text, **options).elements}  # type: ignore[arg-type]


def errors(text: str, **options: object) -> str:
    with pytest.raises(MezzoError) as caught:
        parse_click(text, **options)  # type: ignore[arg-type]
    return str(caught.value)


DECLARED = "a, b, c, d, x, y, z :: E;"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a -> b", ["a[0]->[0]b"]),
        ("a [1] -> [2] b [3] -> c", ["a[1]->[2]b", "b[3]->[0]c"]),
        ("a[0x10]->b", ["a[16]->[0]b"]),
        ("a, b -> c", ["a[0]->[0]c", "b[0]->[0]c"]),
        ("a -> b, [1] c", ["a[0]->[0]b", "a[0]->[1]c"]),
        ("a [1], b [2] -> [3] c", ["a[1]->[3]c", "b[2]->[3]c"]),
        ("a [0,1,2] => b, c, d", ["a[0]->[0]b", "a[1]->[0]c", "a[2]->[0]d"]),
        ("a [0-2] => b, c, d", ["a[0]->[0]b", "a[1]->[0]c", "a[2]->[0]d"]),
        ("a => b, c, d", ["a[0]->[0]b", "a[1]->[0]c", "a[2]->[0]d"]),
        ("b, c, d => a", ["b[0]->[0]a", "c[0]->[1]a", "d[0]->[2]a"]),
        ("a [2,] => b, c", ["a[2]->[0]b", "a[3]->[0]c"]),
        ("a [1-2], b => c, d [0,1] => x, y, z", None),
        ("a => b, c -> d", ["a[0]->[0]b", "a[1]->[0]c", "b[0]->[0]d", "c[0]->[0]d"]),
        ("a => [0, 1] b", ["a[0]->[0]b", "a[1]->[1]b"]),
        ("a [0-1] -> b", ["a[0]->[0]b", "a[1]->[0]b"]),
        ("a -> b; a -> b", ["a[0]->[0]b"]),
        ("a -> b a -> c", ["a[0]->[0]b", "a[0]->[0]c"]),
        ("x -> ( input -> output ) -> y", ["x[0]->[0]y"]),
        ("x -> ( [0] -> [0] ) -> y", ["x[0]->[0]y"]),
        ("x -> (->) -> y", ["x[0]->[0]y"]),
        ("x -> ( [0]->[0]; [1]->[1] ) => ( [0]->[0]; [1]->[1] ) -> y", ["x[0]->[0]y"]),
        ("x => ( [0]->[0]; [1]->[1] ) -> y", ["x[0]->[0]y", "x[1]->[0]y"]),
        ("x => [0,1] ( [0]->[0]; [1]->[1] ) [0,1] -> y", ["x[0]->[0]y", "x[1]->[0]y"]),
        ("x -> ( -> a -> ) -> y", ["x[0]->[0]a", "a[0]->[0]y"]),
        ("x => ( [0], [1] -> a -> [0], [1] ) => y, z", ["x[0]->[0]a", "x[1]->[0]a", "a[0]->[0]y", "a[0]->[0]z"]),
        ("a -> b, -> c", ["a[0]->[0]b", "b[0]->[0]c"]),
    ],
)
def test_connections(text: str, wanted: list[str] | None) -> None:
    if wanted is None:
        assert "3 outputs do not match 2 inputs" in errors(DECLARED + text)
    else:
        assert sorted(links(DECLARED + text)) == sorted(wanted)


def test_declarations() -> None:
    text = "a, b :: Queue(5); c :: Counter -> d :: Discard; Idle; e::Null()"
    assert flat(text) == (
        "a :: Queue(5);\nb :: Queue(5);\nc :: Counter;\nd :: Discard;\nIdle@5 :: Idle;\ne :: Null;\n\nc -> d;\n"
    )


def test_a_declaration_inside_a_list_is_of_one_name() -> None:
    assert "`a` is neither" in errors("a, b :: Queue -> Null", is_element_class=str.istitle)


def test_anonymous_names_count_all_elements() -> None:
    text = "Idle -> x :: Null -> Counter -> ( -> Paint(1) -> ) -> { input -> Null -> output } -> Discard"
    names = list(configs(text))
    assert names == ["Idle@1", "x", "Counter@3", "Paint@7", "Discard@9", "@8/Null@1"]


def test_anonymous_names_avoid_declared_ones() -> None:
    assert list(configs("Idle@1 :: Null; Idle; Idle")) == ["Idle@1", "Idle@2", "Idle@3"]
    assert list(configs("Idle; Idle@1 :: Null; Null")) == ["Idle@2", "Idle@1", "Null@3"]


def test_compounds_are_put_in_place_with_scoped_names() -> None:
    text = """
        compound :: { input -> X -> output; input [1] -> y :: Y -> [1] output };
        a :: Idle -> compound -> b :: Discard;
        c :: Idle -> [1] compound [1] -> d :: Discard;
    """
    assert flat(text).endswith("\na -> compound/X@1\n    -> b;\nc -> compound/y\n    -> d;\n")


def test_a_compound_port_nobody_uses_takes_its_connections_along() -> None:
    assert links("{ input -> x :: X -> output } -> b :: B") == ["@1/x[0]->[0]b"]


def test_a_class_may_hide_one_of_its_name_which_its_body_still_sees() -> None:
    text = "elementclass Queue { input -> Queue -> Shaper(1) -> output } Idle -> q :: Queue -> Discard"
    assert configs(text) == {"Idle@1": "", "Discard@3": "", "q/Queue@1": "", "q/Shaper@2": "1"}


def test_classes_are_scoped_by_the_text() -> None:
    text = """
        elementclass A { input -> B -> output }
        elementclass B { elementclass C { input -> One -> output } input -> C -> output }
        Idle -> A -> B -> C -> Discard
    """
    names = list(configs(text))
    assert names == ["Idle@1", "C@4", "Discard@5", "A@2/B@1", "B@3/C@1/One@1"]


def test_an_alias_is_the_class_itself() -> None:
    result = parse_click("elementclass MyQueue Queue; q :: MyQueue(7); MyQueue")
    assert [(e.name, e.cls) for e in result.elements] == [("q", "Queue"), ("MyQueue@2", "Queue")]


def test_parameters() -> None:
    text = "x :: { $a, COUNT $count, __REST__ $rest | P($a, $count, $rest) }(1, 2, COUNT 3, FOO 4)"
    assert configs(text) == {"x/P@1": "1, 3, 2, FOO 4"}
    assert configs("x :: { __REST__ $r | P($r) }()") == {"x/P@1": ""}
    assert configs("x :: { | P }") == {"x/P@1": ""}


def test_parameters_of_the_compounds_around_are_seen() -> None:
    text = "elementclass A { $v | elementclass I { $w | P($v, $w, $g) } I(i$v) } define($g G); A(1); A(2)"
    assert list(configs(text).values()) == ["1, i1, G", "2, i2, G"]


def test_arguments_are_expanded_where_they_are_written() -> None:
    text = "elementclass A { $v | P($v) } elementclass B { $v | A($v/$v) } B(5)"
    assert list(configs(text).values()) == ["5/5"]


OVERLOADS = """
    elementclass MyQueue { input -> Queue -> output || $cap | input -> Queue($cap) -> output
        || $cap | input -> Queue($cap) -> output; input[1] -> Discard || ... }
"""


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        ("Idle -> MyQueue -> Discard", "MyQueue@2/Queue@1 :: Queue;"),
        ("Idle -> MyQueue(9) -> Discard", "MyQueue@2/Queue@1 :: Queue(9);"),
        ("q :: MyQueue(9) -> Discard; Idle -> q; Idle -> [1] q", "q/Discard@2 :: Discard;"),
        ("Idle -> MyQueue(9, 10) -> Discard", "MyQueue@2 :: MyQueue(9, 10);"),
    ],
)
def test_overloads_choose_by_arguments_and_ports(use: str, wanted: str) -> None:
    assert wanted in flat(OVERLOADS + use)


def test_an_extension_falls_back_on_the_class_before() -> None:
    text = "elementclass T { $a | One($a) } elementclass T { $a, $b | Two($a, $b) || ... } T(1); T(1, 2)"
    assert configs(text) == {"T@1/One@1": "1", "T@2/Two@1": "1, 2"}


def test_only_overloads_that_come_before_are_seen() -> None:
    text = "elementclass T { $a | } t :: T(1, 2) elementclass T { $a, $b | || ... }"
    assert "does not know what to do with the argument `2`" in errors(text)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ("$a", "1"),
        ("${a}x$b", "1x2 3"),
        ("$nobody ${nobody} ${nobody-7} ${a-7} ${nobody-$a} ${nobody-${a}}", "$nobody ${nobody} 7 1 1 1"),
        ("'$a' \"$a\" \"$q\"", "'$a' \"1\" \"\\\"x\\\"\""),
        (r'"\$a" \<24> $$ $? ${a', r'"\$a" \<24> $$ $? ${a'),
        ("x$a/$b", "x1/2 3"),
    ],
)
def test_variables(config: str, wanted: str) -> None:
    assert configs(f'define($a 1, $b 2 3, $q "x"); E({config})') == {"E@1": wanted}


def test_an_empty_value_leaves_no_space_behind() -> None:
    assert configs("define($a) M(x $a)") == {"M@1": "x"}


def test_definitions_hold_whatever_their_order_and_are_scoped() -> None:
    assert configs("M($a); define($a $b); define($b 2)") == {"M@1": "2"}
    assert configs("x :: { define($v 1) M($v) }; M($v)") == {"M@2": "$v", "x/M@1": "1"}
    assert configs("define($v 1) x :: { define($v $v$v) M($v) }") == {"x/M@1": "11"}
    assert configs("define($a)  M(<$a>)") == {"M@1": "<>"}


def test_words_of_variables() -> None:
    words = "define($a A 'b c' D, $n 2, $m x) "
    assert configs(words + 'M(${a[0]} ${a[1]} ${a[$n]} <${a[3]}> "${a[2]}")') == {"M@1": 'A \'b c\' D <> "D"'}
    assert configs(words + "M(${a[$m]} ${b[0]} ${b[0]-7} ${a[]})") == {"M@1": "${a[$m]} ${b[0]} 7 ${a[]}"}
    assert configs("elementclass C { $a, $i | M(${a[$i]}) } C(x y, 1)") == {"C@1/M@1": "y"}


def test_variables_given_from_outside_override() -> None:
    assert configs("define($a 1) M($a $b)", variables={"a": "5", "b": "6"}) == {"M@1": "5 6"}


@pytest.mark.parametrize(
    ("written", "config"),
    [
        ("#simple string#", "#simple string#"),
        ("#with (balanced parens)#", "#with (balanced parens)#"),
        ('#with ")quoted" paren#', '#with ")quoted" paren#'),
        ("#// end-of-line comment)\n still going!#", "#  \n still going!#"),
        ("#/* slash-star comment) */ and backslash \\#", "#  and backslash \\#"),
        ("')', \")\\\")\", \\< 29 >", "')', \")\\\")\", \\< 29 >"),
        ("12/0800, 1/2", "12/0800, 1/2"),
    ],
)
def test_configuration_strings_are_verbatim(written: str, config: str) -> None:
    (element,) = parse_click(f"C({written})").elements
    assert element.config.replace("  ", " ") == config.replace("  ", " ")


def test_identifiers_comments_and_line_ends() -> None:
    text = "an/identifier/with/slashes//too/many\r\n :: Null; /* a\r * / */ x@_1 :: Null\r-> y :: Null"
    assert list(configs(text)) == ["an/identifier/with/slashes", "x@_1", "y"]


def test_first_line_may_name_an_interpreter() -> None:
    assert list(configs("#!/usr/bin/env click\nx :: Null")) == ["x"]


def test_requirements() -> None:
    result = parse_click("require(package fastclassifier, specialcode); require(compact_config) x :: Null")
    assert result.requirements == ("package fastclassifier", "package specialcode", "compact_config")
    assert parse_click(unparse(result.elements, result.connections, result.requirements)) == result


def test_libraries_are_included_once(tmp_path: Path) -> None:
    (tmp_path / "mine.click").write_text("require(library other.click) elementclass Mine { input -> Other -> output }")
    (tmp_path / "other.click").write_text("require(library mine.click)\nelementclass Other { input -> Null -> output }")
    text = "require(library mine.click, library other.click) Idle -> Mine -> Discard"
    assert list(configs(text, library_path=[tmp_path])) == ["Idle@1", "Discard@3", "Mine@2/Other@1/Null@1"]
    assert list(configs(text, file=str(tmp_path / "main.click")))[1] == "Discard@3"


def test_errors_in_a_library_name_its_file(tmp_path: Path) -> None:
    (tmp_path / "bad.click").write_text("x :: Null;\n-> x;")
    assert f"{tmp_path}/bad.click:2:1: syntax error" in errors("require(library bad.click)", library_path=[tmp_path])
    assert "`no.click` is not found" in errors("require(library no.click)", library_path=[tmp_path])


def test_the_configuration_is_read_from_an_archive() -> None:
    assert list(configs(write_archive({"componentmap": "A\n", "config": "x :: Null // grün"}))) == ["x"]
    assert "without a member `config`" in errors(write_archive({"componentmap": "A\n"}))



# Cases


def test_ao01_arrow_with_nothing_before_it() -> None:
    assert errors("-> Null;").startswith("config:1:1: syntax error at `->`")


def test_ao02_stray_semicolon_is_warned_of() -> None:
    result = parse_click("elementclass X { input -> Null; -> output } Idle -> X -> Discard")
    (warning,) = result.warnings
    assert "begins a connection at `input`" in warning.message and warning.span is not None
    assert (warning.span.line, warning.span.column) == (1, 33)
    assert parse_click("elementclass X { input -> output; -> output } X").warnings == ()


def test_ao03_alias_of_a_compound_is_the_same_each_time() -> None:
    text = "elementclass A { input -> Null -> output } elementclass B A; Idle -> B -> Discard"
    first: Flat = parse_click(text)
    assert [(e.name, e.cls) for e in first.elements][-1] == ("B@2/Null@1", "Null")
    assert all(parse_click(text) == first for _ in range(100))


@pytest.mark.slow
def test_ao03_nothing_grows() -> None:
    text = "elementclass A { input -> Null -> output } elementclass B A; Idle -> B -> Discard"

    def objects_after(times: int) -> int:
        for _ in range(times):
            with Router.from_click(text, target="python", virtual=True, frames=64):
                pass
        gc.collect()
        return len(gc.get_objects())

    objects_after(3)  # what is kept once
    before = objects_after(2)
    assert objects_after(5) <= before


def test_ao04_definitions_that_refer_to_definitions() -> None:
    assert configs("define($A 3, $B $A) Script(print $B, stop)") == {"Script@1": "print 3, stop"}
    message = errors('define($A $B, $B $A) Script(print "v=$A", stop)')
    assert "`$A` is defined by itself: `$A` needs `$B` needs `$A`" in message and "config:1:15" in message
    chain = "".join(f"define($a{i} $a{i + 1});" for i in range(5000))
    assert "needs a chain of more than" in errors(chain)


def test_ao05_port_ranges() -> None:
    head = "t :: Tee(3); Idle -> t; "
    tail = " => a :: Discard, b :: Discard, d :: Discard;"
    assert links(head + "t [0-2]" + tail) == links(head + "t [0,1,2]" + tail)
    assert links(head + "t [0-2]" + tail)[1:] == ["t[0]->[0]a", "t[1]->[0]b", "t[2]->[0]d"]


def test_ao06_empty_last_argument() -> None:
    assert configs("x :: { $a | P($a) }(A,)") == {"x/P@1": "A"}


def test_ao07_two_information_elements_of_one_class() -> None:
    assert list(configs("AlignmentInfo(s 8 2) AlignmentInfo(d 8 2) s :: Idle -> d :: Discard")) == [
        "AlignmentInfo@1",
        "AlignmentInfo@2",
        "s",
        "d",
    ]


def test_ao09_line_directives_inside_configuration_strings() -> None:
    text = 'c :: Classifier(12/0800,\n# 50 "other.h"\n12/08zz,\n-);\n# 7 ""\nx :: Null'
    c, x = parse_click(text, file="main.click").elements
    assert "#" not in c.config and "other.h" not in c.config
    assert c.written is not None and x.span is not None
    places = [str(c.written.argument_span(i)) for i in range(3)]
    assert places == ["main.click:1:17", "other.h:50:1", "other.h:51:1"]
    assert str(x.span) == "main.click:7:1"


def test_line_directives_between_statements() -> None:
    text = '#line 10 "a.h"\nx :: Null;\n# 20\ny :: Null;\n-> z'
    assert errors(text).startswith("a.h:21:1: syntax error")
    assert "config:1:1: this line is not a line directive" in errors("#include <x>\nx :: Null")
