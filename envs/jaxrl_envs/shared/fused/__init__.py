"""Steps of many games as one GPU kernel (Pallas, Triton backend), from the functions of one game.

XLA makes dozens to hundreds of kernels of a step, and a GPU waits for the host in every loop whose end depends on data.
`kernel.fused` traces the function of ONE lane and evaluates its jaxpr inside a kernel with a vector [block], a lane per
GPU thread, in place of every scalar (`trace`): small arrays are unrolled, moves of data cost nothing, loops stay loops
with a mask of the lanes that still run, branches are skipped where no lane of a block takes them, and look-ups in large
constants are loads from memory (`rules`, `memory`).
"""
