"""InfiniteSource → 10 Counters → Discard."""

from harness import packet_benchmark, source

N = 20_000_000


def main() -> None:
    packet_benchmark("counters", f"{source(N)} -> {'Counter -> ' * 10}Discard;", N, 5)


if __name__ == "__main__":
    main()
