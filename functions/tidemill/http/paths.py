"""One form for all the ways in which a path reaches a handler: stages, custom domains, double and trailing slashes, names with slashes."""

from __future__ import annotations

from urllib.parse import quote, unquote

from tidemill.http import routes

ROOTS = ("v1", "healthz", "readyz")


def normalised(path: str, stage: str | None = None, method: str = "POST") -> str:
    """`path` as the route table writes it: `/a/b`, one percent-encoded segment per parameter.

    A leading segment is dropped once if it is the stage, or a domain mapping called v1, and a root of ours follows it: a
    queue that is called like the stage keeps its name. Empty segments (double and trailing slashes) do not count.
    Where a gateway has decoded a name's slashes, a last segment that is a verb is the verb (of a POST).
    """
    segments = [quote(unquote(part), safe="") for part in path.split("?", 1)[0].split("/") if part]
    mapped = {quote(stage, safe="") if stage and stage != "$default" else "v1", "v1"}
    if len(segments) > 1 and segments[0] in mapped and segments[1] in ROOTS:
        del segments[0]
    return "/" + "/".join(_folded(segments, "GET" if method == "HEAD" else method))


def _folded(segments: list[str], method: str) -> list[str]:
    """A name with slashes, which some gateways decode, is one segment again."""
    if len(segments) < 4 or segments[0] != "v1" or segments[1] not in routes.VERBS:
        return segments
    last = [segments[-1]] if segments[-1] in routes.VERBS[segments[1]].get(method, ()) else []
    if method == "PATCH" and segments[1] == "queues" and "partitions" in segments[3:-1]:
        at = len(segments) - 2 - segments[-2::-1].index("partitions")
        return [*segments[:2], "%2F".join(segments[2:at]), "partitions", "%2F".join(segments[at + 1 :])]
    name = segments[2 : len(segments) - len(last)]
    return [*segments[:2], "%2F".join(name), *last]
