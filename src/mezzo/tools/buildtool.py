"""answers `click-buildtool provides NAME`: is an element class or a feature there

    mezzo buildtool provides ip6 IPFilter && …

The exit status is 0 when everything named is provided, and 1 when something is not.  What is asked is answered for
mezzo: its element classes by name, and features such as `userlevel`, `umultithread`, `int64`.  There is nothing to
build, so Click's other build tools (elem2make, makepackage, …) are refused.
"""

from __future__ import annotations

import argparse
import sys

from mezzo.base import Diagnostic, MezzoError

# What configurations may rely on, by the names that Click's tests use.
FEATURES = ("userlevel", "umultithread", "int64", "i586", "i686", "analysis", "tcpudp")
# Features that are there with an element of theirs.
WITH_ELEMENT = {
    "ip6": "CheckIP6Header",
    "netmap": "FromNetmapDevice",
    "ipsec": "IPsecESPEncap",
    "wifi": "WifiEncap",
    "etherswitch": "EtherSwitch",
    "aqm": "CoDel",
    "radio": "SetRate",
}
REFUSED = (
    "elem2make", "elem2export", "elem2package", "findelem", "findpackage", "kbuild", "kversion", "makepackage",
    "prefix", "quietlink",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", metavar="provides", help="the tool: only this one is there")
    add("names", nargs="*", metavar="NAME", help="element classes and features; - reads them from standard input")
    add("-q", "--query", action="store_true", help="print everything that is provided")
    add("-r", "--provide", action="append", default=[], metavar="NAMES", help="take these as provided")
    add("-l", "--print", action="store_true", help="print 1 or 0")


def main(args: argparse.Namespace) -> int:
    if args.what in REFUSED:
        hint = "element classes are Python: `--elements FILE.py` makes yours known"
        raise MezzoError(Diagnostic(f"there is nothing to build, so there is no `{args.what}`", hint=hint))
    if args.what != "provides":
        raise MezzoError(Diagnostic(f"there is no build tool `{args.what}`", hint="write `provides NAME …`"))
    extra = {name for text in args.provide for name in text.split()}
    if args.query:
        print("\n".join(sorted(all_names() | extra)))
    fine = all(name in extra or provides(name) for name in wanted(args.names))
    if args.print:
        print(int(fine))
    return 0 if fine else 1


def wanted(names: list[str]) -> list[str]:
    texts = [sys.stdin.read() if name == "-" else name for name in names]
    return [name for text in texts for name in text.split()]


def provides(name: str) -> bool:
    """Whether a class or feature is there; `a|b` when one of them is."""
    from mezzo.elements import library

    if "|" in name:
        return any(provides(part) for part in name.split("|"))
    if name in WITH_ELEMENT:
        return library.maybe_find(WITH_ELEMENT[name]) is not None
    return name in FEATURES or library.maybe_find(name) is not None


def all_names() -> set[str]:
    from mezzo.elements import library

    features = {*FEATURES, *(name for name in WITH_ELEMENT if provides(name))}
    return features | {name for name in library.names_of_files() if provides(name)}
