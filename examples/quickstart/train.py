import json, os, time
from pathlib import Path

checkpoints, resume_from = Path(os.environ["CHECKPOINT_DIR"]), os.environ["RESUME_FROM"]
state = json.loads(Path(resume_from, "state.json").read_text()) if resume_from else {"weight": 0.0}
for step in range(int(os.environ["NEXT_STEP"]), 100):  # 100 is n_steps of the experiment
    state["weight"] += 0.1 * (3.0 - state["weight"])  # your training step goes here
    time.sleep(1)
    if step % 10 == 9:
        partial = checkpoints / "partial"
        partial.mkdir(exist_ok=True)
        (partial / "state.json").write_text(json.dumps(state))
        partial.rename(checkpoints / f"step_{step}")  # a directory with this name is always complete
        print(f"saved step_{step}", flush=True)
