"""The command itself: finding subcommands, exit statuses, no tracebacks, quick starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mezzo import __version__
from mezzo.tools.main import command_names

MEZZO = [sys.executable, "-m", "mezzo.tools.main"]


def test_all_subcommands_are_listed_with_their_first_line(mezzo):
    done = mezzo("--help")
    assert done.status == 0
    for name in command_names():
        assert f"\n  {name} " in done.out


def test_the_promised_subcommands_are_there():
    assert {"run", "check", "flatten", "graph", "help", "elements", "ir", "bench", "doctor"} <= set(command_names())


def test_version(mezzo):
    assert mezzo("--version") == (0, f"mezzo {__version__}\n", "")


def test_an_unknown_subcommand_is_a_usage_error_with_a_hint(mezzo):
    done = mezzo("chek")
    assert done.status == 2
    assert "did you mean `mezzo check`?" in done.err


def test_an_unknown_option_is_a_usage_error(mezzo):
    assert mezzo("run", "--nonsense").status == 2


@pytest.mark.parametrize("name", command_names())
def test_every_subcommand_has_help(mezzo, name):
    done = mezzo(name, "--help")
    assert done.status == 0
    assert done.out.startswith(f"usage: mezzo {name}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("check",), "no configuration is given"),
        (("check", "no-such.click"), "no-such.click: No such file or directory"),
        (("check", "."), ".: Is a directory"),
        (("check", "-e", "Idle -> Discard", "x.click"), "the configuration is given twice"),
        (("check", "a.click", "b.click"), "one configuration at a time"),
        (("run", "-e", "Idle -> Discard", "--target", "fpga"), "there is no target `fpga`"),
        (
            ("run", "-e", "Idle -> Discard", "--report", "/no/such/x.html"),
            "--report /no/such/x.html: No such file or directory",
        ),
        (("run", "-e", "Idle -> Discard", "--handlers", "x.count"), "there is no element `x`"),
        (("run", "-e", "Idle -> Discard", "--frames", "0"), "an arena of 0 frames"),
        (("run", "-e", "Idle -> Discard", "--frame-size", "1000"), "a frame of 1000 bytes"),
        (("graph", "-e", "Idle -> Discard", "-o", "x.png"), "what form is x.png?"),
        (("help", "Quue"), "did you mean Queue"),
        (("help", "--markdown"), "help on what?"),
        (("elements", "zzz"), "no element has `zzz`"),
        (("ir",), "the IR of what?"),
        (("ir", "Quue"), "neither a file nor an element class"),
        (("ir", "-e", "Idle -> Discard", "--element", "x"), "there is no element `x`"),
        (("bench", "nix"), "there is no benchmark nix"),
        (("bench", "--folder", "/no/such"), "there are no benchmarks here"),
    ],
)
def test_the_users_errors_are_messages_and_status_1(mezzo, words, said):
    done = mezzo(*words)
    assert done.status == 1
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_no_utf8_is_read(mezzo, tmp_path):
    file = tmp_path / "latin.click"
    file.write_bytes(b"Idle -> Discard; // caf\xe9\n")
    assert mezzo("check", str(file)).status == 0


def test_a_mistyped_file_name_gets_a_hint(mezzo, tmp_path):
    (tmp_path / "router.click").write_text("Idle -> Discard;")
    assert f"did you mean {tmp_path}/router.click?" in mezzo("check", str(tmp_path / "ruter.click")).err


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_message():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*MEZZO, "elements"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.stderr == b""


@pytest.mark.slow
def test_help_and_version_do_not_load_a_compiler():
    code = (
        "import sys; from mezzo.tools.main import main; status = main(sys.argv[1:]); "
        "assert not {'llvmlite', 'numpy'} & set(sys.modules), 'loaded'; sys.exit(status)"
    )
    for words in (["--version"], ["help", "Queue"], ["check", "--help"], ["--help"]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)


@pytest.mark.slow
def test_the_name_click_starts_the_driver(tmp_path):
    link = tmp_path / "click"
    link.write_text(f"#!{sys.executable}\nimport sys; from mezzo.tools.main import main; sys.exit(main())\n")
    link.chmod(0o755)
    done = subprocess.run(
        [str(link), "--version"], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout == f"click (mezzo) {__version__}\n"


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'mezzo() {{ "$PY" -m mezzo.tools.main "$@"; }}; {command}'],
        env={**os.environ, "PY": sys.executable}, cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("closed, status", [("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1)])
def test_standard_streams_may_be_closed(tmp_path, closed, status):
    """And what is opened instead of them is not printed to."""
    text = "InfiniteSource(LIMIT 5, STOP true) -> Print(a) -> c :: Counter -> ToDump(out.pcap); Script(print 1);"
    done = shell(f"mezzo run -q -e '{text}' --handlers c.count {closed}", tmp_path)
    assert done.returncode == status and "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert (tmp_path / "out.pcap").stat().st_size == 24 + 5 * (16 + 64)
    done = shell(f"mezzo check - {closed}", tmp_path)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.slow
def test_a_script_whose_reader_has_gone_says_so_once(tmp_path):
    text = "RatedSource(RATE 100, LIMIT 10, STOP true) -> Discard; Script(label l, print 1, wait 0.01, goto l true);"
    done = shell(f"mezzo run -q -e '{text}' | true", tmp_path)
    assert done.stderr.count("nothing is printed there from now on") == 1 and len(done.stderr.splitlines()) == 2
