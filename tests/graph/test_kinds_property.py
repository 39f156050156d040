"""Push and pull on random graphs, against Click's own procedure written the slow way."""

from __future__ import annotations

import random

import pytest

from mezzo.base import Reporter
from mezzo.graph import Connection, Graph, Instance, check
from mezzo.graph.codes import flow_outputs, parse_processing
from tests.graph.specs import Spec

SPECS = {
    "agnostic": Spec("-/-", "a/a"),
    "straight": Spec("-/-", "a/a", "#/#"),
    "idle": Spec("-/-", "a/a", "x/y"),
    "crossed": Spec("-/-", "a/a", "#/[^#]"),
    "filter": Spec("-/-", "a/ah"),
    "push": Spec("-/-", "h/h"),
    "pull": Spec("-/-", "l/l"),
    "queue": Spec("-/-", "h/l"),
    "unqueue": Spec("-/-", "l/h"),
}


def random_graph(seed: int) -> Graph:
    chance = random.Random(seed)
    classes = chance.choice([list(SPECS), ["agnostic", "straight", "filter", "crossed", "push"]])
    instances = {f"e{i}": Instance(f"e{i}", chance.choice(classes)) for i in range(chance.randint(1, 8))}
    names = list(instances)
    wires = {
        (chance.choice(names), chance.randrange(3), chance.choice(names), chance.randrange(3))
        for _ in range(chance.randint(0, 10))
    }
    return Graph(instances, tuple(Connection(*wire) for wire in sorted(wires)))


def slow_kinds(graph: Graph) -> tuple[dict[tuple[str, str, int], str], bool]:
    """The code of each port after spreading along all pairs until nothing changes, and whether two codes met."""
    kinds: dict[tuple[str, str, int], str] = {}
    pairs = [(("out", c.src, c.src_port), ("in", c.dst, c.dst_port)) for c in graph.connections]
    for name, instance in graph.instances.items():
        ninputs = max((c.dst_port + 1 for c in graph.inputs_of(name)), default=0)
        noutputs = max((c.src_port + 1 for c in graph.outputs_of(name)), default=0)
        inputs, outputs = parse_processing(SPECS[instance.cls].processing, ninputs, noutputs)
        kinds |= {("in", name, i): code for i, code in enumerate(inputs)}
        kinds |= {("out", name, i): code for i, code in enumerate(outputs)}
        for i, code in enumerate(inputs):
            for o in flow_outputs(SPECS[instance.cls].flow, i, noutputs):
                if code == outputs[o] == "a":
                    pairs.append((("in", name, i), ("out", name, o)))
    changed = True
    while changed:
        changed = False
        for one, other in [*pairs, *((b, a) for a, b in pairs)]:
            if kinds[one] != "a" and kinds[other] == "a":
                kinds[other] = kinds[one]
                changed = True
    return kinds, any({kinds[a], kinds[b]} == {"h", "l"} for a, b in pairs)


@pytest.mark.parametrize("seed", range(300))
def test_kinds_agree_with_the_slow_way(seed: int) -> None:
    graph = random_graph(seed)
    reporter = Reporter()
    result = check(graph, lambda instance: SPECS[instance.cls], reporter)
    wanted, conflict = slow_kinds(graph)
    messages = [d.message for d in reporter.errors]
    assert any("is joined to" in m or "would have to push" in m for m in messages) == conflict
    if not conflict:
        for (side, name, port), code in wanted.items():
            kinds = result.input_kinds if side == "in" else result.output_kinds
            assert kinds[name][port] == ("pull" if code == "l" else "push")
