#!/bin/bash
# opencode run: one task from standard input, events as JSON lines on standard output.
set -u
export XDG_DATA_HOME="$BENCH_OUT_DIR/data" XDG_STATE_HOME="$BENCH_OUT_DIR/state" XDG_CACHE_HOME="$BENCH_OUT_DIR/cache"
mkdir -p "$XDG_DATA_HOME" "$XDG_STATE_HOME" "$XDG_CACHE_HOME"
OPENCODE_CONFIG_CONTENT=$(cat <<JSON
{"model": "bench/$BENCH_MODEL", "small_model": "bench/$BENCH_MODEL", "enabled_providers": ["bench"],
 "share": "disabled", "autoupdate": false, "lsp": false, "formatter": false,
 "permission": {"*": "allow", "webfetch": "deny", "websearch": "deny"},
 "provider": {"bench": {"npm": "@ai-sdk/openai-compatible",
  "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "{env:OPENAI_API_KEY}"},
  "models": {"$BENCH_MODEL": {"tool_call": true, "limit": {"context": 128000, "output": 16384}}}}}}
JSON
)
export OPENCODE_CONFIG_CONTENT
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" opencode -- \
  "${BENCH_AGENT_PYTHON%/bin/python}"/lib/node_modules/opencode-linux-*/bin/opencode \
  run --model "bench/$BENCH_MODEL" --format json --title task <"$BENCH_TASK_FILE"
