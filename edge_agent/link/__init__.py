"""The link to the coordinator: what is sent and received over it, and which orders are trusted."""
