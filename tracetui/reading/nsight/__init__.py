"""Reading of exports that Nsight Systems writes as SQLite (`nsys export --type sqlite`), and of its reports.

`database` reads tables of a file that anybody may have written, `load` makes columns of them, `store` gives arguments
back, `report_export` has `nsys` make an export.
"""
