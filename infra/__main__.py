"""`python -m infra`, started by the CDK; `python -m infra DIR name=value …` writes the templates into DIR without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from infra import budget
from infra.settings import SettingsInvalid, given, read


def main(arguments: list[str]) -> int:
    """The exit code."""
    if any("=" not in word for word in arguments[1:]):
        print("tidemill: scripts/synth DIR [-c name=value …]", file=sys.stderr)
        return 2
    try:
        if not arguments:
            from infra import app

            app.main()
            return 0
        context: dict[str, Any] = json.loads((Path(__file__).parents[1] / "cdk.json").read_text(encoding="utf-8"))["context"]
        context |= dict(word.split("=", 1) for word in arguments[1:])
        context["aws:cdk:disable-asset-staging"] = True  # templates are asked for: assets stay where they are
        budget.check(read(context.get("stages"), given(context)))  # before the CDK is loaded, which takes seconds
        from infra import app

        app.main(arguments[0], context)
    except SettingsInvalid as error:
        print(f"tidemill: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
