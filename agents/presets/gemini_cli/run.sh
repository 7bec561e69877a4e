#!/bin/bash
# gemini: one task from standard input. GOOGLE_GEMINI_BASE_URL must lead to a translator that you start here.
set -u
export PATH="$(dirname "$0")/node_modules/.bin:$PATH"
if [[ -z ${GOOGLE_GEMINI_BASE_URL:-} ]]; then
  echo "gemini_cli: the gateway does not speak Gemini's protocol; start a translator here and set GOOGLE_GEMINI_BASE_URL" >&2
  exit 1
fi
export GEMINI_API_KEY="$OPENAI_API_KEY" GEMINI_CLI_HOME="$BENCH_OUT_DIR" GEMINI_CLI_TRUST_WORKSPACE=true
mkdir -p "$GEMINI_CLI_HOME/.gemini"
cat >"$GEMINI_CLI_HOME/.gemini/settings.json" <<'JSON'
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}
JSON
exec gemini --model "$BENCH_MODEL" --approval-mode yolo --output-format stream-json \
  --prompt "Do the task above." <"$BENCH_TASK_FILE"
