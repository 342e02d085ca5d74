"""The battle engine: battles as plain data, played without the interpreter lock by parts named after the rules' phases.

`rules.Rules` holds maps, rosters and settings as C structs; `batch.BattleEngine` plays many battles behind the host
contract (`jaxrl_envs.host.engine`), `single.Battle` is one to look at, to replay from a tape, and to test. Nothing
allocates while a batch is played. The interface of a part is its `.pxd`, and each knows only those before it: state;
decisions, dice, geometry; sight, scoring, attack, stratagems; the phases command, movement, shooting, fight, charge;
course; observation, rules, setup, players; batch, single, arrange.
"""
