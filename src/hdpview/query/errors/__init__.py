"""The errors of estimates: one error model, in closed form and as random draws.

kernels: the error model of a mixture. codes: moments of functions of one attribute's codes.
closed: variances and covariances. fields: draws of the same errors. blocks: errors of the paper's blocks.
ends: from errors to intervals.
"""
