"""Studies behind our defaults: each was run for a figure that an ADR cites, and is kept so that it can be run again."""
