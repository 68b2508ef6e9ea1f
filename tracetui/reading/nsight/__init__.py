"""Reading of exports that Nsight Systems writes as SQLite (`nsys export --type sqlite`), and of its reports.

`database` has `nsys` make an export, reads tables of a file that anybody may have written and gives arguments back,
`load` makes columns of them.
"""
