# Sourced: is the appliance of a data folder running? scripts/enter holds a lock on DIR/.alive for as long as it does.
# alive_pid FILE: sets alive_pid to the host pid of its first process; false when nothing holds the lock.
alive_pid() {
    alive_pid=
    [ -f "$1" ] || return 1
    # A reader's lock, so that two who ask at the same time do not take each other for the appliance.
    if flock --shared --nonblock "$1" true; then return 1; fi
    local end=$((SECONDS + 5))
    while [ $SECONDS -lt $end ]; do # the lock is there a moment before the pid
        read -r alive_pid <"$1" 2>/dev/null || alive_pid=
        if [ -n "$alive_pid" ] && kill -0 "$alive_pid" 2>/dev/null; then return 0; fi
        if flock --shared --nonblock "$1" true; then return 1; fi
        sleep 0.05
    done
    return 1
}

# alive_stop FILE PID: asks it to stop in order, and waits until all of it is gone; the appliance bounds each part.
alive_stop() {
    kill -TERM "$2" 2>/dev/null || true
    flock --shared --timeout 120 "$1" true && return 0
    kill -KILL "$2" 2>/dev/null || true
    flock --shared --timeout 10 "$1" true && echo "it had to be killed" >&2
    return 1
}
