"""The summaries that the SDK folds from entries: what a listing row is compared with.

usage: sdk_fold.py < LINES      each line {"entries": [...]} is one transcript

Prints the array of fold_session_summary(None, key, entries)["data"], in the order of the lines.
"""

from claude_agent_sdk import fold_session_summary

from common import print_json, read_json_lines

KEY = {"project_key": "project", "session_id": "session"}  # the fold copies the id and looks at neither


def main():
    print_json(
        [
            fold_session_summary(None, KEY, transcript["entries"])["data"]
            for transcript in read_json_lines()
        ]
    )


if __name__ == "__main__":
    main()
