"""Words of other trainers, and what `jaxrl` calls the same thing; the command line answers them with our name.

A word is an option (`--timesteps`) or a key (`n_steps`, `ppo.LOG_EVERY`). Case, leading dashes and the section in front
make no difference. The answers are sentences on one line, with what exists here in backticks.
"""

from __future__ import annotations

_ANSWERS = {  # what is said -> the words that it answers, as keys without a section
    "the length of a training is `train.total_steps=N`": "timesteps total_timesteps max_steps",
    "runs lie in `run.directory=DIR`, each under its `--name`": "logdir log_dir tensorboard_log save_dir output_dir",
    "a run is named by `--name NAME`": "exp_name run_name experiment",
    "`run.log_level=debug` writes more, and `python -X dev -m jaxrl` shows where an error began": "debug verbose",
    "the environment variable `JAX_PLATFORMS` chooses (`cpu`, `cuda`), `CUDA_VISIBLE_DEVICES` which GPU, and "
    "`--devices N` how many": "device cuda gpu num_gpus n_gpus",
    "steps of each game per update are `train.num_steps=N`": "n_steps rollout_length horizon unroll_length",
    "games side by side are `train.num_envs=N`": "n_envs num_workers n_workers",
    "PPO takes `ppo.batch_size=N` decisions per minibatch (or `ppo.minibatches=N`), DQN `dqn.batch=N` transitions": (
        "batch_size minibatch_size nminibatches num_minibatches"
    ),
    "passes over a rollout are `ppo.epochs=N`": "n_epochs update_epochs num_epochs",
    "car soccer keeps an action for `env.options.tick_skip=N` physics ticks; other games repeat none": (
        "action_repeat frame_skip frameskip"
    ),
    "`network.compute_dtype=bfloat16` computes the torso in half precision; heads and loss stay float32": (
        "amp mixed_precision use_amp fp16 bf16 precision"
    ),
    "a line is logged every `train.updates_per_call=N` updates": "log_every log_interval log_freq",
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
        "lr anneal_lr lr_schedule"
    ),
    "the weight of entropy is `ppo.entropy_coef`": "ent_coef entropy_coefficient",
    "the weight of the value loss is `ppo.value_coef`": "vf_coef critic_coef",
    "PPO clips ratios by `ppo.clip`": "clip_range clip_coef clip_eps clip_epsilon",
    "lambda of the advantages is `ppo.gae_lambda`": "lam lmbda gae",
    "evaluations come every `train.evaluate_every=N` updates, with `evaluate.training_deals=N` deals": (
        "eval_freq eval_interval eval_every n_eval_episodes eval_episodes"
    ),
    "checkpoints come every `train.checkpoint_every=N` updates, of which `train.keep=N` stay": (
        "save_freq save_every save_interval checkpoint_interval checkpoint_freq"
    ),
    "`jaxrl resume RUN` continues a run, and `train.from_run=RUN` starts a new one from it": (
        "resume resume_from load load_model pretrained restore"
    ),
    "the network is `network.kind` with `network.hidden=[256, 256]`": "policy policy_kwargs net_arch hidden_size",
    "`network.kind=recurrent` has a memory, an LSTM or GRU by `network.recurrent.cell`": "lstm use_lstm use_rnn",
    "best responses are trained during training every `exploit.every=N` updates": "exploit_patch exploit_every",
    "the share of games against itself is `league.self_play`": "selfplay_prob self_play_prob",
    "the game is `env.id=NAME`, and `jaxrl games` lists them": "env_id env_name task",
    "a policy is watched by `jaxrl play`, `jaxrl film` or `jaxrl serve`": "render watch enjoy visualize",
    "a logger of your own is a class in `callbacks`; TensorBoard's files are always written": "wandb track use_wandb",
    "`--deterministic` has a GPU compute the same bits every time": "torch_deterministic cudnn_deterministic",
}
WORDS = {word: said for said, words in _ANSWERS.items() for word in words.split()}


def answer(text: str) -> str | None:
    """One sentence that names ours for the first word of another trainer in `text`; None if there is no such word."""
    for given in text.split():
        said = WORDS.get(given.partition("=")[0].rpartition(".")[2].lstrip("-").replace("-", "_").lower())
        if said:
            return f"there is no {given.partition('=')[0]!r} here: {said}"
    return None
