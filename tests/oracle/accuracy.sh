#!/usr/bin/env bash
# Real handwriting is learnt, for seeds 1, 2 and 3: the digits of digits.py.
#
#   tests/oracle/accuracy.sh PATH_TO_REKINDLE mnist-cnn|resnet18 [OPTION OF rekindle local...]
#
# mnist-cnn: at least 97 % test accuracy after 20 epochs. resnet18, from JPEG files of 64 pixels: 98.5 % after 15 epochs.
# Needs scikit-learn (python3, or the Python that REKINDLE_ORACLE_PYTHON names). Options given here override those below.
set -euo pipefail
rekindle=$(readlink -f "${1:?usage: accuracy.sh PATH_TO_REKINDLE mnist-cnn|resnet18 [OPTION...]}")
model=${2:?which model}
shift 2
python=${REKINDLE_ORACLE_PYTHON:-python3}
files=()
case $model in
  mnist-cnn)
    epochs=20 wanted=97
    # Adadelta with lr 1.0 is the default. The rate falls twice, so that the last epochs agree with each other; the decay of
    # PyTorch's MNIST example, 0.7 an epoch, is for 20 times as many steps an epoch, and too fast here.
    train=(--batch-size 32 --micro-batches 4 --lr-step 8 --lr-gamma 0.1)
    ;;
  resnet18)
    # Of 360 test images, one more or less is 0.28 %: the moving average settles which are right. Batch norm sees 16.
    epochs=15 wanted=98.5 files=(--jpeg)
    train=(--dataset image-folder --image-size 64 --augment off --batch-size 32 --micro-batches 2 --lr 0.05 --schedule cosine
      --warmup-steps 45 --no-decay '*.bias' --label-smoothing 0.1 --ema 0.99)
    ;;
esac
train=(--model "$model" --workers 2 --epochs "$epochs" "${train[@]}")

"$python" -c 'import sklearn' 2>/dev/null || {
  echo "accuracy: $python has no scikit-learn: pip install scikit-learn, or set REKINDLE_ORACLE_PYTHON" >&2
  exit 78
}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/rekindle-accuracy.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$python" "$(dirname "${BASH_SOURCE[0]}")/digits.py" "$work/data" "${files[@]}"
echo "rekindle local ${train[*]} $*"

bad=0
for seed in 1 2 3; do
  "$rekindle" local --run-dir "$work/$seed" --data "$work/data" "${train[@]}" --seed "$seed" "$@" >"$work/$seed.log" 2>&1 || {
    tail -n 5 "$work/$seed.log" >&2
    echo "accuracy: FAILED: the run with seed $seed did not finish" >&2
    exit 1
  }
  "$python" - "$work/$seed/metrics.jsonl" "$seed" "$epochs" "$wanted" <<'PYTHON' || bad=1
import json, sys
path, seed, epochs, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
tests = [line for line in map(json.loads, open(path)) if "test_accuracy" in line]
percent = [100 * line["test_accuracy"] for line in tests]
good = len(tests) == epochs and percent[-1] >= wanted
print(f"seed {seed}: {percent[-1]:.2f} % of {tests[-1]['test_count']} after {len(tests)} epochs, "
      f"best {max(percent):.2f} % after epoch {percent.index(max(percent)) + 1}: {'ok' if good else 'FAILED'}")
sys.exit(not good)
PYTHON
done
((bad == 0)) || {
  echo "accuracy: FAILED: less than $wanted % (or an epoch was not evaluated)" >&2
  exit 1
}
echo "accuracy: at least $wanted % for every seed"
