"""Storage: the database and the files beside it. Adapters: they translate and retry, and decide nothing."""
