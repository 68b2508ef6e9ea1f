"""A report: one HTML file that needs nothing but itself, to attach to a pull request or a mail."""
