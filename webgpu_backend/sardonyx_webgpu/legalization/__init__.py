"""A trace before it is fused: rules turn equations into the primitives that there are routines for.

Everything here rewrites Arrays and Equations. What writes the code of a routine does not belong here, but in
`routines`.
"""
