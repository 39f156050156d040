"""Token buckets in integers: exact, without drift, and without a division on the way of a packet.

A token is one packet, or one byte, times 10^9: a bucket of `rate` tokens a second then gains exactly `rate` units each
nanosecond.  A packet may pass while the bucket is not in debt, and then takes its whole weight, so the length need not
be known before the packet is pulled; what is left or owed stays, so no fraction of a token is ever lost.  The bucket
holds at most `full` units, the burst after idle time.

`span` is how long the deepest debt takes to become a full bucket: beyond it the product could overflow.
"""

from mezzo.elements import i64, u64

UNIT = 10**9
LARGEST_FULL = 1 << 62
DEEPEST_DEBT = 1 << 47  # more than 65535 bytes
DEFAULT_BURST_NS = 20 * 10**6  # what a late wake-up may catch up


def refilled(tokens: i64, elapsed_ns: u64, rate: u64, full: i64, span_ns: u64) -> i64:
    """Packet code: the tokens after some time."""
    if elapsed_ns >= span_ns:
        return full
    return min(tokens + i64(elapsed_ns * rate), full)


def wait_ns(debt: u64, rate: u64) -> u64:
    """Packet code: how long until a debt is paid."""
    return (debt + rate - 1) // rate


def full_units(rate, burst, burst_ns):
    """Configuration: what a bucket holds: `burst` tokens, or what `burst_ns` bring."""
    return min(burst * UNIT if burst is not None else rate * burst_ns, LARGEST_FULL)


def span_of(rate, full):
    """Configuration: see above; a rate of 0 never fills."""
    return (full + DEEPEST_DEBT) // rate + 1 if rate else (1 << 64) - 1
