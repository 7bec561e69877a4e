#!/bin/bash
# claude --print: one task from standard input, events as JSON lines on standard output.
set -u
packages="${BENCH_AGENT_PYTHON%/bin/python}/lib/node_modules"
export CLAUDE_CONFIG_DIR="$BENCH_OUT_DIR/claude"
mkdir -p "$CLAUDE_CONFIG_DIR"
# One turn more than the run allows: the gateway refuses it, which puts the limit on record as what ended the work.
# Whatever class of model it would choose for its helpers, there is one model here.
export ANTHROPIC_MODEL="$BENCH_MODEL" ANTHROPIC_DEFAULT_OPUS_MODEL="$BENCH_MODEL"
export ANTHROPIC_DEFAULT_SONNET_MODEL="$BENCH_MODEL" ANTHROPIC_DEFAULT_HAIKU_MODEL="$BENCH_MODEL"
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" claude_code -- \
  "$packages"/@anthropic-ai/claude-code-linux-*/claude --print --verbose --output-format stream-json \
  --model "$BENCH_MODEL" --max-turns "$((BENCH_MAX_STEPS + 1))" \
  --dangerously-skip-permissions --disallowedTools "WebSearch,WebFetch" \
  <"$BENCH_TASK_FILE"
