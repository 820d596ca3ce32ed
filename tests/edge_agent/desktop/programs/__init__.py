"""Programs with a text field and a password field, which write the text to a file; run by the system's Python."""
