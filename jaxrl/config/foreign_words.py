"""Words of other trainers, and what `jaxrl` calls the same thing; the command line answers them with our name.

A word is an option (`--timesteps`) or a key (`n_steps`, `ppo.LOG_EVERY`). Case, leading dashes and the section in front
make no difference. The answers are sentences on one line, with what exists here in backticks.
"""

from __future__ import annotations

_ANSWERS = {  # what is said -> the words that it answers, as keys without a section
    "the length of a training is `train.total_steps=N`": (
        "timesteps total_timesteps max_steps iterations num_iterations n_iterations total_iterations"
    ),
    "runs lie in `run.directory=DIR`, each under its `--name`": "logdir log_dir tensorboard_log save_dir output_dir",
    "a run is named by `--name NAME`": "exp_name run_name experiment experiment_name",
    "`run.log_level=debug` writes more, and `python -X dev -m jaxrl` shows where an error began": ("debug verbose"),
    "a training as short as you like is `train.total_steps=N`, and `run.log_level=debug` writes more": "debug_ticks",
    "the environment variable `JAX_PLATFORMS` chooses (`cpu`, `cuda`), `CUDA_VISIBLE_DEVICES` which GPU, and "
    "`--devices N` how many": "device cuda gpu num_gpus n_gpus",
    "steps of each game per update are `train.num_steps=N`": "n_steps rollout_length horizon unroll_length",
    "games side by side are `train.num_envs=N`": "n_envs num_games num_parallel_games",
    "an update plays `train.num_envs=N` games for `train.num_steps=N` decisions each, parts of games or several": (
        "games_per_iteration games_per_update episodes_per_iteration"
    ),
    "games are no processes: they run in the compiled program, those on the host in `sebulba.threads=N` threads of "
    "each of `sebulba.actors=N`": (
        "num_workers n_workers use_subproc_vec_env use_subproc_envs force_dummy_vec_env async_game_generation "
        "async_num_workers"
    ),
    "PPO takes `ppo.batch_size=N` decisions per minibatch (or `ppo.minibatches=N`), DQN `dqn.batch=N` transitions": (
        "batch_size minibatch_size nminibatches num_minibatches"
    ),
    "passes over a rollout are `ppo.epochs=N`": "n_epochs update_epochs num_epochs",
    "car soccer keeps an action for `env.options.tick_skip=N` physics ticks; other games repeat none": (
        "action_repeat frame_skip frameskip"
    ),
    "`network.compute_dtype=bfloat16` computes the torso in half precision; heads and loss stay float32": (
        "amp mixed_precision use_amp amp_dtype fp16 bf16 precision"
    ),
    "a line is logged every `train.updates_per_call=N` updates": "log_every log_interval log_freq",
    "figures on disk are `run.logs`, e.g. jsonl or none; the terminal has one line that is redrawn": (
        "train_log_enabled train_log_to_console train_log_to_file"
    ),
    "each part of a reward is logged as reward_NAME, and drawn for a game by `jaxrl film --rewards FILE`": (
        "reward_debug"
    ),
    "DQN plays `dqn.learning_starts=N` transitions at random first, and PPO's value head learns alone for "
    "`ppo.value_warmup=N` updates": "warmup warmup_steps random_steps",
    "DQN takes `dqn.updates=N` optimizer steps per rollout; the figure train/update_ratio shows what follows": (
        "updates_per_step utd utd_ratio gradient_steps train_freq replay_ratio"
    ),
    "DQN's replay buffer holds `dqn.capacity=N` transitions": "buffer_size replay_size memory_size",
    "the target network is copied every `dqn.target_every=N` optimizer steps": (
        "target_update_interval target_network_frequency"
    ),
    "exploration by DQN falls as `dqn.epsilon` says, a schedule of kind, start, end and until": (
        "exploration_fraction exploration_final_eps eps_start eps_end eps_decay"
    ),
    "the learning rate is `ppo.learning_rate` (`dqn.learning_rate`), a schedule of kind, start and end": (
        "lr anneal_lr lr_schedule initial_lr"
    ),
    "the weight of entropy is `ppo.entropy_coef`": "ent_coef entropy_coefficient",
    "the weight of the value loss is `ppo.value_coef`": "vf_coef critic_coef",
    "PPO clips ratios by `ppo.clip`": "clip_range clip_coef clip_eps clip_epsilon",
    "lambda of the advantages is `ppo.gae_lambda`": "lam lmbda gae",
    "evaluations come every `train.evaluate_every=N` updates, with `evaluate.training_deals=N` deals": (
        "eval_freq eval_interval eval_every eval_frequency evaluation_frequency evaluation_interval n_eval_episodes "
        "eval_episodes eval_games_per_opponent"
    ),
    "checkpoints come every `train.checkpoint_every=N` updates, of which `train.keep=N` stay": (
        "save_freq save_every save_interval checkpoint_interval checkpoint_freq checkpoint_frequency"
    ),
    "`train.keep=N` checkpoints stay, and the pool of opponents holds `league.snapshots=N` past selves": (
        "max_checkpoints"
    ),
    "`jaxrl resume RUN` continues a run, and `train.from_run=RUN` starts a new one from it": (
        "resume resume_from load load_model pretrained restore"
    ),
    "the network is `network.kind` with `network.hidden=[256, 256]` (a transformer: `network.transformer.dim`)": (
        "policy policy_kwargs net_arch hidden_size hidden_sizes hidden_dim"
    ),
    "`network.kind=recurrent` has a memory, an LSTM or GRU by `network.recurrent.cell`, of "
    "`network.recurrent.width` and `network.recurrent.layers`": (
        "lstm use_lstm use_rnn lstm_hidden_size lstm_num_layers"
    ),
    "best responses are trained during training every `exploit.every=N` updates": (
        "exploit_patch use_exploit_patch exploit_every exploit_patch_interval exploit_interval"
    ),
    "the share of games against itself is `league.self_play`": (
        "selfplay_prob self_play_prob self_play_ratio self_play_enabled current_weight"
    ),
    "opponents are `league.opponents=[self, snapshots, bots]`, drawn by `league.weighting` (adaptive is the default) "
    "with `league.floor` for each": (
        "use_opponent_pool use_adaptive_weights min_opponent_weight use_heuristic_variants"
    ),
    "shares of opponents that stay as they are: `league.weighting=fixed` with `league.weights`, by bot and for each of "
    "the snapshots": "checkpoint_weight random_weight heuristic_weight outcome_heuristic_weight",
    "the game is `env.id=NAME`, and `jaxrl games` lists them": "env_id env_name task",
    "a policy is watched by `jaxrl play`, `jaxrl film` or `jaxrl serve`": "render watch enjoy visualize render_every",
    "loggers are `run.logs=[tensorboard, wandb, trackio]`, and one of your own is a class in `callbacks`": (
        "wandb track use_wandb discord_webhook"
    ),
    "a training ends early by `train.stop`, e.g. {plateau: 4}: evaluations in a row without a better one": (
        "early_stopping early_stop patience"
    ),
    "it ends after `train.stop.minutes=N` of the clock": "time_limit max_minutes wall_clock_limit max_hours",
    "there is nothing to set: games and learner share a device's memory, games on the host write into buffers that JAX "
    "reads, and DQN draws its next batch meanwhile": (
        "pin_memory use_pinned_memory pinned_memory prefetch prefetch_factor num_loader_workers"
    ),
    "there is nothing to switch on: rules are compiled by XLA, engines by Cython": (
        "use_numba numba use_cython force_cython torch_compile use_compile use_torch_compile compile_mode"
    ),
    "questions are answered in blocks, one for each of `sebulba.groups` groups of games": (
        "batch_inference batch_requests batched_inference inference_batch_size"
    ),
    "Skull King draws its rounds by `env.options.round_weights`, which `curriculum` changes by stages": (
        "round_weights phase_schedule phase_curriculum phase_weights"
    ),
    "PPO always normalises advantages, over the learner's decisions of an update": (
        "normalize_advantages normalize_advantage norm_adv"
    ),
    "observations are normalised by `network.normalize`": "normalize_observations normalize_obs norm_obs",
    "past selves are `league.snapshots=N`, one every `league.snapshot_every=N` updates": (
        "opponent_pool pool_size snapshot_interval snapshot_freq max_snapshots self_play_update_every_episodes"
    ),
    "the hierarchy's passes are `hierarchical.manager.epochs=N` and `hierarchical.worker.epochs=N`, in all rounds": (
        "manager_epochs worker_epochs late_round_multiplier"
    ),
    "manager and worker are `train.algorithm=hierarchical`, relabelled by `hierarchical.hindsight`": (
        "use_hierarchical hindsight_relabel"
    ),
    "the clip range of the value update is `ppo.value_clip`": "clip_value clip_vloss",
    "the seed is `run.seed=N`, and `run.seeds=N` trains several at once": "random_seed manual_seed",
    "the discount per decision is `ppo.gamma` (`dqn.gamma`)": "discount discount_factor",
    "a schedule's ends are keys of its own, as in `ppo.entropy_coef.start` and `ppo.temperature.end`": (
        "entropy_start entropy_end entropy_schedule temperature_start temperature_end temperature_schedule temp_start "
        "temp_end"
    ),
    "the transformer is `network.transformer` with dim, heads and layers": (
        "d_model n_heads num_heads n_layers num_layers species_embedding_dim"
    ),
    "the exponent of prioritised replay is `dqn.alpha` (0: uniform); beta rises to 1 by itself": (
        "per_enabled per_alpha per_beta per_beta_start per_beta_frames priority_alpha"
    ),
    "Forge's JVMs take `forge.jvm_options=[...]` and `forge.profile`": "jvm_flags jvm_args jvm_heap max_heap java_opts",
    "each game of Forge keeps a connection of its own to one of `forge.daemons`": (
        "connection_pool connection_pool_size pool_connections num_daemons n_servers num_servers"
    ),
    "memory of a GPU is set by the environment variable `XLA_PYTHON_CLIENT_MEM_FRACTION`": (
        "mem_fraction preallocate gpu_memory_fraction"
    ),
    "the sizes of the teams are `env.options.teams=[2, 2]`": "team_size players_per_team",
    "`jaxrl diagnose` measures game, network and training in one go, and `--gpu` a GPU": "test",
    "`--deterministic` has a GPU compute the same bits every time": "torch_deterministic cudnn_deterministic",
}
WORDS = {word: said for said, words in _ANSWERS.items() for word in words.split()}


def answer(text: str) -> str | None:
    """Answers the first word of another trainer in `text` in one sentence; None if there is no such word."""
    for given in text.split():
        said = WORDS.get(given.partition("=")[0].rpartition(".")[2].lstrip("-").replace("-", "_").lower())
        if said:
            return f"there is no {given.partition('=')[0]!r} here: {said}"
    return None
