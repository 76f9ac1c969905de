"""Private side: the paper's recursive bisection, which decides from exact statistics and is charged.

parameters       the paper's parameters and their names here
grow             the loop: blocks are cut (cut, deviations) or left whole (converge); kernels: statistics
decide           the same decisions from whole numbers, if doubles cannot tell (exact) or rows are elsewhere
local            the engine on this machine; top: the top of a tree that Spark grows
"""
