"""Rewinds the files of a session with the real client, to see that it takes exported checkpoints.

usage: client_rewind.py CONFIG_DIR CWD SESSION_ID MESSAGE_UUID [--timeout SECONDS]

Runs the client in the SDK's wheel with file checkpoints on, against a mock API on the loopback that it has no
reason to ask. Its environment is that of client_resume.py.

Prints {"exit": the client's exit code, "stdout": what it said there, "stderr": its last 2000 characters}
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from client_resume import bundled_client, environment, run_to_its_end
from common import print_json, use_config_dir
from mock_anthropic import MockAnthropic


def arguments():
    parser = argparse.ArgumentParser(description="Rewind files with the real client")
    parser.add_argument("config_dir")
    parser.add_argument("cwd")
    parser.add_argument("session_id")
    parser.add_argument("message")
    parser.add_argument("--timeout", type=float, default=100, help="seconds until the client is ended")
    return parser.parse_args()


def main():
    args = arguments()
    config_dir = use_config_dir(args.config_dir)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    with tempfile.TemporaryDirectory(prefix="turnkeep-client-") as folder:
        with MockAnthropic({"default": "No."}, variables={}) as mock:
            scratch = Path(folder)
            env = environment(scratch, config_dir, mock.url)
            exit_code, stdout, stderr = run_to_its_end(
                [bundled_client(), "--resume", args.session_id, "--rewind-files", args.message],
                cwd=args.cwd,
                env=env | {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"},
                scratch=scratch,
                timeout=args.timeout,
            )
    if exit_code is None:
        sys.exit(f"the client did not end within {args.timeout:g} s; its stderr: {stderr}")
    print_json({"exit": exit_code, "stdout": stdout.decode("utf-8", "replace"), "stderr": stderr})


if __name__ == "__main__":
    main()
