"""Released side: a page over views, read-only. The process that serves it never loads anything that could see
a table.
"""
