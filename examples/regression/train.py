"""A trainer that needs nothing but Python: linear regression by stochastic gradient descent.

It shows what the chain expects of training code: read where to start from the environment, save checkpoints that are
whole or not there at all, resume with the same random numbers an uncut run would have drawn.
"""

import json
import os
import random
import re
import signal
import sys
import time


def read_config(path):
    """The flat part of a yaml file: `key: number`, nesting by indentation, dotted keys out."""
    config, above = {}, []
    for line in open(path, encoding="utf-8"):
        match = re.match(r"( *)([\w.-]+):\s*([^#]*)", line)
        if not match:
            continue
        indent, key, value = len(match[1]), match[2], match[3].strip()
        above = [(i, k) for i, k in above if i < indent] + [(indent, key)]
        try:
            config[".".join(k for _, k in above)] = float(value)
        except ValueError:
            pass
    return config


config = read_config(os.environ["EXPERIMENT_CONFIG"])
n_steps = int(config["n_steps"])
save_every = int(config["train.save_every"])

# Without a chain there is no EXPERIMENT_ID; such a job keeps its checkpoints under its own id.
directory = os.environ.get("CHECKPOINT_DIR") or os.path.join("checkpoints", os.environ.get("SLURM_JOB_ID", "local"))
resume_from = os.environ.get("RESUME_FROM")
step = int(os.environ.get("NEXT_STEP") or 0)

weights, generator = [0.0, 0.0], random.Random(int(config.get("train.seed", 1)))
if resume_from:
    state = json.load(open(os.path.join(resume_from, "state.json"), encoding="utf-8"))
    weights = state["weights"]
    generator.setstate((state["random"][0], tuple(state["random"][1]), state["random"][2]))


def save(at):
    """Under another name first: a checkpoint with its real name is whole."""
    final = os.path.join(directory, f"step_{at}")
    if os.path.exists(final):
        return
    hidden = os.path.join(directory, f".saving_{at}")
    os.makedirs(hidden, exist_ok=True)
    with open(os.path.join(hidden, "state.json"), "w", encoding="utf-8") as file:
        json.dump({"step": at, "loss": loss, "weights": weights, "random": generator.getstate()}, file)
    os.rename(hidden, final)


asked_to_stop = []
for name in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(name, lambda number, frame: asked_to_stop.append(number))

print(f"run {os.environ.get('WANDB_RUN_ID', 'local')}: from step {step} of {n_steps}, lr {config['train.lr']}", flush=True)
loss = float("nan")
while step < n_steps:
    x = generator.uniform(-1, 1)
    error = weights[0] * x + weights[1] - (3 * x - 2 + generator.gauss(0, 0.1))
    weights = [weights[0] - config["train.lr"] * error * x, weights[1] - config["train.lr"] * error]
    loss = error * error
    time.sleep(config.get("train.seconds_per_step", 0))
    if asked_to_stop:
        save(step)
        print(f"signal {asked_to_stop[0]}: saved step_{step}", flush=True)
        sys.exit(0 if asked_to_stop[0] == signal.SIGUSR1 else 128 + asked_to_stop[0])
    if (step > 0 and step % save_every == 0) or step == n_steps - 1:
        save(step)
    step += 1
print(f"done: y = {weights[0]:.3f} x + {weights[1]:.3f}, the truth is y = 3 x - 2", flush=True)
