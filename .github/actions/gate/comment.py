"""Write the comment of a gate to its pull request, or update the one that is there.

usage: comment.py FILE; GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_EVENT_PATH and GITHUB_TOKEN are
the runner's.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

PAGE = 100


def ask(method, path, content=None):
    """Return what the interface answers to a request."""
    request = urllib.request.Request(
        f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}",
        data=None if content is None else json.dumps(content).encode(),
        method=method,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main(file):
    """Find the comment by its first line; update it, or write the first one."""
    text = Path(file).read_text(encoding="utf-8")
    mark = text.partition("\n")[0]
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event["pull_request"]["number"]
    page = 1
    while True:
        found = ask("GET", f"issues/{number}/comments?per_page={PAGE}&page={page}")
        for one in found:
            if (one["body"] or "").startswith(mark):
                ask("PATCH", f"issues/comments/{one['id']}", {"body": text})
                return
        if len(found) < PAGE:
            break
        page += 1
    ask("POST", f"issues/{number}/comments", {"body": text})


if __name__ == "__main__":
    main(sys.argv[1])
