"""FromDump → ToDump on a capture of 1 M 60-byte packets."""

import tempfile
from pathlib import Path

from dump_counter import N, write_capture
from harness import packet_benchmark


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.pcap"
        write_capture(path)
        packet_benchmark("dump_dump", f"FromDump({path}, STOP true) -> ToDump({folder}/out.pcap);", N, 40)


if __name__ == "__main__":
    main()
