"""The HTTP contract (API.md) over the engine's verbs: routes, bodies, models, problems. Shared by the HTTP Lambdas."""
