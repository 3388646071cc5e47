# The parts of tools/gpu/run that are about bits and recoveries: models, digests, several, faults.

recorded=${RECORDED:-resnet18 resnet50 vgg11 vgg11_bn gpt}
read -ra digests <<<"${DIGESTS:-host1 host2 host3 host4 nccl2 nccl4}"

# small RUN OPTION...: a small run that ends.
small_options=(--model mnist-cnn --dataset mnist --augment off --batch-size 64 --micro-batches 8 --device cuda
  --loader-threads 1 --checkpoint-every 100000 --hash-every 100)
small() {
  ours timeout --foreground -s KILL 100 "$here/bin/rekindle" local --run-dir "$work/$1" --data "$work/small" \
    "${small_options[@]}" --steps "${SMALL_STEPS:-1500}" "${@:2}" >"$work/$1.out" 2>&1
}
digest() { rekindle digest "$work/$1"; }

# How many GPUs a run can use.
count_gpus() {
  if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
    tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l
  else
    nvidia-smi -L | grep -c '^GPU ' || true
  fi
}

# way_of RUN: how its gradients travelled, in the coordinator's words.
way_of() { grep -ohE 'gradients go (from GPU to GPU|through host memory).*' "$work/$1.out" | sort -u | paste -sd ';'; }

# report RUN STATUS: one line about a run, compared with the first.
report() {
  local digest=none
  if (($2 == 0)); then digest=$(digest "$1") || digest=none; fi
  [[ -n ${reference:-} ]] || reference=$digest
  echo "$1: exit code $2, digest $digest, trainers $(trainers_of "$1"), $(way_of "$1")"
  [[ $2 == 0 && $digest == "$reference" && $digest != none ]] && return 0
  echo "$1: WRONG"
  tail -n 15 "$work/$1.out" "$work/$1"/logs/*
  return 1
}
trainers_of() {
  python3 - "$work/$1/metrics.jsonl" <<'PYTHON'
import json, sys
seen = [line["trainers"] for line in map(json.loads, open(sys.argv[1])) if "step_ms" in line and "trainers" in line]
print([n for i, n in enumerate(seen) if i == 0 or n != seen[i - 1]])
PYTHON
}

# seconds_to_next RUN KILLED_AT: from the log lines of all trainers, and from metrics.jsonl.
seconds_to_next() {
  python3 - "$work/$1" "$2" <<'PYTHON'
import datetime, glob, json, re, sys
run, killed = sys.argv[1], float(sys.argv[2])
def at(text):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp()
begins = []
for name in glob.glob(run + "/logs/*"):
    for line in open(name, errors="replace"):
        if found := re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+)Z.*micro-batches of step \d+ begin", line):
            begins.append(at(found[1]))
steps = [line for line in map(json.loads, open(run + "/metrics.jsonl")) if "step_ms" in line]
slow = sorted(step["step_ms"] for step in steps)[-3:]
print("micro-batches begin", [round(t - killed, 3) for t in sorted(begins) if t > killed][:4], "s after the kill;",
      "slowest steps", slow, "ms")
PYTHON
}

# by_nccl RUN NUMBER: one trainer, which others join; each is of another host for NCCL, so that one GPU is enough. One is
# killed.
by_nccl() {
  local joined=() i at status=0 killed=0 seen
  NCCL_HOSTID=first small "$1" --workers 1 --exchange nccl &
  local run=$!
  for ((i = 2; i <= $2; ++i)); do
    while [[ ! -s $work/$1/metrics.jsonl ]] && kill -0 "$run" 2>/dev/null; do sleep 0.2; done
    NCCL_HOSTID=host$i ours timeout --foreground -s KILL 100 "$here/bin/rekindle" join "$work/$1" \
      >"$work/$1.join$i.out" 2>&1 &
    joined+=($!)
  done
  # The last one that joined is killed, with the other ones in the middle of their steps.
  while ! trainers_of "$1" 2>/dev/null | grep -q " $2\]" && kill -0 "$run" 2>/dev/null; do sleep 0.3; done
  at=$(date -u +%s.%N)
  for i in $(pgrep -f "rekindle-trainer.*$work/$1"); do
    if tr '\0' '\n' <"/proc/$i/environ" | grep -qx "NCCL_HOSTID=host$2" && kill -9 "$i"; then killed=1; fi
  done
  wait "$run" || status=$?
  for run in "${joined[@]}"; do wait "$run" || true; done
  report "$1" "$status" || return 1
  # Otherwise the digest says nothing about NCCL, or about a kill.
  seen=$(trainers_of "$1")
  if ! ((killed)) || [[ " ${seen//[^0-9 ]/} " != *" $2 "* || $(way_of "$1") != *"by NCCL"* ]]; then
    echo "$1: WRONG: there were never $2 trainers, or not by NCCL, or none was killed (killed: $killed)"
    return 1
  fi
  seconds_to_next "$1" "$at"
}

part_digests() {
  local failed=0 name workers status
  local first=${CUDA_VISIBLE_DEVICES:-0}
  export TZ=UTC NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN CUDA_VISIBLE_DEVICES=${first%%,*}
  rekindle make-data mnist "$work/small" --samples 2000 || return 1
  for name in "${digests[@]}"; do
    workers=${name: -1} status=0
    if [[ $name == nccl* ]]; then
      by_nccl "$name" "$workers" || failed=1
    else
      small "$name" --workers "$workers" --exchange auto || status=$?
      report "$name" "$status" || failed=1
    fi
  done
  return "$failed"
}

# short_run NAME DEVICE GRAPHS OPTION...
short_run() {
  REKINDLE_CUDA_GRAPHS=$3 ours timeout --foreground -s KILL 60 "$here/bin/rekindle" local --run-dir "$work/$1-$2-$3" \
    --device "$2" --batch-size 32 --steps 24 --lr 0.002 --momentum 0.9 --checkpoint-interval 24h \
    --loader-threads 1 "${@:4}" >"$work/$1-$2-$3.out" 2>&1 || tail -n 15 "$work/$1-$2-$3.out"
}

# Each model has the same bits with and without a recording of its operators, and about the losses of a CPU.
part_models() {
  local failed=0 name options
  # An epoch has one step, so the evaluation after it comes before the recording.
  rekindle make-data cifar10 "$work/data" --samples 32 && rekindle make-data cifar10 "$work/more" --samples 1000 &&
    rekindle make-data text "$work/text" --samples 1000 || return 1
  for name in $recorded; do
    options=(--model "$name" --dataset cifar10 --image-size 64 --augment off)
    case $name in
      gpt) options=(--model gpt --dataset text --data "$work/text" --micro-batches 4 --context 64 --dropout 0.1) ;;
      resnet50) options+=(--data "$work/more" --micro-batches 2) ;;
      vgg11_bn) options+=(--data "$work/data" --micro-batches 1 --precision bf16) ;;
      *) options+=(--data "$work/data" --micro-batches 1) ;;
    esac
    short_run "$name" cuda 1 "${options[@]}" &
    short_run "$name" cuda 0 "${options[@]}" &
    [[ $name == resnet* ]] && short_run "$name" cpu 1 "${options[@]}" &
  done
  wait
  for name in $recorded; do
    python3 - "$work/$name" "$(digest "$name-cuda-1")" "$(digest "$name-cuda-0")" <<'PYTHON' || failed=1
import json, os, sys
def losses(kind):
    file = f"{sys.argv[1]}-{kind}/metrics.jsonl"
    if not os.path.exists(file):
        return []
    return [round(line["loss"], 4) for line in map(json.loads, open(file)) if "step_ms" in line][::5]
print(os.path.basename(sys.argv[1]), *sys.argv[2:], *(losses(kind) for kind in ("cuda-1", "cuda-0", "cpu-1")))
sys.exit(sys.argv[2] != sys.argv[3] or not sys.argv[2])
PYTHON
  done
  return "$failed"
}

# The time from a kill to the next micro-batch of the others, and what checkpoints cost, on a large model.
large_options=(--model vgg11 --dataset cifar10 --image-size 224 --augment off --batch-size 128 --micro-batches 4
  --lr 0.001 --momentum 0.9 --device cuda --precision bf16 --loader-threads 6 --hash-every 0 --keep 1)

# killed_trainer RUN OPTION...: kills one of the two trainers of a large run after some steps.
killed_trainer() {
  local run status=0 at victim
  ours timeout --foreground -s KILL 70 "$here/bin/rekindle" local --run-dir "$work/$1" --data "$work/data" \
    "${large_options[@]}" --steps 150 --checkpoint-interval 24h "${@:2}" >"$work/$1.out" 2>&1 &
  run=$!
  while [[ $(grep -c step_ms "$work/$1/metrics.jsonl" 2>/dev/null || true) -lt 40 ]] && kill -0 "$run" 2>/dev/null; do
    sleep 0.05
  done
  victim=$(pgrep -f "rekindle-trainer.*$work/$1" | tail -n 1)
  at=$(date -u +%s.%N)
  kill -9 "$victim" || status=1
  wait "$run" || status=$?
  echo "$1: exit code $status, digest $(digest "$1"), $(way_of "$1")"
  seconds_to_next "$1" "$at"
  if ((status != 0)); then tail -n 20 "$work/$1.out" "$work/$1"/logs/*; fi
  return "$status"
}

# step_times RUN OPTION...
step_times() {
  if ! ours timeout --foreground -s KILL 60 "$here/bin/rekindle" local --run-dir "$work/$1" --data "$work/data" \
    "${large_options[@]}" --steps 60 --checkpoint-interval 24h "${@:2}" >"$work/$1.out" 2>&1; then
    tail -n 15 "$work/$1.out" "$work/$1"/logs/*
    return 1
  fi
  echo "$1: $(way_of "$1")"
  median_step "$work/$1/metrics.jsonl" vgg11 bf16 128
}

# A GPU for each trainer, so that NCCL goes from one to the other. Through host memory, for comparison.
part_several() {
  local failed=0 gpus most counts workers way status SMALL_STEPS=${SMALL_STEPS:-500}
  gpus=$(count_gpus)
  if ((gpus < 2)); then
    echo "there are no two GPUs"
    return 0
  fi
  most=$((gpus < 8 ? gpus : 8)) # a trainer has a micro-batch at least
  mapfile -t counts < <(printf '%s\n' 1 2 "$most" | sort -nu)
  export TZ=UTC NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN
  rekindle make-data mnist "$work/small" --samples 2000 && rekindle make-data cifar10 "$work/data" --samples 20000 ||
    return 1
  for workers in "${counts[@]}"; do
    for way in nccl shm; do
      status=0
      small "$way$workers" --workers "$workers" --exchange "$way" || status=$?
      report "$way$workers" "$status" || failed=1
    done
  done
  killed_trainer "kill$most" --workers "$most" --micro-batches 8 --exchange nccl || failed=1
  for workers in "${counts[@]}"; do
    for way in nccl shm; do
      step_times "steps-$way$workers" --workers "$workers" --micro-batches 8 --exchange "$way" || failed=1
    done
  done
  return "$failed"
}

part_faults() {
  local failed=0 way ways=(auto)
  export TZ=UTC NCCL_SOCKET_IFNAME=lo
  # With one GPU, that is through host memory.
  if (($(count_gpus) > 1)); then ways=(nccl shm); fi
  rekindle make-data cifar10 "$work/data" --samples 20000 || return 1
  for way in "${ways[@]}"; do killed_trainer "kill2-$way" --workers 2 --exchange "$way" || failed=1; done
  ours timeout --foreground -s KILL 60 "$here/bin/rekindle" local --run-dir "$work/stall" --data "$work/data" \
    "${large_options[@]}" --steps 200 --checkpoint-every 50 --workers 1 >"$work/stall.out" 2>&1 || failed=1
  python3 - "$work/stall/metrics.jsonl" <<'PYTHON' || failed=1
import json, statistics, sys
steps = [line for line in map(json.loads, open(sys.argv[1])) if "step_ms" in line][20:]
print("checkpoints: stand-still", [round(s["checkpoint_ms"], 1) for s in steps if s["checkpoint_ms"] > 1], "ms; step",
      round(statistics.median(s["step_ms"] for s in steps), 2), "ms in the median, mean",
      round(statistics.mean(s["step_ms"] for s in steps), 2), "ms; slowest", sorted(round(s["step_ms"], 1) for s in steps)[-6:])
PYTHON
  ours timeout --foreground -s KILL 60 "$here/bin/rekindle" local --run-dir "$work/hash" --data "$work/data" \
    "${large_options[@]}" --hash-every 10 --steps 80 --checkpoint-interval 24h --workers 2 >"$work/hash.out" 2>&1 || failed=1
  python3 - "$work/hash/metrics.jsonl" <<'PYTHON' || failed=1
import json, statistics, sys
steps = [line for line in map(json.loads, open(sys.argv[1])) if "step_ms" in line][20:]
hashed, others = ([s["step_ms"] for s in steps if (s["step"] % 10 == 1) == which] for which in (True, False))
print("the states are compared: step", round(statistics.median(hashed), 2), "ms, others", round(statistics.median(others), 2), "ms")
PYTHON
  return "$failed"
}
