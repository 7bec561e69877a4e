#!/bin/bash
# aider: one message, the edits it leads to, the end.
set -u
export OPENAI_API_BASE="$OPENAI_BASE_URL"
# Without the facts of the model it asks for its price list from the network.
cat >"$BENCH_OUT_DIR/models.json" <<JSON
{"openai/$BENCH_MODEL": {"max_input_tokens": 128000, "max_output_tokens": 16384, "litellm_provider": "openai", "mode": "chat"}}
JSON
# Without git it knows no files but those it is told.
mapfile -d '' files < <(find . -type f -size -200k -not -path '*/.*' -print0 | head -z -n 100)
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" aider -- \
  aider --model "openai/$BENCH_MODEL" --weak-model "openai/$BENCH_MODEL" \
  --model-metadata-file "$BENCH_OUT_DIR/models.json" \
  --message-file "$BENCH_TASK_FILE" --yes-always --no-git --no-gitignore \
  --no-stream --no-pretty --no-check-update --no-show-release-notes --no-show-model-warnings \
  --no-detect-urls --no-suggest-shell-commands --analytics-disable \
  --input-history-file "$BENCH_OUT_DIR/input.txt" --chat-history-file "$BENCH_OUT_DIR/chat.md" \
  --llm-history-file "$BENCH_OUT_DIR/llm.txt" "${files[@]}"
