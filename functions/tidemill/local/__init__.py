"""Everything that stands in for AWS on one machine."""
