#!/bin/bash
# qwen: one task from standard input, events as JSON lines on standard output.
set -u
export QWEN_HOME="$BENCH_OUT_DIR/qwen"
mkdir -p "$QWEN_HOME"
echo '{"privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}' >"$QWEN_HOME/settings.json"
exec qwen --approval-mode yolo --auth-type openai --model "$BENCH_MODEL" --output-format stream-json <"$BENCH_TASK_FILE"
