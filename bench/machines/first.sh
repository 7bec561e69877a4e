#!/bin/sh
# Before anything else: where there is cloud-init, it runs this at every start.
# It needs no network and nothing of the image but a shell and systemd.
left=$((@EXPIRES@ - $(date +%s)))
# A clock that is wrong must not make the lease longer.
[ "$left" -le @SECONDS@ ] || left=@SECONDS@
[ "$left" -ge 60 ] || left=60
shutdown -P "+$((left / 60))"
# So early the service behind `shutdown` may not answer yet, so there are two more timers that do not need it.
systemd-run --on-active="$left" systemctl poweroff --force
(sleep "$((left + 60))"; systemctl poweroff --force --force) </dev/null >/dev/null 2>&1 &
# A machine is used once: one that starts again has lost its runner.
boot=$(cat /proc/sys/kernel/random/boot_id)
if [ -e /var/lib/mldb-boot ] && [ "$(cat /var/lib/mldb-boot)" != "$boot" ]; then
    systemctl poweroff --force
fi
echo "$boot" >/var/lib/mldb-boot
exit 0
