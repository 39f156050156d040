"""Every class of the library is in the kernel as in Python, or stays out with a reason."""

from __future__ import annotations

import pytest

from mezzo.tools.verify import TARGETS, library

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
LEAST = 66  # classes that are verified: more is better, fewer is a loss


def test_the_library_agrees_or_says_why_not() -> None:
    rows = list(library(TARGETS, 60, 3))
    assert [row for row in rows if row[1] == "DIFFERS"] == []
    assert all(detail for _, _, detail in rows)
    verified = {name for name, verdict, _ in rows if verdict == "verified"}
    assert len(verified) >= LEAST
    assert verified >= {
        "Classifier", "IPFilter", "IPClassifier", "CheckIPHeader", "DecIPTTL", "IPGWOptions", "RadixIPLookup",
        "StaticIPLookup", "DirectIPLookup", "Strip", "EtherEncap", "Paint", "Counter", "ARPResponder", "FixIPSrc",
        "DropBroadcasts",
        "HostEtherFilter", "SetIPChecksum", "SetUDPChecksum", "SetTCPChecksum", "ICMPError", "StoreData", "ARPQuerier",
        "EtherSwitch", "IPFragmenter", "IPReassembler", "PaintTee", "LinearIPLookup",
    }  # fmt: skip
