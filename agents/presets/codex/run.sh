#!/bin/bash
# codex exec: one task from standard input, events as JSON lines on standard output.
set -u
export PATH="$(dirname "$0")/node_modules/.bin:$PATH"
export CODEX_HOME="$BENCH_OUT_DIR/codex"
mkdir -p "$CODEX_HOME"
exec codex exec \
  --json --skip-git-repo-check --ephemeral --dangerously-bypass-approvals-and-sandbox \
  --model "$BENCH_MODEL" --output-last-message "$BENCH_OUT_DIR/last_message.txt" \
  -c 'model_provider="bench"' \
  -c 'model_providers.bench.name="bench"' \
  -c "model_providers.bench.base_url=\"$OPENAI_BASE_URL\"" \
  -c 'model_providers.bench.env_key="OPENAI_API_KEY"' \
  -c 'model_providers.bench.wire_api="responses"' \
  -c 'model_providers.bench.request_max_retries=1' \
  -c 'model_providers.bench.stream_max_retries=1' \
  -c 'web_search="disabled"' \
  - <"$BENCH_TASK_FILE"
