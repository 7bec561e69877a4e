#!/bin/bash
# gemini: one task from standard input, events as JSON lines on standard output.
set -u
export GEMINI_CLI_HOME="$BENCH_OUT_DIR" GEMINI_CLI_TRUST_WORKSPACE=true
mkdir -p "$GEMINI_CLI_HOME/.gemini"
cat >"$GEMINI_CLI_HOME/.gemini/settings.json" <<'JSON'
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
 "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}}
JSON
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" gemini_cli -- \
  gemini --model "$BENCH_MODEL" --approval-mode yolo --output-format stream-json \
  --prompt "Do the task above." <"$BENCH_TASK_FILE"
