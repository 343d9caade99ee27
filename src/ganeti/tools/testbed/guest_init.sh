#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# First process of the heartbeat guest: it writes a counter to its disk, and says so only once the disk has it.
#
# Disk 0: sector 0 the latest beat, sectors 8..11 the configuration (key=value lines), sectors 64..1087 a ring of beats.
# Console: "BOOTED-OK ...", "HB-RESUME n" (what the disk held), then "HB n" for every beat the disk acknowledged.
# With ack=IP:PORT every acknowledged beat also goes out over TCP, as a line "NAME n".
# Kernel command line, stronger than the disk: hostname= addr=IP[/LEN] gw= hb=BEATS_PER_SECOND ack=IP:PORT; IPv6 as
# ack=[IP]:PORT.
export PATH=/bin HOME=/ TERM=linux
ring_start=64
ring_sectors=1024
rate=1 hostname=guest addr= gw= ack=

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts && mount -t devpts pts /dev/pts
mount -t tmpfs tmp /run
while read -r module; do insmod "/modules/$module.ko" 2>/dev/null; done </modules/order

echo online >/sys/devices/system/memory/auto_online_blocks 2>/dev/null

disk=
find_disk() {
  local try name
  for try in 1 2 3 4 5; do
    for name in vda sda nvme0n1; do [ -b "/dev/$name" ] && disk=/dev/$name && return; done
    read -r -t 0.1 _ <>/run/never
  done
}
mkfifo /run/never
find_disk

set_option() {
  case $1 in
    hostname=*) hostname=${1#*=} ;;
    addr=*) addr=${1#*=} ;;
    gw=*) gw=${1#*=} ;;
    hb=*) rate=${1#*=} ;;
    ack=*) ack=${1#*=} ;;
  esac
}
if [ -n "$disk" ]; then
  dd if=$disk of=/run/config bs=512 skip=8 count=4 2>/dev/null
  read -r magic </run/config
  if [ "$magic" = "ganeti-heartbeat 1" ]; then
    while read -r line && [ "$line" != end ]; do set_option "$line"; done </run/config
  fi
fi
read -r cmdline </proc/cmdline
for word in $cmdline; do set_option "$word"; done

hostname "$hostname"
ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
  # An address is used at once, without asking first whether somebody else has it.
  echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
  ip link set eth0 up
  case $addr in
    '') ;;
    */*) ip addr add "$addr" dev eth0 ;;
    *:*) ip -6 addr add "$addr/64" dev eth0 ;;
    *) ip addr add "$addr/24" dev eth0 ;;
  esac
  case $gw in '') ;; *:*) ip -6 route add default via "$gw" ;; *) ip route add default via "$gw" ;; esac
fi

# The ACPI power button is the only thing that reports events there; it ends the guest at once, for its disk is in order.
# The device is open before BOOTED-OK is printed: an event that nobody has opened the device for is lost.
for input in /sys/class/input/event*; do
  if grep -q '^Power Button' "$input/device/name" 2>/dev/null; then
    exec 5<"/dev/input/${input##*/}"
    ( dd bs=24 count=1 <&5 >/dev/null 2>&1 && echo POWER-BUTTON >/dev/console; poweroff -f ) &
    exec 5<&-
  fi
done

mkdir -p /run/www
echo "$hostname" >/run/www/index.html
httpd -h /run/www

# A shell for whoever presses Enter on the console; beats go on, but are not printed into it.
cat >/run/profile <<'PROFILE'
PS1="$(hostname):\w# "
# What the guest has: addresses of NICs, NICs on PCI, sectors of disks, sectors of CDs, processors, memory in KiB.
devices() {
  macs=$(cat /sys/class/net/eth*/address 2>/dev/null)
  nics=$(grep -l ^0x0200 /sys/bus/pci/devices/*/class | wc -l)
  disks=$(cat /sys/block/[sv]d*/size 2>/dev/null)
  for drive in /dev/sr*; do true <"$drive"; done 2>/dev/null # the kernel looks for another CD when one is opened
  cds=$(cat /sys/block/sr*/size 2>/dev/null)
  cpus=$(ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l)
  read -r _ memory _ </proc/meminfo
  echo HAS=$macs=$nics=$disks=$cds=$cpus=$memory=
}
alias poweroff='poweroff -f' reboot='reboot -f' halt='poweroff -f'
PROFILE
(
  while :; do
    read -r _ </dev/ttyS0 || exit
    : >/run/quiet
    ENV=/run/profile setsid cttyhack sh </dev/ttyS0 >/dev/ttyS0 2>&1
    rm /run/quiet
    echo "(shell ended; press Enter for another)" >/dev/ttyS0
  done
) &

beat=0
if [ -n "$disk" ]; then
  read -r first _ <<FIRST
$(dd if=$disk bs=512 count=1 iflag=direct 2>/dev/null | tr -d '\0')
FIRST
  case $first in '' | *[!0-9]*) ;; *) beat=${first#"${first%%[!0]*}"} ; beat=${beat:-0} ;; esac
fi
pause=$(awk "BEGIN { print 1 / ($rate > 0 ? $rate : 1) }")
echo "BOOTED-OK $hostname ${addr:-no-address} ${disk:-no-disk}; press Enter for a shell"
echo "HB-RESUME $beat"

# One process sends every acknowledgement; it is started again should nobody have listened.
trap '' PIPE
mkfifo /run/ack
listener=${ack%:*} listener=${listener#[} listener=${listener%]}
sender=
acknowledge() {
  echo "$1" >/run/www/beat
  [ -e /run/quiet ] || echo "HB $1"
  [ -n "$ack" ] || return
  if [ -z "$sender" ] || ! kill -0 "$sender" 2>/dev/null; then
    exec 4<>/run/ack
    nc -w 2 "$listener" "${ack##*:}" </run/ack >/dev/null 2>&1 &
    sender=$!
  fi
  echo "$hostname $1" >&4
}

write_sector() { # SECTOR FLAGS
  dd of=$disk bs=512 count=1 seek="$1" iflag=fullblock oflag=direct conv="$2" 2>/dev/null
}

while :; do
  next=$((beat + 1))
  if [ -n "$disk" ]; then
    read -r uptime _ </proc/uptime
    text=$(printf '%08d %s %s' $next "$uptime" "$hostname")
    if printf '%-511s\n' "$text" | write_sector $((ring_start + next % ring_sectors)) notrunc &&
      printf '%-511s\n' "$text" | write_sector 0 notrunc,fsync; then
      beat=$next
      acknowledge $beat
    else
      echo "HB-FAIL $next"
    fi
  else
    beat=$next
    [ -e /run/quiet ] || echo "TICK $beat"
  fi
  read -r -t "$pause" _ <>/run/never
done
