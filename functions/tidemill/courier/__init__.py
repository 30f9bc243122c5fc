"""The courier: sends the calls of webhooks (docs/adr/0017). Knows no secret and no database; loads nothing but the standard library."""
