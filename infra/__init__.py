"""What `cdk deploy` makes of tidemill: two stacks per stage, read top-down from app.py."""
