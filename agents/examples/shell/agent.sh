#!/bin/bash
# A whole agent: curl asks the model, jq reads its answer, bash does what it says. Status 0: done, 1: no answer.
set -uo pipefail
history="$BENCH_OUT_DIR/history.json" answer="$BENCH_OUT_DIR/answer.json"
system='You work in a Linux shell, in the current folder. Answer with one ```bash block; you then see what it printed.
Nobody can answer questions. When the task is complete, answer with the one word DONE.'
say() { # role text: one more message
  jq --arg role "$1" --rawfile content <(printf %s "$2") '. + [{$role, $content}]' "$history" >"$history.new" &&
    mv "$history.new" "$history"
}
echo '[]' >"$history"
say system "$system"
say user "$(cat "$BENCH_TASK_FILE")"
# One call more than allowed: the gateway refuses it, which puts the limit on record.
for ((step = 0; step <= BENCH_MAX_STEPS; step++)); do
  jq --arg model "$BENCH_MODEL" '{$model, messages: .}' "$history" |
    curl --silent --show-error --fail-with-body --max-time 900 --data @- --output "$answer" \
      --header "Authorization: Bearer $OPENAI_API_KEY" --header "Content-Type: application/json" \
      "$OPENAI_BASE_URL/chat/completions" || { cat "$answer" >&2; exit 1; }
  text=$(jq -r '.choices[0].message.content // ""' "$answer")
  say assistant "$text"
  command=$(sed -n '/^```bash *$/,/^``` *$/{/^```/d;p}' <<<"$text")
  if [[ -n $command ]]; then
    output=$(timeout 600 bash -c "$command" </dev/null 2>&1)
    status=$?
    ((${#output} > 8000)) && output="${output:0:4000}"$'\n[...]\n'"${output: -4000}"
    say user "$output"$'\n'"[status $status]"
  elif [[ $text == *DONE* ]]; then exit 0
  else say user 'Answer with one ```bash block, or with DONE.'; fi
done
