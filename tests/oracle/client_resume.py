"""Resumes a session with the real client, to see that it takes what was exported.

usage: client_resume.py CONFIG_DIR CWD SESSION_ID PROMPT [--script FILE] [--timeout SECONDS]

Runs the client in the SDK's wheel against a mock API on the loopback. Its environment is built here from nothing:
HOME and TMPDIR are scratch folders, and the config folder is CONFIG_DIR, where it appends to the transcript.
The mock answers "Resumed." unless a script says otherwise; ${CWD} in a script is the working folder.

Prints {"exit": the client's exit code,
        "result": its result frame, or null,
        "requests": the "messages" of each request that offers tools or asks PROMPT,
        "stderr": its last 2000 characters}
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common import print_json, use_config_dir
from mock_anthropic import MockAnthropic, prompt_and_step


def arguments():
    parser = argparse.ArgumentParser(description="Resume a session with the real client")
    parser.add_argument("config_dir")
    parser.add_argument("cwd")
    parser.add_argument("session_id")
    parser.add_argument("prompt")
    parser.add_argument("--script", help="the mock's script, a JSON file")
    parser.add_argument("--timeout", type=float, default=100, help="seconds until the client is ended")
    return parser.parse_args()


def bundled_client():
    """The client's path, found without the second that importing the SDK takes."""
    package = importlib.util.find_spec("claude_agent_sdk")
    if package is None:
        sys.exit("claude_agent_sdk is not installed; scripts/oracle makes a venv that has it")
    return Path(package.origin).parent / "_bundled" / "claude"


def environment(scratch, config_dir, api_url):
    """The client's whole environment: nothing of ours reaches it."""
    for name in ("home", "tmp"):
        (scratch / name).mkdir()
    return {
        "HOME": str(scratch / "home"),
        "TMPDIR": str(scratch / "tmp"),
        "CLAUDE_CONFIG_DIR": str(config_dir),
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": api_url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


def run_to_its_end(command, *, cwd, env, scratch, timeout):
    """Runs ``command`` in a process group of its own, which is gone when this returns or raises.

    Output goes to files: a process left behind could hold a pipe open for ever.
    """
    with open(scratch / "stdout", "w+b") as stdout, open(scratch / "stderr", "w+b") as stderr:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            exit_code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            end_group(process)
        stdout.seek(0)
        stderr.seek(0)
        return exit_code, stdout.read(), stderr.read().decode("utf-8", "replace")[-2000:]


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def result_frame(stdout):
    """The last result frame of the client's stream, or None."""
    frames = [json.loads(line) for line in stdout.split(b"\n") if line.startswith(b"{")]
    results = [frame for frame in frames if frame.get("type") == "result"]
    return results[-1] if results else None


def conversation_requests(requests, prompt):
    """The messages of the requests that carry the conversation, without the client's side questions."""
    bodies = [request["body"] for request in requests if request["path"].split("?")[0] == "/v1/messages"]
    return [
        body["messages"]
        for body in bodies
        if body.get("tools") or prompt in prompt_and_step(body)[0]
    ]


def main():
    args = arguments()
    config_dir = use_config_dir(args.config_dir)
    cwd = Path(args.cwd).absolute()
    cwd.mkdir(parents=True, exist_ok=True)
    # Told to end, leave through the same `finally` that ends the client.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))

    script = args.script or {"default": "Resumed."}
    with tempfile.TemporaryDirectory(prefix="turnkeep-client-") as folder:
        with MockAnthropic(script, variables={"CWD": str(cwd)}) as mock:
            scratch = Path(folder)
            exit_code, stdout, stderr = run_to_its_end(
                [
                    bundled_client(),
                    *("-p", args.prompt),
                    *("--resume", args.session_id),
                    *("--output-format", "stream-json", "--verbose"),
                ],
                cwd=cwd,
                env=environment(scratch, config_dir, mock.url),
                scratch=scratch,
                timeout=args.timeout,
            )
    if exit_code is None:
        sys.exit(f"the client did not end within {args.timeout:g} s; its stderr: {stderr}")
    print_json(
        {
            "exit": exit_code,
            "result": result_frame(stdout),
            "requests": conversation_requests(mock.requests, args.prompt),
            "stderr": stderr,
        }
    )


if __name__ == "__main__":
    main()
