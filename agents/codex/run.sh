#!/bin/bash
# codex exec: one task from standard input, events as JSON lines on standard output.
set -u
# The program itself, and the tools that the package brings for it: its script for Node does no more than this.
vendor=$(echo "${BENCH_AGENT_PYTHON%/bin/python}"/lib/node_modules/@openai/codex-linux-*/vendor/*)
export PATH="$vendor/codex-path:$PATH" CODEX_HOME="$BENCH_OUT_DIR/codex" CODEX_MANAGED_BY_NPM=1
mkdir -p "$CODEX_HOME"
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" codex -- \
  "$vendor/bin/codex" exec \
  --json --skip-git-repo-check --ephemeral --dangerously-bypass-approvals-and-sandbox \
  --model "$BENCH_MODEL" --output-last-message "$BENCH_OUT_DIR/last_message.txt" \
  -c 'model_provider="bench"' \
  -c 'model_providers.bench.name="bench"' \
  -c "model_providers.bench.base_url=\"$OPENAI_BASE_URL\"" \
  -c 'model_providers.bench.env_key="OPENAI_API_KEY"' \
  -c 'model_providers.bench.wire_api="responses"' \
  -c 'model_providers.bench.request_max_retries=1' \
  -c 'model_providers.bench.stream_max_retries=1' \
  -c 'web_search="disabled"' -c analytics.enabled=false -c features.plugins=false -c allow_login_shell=false \
  - <"$BENCH_TASK_FILE"
