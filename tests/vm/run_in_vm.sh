#!/usr/bin/env bash
# Runs one command in a throw-away virtual machine. It boots Debian's stock kernel, which is downloaded
# and kept but never installed, and sees this host's root file system read-only below an overlay: every
# program and build of the host works inside, and what is written vanishes. Needs neither root nor KVM.
# usage: run_in_vm.sh [--with cards|rdma] [--timeout SECONDS] [--verbose] COMMAND [ARGUMENT...]
# cards (the default): an IOMMU and two Ethernet ports (e1000) bound to vfio-pci, their cables in one
#   hub; the command finds their PCI addresses in VM_PORTS, with a comma between them.
# rdma: two RDMA devices of the kernel's (soft-RoCE), rxe0 on veth0 (10.77.0.1, 10.77.1.1) and rxe1 on
#   veth1 (10.77.0.2, 10.77.1.2), with a cable between them that all packets take; $VM_CABLE sets
#   addresses and routes again after a veth was down.
# exit status: the command's; 124: it ran out of time; 125: there is no machine, and the reason is on
# standard error. Kernel and initramfs are kept in ${XDG_CACHE_HOME:-~/.cache}/spindrift-vm.
set -euo pipefail

die() {
  echo "run_in_vm: $*" >&2
  exit 125
}
need() { command -v "$1" >/dev/null 2>&1 || die "needs $1 (Debian: $2)"; }

limit=300
boot_limit=120
verbose=0
devices=cards
while (($# > 0)); do
  case $1 in
  --with)
    devices=${2:-}
    [[ $devices == cards || $devices == rdma ]] || die "--with takes cards or rdma, not '$devices'"
    shift 2
    ;;
  --timeout)
    limit=${2:-}
    [[ $limit =~ ^[1-9][0-9]*$ ]] || die "--timeout takes a number of seconds, not '$limit'"
    shift 2
    ;;
  --verbose)
    verbose=1
    shift
    ;;
  -*) die "there is no option $1" ;;
  *) break ;;
  esac
done
(($# > 0)) ||
  die "usage: run_in_vm.sh [--with cards|rdma] [--timeout SECONDS] [--verbose] COMMAND [ARGUMENT...]"
[[ $(uname -m) == x86_64 ]] || die "only hosts of x86-64 can"
need qemu-system-x86_64 qemu-system-x86
need apt-get apt
need dpkg-deb dpkg
need xz xz-utils
need flock util-linux

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/spindrift-vm
mkdir -p "$cache" || die "cannot make $cache"
work=$(mktemp -d) || die "no folder for temporary files"
qemu=''
clean_up() {
  [[ -z $qemu ]] || kill "$qemu" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 125' INT TERM HUP

# The first process of the guest, from the initramfs: the host's root below an overlay, then stage two
# there.
first_stage() {
  cat <<'END'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /vm /host /over /newroot
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
exec </dev/null >/dev/console 2>&1
fail() { echo "$*" >/vm/failed; echo "FAILED: $*"; sync; poweroff -f; sleep 10; }
for m in virtio_pci virtio_console 9pnet_virtio 9p overlay; do modprobe $m || fail "modprobe $m"; done
p9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $p9,access=any control /vm || fail "the control folder cannot be mounted"
mount -t 9p -o $p9,ro,cache=loose host /host || fail "the host's root cannot be mounted"
mount -t tmpfs -o size=75% tmpfs /over && mkdir /over/u /over/w &&
  mount -t overlay -o lowerdir=/host,upperdir=/over/u,workdir=/over/w overlay /newroot ||
  fail "no overlay over the host's root"
. /vm/settings
case $devices in cards) needed="vfio_iommu_type1 vfio-pci tun" ;; rdma) needed="ib_uverbs rdma_ucm rdma_rxe veth" ;; esac
for m in $needed; do modprobe $m || fail "modprobe $m"; done
ports=
[ $devices = rdma ] || echo Y >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts
[ $devices = rdma ] || for d in /sys/bus/pci/devices/*; do
  [ "$(cat $d/class)" = 0x020000 ] || continue
  echo vfio-pci >$d/driver_override; echo ${d##*/} >/sys/bus/pci/drivers_probe
  ports=${ports:+$ports,}${d##*/}
done
echo "export VM_PORTS=$ports" >/over/ports
cd /newroot
mkdir -p proc sys dev run
mount --move /proc proc; mount --move /sys sys; mount --move /dev dev
mount -t tmpfs -o mode=755 run run
mkdir -p dev/pts dev/shm run/vm run/modules
# What the kernel asks for later (rdma link, tc) it finds here as well.
mount --bind / run/modules; echo /bin/modprobe >proc/sys/kernel/modprobe
mount -t devpts devpts dev/pts; mount -t tmpfs -o mode=1777 shm dev/shm
mount --move /vm run/vm; cp /over/ports run/ports
chroot /newroot /bin/bash /run/vm/stage2 || echo "stage two FAILED"
sync; poweroff -f
END
}

# In the host's own system.
second_stage() {
  cat <<'END'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
. /run/vm/settings
ip link set lo up
# Both ends of the cable belong to one network namespace, as soft-RoCE wants: packets to an address of
# this host take the cable all the same.
cat >/run/cable <<'CABLE'
#!/bin/bash
for side in 0 1; do
  echo 1 >/proc/sys/net/ipv4/conf/veth$side/accept_local
  echo 0 >/proc/sys/net/ipv4/conf/veth$side/rp_filter
  ip link set veth$side up
  for net in 0 1; do
    ip addr replace 10.77.$net.$((side + 1))/24 dev veth$side
    ip neigh replace 10.77.$net.$((2 - side)) lladdr 02:00:00:00:00:0$((2 - side)) dev veth$side nud permanent
  done
done
for side in 0 1; do
  for net in 0 1; do
    ip route replace 10.77.$net.$((2 - side))/32 dev veth$side src 10.77.$net.$((side + 1)) table 77
  done
done
CABLE
chmod +x /run/cable
export VM_CABLE=/run/cable
if [ "$devices" = rdma ]; then
  ip link add veth0 mtu 4200 address 02:00:00:00:00:01 type veth peer name veth1 mtu 4200 \
    address 02:00:00:00:00:02
  echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  $VM_CABLE
  ip rule add pref 10 iif lo lookup 77
  ip rule add pref 20 lookup local
  ip rule del pref 0
  rdma link add rxe0 type rxe netdev veth0 || echo "rdma link add failed" >/run/vm/failed
  rdma link add rxe1 type rxe netdev veth1
fi
port() { for p in /sys/class/virtio-ports/*; do [ "$(cat "$p/name")" = "$1" ] && echo "/dev/${p##*/}"; done; }
mkfifo /run/out /run/err
cat /run/out >"$(port out)" &
cat /run/err >"$(port err)" &
touch /run/vm/ready
. /run/ports
ulimit -l unlimited
rc=0
timeout -k 10 "$limit" bash /run/vm/command >/run/out 2>/run/err </dev/null || rc=$?
wait
echo "$rc" >/run/vm/rc
END
}

# Modules of the kernel that the guest may need.
modules='drivers/virtio/* drivers/char/virtio_console.ko* net/9p/9pnet.ko* net/9p/9pnet_virtio.ko* fs/9p/*
  fs/netfs/* fs/fscache/* fs/overlayfs/* fs/configfs/* drivers/vfio/* virt/lib/irqbypass.ko* drivers/infiniband/core/*
  drivers/infiniband/sw/rxe/* drivers/net/veth.ko* net/ipv4/udp_tunnel.ko* net/ipv6/ip6_udp_tunnel.ko*
  net/sched/sch_netem.ko* net/sched/sch_multiq.ko* net/sched/cls_flower.ko* net/sched/act_skbedit.ko*
  net/sched/sch_ingress.ko* drivers/net/tun.ko* lib/crc* crypto/crc32*'

download() { # PACKAGE FOLDER
  mkdir -p "$2"
  (cd "$2" && apt-get -q download "$1" >"$work/apt" 2>&1) ||
    die "apt-get cannot download $1 ($(tail -n 1 "$work/apt")); was apt-get update run?"
}

# vmlinux is unpacked here, where that is faster than in the guest (Documentation/x86/boot: setup_sects,
# payload_offset, payload_length).
unpack_kernel() { # BZIMAGE OUT
  local sectors offset length
  number() { od -An "-tu$3" "-j$2" "-N$3" "$1" | tr -d ' '; }
  sectors=$(number "$1" 497 1) offset=$(number "$1" 584 4) length=$(number "$1" 588 4)
  ((sectors > 0)) || sectors=4
  dd if="$1" iflag=skip_bytes,count_bytes skip=$(((sectors + 1) * 512 + offset)) count="$length" bs=1M \
    status=none | xz -dc --single-stream >"$2"
}

# Sets $kernel: a folder with vmlinux and initramfs.
prepare_kernel() {
  local package version tree=$work/initramfs pattern busybox
  local -a wanted=()
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ <>]*\)$/\1/p' |
    head -n 1)
  [[ -n $package ]] || die "apt knows no linux-image-amd64; run apt-get update"
  kernel=$cache/$package-$( (first_stage; echo "$modules") | cksum | cut -d' ' -f1)
  exec 8>"$cache/lock"
  flock -w 600 8 || die "another one has held $cache/lock for 10 minutes"
  if [[ -e $kernel/complete ]]; then
    exec 8>&-
    return
  fi
  rm -rf "$kernel"
  mkdir -p "$kernel" "$tree/bin" "$work/kernel"
  download "$package" "$work/deb"
  set -f
  for pattern in $modules; do wanted+=("./lib/modules/*/kernel/$pattern"); done
  set +f
  # tar complains of patterns that match nothing; what counts is checked below.
  dpkg-deb --fsys-tarfile "$work"/deb/*.deb | tar -x -C "$work/kernel" --wildcards './boot/vmlinuz-*' \
    '*/modules.builtin*' '*/modules.order' "${wanted[@]}" 2>/dev/null || true
  set -- "$work"/kernel/boot/vmlinuz-*
  [[ -f $1 ]] || die "$package holds no kernel"
  version=${1##*/vmlinuz-}
  unpack_kernel "$1" "$kernel/vmlinux" || die "the kernel of $package cannot be unpacked"
  mv "$work/kernel/lib" "$tree/lib"
  find "$tree/lib" -name '*.ko.xz' -exec xz -d {} +
  [[ -n $(find "$tree/lib" -name 'vfio-pci.ko' -print -quit) ]] || die "$package has no vfio-pci"
  download busybox-static "$work/deb-busybox"
  dpkg-deb -x "$work"/deb-busybox/*.deb "$work/busybox"
  busybox=$work/busybox/bin/busybox
  [[ -x $busybox ]] || busybox=$work/busybox/usr/bin/busybox
  cp "$busybox" "$tree/bin/busybox"
  "$busybox" depmod -b "$tree" "$version"
  first_stage >"$tree/init"
  chmod 755 "$tree/init"
  (cd "$tree" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$kernel/initramfs"
  touch "$kernel/complete"
  exec 8>&-
}

prepare_kernel

# /dev/kvm alone is no proof: nested in software, a stock kernel crawls.
accelerator=(-accel tcg,thread=multi -cpu max)
if [[ -w /dev/kvm ]] && [[ -d /sys/module/kvm_intel || -d /sys/module/kvm_amd ]]; then
  accelerator=(-accel kvm,kernel-irqchip=split -cpu host)
fi

control=$work/control
mkdir "$control"
echo "limit=$limit devices=$devices" >"$control/settings"
second_stage >"$control/stage2"
{
  printf 'cd %q || exit 125\nexec' "$PWD"
  printf ' %q' "$@"
  echo
} >"$control/command"

mkfifo "$work/out" "$work/err"
cat "$work/out" &
cat_out=$!
cat "$work/err" >&2 &
cat_err=$!
setpriv --pdeathsig KILL -- qemu-system-x86_64 "${accelerator[@]}" -machine q35 -m 2048 -smp 2 -nodefaults \
  -no-user-config -display none -no-reboot -device intel-iommu,aw-bits=48 \
  -netdev hubport,hubid=0,id=cable0 -device e1000,netdev=cable0,mac=02:00:00:00:00:01 \
  -netdev hubport,hubid=0,id=cable1 -device e1000,netdev=cable1,mac=02:00:00:00:00:02 \
  -kernel "$kernel/vmlinux" -initrd "$kernel/initramfs" \
  -append "console=ttyS0 panic=-1 quiet mitigations=off nokaslr no5lvl no_timer_check intel_iommu=on audit=0" \
  -serial "file:$work/console" -device virtio-serial-pci \
  -chardev "file,id=out,path=$work/out" -device virtserialport,chardev=out,name=out \
  -chardev "file,id=err,path=$work/err" -device virtserialport,chardev=err,name=err \
  -virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap" \
  -virtfs "local,path=$control,mount_tag=control,security_model=none,multidevs=remap" \
  </dev/null >"$work/qemu.log" 2>&1 &
qemu=$!

began=$SECONDS
ready_at=''
late=''
while kill -0 "$qemu" 2>/dev/null; do
  if [[ -z $ready_at && -e $control/ready ]]; then ready_at=$SECONDS; fi
  if [[ -z $ready_at ]] && ((SECONDS - began > boot_limit)); then
    late=boot
    break
  fi
  if [[ -n $ready_at ]] && ((SECONDS - ready_at > limit + 30)); then
    late=command
    break
  fi
  sleep 0.1
done
kill "$qemu" 2>/dev/null || true
wait "$qemu" 2>/dev/null || true
qemu=''
for _ in {1..20}; do
  kill -0 "$cat_out" 2>/dev/null || kill -0 "$cat_err" 2>/dev/null || break
  sleep 0.1
done
kill "$cat_out" "$cat_err" 2>/dev/null || true
if ((verbose)); then sed 's/^/console: /' "$work/console" >&2 || true; fi
if [[ -e $control/rc ]]; then exit "$(cat "$control/rc")"; fi
if [[ $late == command ]]; then exit 124; fi
tail -n 15 "$work/console" "$work/qemu.log" >&2 || true
[[ ! -e $control/failed ]] || die "the guest failed: $(cat "$control/failed")"
[[ $late != boot ]] || die "the guest had not started after $boot_limit s"
die "the guest ended early"
