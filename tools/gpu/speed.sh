# The parts of tools/gpu/run that measure images a second: speed, input.

# What `speed` times, and how many steps of each.
read -ra models <<<"${MODELS:-vgg11 resnet50}"
read -ra precisions <<<"${PRECISIONS:-fp32 tf32 bf16}"
steps=${STEPS:-40}
modes=${MODES:-default channels_last} # none: Rekindle alone

# note LINE: for the table.
note() {
  echo "$1"
  echo "$1" >>"$out/speed.jsonl"
}

# The lines of a run that count, as one line.
median_step() {
  python3 - "$@" <<'PYTHON'
import json, statistics, sys
file, model, precision, batch = sys.argv[1:]
steps = [line for line in map(json.loads, open(file)) if "step_ms" in line]
steps = steps[len(steps) // 2:]
def median(key):
    return round(statistics.median(step[key] for step in steps), 3)
parts = {key: median(key) for key in ("data_ms", "compute_ms", "exchange_ms", "update_ms", "step_ms")}
times = [step["step_ms"] for step in steps]
print(json.dumps({"model": model, "mode": "rekindle", "precision": precision,
                  "images_per_second": round(1000 * int(batch) / parts["step_ms"], 1), "ms": parts["step_ms"],
                  "ms_fastest": round(min(times), 3), "ms_slowest": round(max(times), 3), "loss": steps[-1]["loss"],
                  **parts}))
PYTHON
}

# time_rekindle MODEL PRECISION
time_rekindle() {
  local run=$work/run precision=(--precision "$2") line
  if [[ $2 == tf32 ]]; then
    if grep -q -e '--tf32' "$work/help"; then
      precision=(--tf32)
    elif ! grep -q tf32 "$work/help"; then
      note "{\"model\": \"$1\", \"mode\": \"rekindle\", \"precision\": \"tf32\", \"skipped\": \"no such option\"}"
      return 0
    fi
  fi
  rm -rf "$run"
  # No checkpoint but the last one, and no comparison of states, falls into the steps that are timed.
  if rekindle_limited local --run-dir "$run" --model "$1" --dataset cifar10 --data "$work/data" --image-size 224 \
    --augment off --batch-size 128 --micro-batches 1 --steps "$steps" --optimizer sgd --lr 0.001 --momentum 0.9 \
    --weight-decay 0.0005 --device cuda --loader-threads 12 --checkpoint-interval 24h --hash-every 0 --keep 1 \
    "${precision[@]}" && line=$(median_step "$run/metrics.jsonl" "$1" "$2" 128); then
    note "$line"
  else
    tail -n 8 "$run"/logs/* || true
    note "{\"model\": \"$1\", \"mode\": \"rekindle\", \"precision\": \"$2\", \"error\": \"see speed.log\"}"
    return 1
  fi
}

rekindle_limited() { ours timeout --foreground -s KILL 75 "$here/bin/rekindle" "$@"; }

# time_pytorch OPTION...: each line as soon as it is there, because the part may be ended.
time_pytorch() {
  [[ $modes != none ]] || return 0
  python3 -W ignore "$here/gpu_baseline.py" "$@" | tee -a "$out/speed.jsonl"
}

part_speed() {
  local model precision failed=0
  rm -f "$out/speed.jsonl"
  rekindle local --help-all >"$work/help" || return 1
  # More images than the steps need, because an evaluation runs at the end of an epoch.
  rekindle make-data cifar10 "$work/data" --samples $((128 * steps + 5 - 128 * steps % 5)) || return 1
  # In turns, so that a change of the machine's speed affects both alike.
  for model in "${models[@]}"; do
    for precision in "${precisions[@]}"; do
      time_rekindle "$model" "$precision" || failed=1
      time_pytorch --models "$model" --precisions "$precision" --modes $modes || failed=1
    done
  done
  rm -rf "$work/run"
  # The rest is done while there is time. torch.compile needs a minute for a case, and comes last.
  [[ -z ${MODES:-} ]] || return "$failed"
  time_pytorch --deterministic --modes channels_last --limit "$((limit - SECONDS - 30))" || failed=1
  time_pytorch --modes compile --precisions bf16 tf32 fp32 --limit "$((limit - SECONDS - 60))" || failed=1
  return "$failed"
}

# Both in turns. The steps of Rekindle's run count from the third epoch on, because the first one also hashes the files.
part_input() {
  local turn run=$work/run
  python3 "$here/gpu_input.py" make "$work/photos" || return 1
  for turn in $(seq "${TURNS:-2}"); do
    rm -rf "$run"
    rekindle_limited local --run-dir "$run" --model resnet50 --dataset image-folder --data "$work/photos" --image-size 224 \
      --augment resized-crop --batch-size 128 --micro-batches 1 --epochs 4 --optimizer sgd --lr 0.001 --momentum 0.9 \
      --device cuda --precision bf16 --loader-threads "$(nproc)" --checkpoint-interval 24h --hash-every 0 --keep 1 \
      >"$work/run.out" 2>&1 || { tail -n 15 "$work/run.out" "$run"/logs/*; return 1; }
    python3 - "$run/metrics.jsonl" <<'PYTHON'
import json, sys
steps = [line for line in map(json.loads, open(sys.argv[1])) if "step_ms" in line]
steps = steps[len(steps) // 2:]
print(json.dumps({"rekindle": True, "images_per_second": round(128000 * len(steps) / sum(s["step_ms"] for s in steps), 1),
                  "data_ms": round(sum(s["data_ms"] for s in steps) / len(steps), 2)}))
PYTHON
    python3 -W ignore "$here/gpu_input.py" time "$work/photos" --workers 2 || return 1
  done
}

# Also after a part that was ended: what is in speed.jsonl counts.
show_speed() {
  [[ -s $out/speed.jsonl ]] || return 0
  python3 - "$out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
lines = []
for text in (out / "speed.jsonl").read_text().splitlines():
    try:
        lines.append(json.loads(text))
    except ValueError:
        pass  # the part was ended in mid-line
(out / "speed.json").write_text(json.dumps(lines, indent=1) + "\n")
columns = {"rekindle": ("rekindle", False), "default": ("default", False), "channels_last": ("channels_last", False),
           "compile": ("compile", False), "deterministic": ("channels_last", True)}
print("images/s" + " " * 8 + "".join(f"{name:>15}" for name in columns) + f"{'rekindle/best':>15}")
for model, precision in dict.fromkeys((line["model"], line["precision"]) for line in lines):
    speed = {(line["mode"], line.get("deterministic", False)): line.get("images_per_second") for line in lines
             if (line["model"], line["precision"]) == (model, precision)}
    values = [speed.get(key) for key in columns.values()]
    best = max((value for value in values[1:] if value), default=None)
    ratio = f"{values[0] / best:.2f}" if values[0] and best else "-"
    print(f"{model:10}{precision:6}" + "".join(f"{value or '-':>15}" for value in values) + f"{ratio:>15}")
PYTHON
}
