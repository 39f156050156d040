"""FromDump → Counter → Discard on a capture of 1 M 60-byte packets."""

import tempfile
from pathlib import Path

from harness import packet_benchmark

from mezzo.packet.capture_write import CaptureWriter

N = 1_000_000


def write_capture(path: Path, packets: int = N) -> None:
    """60-byte packets, each different, a microsecond apart."""
    with path.open("wb") as file:
        writer = CaptureWriter(file)
        for i in range(packets):
            writer.write(10**18 + i * 1000, i.to_bytes(60, "big"))
        writer.flush()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.pcap"
        write_capture(path)
        packet_benchmark("dump_counter", f"FromDump({path}, STOP true) -> Counter -> Discard;", N, 15)


if __name__ == "__main__":
    main()
