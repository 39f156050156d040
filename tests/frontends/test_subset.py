"""What is not part of the packet language is refused with the place and what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.snippet import complaint

# Each is the body of `process(self, p)`; a `def` stands for itself.
MISTAKES = {
    "while": "while self.count < 3:\n    self.count += 1\nreturn 0",
    "try": "try:\n    x = p.u8(0)\nexcept ValueError:\n    x = 0\nreturn 0",
    "raise": "raise ValueError(3)",
    "with": "with open('x') as f:\n    pass\nreturn 0",
    "assert": "assert p.length > 3\nreturn 0",
    "match": "match p.length:\n    case 3:\n        return 0\nreturn 1",
    "import": "import os\nreturn 0",
    "global": "global x\nreturn 0",
    "del": "del p\nreturn 0",
    "nested_def": "x = 3\ndef f():\n    return 3\nreturn 0",
    "nested_class": "class A:\n    pass\nreturn 0",
    "yield": "yield p",
    "await": "async def process(self, p):\n    return 0",
    "lambda": "f = lambda x: x\nreturn 0",
    "list": "x = [1, 2]\nreturn 0",
    "dict": "x = {1: 2}\nreturn 0",
    "comprehension": "x = sum(i for i in range(3))\nreturn 0",
    "list_comprehension": "x = [i for i in range(3)]\nreturn 0",
    "f_string": "x = f'{p.length}'\nreturn 0",
    "walrus": "if (n := p.length) > 3:\n    return 1\nreturn 0",
    "starred": "a, *b = p.u8(0), 2, 3\nreturn 0",
    "slice": "x = p[0:4]\nreturn 0",
    "packet_index": "x = p[0]\nreturn 0",
    "float": "x = 1.5\nreturn 0",
    "float_from_configuration": "x = self.ratio\nreturn 0",
    "true_division": "x = p.length / 2\nreturn 0",
    "power": "x = p.length ** 2\nreturn 0",
    "matrix_product": "x = p.length @ 2\nreturn 0",
    "string": "x = 'a' + 'b'\nreturn 0",
    "string_compared": "if p.length == 'long':\n    return 1\nreturn 0",
    "unknown_name": "x = y + 1\nreturn 0",
    "unknown_attribute": "self.drops += 1\nreturn 0",
    "unknown_attribute_read": "x = self.drops\nreturn 0",
    "argument_assigned": "self.limit = 3\nreturn 0",
    "array_assigned": "self.codes = 3\nreturn 0",
    "table_by_index": "self.table[3] = 4\nreturn 0",
    "table_read_by_index": "x = self.table[3]\nreturn 0",
    "ring_without_method": "self.ring.frob()\nreturn 0",
    "state_as_number": "x = self.ring + 1\nreturn 0",
    "bad_header_field": "x = p.ip.tll\nreturn 0",
    "bad_header_field_stored": "p.ip.tll = 3\nreturn 0",
    "bad_packet_attribute": "x = p.colour\nreturn 0",
    "bad_packet_attribute_stored": "p.colour = 3\nreturn 0",
    "bad_packet_method": "p.frobnicate(3)\nreturn 0",
    "packet_attribute_not_called": "p.strip\nreturn 0",
    "length_assigned": "p.length = 3\nreturn 0",
    "field_too_wide": "p.ip.ttl = p.length\nreturn 0",
    "literal_too_large": "p.ip.ttl = 256\nreturn 0",
    "negative_literal": "x: u8 = -1\nreturn 0",
    "wrong_width": "x: u8 = p.length\nreturn 0",
    "type_changed": "x = p.u8(0)\nx = p.length\nreturn 0",
    "mixed_signs": "x: i64 = 3\ny = x + u64(p.length)\nreturn 0",
    "not_a_type": "x: int = 3\nreturn 0",
    "declared_without_value": "x: u32\nreturn 0",
    "packet_second_name": "q = p\nreturn 0",
    "packet_and_number": "x = 3\nx = p.clone()\nreturn 0",
    "clone_without_name": "p.clone()\nreturn 0",
    "clone_in_an_expression": "self.push(1, p.clone())\nreturn 0",
    "packet_arithmetic": "x = p + 1\nreturn 0",
    "packet_compared": "if p == 3:\n    return 1\nreturn 0",
    "is_not_none_of_number": "if p.length is 3:\n    return 1\nreturn 0",
    "packet_len": "x = len(p)\nreturn 0",
    "len_of_number": "x = len(p.length)\nreturn 0",
    "returns_packet": "return p",
    "returns_text": "return 'out'",
    "returns_three": "return 0, 'a', 'b'",
    "reason_not_text": "return 0, p.length",
    "chained_assignment": "x = y = 3\nreturn 0",
    "tuple_value": "x = 1, 2\nreturn 0",
    "tuple_sizes": "a, b = 1, 2, 3\nreturn 0",
    "range_open": "for i in range(p.length):\n    self.count += 1\nreturn 0",
    "range_huge": "for i in range(1 << 40):\n    self.count += 1\nreturn 0",
    "range_negative": "for i in range(-3, 3):\n    self.count += 1\nreturn 0",
    "bounded_huge": "for i in bounded(p.length, 1 << 40):\n    self.count += 1\nreturn 0",
    "huge_shift": "x = 1 << 1000\nreturn 0",
    "range_step": "for i in range(0, 10, 2):\n    self.count += 1\nreturn 0",
    "bounded_without_limit": "for i in bounded(p.length):\n    self.count += 1\nreturn 0",
    "for_else": "for i in range(3):\n    self.count += 1\nelse:\n    self.count = 0\nreturn 0",
    "for_over_number": "for i in p.length:\n    self.count += 1\nreturn 0",
    "keyword_argument": "x = checksum_adjust(checksum=1, old=2, new=3)\nreturn 0",
    "too_few_arguments": "x = checksum_adjust(1, 2)\nreturn 0",
    "bool_arithmetic": "x = (p.length > 3) + (p.length > 4)\nreturn 0",
    "bool_and": "x = (p.length > 3) & (p.length > 4)\nreturn 0",
    "array_as_condition": "if self.codes:\n    return 1\nreturn 0",
    "keyword_of_helper": "x = self.f(n=3)\nreturn 0",
    "builtin": "print(p)\nreturn 0",
    "builtin_int": "x = int(p.length)\nreturn 0",
    "sorted": "x = sorted((1, 2))\nreturn 0",
    "number_called": "x = p.length(3)\nreturn 0",
    "and_that_acts": "if p.length > 3 and self.table.set(1, 2):\n    return 1\nreturn 0",
    "in_texts": "if p.length in self.names:\n    return 1\nreturn 0",
    "in_too_wide": "if p.u8(0) in (1, 2):\n    return 1\nif p.u8(0) in self.wide:\n    return 1\nreturn 0",
    "in_a_number": "if 3 in p.length:\n    return 1\nreturn 0",
    "shift_too_wide": "x = p.u8(0) << p.length\nreturn 0",
    "buffer_of_open_width": "self.log.put(3)\nreturn 0",
    "annotation_offset": "x = p.anno_u32(p.length)\nreturn 0",
    "annotation_outside": "x = p.anno_u32(46)\nreturn 0",
    "make_from_no_blob": "q = self.make_from(self.ring, 0, 3)\nreturn 0",
    "augmented_text": "self.count += 'a'\nreturn 0",
    "attribute_of_number": "x = p.length.bits\nreturn 0",
    "config_index_outside": "x = self.steps[7]\nreturn 0",
    "condition_of_method": "if p.strip:\n    return 1\nreturn 0",
    "huge_literal": "x = 1 << 200\nreturn 0",
    "recursion": "def process(self, p):\n    return self.f(3)\n\ndef f(self, n: u32) -> u32:\n    return self.f(n)",
    "mutual_recursion": (
        "def process(self, p):\n    return self.f(3)\n\ndef f(self, n: u32) -> u32:\n    return self.g(n)\n\n"
        "def g(self, n: u32) -> u32:\n    return self.f(n)"
    ),
    "runtime_memory": "x = mem_u32(self.count)\nreturn 0",
    "runtime_call": "libc(self.count, 3)\nreturn 0",
    "runtime_frame": "self.count = p.frame\nreturn 0",
    "runtime_lend": "f = self.lend(p)\nreturn",
    "runtime_word_too_wide": "def process(self, p):\n    libc(self.count, p.u128(0))\n    return 0\n\nruntime = True",
    "runtime_too_many_words": (
        "def process(self, p):\n    libc(self.count, 1, 2, 3, 4, 5, 6, 7)\n    return 0\n\nruntime = True"
    ),
    "adopted_without_name": "def timer(self):\n    self.push(0, self.adopt(1, 2, 3))\n\nruntime = True",
    "missing_parameter": "def process(self):\n    return 0",
    "too_many_parameters": "def push(self, port, p, q):\n    self.kill(p)",
    "no_self": "def process():\n    return 0",
    "parameter_without_type": "def process(self, p):\n    return self.f(3)\n\ndef f(self, n) -> u32:\n    return n",
    "default_value": "def process(self, p):\n    return self.f(3)\n\ndef f(self, n: u32 = 3) -> u32:\n    return n",
    "starred_parameter": "def process(self, *p):\n    return 0",
    "helper_gives_packet": (
        "def process(self, p):\n    q = self.f(p)\n    return 0\n\ndef f(self, p: Packet) -> Packet:\n    return p"
    ),
    "helper_argument_count": (
        "def process(self, p):\n    return self.f(3, 4)\n\n"
        "def f(self, n: u32) -> u32:\n    return n"
    ),
    "helper_argument_type": "def process(self, p):\n    return self.f(p)\n\ndef f(self, n: u32) -> u32:\n    return n",
    "helper_without_value": (
        "def process(self, p):\n    x = self.f(3)\n    return 0\n\n"
        "def f(self, n: u32):\n    self.count += n"
    ),
    "python_push": "@python\ndef push(self, port, p):\n    pass",
    "two_packets_to_python": (
        "def process(self, p):\n    self.show(p, p)\n    return 0\n\n@python\ndef show(self, p, q):\n    pass"
    ),
    "missing_return": "def ready(self) -> bool:\n    self.count += 1",
    "return_without_value": "def ready(self) -> bool:\n    return",
    "value_from_push": "def push(self, port, p):\n    self.kill(p)\n    return 3",
    "lambda_role": "process = lambda self, p: 0",
    "two_troubles": "def process(self, p):\n    return 1.5\n\ndef ready(self) -> bool:\n    return x",
}


def methods(text: str) -> str:
    """A snippet as methods of the class."""
    if text.startswith(("def ", "@", "async ", "process =")):
        return text
    constants = "steps = (1, 2)\nnames = ('a', 'b')\nwide = (1, 300)\nratio = 0.5\n\n"
    return constants + "def process(self, p: Packet) -> Port:\n" + "".join(
        f"    {line}\n" for line in text.split("\n")
    )


def test_long_conditions_make_flat_trees() -> None:
    chain = " and ".join(f"p.length != {i}" for i in range(1000))
    assert complaint(methods(f"if {chain}:\n    return 1\nreturn 0")) == ""
    values = f"steps = tuple(range({1000}))\n\ndef process(self, p):\n    return 1 if p.length in self.steps else 0"
    assert complaint("flag = 3\n" + values) == ""


@pytest.mark.parametrize("nested", [" + ".join(["x"] * 900), "-" * 900 + "x", " + (".join(["x"] * 120) + ")" * 119])
def test_what_is_nested_too_deeply_is_refused(nested: str) -> None:
    said = complaint(methods(f"x = p.length\nx = {nested}\nreturn 0"))
    assert "nested too deeply" in said or "nested deeper than" in said


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name: str, golden: Callable[[str, str], None]) -> None:
    text = complaint(methods(MISTAKES[name]))
    assert text, "nothing was found"
    golden(f"subset/{name}.txt", text)


ATOMS = (
    "p", "q", "x", "3", "-1", "1 << 70", "1.5", "'a'", "None", "True", "...", "b'ab'", "3j", "()", "(1, 2)", "[]", "{}",
    "p.ip", "p.net", "p.ip.ttl", "p.length", "p.dst_ip", "p.timestamp", "p.ip.nosuch", "p.nosuch", "p.strip", "p.u8(0)",
    "p.u16(x)", "p.clone()", "p.view(x, 3)", "p.net.sum16(0, 4)", "p.strip(3)", "p.set_u8(0, 300)", "p.anno_u8(99)",
    "self", "self.count", "self.small", "self.codes", "self.codes[x]", "self.table", "self.table.get(3)",
    "self.table.set(1, 2)", "self.ring", "self.ring.pop()", "self.slots.take(0)", "self.log.put(3)", "self.image",
    "self.image.u32(0)", "self.limit", "self.nosuch", "self.push", "self.push(0, p)", "self.kill(p)", "self.pull(0)",
    "self.make(3)", "self.name", "self.setup", "self.f(3)", "self.cells", "now()", "random()", "randrange(3)", "len(p)",
    "len(self.ring)", "min(1, x)", "max(p, 1)", "u8(x)", "u8(p)", "u8()", "bool(x)", "flag", "u32", "Packet", "KILL",
    "range(3)", "bounded(x, 3)", "lambda: 0", "[i for i in p]", "(y := 3)", "f'{x}'", "*p", "p[0]", "p[0:1]",
    "self.steps[9]", "self.steps", "checksum_adjust(1, 2, 3)", "print(1)", "yield", "__import__", "Element",
)  # fmt: skip
FORMS = (
    "x = {a}", "x: u8 = {a}", "x: {a} = 3", "{a} = {b}", "{a} += {b}", "x = {a} + {b}", "x = {a} << {b}",
    "x = {a} // {b}",
    "x = {a} < {b} < {c}", "x = {a} in {b}", "x = {a} is {b}", "x = not {a}", "x = -{a}", "x = ~{a}",
    "x = {a} if {b} else {c}", "x = {a} and {b} or {c}", "x, y = {a}", "x, y = {a}, {b}", "if {a}:\n    x = {b}",
    "for i in {a}:\n    x = {b}", "for i in range({a}):\n    x = i", "for i in range({a}, {b}):\n    continue",
    "for i in bounded({a}, {b}):\n    break", "for i, j in {a}:\n    x = i", "return {a}", "return {a}, {b}", "{a}",
    "{a}({b})", "{a}.u8({b})", "{a}.push({b})", "{a}[{b}] = {c}", "x = {a}[{b}]", "{a}.ttl = {b}", "del {a}",
    "self.push({a}, {b})", "self.ring.push({a})", "self.slots.put({a}, {b})", "self.log.put_packet({a}, {b}, {c})",
    "p.copy_from({a}, {b}, {c}, 3)", "p.write(0, {a}, {b}, {c})", "self.show({a}, {b})",
    "q = self.make_from({a}, {b}, {c})",
    "self.timer_at({a})", "p.set_network({a})", "self.f({a})", "g({a})",
)  # fmt: skip
REST = """
def f(self, n: u32) -> u32:
    return n

@python
def show(self, *things):
    pass
"""


@given(st.lists(st.tuples(st.sampled_from(FORMS), *[st.sampled_from(ATOMS)] * 3), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_odd_code_gives_an_error_or_valid_code_and_no_crash(lines: list[tuple[str, str, str, str]]) -> None:
    text = "\n".join(form.format(a=a, b=b, c=c) for form, a, b, c in lines)
    try:
        said = complaint(methods(text) + REST)
    except SyntaxError:  # not Python either
        return
    assert "Example.process: " not in said, f"the front end let this through:\n{said}"
