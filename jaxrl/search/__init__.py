"""Search at play time: a policy looks ahead before it moves, in worlds that its seat cannot tell from the real one.

A search player is an ordinary player (`jaxrl.players.player`) with a memory. When it is asked, it draws worlds
(`belief`),
tries its actions in all of them by playing the games on (`halving`) or by growing a tree in each (`tree`), and takes
the best one. Its own moves in these games are those of its policy, everybody else's are those of a *model*
(`policies`). No game is known here: the contract of `jaxrl_envs.contract.env` says all that is needed.
"""
