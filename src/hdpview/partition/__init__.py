"""Private side: the paper's recursive bisection of the domain into blocks. Decides from exact statistics.

parameters  the paper's parameters under readable names
grow        the loop; jitted, deviations, converge and cut decide about one block
decide      the same decisions from summed statistics; rational: where doubles cannot settle them
local, top  the engine of this machine, and the part of a tree that the Spark engine grows
It knows no source, no file and no query.
"""
