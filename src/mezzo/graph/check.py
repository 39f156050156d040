"""What must hold of a graph before it is compiled (`check`), and which ports push and which pull.

Click's rules.  A port is push (packets are handed on), pull (packets are asked for) or agnostic.  A connection joins
two ports of one kind; agnostic ports take the kind of what they are joined to, and inside an element the agnostic
ports between which packets travel (the flow code) are of one kind.  What stays undecided is push.  A push output and
a pull input are joined exactly once; a push input and a pull output may be joined several times.  Every port is joined.

One rule is added.  A push (or pull) loop that nothing leaves, in which every packet would go round for ever, is
refused.  A loop with a way out is sound and common (ICMPError back into the routing table); it is listed in
`Resolved.loops` for those who turn calls into code.

Everything wrong is reported in one run, with its places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from mezzo.base import MezzoError, Note, Reporter, Span
from mezzo.graph.codes import PortCounts, flow_outputs, parse_ports, parse_processing
from mezzo.graph.graph import Connection, Graph, Instance
from mezzo.graph.kinds import resolve_kinds
from mezzo.graph.loops import find_loops
from mezzo.graph.ports import PortTable


class PortSpec(Protocol):
    """What a class says of its ports: Click's three codes."""

    @property
    def ports(self) -> str: ...
    @property
    def processing(self) -> str: ...
    @property
    def flow(self) -> str: ...


@dataclass(frozen=True)
class Resolved:
    """A checked graph: how many ports each element has, and whether each is "push" or "pull".

    `loops` names the elements of each loop of calls that has a way out, in order.
    """

    graph: Graph
    ninputs: dict[str, int]
    noutputs: dict[str, int]
    input_kinds: dict[str, tuple[str, ...]]
    output_kinds: dict[str, tuple[str, ...]]
    loops: tuple[tuple[str, ...], ...] = ()


def check(
    graph: Graph,
    spec_of: Callable[[Instance], PortSpec],
    reporter: Reporter,
    class_names: Iterable[str] = (),
) -> Resolved:
    """Resolve the graph's ports; what is wrong goes to the reporter, as do the warnings of the front end.

    `spec_of` raises LookupError for a class it does not know.  The result means something only without errors.
    """
    reporter.diagnostics += [warning for warning in graph.warnings if warning not in reporter.diagnostics]
    specs = _specs(graph, spec_of, reporter, list(class_names))
    connections = [c for c in graph.connections if _ends_exist(c, graph, reporter)]
    counts, sound = _count_ports(graph, connections, specs, reporter)
    table = _port_table(graph, sound, specs, counts)
    _check_unused(graph, table, specs, _refused(connections, sound), reporter)
    input_kinds, output_kinds = resolve_kinds(graph, table, sound, reporter)
    _check_reuse(graph, sound, input_kinds, output_kinds, reporter)
    loops = find_loops(graph, table, sound, input_kinds, output_kinds, reporter)
    return Resolved(graph, table.ninputs, table.noutputs, input_kinds, output_kinds, loops)


def _specs(
    graph: Graph, spec_of: Callable[[Instance], PortSpec], reporter: Reporter, class_names: list[str]
) -> dict[str, PortSpec]:
    specs: dict[str, PortSpec] = {}
    for instance in graph.instances.values():
        try:
            specs[instance.name] = spec_of(instance)
        except MezzoError as error:
            reporter.extend(error)
        except LookupError:
            import difflib  # only for hints

            near = difflib.get_close_matches(instance.cls, class_names, n=3)
            folded = [name for name in class_names if name.lower() == instance.cls.lower()]
            meant = " or ".join(f"`{name}`" for name in folded or near)
            hint = f"did you mean {meant}?" if meant else ""
            reporter.error(f"`{instance.cls}` is not an element class", instance.span, hint=hint)
    return specs


def _ends_exist(connection: Connection, graph: Graph, reporter: Reporter) -> bool:
    missing = [name for name in (connection.src, connection.dst) if name not in graph.instances]
    for name in missing:
        reporter.error(f"`{connection}`: there is no element `{name}`", connection.span)
    return not missing


def _count_ports(
    graph: Graph, connections: list[Connection], specs: dict[str, PortSpec], reporter: Reporter
) -> tuple[dict[str, tuple[int, int]], list[Connection]]:
    """The numbers of inputs and outputs of each element, and the connections that use only those."""
    used_in = dict.fromkeys(graph.instances, 0)
    used_out = dict.fromkeys(graph.instances, 0)
    for c in connections:
        used_out[c.src] = max(used_out[c.src], c.src_port + 1)
        used_in[c.dst] = max(used_in[c.dst], c.dst_port + 1)
    counts = {}
    for name in graph.instances:
        used = used_in[name], used_out[name]
        counts[name] = parse_ports(specs[name].ports).settle(*used) if name in specs else used
    sound = []
    for c in connections:
        has_output = _has_port(graph, c, c.src, c.src_port, "output", counts[c.src][1], specs, reporter)
        has_input = _has_port(graph, c, c.dst, c.dst_port, "input", counts[c.dst][0], specs, reporter)
        if has_output and has_input:
            sound.append(c)
    return counts, sound


def _has_port(
    graph: Graph,
    connection: Connection,
    name: str,
    port: int,
    side: str,
    count: int,
    specs: dict[str, PortSpec],
    reporter: Reporter,
) -> bool:
    if port < count:
        return True
    instance = graph.instances[name]
    allowed = _allowed(parse_ports(specs[name].ports), side)
    reporter.error(
        f"`{name}` has no {side} {port}: {instance.cls} takes {allowed}",
        connection.span,
        [Note(f"`{name}` is declared here", instance.span)],
        "" if count == 0 else f"its {side} is {side} 0" if count == 1 else f"its {side}s are 0 to {count - 1}",
    )
    return False


def _allowed(counts: PortCounts, side: str) -> str:
    if side == "output" and counts.equal_plus is not None:
        return "as many outputs as inputs" if counts.equal_plus == 0 else "one output more than inputs"
    if side == "input":
        least, most = counts.least_inputs, counts.most_inputs
    else:
        least, most = counts.least_outputs, counts.most_outputs
    if most == 0:
        return f"no {side}s"
    number = f"{least}" if least == most else f"{least} to {most}"
    return f"{number} {side}" + ("" if most == 1 else "s")


def _port_table(
    graph: Graph, connections: list[Connection], specs: dict[str, PortSpec], counts: dict[str, tuple[int, int]]
) -> PortTable:
    table = PortTable()
    for name in graph.instances:
        ninputs, noutputs = counts[name]
        spec = specs.get(name)
        # An element of an unknown class goes with everything, so that it is reported once.
        codes = parse_processing(spec.processing if spec else "a/a", ninputs, noutputs)
        table.add(name, codes, _flow(spec.flow if spec else "x/y", noutputs))
    for connection in connections:
        table.join(connection)
    return table


def _flow(code: str, noutputs: int) -> Callable[[int], tuple[int, ...]]:
    return lambda port: flow_outputs(code, port, noutputs)


def _refused(connections: list[Connection], sound: list[Connection]) -> set[tuple[str, str]]:
    """The sides of elements with a connection that was refused: what else they lack may be that connection."""
    wrong = set(connections) - set(sound)
    return {end for c in wrong for end in ((c.src, "output"), (c.dst, "input"))}


def _check_unused(
    graph: Graph, table: PortTable, specs: dict[str, PortSpec], refused: set[tuple[str, str]], reporter: Reporter
) -> None:
    for instance in graph.instances.values():
        name = instance.name
        if name not in specs:
            continue
        ninputs = 0 if (name, "input") in refused else table.ninputs[name]
        noutputs = 0 if (name, "output") in refused else table.noutputs[name]
        inputs = [port for port in range(ninputs) if not table.joined_input(name, port)]
        outputs = [port for port in range(noutputs) if not table.joined_output(name, port)]
        unused = [text for text in (_ports("input", inputs), _ports("output", outputs)) if text]
        if unused:
            verb = "is" if len(inputs) + len(outputs) == 1 else "are"
            ends = [text for ports, text in ((inputs, "from Idle"), (outputs, "to Discard")) if ports]
            reporter.error(
                f"{' and '.join(unused)} of `{name}` ({instance.cls}) {verb} not connected",
                instance.span,
                hint=f"connect each port, if nothing else {' or '.join(ends)}",
            )


def _ports(side: str, ports: list[int]) -> str:
    """`inputs 0, 2-5`."""
    if not ports:
        return ""
    runs: list[tuple[int, int]] = []
    for port in ports:
        if runs and runs[-1][1] == port - 1:
            runs[-1] = (runs[-1][0], port)
        else:
            runs.append((port, port))
    return f"{side}{'s' if len(ports) > 1 else ''} " + ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def _check_reuse(
    graph: Graph,
    connections: list[Connection],
    input_kinds: dict[str, tuple[str, ...]],
    output_kinds: dict[str, tuple[str, ...]],
    reporter: Reporter,
) -> None:
    outputs: dict[tuple[str, int], Connection] = {}
    inputs: dict[tuple[str, int], Connection] = {}
    for c in connections:
        if output_kinds[c.src][c.src_port] == "push":
            first = outputs.setdefault((c.src, c.src_port), c)
            if first != c:
                hint = "a push output leads to one input: copy packets with Tee, or send them on by another output"
                _reused(f"push output {c.src_port} of `{c.src}`", first, c, hint, reporter)
        if input_kinds[c.dst][c.dst_port] == "pull":
            first = inputs.setdefault((c.dst, c.dst_port), c)
            if first != c:
                hint = "a pull input asks one output: join several with RoundRobinSched or PrioSched"
                _reused(f"pull input {c.dst_port} of `{c.dst}`", first, c, hint, reporter)


def _reused(port: str, first: Connection, second: Connection, hint: str, reporter: Reporter) -> None:
    other = first.dst if second.src == first.src and second.src_port == first.src_port else first.src
    place: Span | None = second.span
    notes = [Note(f"first connected here, with `{other}`", first.span)]
    reporter.error(f"{port} is connected a second time: `{second}`", place, notes, hint)
