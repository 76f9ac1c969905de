"""The curator's page: describe a table, choose a budget, build its view. It sees the table, so it is served
to this machine alone, and no code of the released side imports it.
"""
