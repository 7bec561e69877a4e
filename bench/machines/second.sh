#!/bin/bash
# The runner of one job. However this ends, the machine ends.
set -uo pipefail

end() {
    trap '' EXIT HUP INT TERM
    echo "mldb: power-off: $1"
    if [ @ENDS@ = cluster ]; then
        # The cluster's own agent deletes the machine, disks and all, once this job is over; a power-off would leave it
        # a stopped one. The timers are for where that agent does not.
        kill $(jobs -p) 2>/dev/null
        pkill -KILL -u @USER@
        exit 0
    fi
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
# A pod has no power to switch off: its deadline is in the request that made it.
shutdown -P "+$((left / 60))" || [ @ENDS@ = cluster ] || exit 1

started=/run/mldb/started
(
    trap - EXIT HUP INT TERM
    sleep @IDLE_SECONDS@
    [ ! -e "$started" ] || exit 0
    [ @ENDS@ = cluster ] || end "no job came"
    kill -TERM "$$"
) </dev/null &

if [ @ENDS@ = cluster ] && [ "$left" -gt @EARLY_SECONDS@ ]; then
    (
        trap - EXIT HUP INT TERM
        sleep "$((left - @EARLY_SECONDS@))"
        kill -TERM "$$"
    ) </dev/null &
fi

# The metadata service knows this text, with the runner's configuration: it is not for the runner's account.
iptables -w -I OUTPUT -d 169.254.169.254 -m owner @KEPT@ -j REJECT || exit 1
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
    export ACTIONS_RUNNER_INPUT_JITCONFIG="@CONFIGURATION@"
    unset MLDB_RUNNER_CONFIGURATION
    export ACTIONS_RUNNER_HOOK_JOB_STARTED=/run/mldb-hooks/job-started
    exec runuser -u @USER@ -- ./run.sh
) </dev/null &
wait "$!"
echo "mldb: the runner has ended with $?"
