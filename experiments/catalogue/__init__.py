"""The catalogue of strategies: a page each, with its formulas, and one comparison in which it wins or does not."""
