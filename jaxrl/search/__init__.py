"""Search at play time: determinized look-ahead over worlds that are consistent with what the seat has seen.

A search player is an ordinary player (`jaxrl.players.player`) with a memory. When it is asked, it draws worlds
(determinizations, `belief`), evaluates its actions in all of them by playouts with sequential halving (`halving`) or by
a tree in each (`tree`), and takes the best one. In simulated games its own moves are those of its policy, and the other
seats' moves are those of an opponent *model* (`policies`). Search uses the contract `jaxrl_envs.contract.env` alone.
"""
