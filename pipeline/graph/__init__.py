"""From edge list to GraphStore."""
