"""What people see of the coordinator: rows and words, which pages, the API and commands share."""
