"""Completion in a real shell: commands and options at once, names from the server when it answers in time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qdeck import App
from qdeck_console.__main__ import main
from qdeck_console.cli.completion import TIMEOUT, TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

# What readline does after a tab: it sets the words around the point and calls the function of the command.
BASH = r"""
PATH="{bin}:$PATH"
eval "$(qdeck completion bash)"
COMP_LINE="$1" COMP_POINT=${{#1}} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
words=() word=""
for (( at = 0; at < ${{#1}}; at++ )); do
    char="${{1:at:1}}"
    case "$char" in
        " ") [ -n "$word" ] && words+=("$word"); word="" ;;
        ":") [ -n "$word" ] && words+=("$word"); words+=(":"); word="" ;;
        *) word+="$char" ;;
    esac
done
case "$char" in ":") ;; *) words+=("$word") ;; esac
COMP_WORDS=("${{words[@]}}") COMP_CWORD=$(( ${{#words[@]}} - 1 ))
_qdeck_completion qdeck "${{COMP_WORDS[COMP_CWORD]}}"
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def bash(url: str, tmp_path: Path) -> Callable[..., list[str]]:
    """A function that returns what bash offers after a line."""

    def complete(line: str, *, at: str = url) -> list[str]:
        script = BASH.format(bin=Path(sys.executable).parent)
        env = {**os.environ, "QDECK_URL": at, "HOME": str(tmp_path), TIMEOUT: "30"}
        done = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", line], env=env, cwd=tmp_path, capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()

    return complete


@pytest.fixture
def jobs(url: str) -> list[str]:
    """The ids of three jobs of a queue with colons in its name."""
    app = App(url, queue="shop:mail:actions")

    @app.task(queue="shop:mail:actions")
    def send() -> None: ...

    return [send.enqueue().id for _ in range(3)]


def test_commands_and_options(bash: Callable[..., list[str]]) -> None:
    assert bash("qdeck st") == ["status", "stuck"]
    assert {"--since", "--url", "--json"} <= set(bash("qdeck activity --"))
    assert bash("qdeck schedule re") == ["remove", "resume"]
    assert bash("qdeck jobs list x --state de") == ["delayed", "dead"]
    assert bash("qdeck status --adapter bu") == ["bullmq"]


def test_names_of_queues_with_the_part_that_bash_keeps_left_out(
    bash: Callable[..., list[str]], jobs: list[str]
) -> None:
    assert jobs
    assert bash("qdeck stuck sh") == ["shop:mail:actions"]
    assert bash("qdeck stuck shop:ma") == ["mail:actions"]
    assert bash("qdeck stuck shop:") == ["mail:actions"]
    assert bash("qdeck dead retry shop:mail:a") == ["actions"]


def test_a_group_offers_its_verbs_and_the_queues_of_its_default(
    bash: Callable[..., list[str]], jobs: list[str]
) -> None:
    assert jobs
    assert {"cancel", "discard", "shop:mail:actions"} <= set(bash("qdeck jobs "))
    assert "--state" in bash("qdeck jobs --")


def test_ids_of_the_jobs_of_a_queue(bash: Callable[..., list[str]], jobs: list[str]) -> None:
    assert set(bash("qdeck job shop:mail:actions ")) == set(jobs)
    assert bash(f"qdeck jobs cancel shop:mail:actions --id {jobs[1][:-1]}") == [
        job for job in jobs if job.startswith(jobs[1][:-1])
    ]


def test_a_name_that_a_shell_would_run_is_not_offered(bash: Callable[..., list[str]], raw: redis.Redis) -> None:
    for name in ("$(touch ran)", "mail"):
        raw.sadd("rq:queues", f"rq:queue:{name}")
    assert bash("qdeck stuck ") == ["mail"]


def test_without_a_server_names_are_not_offered_and_commands_are(bash: Callable[..., list[str]]) -> None:
    nowhere = "redis://127.0.0.1:1"
    assert bash("qdeck stuck sh", at=nowhere) == []
    assert bash("qdeck stu", at=nowhere) == ["stuck"]


def test_a_server_that_does_not_answer_is_not_waited_for(
    make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = make_server()
    for name, value in (
        ("QDECK_URL", server.url), ("_QDECK_COMPLETE", "bash_complete"), ("QDECK_LINE", "qdeck stuck sh"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    assert main(()) == 0  # what is imported once is not what is measured
    os.kill(server.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert main(()) == 0
        took = time.monotonic() - began
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert capsys.readouterr().out.strip() == ""
    assert took < 10 * TIMEOUT_S


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QDECK_URL", raising=False)
    assert main(("completion", shell)) == 0
    script = capsys.readouterr().out
    assert f"_QDECK_COMPLETE={shell}_complete" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    check = [shell, "--no-execute"] if shell == "fish" else [shell, "-n"]
    done = subprocess.run(check, input=script, text=True, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
