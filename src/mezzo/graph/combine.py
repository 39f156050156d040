"""Several routers as one graph, joined at their devices, and one of them out of it again (`combine`, `uncombine`).

Elements of the router A are called `A/name` in the combined graph.  Where a link was asked for, the ToDevice and the
FromDevice give way to a RouterLink, whose arguments say what was there: for each of its ports, inputs first,
`ROUTER ELEMENT CLASS` and then that element's configuration string (quoted where it is more than one argument).

A router in a combined graph may be a combined one itself; the arguments of its RouterLinks have the longer names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mezzo.base import Diagnostic, MezzoError, Reporter
from mezzo.elements.confparse import join_args, quote, split_args, split_words, unquote
from mezzo.graph.draft import Draft
from mezzo.graph.graph import Connection, Graph, Instance

LINK = "RouterLink"
WRITERS = ("ToDevice",)
READERS = ("FromDevice", "PollDevice")


@dataclass(frozen=True)
class LinkSpec:
    """`A.eth0=B.eth1`: what leaves A by eth0 arrives at B by eth1; `eth0` is an element or a device."""

    text: str
    source: tuple[str, str]
    target: tuple[str, str]


@dataclass(frozen=True, order=True)
class End:
    """An element of a router at which packets leave or arrive."""

    router: str
    element: str


def parse_link(text: str) -> LinkSpec:
    """MezzoError where it has not the form `A.x=B.y`."""
    sides = [side.strip().rpartition(".") if side.count(".") == 1 else side.partition(".") for side in text.split("=")]
    if len(sides) != 2 or not all(part.strip() for side in sides for part in side):
        raise MezzoError(Diagnostic(f"`{text}` is not a link", hint="write ROUTER1.ELEMENT1=ROUTER2.ELEMENT2"))
    (a, _, x), (b, _, y) = sides
    return LinkSpec(text, (a.strip(), x.strip()), (b.strip(), y.strip()))


def combine(routers: Mapping[str, Graph], links: Sequence[LinkSpec]) -> tuple[Graph, list[str]]:
    """The combined graph, and what is odd about the links."""
    reporter, odd = Reporter(), list[str]()
    pairs = [_ends(routers, link, reporter, odd) for link in links]
    reporter.raise_if_errors()
    found = [pair for pair in pairs if pair is not None]
    _refuse_both_ways(found, reporter)
    reporter.raise_if_errors()
    draft = Draft(_side_by_side(routers))
    for number, (sources, targets) in enumerate(_groups(found), 1):
        _put_link(draft, routers, f"link{number}", sources, targets)
    return draft.graph(), odd


# Which elements a link means


def _ends(
    routers: Mapping[str, Graph], link: LinkSpec, reporter: Reporter, odd: list[str]
) -> tuple[End, End] | None:
    ends = []
    for (router, name), classes in ((link.source, WRITERS), (link.target, READERS)):
        if router not in routers:
            reporter.error(f"{link.text}: there is no router `{router}`", hint=f"there are {', '.join(routers)}")
            continue
        element = _element(routers[router], router, name, classes, reporter)
        if element is None:
            continue
        cls = routers[router].instances[element].cls
        if cls not in classes:
            odd.append(f"{link.text}: `{element}` of router `{router}` is a {cls}, not a {' or '.join(classes)}")
        ends.append(End(router, element))
    return (ends[0], ends[1]) if len(ends) == 2 else None


def _element(graph: Graph, router: str, name: str, classes: Sequence[str], reporter: Reporter) -> str | None:
    if name in graph.instances:
        return name
    found = [n for n, i in graph.instances.items() if i.cls in classes and _device(i) == unquote(name)]
    if len(found) == 1:
        return found[0]
    if found:
        reporter.error(f"router `{router}` has {len(found)} elements {' or '.join(classes)} of `{name}`")
    else:
        reporter.error(f"router `{router}` has no element `{name}`, and no {' or '.join(classes)} of that device")
    return None


def _device(instance: Instance) -> str:
    args = split_args(instance.config)
    return unquote(args[0]) if args else ""


def _refuse_both_ways(pairs: Iterable[tuple[End, End]], reporter: Reporter) -> None:
    listed = list(pairs)
    for end in sorted({a for a, _ in listed} & {b for _, b in listed}):
        reporter.error(f"element `{end.element}` of router `{end.router}` is both the beginning and the end of a link")


def _groups(pairs: Sequence[tuple[End, End]]) -> list[tuple[list[End], list[End]]]:
    """Links that share an end are one."""
    groups: list[tuple[list[End], list[End]]] = []
    for a, b in pairs:
        meets = [g for g in groups if a in g[0] or b in g[1]]
        kept = meets[0] if meets else ([], [])
        for other in meets[1:]:
            kept[0].extend(other[0])
            kept[1].extend(other[1])
            groups.remove(other)
        if not meets:
            groups.append(kept)
        kept[0].extend(e for e in (a,) if e not in kept[0])
        kept[1].extend(e for e in (b,) if e not in kept[1])
    return groups


# The combined graph


def _side_by_side(routers: Mapping[str, Graph]) -> Graph:
    instances: dict[str, Instance] = {}
    connections: list[Connection] = []
    for router, graph in routers.items():
        for name, instance in graph.instances.items():
            config = _prefixed(instance.config, f"{router}/") if instance.cls == LINK else instance.config
            full = f"{router}/{name}"
            instances[full] = replace(instance, name=full, config=config, written=None)
        connections += [replace(c, src=f"{router}/{c.src}", dst=f"{router}/{c.dst}") for c in graph.connections]
    requirements = dict.fromkeys(r for graph in routers.values() for r in graph.requirements)
    return Graph(instances, tuple(connections), tuple(requirements))


def _prefixed(config: str, prefix: str) -> str:
    args = split_args(config)
    return join_args(prefix + arg if i % 2 == 0 else arg for i, arg in enumerate(args))


def _put_link(
    draft: Draft, routers: Mapping[str, Graph], name: str, sources: Sequence[End], targets: Sequence[End]
) -> None:
    args = []
    for end in [*sources, *targets]:
        instance = routers[end.router].instances[end.element]
        args += [f"{end.router} {end.element} {instance.cls}", _one_argument(instance.config)]
    draft.add(Instance(name, LINK, join_args(args)))
    for port, end in enumerate(sources):
        for connection in draft.into(f"{end.router}/{end.element}", 0):
            draft.lead_to(connection, (name, port))
    for port, end in enumerate(targets):
        for connection in draft.out_of(f"{end.router}/{end.element}", 0):
            draft.lead_from(connection, (name, port))
    for end in [*sources, *targets]:
        draft.drop(f"{end.router}/{end.element}")


def _one_argument(config: str) -> str:
    is_one = len(split_args(config)) < 2 and not config.startswith('"')
    return config if is_one else quote(config)


# One router out of it


def uncombine(graph: Graph, components: Sequence[str], component: str) -> tuple[Graph, list[str]]:
    """The graph of a component, and the components within it; `A/B` is component B of component A."""
    draft, left = Draft(graph), list(components)
    at, _, rest = component.partition("/")
    if at not in left:
        hint = f"there are {', '.join(left)}" if left else "it is not a combined router"
        raise MezzoError(Diagnostic(f"there is no component `{component}`", hint=hint))
    ends = _undo_links(draft, at)
    _keep_only(draft, _belonging(draft, at, ends))
    left = [name.removeprefix(f"{at}/") for name in left if name.startswith(f"{at}/")]
    found = _renamed(draft.graph(), f"{at}/")
    return uncombine(found, left, rest) if rest else (found, left)


def _undo_links(draft: Draft, component: str) -> list[str]:
    """Put the component's elements back where its links are; those, and the links within it."""
    ends, reporter = list[str](), Reporter()
    links = {name: max((c.dst_port + 1 for c in draft.into(name)), default=0) for name in draft.of_class(LINK)}
    for name, ninputs in links.items():
        link = draft.instances[name]
        args = split_args(link.config)
        heads = [split_words(arg) for arg in args[::2]]
        if not ninputs or len(heads) <= ninputs or any(len(head) != 3 for head in heads):
            reporter.error(f"the RouterLink `{name}` has arguments that combine does not write", link.span)
        elif any(head[0] == component for head in heads):
            ends += _undo_link(draft, name, component, heads, [*args[1::2], ""], ninputs)
        elif any(head[0].startswith(f"{component}/") for head in heads):
            ends.append(name)
    reporter.raise_if_errors()
    return ends


def _undo_link(
    draft: Draft, link: str, component: str, heads: list[list[str]], configs: list[str], ninputs: int
) -> list[str]:
    names = []
    for port, (router, element, cls) in enumerate(heads):
        if router != component:
            continue
        name = f"{router}/{element}"
        if name in draft.instances:
            message = f"the combined router has an element `{name}` besides the one in the RouterLink `{link}`"
            raise MezzoError(Diagnostic(message, draft.instances[name].span))
        config = unquote(configs[port]) if configs[port].startswith('"') else configs[port]
        draft.add(Instance(name, cls, config))
        names.append(name)
        for connection in draft.into(link, port) if port < ninputs else ():
            draft.lead_to(connection, (name, 0))
        for connection in draft.out_of(link, port - ninputs) if port >= ninputs else ():
            draft.lead_from(connection, (name, 0))
    draft.drop(link)
    return names


def _belonging(draft: Draft, component: str, ends: Iterable[str]) -> set[str]:
    """The component's elements, and what tools put between them under other names."""
    belonging = {*ends, *(name for name in draft.instances if name.startswith(f"{component}/"))}
    waiting = list(belonging)
    while waiting:
        name = waiting.pop()
        near = {*(c.dst for c in draft.out_of(name)), *(c.src for c in draft.into(name))} - belonging
        belonging |= near
        waiting += near
    return belonging


def _keep_only(draft: Draft, names: set[str]) -> None:
    for name in [n for n in draft.instances if n not in names]:
        draft.drop(name)


def _renamed(graph: Graph, prefix: str) -> Graph:
    """Without the component's name in front, where that leaves a name of its own."""
    taken = {n for n in graph.instances if not n.startswith(prefix)}
    new = {n: n.removeprefix(prefix) if n.removeprefix(prefix) not in taken else n for n in graph.instances}
    instances = {}
    for name, instance in graph.instances.items():
        config = _without(instance.config, prefix) if instance.cls == LINK else instance.config
        instances[new[name]] = replace(instance, name=new[name], config=config)
    connections = [replace(c, src=new[c.src], dst=new[c.dst]) for c in graph.connections]
    return replace(graph, instances=instances, connections=tuple(connections))


def _without(config: str, prefix: str) -> str:
    return join_args(arg.removeprefix(prefix) if i % 2 == 0 else arg for i, arg in enumerate(split_args(config)))
