"""`BPF_FILTER "tcp port 80"`: the kernel drops what a filter does not take, before it is copied.

tcpdump compiles the expression, as for itself; what it prints (-ddd) is a number of instructions, and each as four
numbers.  It is asked on the interface, because there a VLAN tag is beside the packet; where it may not open that, it is
asked about Ethernet frames, which gives the same program for all that has nothing to do with tags.
"""

import re
import shutil
import struct
import subprocess

from mezzo.base import Diagnostic, MezzoError

TIMEOUT_S = 20


def compiled(expression: str, device: str) -> bytes:
    """The program of an expression: struct sock_filter, one after the other."""
    program = shutil.which("tcpdump", path="/usr/sbin:/usr/bin:/sbin:/bin") or shutil.which("tcpdump")
    if program is None:
        hint = "install it (Debian: apt-get install tcpdump), or use Classifier or IPClassifier in the graph"
        raise MezzoError(Diagnostic("BPF_FILTER is compiled by tcpdump, which is not installed", hint=hint))
    tagged = re.search(r"\b(vlan|mpls|pppoes)\b", expression)
    done = _run(program, ["-i", device], expression)
    if done.returncode != 0 and not tagged and re.search("permission|permitted", done.stderr):
        done = _run(program, ["-y", "EN10MB"], expression)
    if done.returncode != 0:
        raise MezzoError(Diagnostic(f"BPF_FILTER: `{expression}`: {_said(done.stderr)}", hint="see man pcap-filter"))
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    return b"".join(struct.pack("=HBBI", *row) for row in rows[1:])


def _run(program: str, how: list[str], expression: str) -> subprocess.CompletedProcess[str]:
    words = [program, *how, "-s", "0", "-ddd", "--", expression]
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def _said(text: str) -> str:
    """tcpdump's last words, without its name."""
    lines = [line for line in text.splitlines() if line.strip()] or ["tcpdump refuses it"]
    return lines[-1].removeprefix("tcpdump: ")
