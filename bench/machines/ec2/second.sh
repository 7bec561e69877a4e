#!/bin/bash
# Second part of the machine's user data: the runner of one job. However this ends, the machine ends.
set -uo pipefail

end() {
    trap '' EXIT HUP INT TERM
    echo "mldb: power-off: $1"
    shutdown -P now || systemctl poweroff --force
    # Where something keeps the machine from ending in order.
    sleep 60
    systemctl poweroff --force --force
    exit 0
}
trap 'end "the boot script has ended"' EXIT
trap 'exit 1' HUP INT TERM

left=$((@EXPIRES@ - $(date +%s)))
[ "$left" -le @SECONDS@ ] || left=@SECONDS@
[ "$left" -ge 60 ] || left=60
shutdown -P "+$((left / 60))" || exit 1

started=/run/mldb/started
(
    trap - EXIT HUP INT TERM
    sleep @IDLE_SECONDS@
    [ -e "$started" ] || end "no job came"
) </dev/null &

# The metadata service knows this text, with the runner's configuration: it is for root alone.
iptables -w -I OUTPUT -d 169.254.169.254 -m owner '!' --uid-owner 0 -j REJECT || exit 1
iptables -w -I FORWARD -d 169.254.169.254 -j REJECT || exit 1

id -u @USER@ >/dev/null || exit 1
[ "$(id -u @USER@)" -ne 0 ] || exit 1
install -d -o @USER@ -m 0755 /run/mldb || exit 1
install -d -m 0755 /run/mldb-hooks || exit 1
printf '#!/bin/sh\n: >%s\n' "$started" >/run/mldb-hooks/job-started || exit 1
chmod 0755 /run/mldb-hooks/job-started || exit 1

if [ @SPOT@ = yes ]; then
    (
        trap - EXIT HUP INT TERM
        metadata=http://169.254.169.254/latest
        while sleep 5; do
            token=$(curl -sf -m 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token") || continue
            curl -sf -m 2 -o /dev/null -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/spot/instance-action" || continue
            # Cells under way end as interrupted, and what is finished is uploaded: two minutes are left.
            pkill -TERM -o -u @USER@ -f 'bench action run-shard'
            break
        done
    ) </dev/null &
fi

cd "@FOLDER@" || exit 1
(
    # In the environment, which other accounts cannot read, unlike a command line.
    export ACTIONS_RUNNER_INPUT_JITCONFIG='@CONFIGURATION@'
    export ACTIONS_RUNNER_HOOK_JOB_STARTED=/run/mldb-hooks/job-started
    exec runuser -u @USER@ -- ./run.sh
) </dev/null &
wait "$!"
echo "mldb: the runner has ended with $?"
