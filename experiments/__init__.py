"""Studies behind our defaults: each gave a figure that an ADR cites, and is kept so that it can be repeated."""
