#!/bin/bash
# qwen: one task from standard input, events as JSON lines on standard output.
set -u
export QWEN_HOME="$BENCH_OUT_DIR/qwen"
mkdir -p "$QWEN_HOME"
echo '{"privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}' >"$QWEN_HOME/settings.json"
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" qwen_code -- \
  qwen --approval-mode yolo --auth-type openai --model "$BENCH_MODEL" --output-format stream-json <"$BENCH_TASK_FILE"
