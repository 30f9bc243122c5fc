"""Several stages in one process, for the tests: `python -O tests/infra/synthesise.py DIR '{"name": {"stage": "dev"}}'`."""

import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "functions")]

from infra import app as infra_app  # noqa: E402 - the paths come first

if __name__ == "__main__":
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    context["aws:cdk:disable-asset-staging"] = True  # as scripts/synth does
    for name, given in json.loads(sys.argv[2]).items():
        began = time.process_time()
        os.environ["CDK_DEFAULT_REGION"] = given.pop("region", "")
        infra_app.main(str(Path(sys.argv[1]) / name), {**context, **given})
        print(f"{name}: {time.process_time() - began:.1f} s of processor time")
    # And one in which nothing is accepted, to see that the rules look at all and that no acceptance is left over.
    infra_app.nag.accept = lambda *_: None
    try:
        infra_app.main(str(Path(sys.argv[1]) / "unaccepted"), {**context, "stage": "dev"})
    except RuntimeError as error:
        print(f"unaccepted: {str(error)[:80]}")
    else:
        sys.exit("a stage whose findings nobody accepted was synthesised")
