"""InfiniteSource → Discard: a fresh 60-byte packet made and freed."""

from harness import packet_benchmark, source

N = 20_000_000


def main() -> None:
    packet_benchmark("source_discard", f"{source(N)} -> Discard;", N, 2.5)


if __name__ == "__main__":
    main()
