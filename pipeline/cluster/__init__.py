"""Everything that imports Ray."""
