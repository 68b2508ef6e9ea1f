"""The report: one self-contained HTML file, to attach to a pull request or an email."""
