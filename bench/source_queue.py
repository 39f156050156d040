"""InfiniteSource → Queue → Unqueue → Discard."""

from harness import packet_benchmark, source

N = 20_000_000


def main() -> None:
    packet_benchmark("source_queue", f"{source(N)} -> Queue(1000) -> Unqueue(BURST 32) -> Discard;", N, 4.5)


if __name__ == "__main__":
    main()
