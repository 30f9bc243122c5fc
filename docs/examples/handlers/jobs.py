"""The jobs of a team: what `cdk deploy` puts into the worker image, and `scripts/dev --handlers docs/examples/handlers` runs here."""

from typing import Any

from tidemill import App, Context

app = App()


@app.job("hello", retry={"max_attempts": 3}, timeout_ms=30_000)
def hello(ctx: Context, payload: dict[str, Any]) -> dict[str, str]:
    """Greets whom the payload names."""
    return {"said": f"Hello {payload.get('name', 'world')}, attempt {ctx.attempt}"}
