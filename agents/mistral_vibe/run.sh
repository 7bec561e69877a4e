#!/bin/bash
# vibe: one task from standard input, events as JSON lines on standard output.
set -u
export VIBE_HOME="$BENCH_OUT_DIR/vibe"
mkdir -p "$VIBE_HOME"
cat >"$VIBE_HOME/config.toml" <<TOML
active_model = "bench"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false

[[providers]]
name = "bench"
api_base = "$OPENAI_BASE_URL"
api_key_env_var = "OPENAI_API_KEY"
backend = "generic"

[[models]]
name = "$BENCH_MODEL"
provider = "bench"
alias = "bench"
TOML
exec "$BENCH_AGENT_PYTHON" -I -S -B "${0%/*}/../_shared/usage/report_usage.py" mistral_vibe -- \
  vibe -p --yolo --trust --output streaming <"$BENCH_TASK_FILE"
