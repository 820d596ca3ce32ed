"""Storage: adapters for the database and the files beside it; they make no decisions."""
