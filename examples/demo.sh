#!/bin/sh
# The main job, step by step: `make demo` runs this with DISTIR set to the installed command.
set -eu
cd "$(dirname "$0")/.."
DISTIR=${DISTIR:-distir}
PYTHON=$(dirname "$DISTIR")/python
[ -x "$PYTHON" ] || PYTHON=python3

say() {
  if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

say '1. Check: names, types, shapes, devices of every example'
"$DISTIR" check examples

say '2. Run: the pipeline over two devices gives what the sequential program gives'
"$PYTHON" examples/same_results.py examples/mlp_sequential.dir examples/mlp_pipeline.dir

say '3. Simulate: when each op runs, what each device waits for, how much memory it needs'
"$DISTIR" simulate examples/mlp_pipeline.dir

say "4. Compare: the paper's figure 3. Two lines swapped, the same results, a slower schedule"
diff examples/mlp_pipeline.dir examples/mlp_pipeline_swapped.dir || true
for schedule in mlp_pipeline mlp_pipeline_swapped; do
  printf '%-24s' "$schedule"
  "$DISTIR" simulate "examples/$schedule.dir" --json |
    "$PYTHON" -c 'import json, sys; print("%.2f ms" % (1e3 * json.load(sys.stdin)["latency_s"]))'
done
