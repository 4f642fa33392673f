# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions of scripts/vm: QEMU's command line, and the verdict on a run.

# Prints kvm or tcg. A /dev/kvm that opens is not enough for KVM: some hosts have it
# without vmx or svm, and a guest hangs there for ever.
vm_accel()
{
	if [ -n "${OPENREG_ACCEL:-}" ]; then
		echo "$OPENREG_ACCEL"
	elif grep -qwE 'vmx|svm' /proc/cpuinfo && [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
		echo kvm
	else
		echo tcg
	fi
}

# QEMU is built in the root. LOADER runs it on the host with the root's libraries.
vm_loader()
{
	local root
	root=$(root_path)
	LOADER=("$root/lib64/ld-linux-x86-64.so.2" --library-path
		"$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu/openblas-pthread")
	PYTHON=(env "PYTHONHOME=$root/usr" "${LOADER[@]}" "$root/usr/bin/python3" -BS)
}

# Builds what the labs without a VM need, and exports the paths in the root.
lab_paths()
{
	local name path
	"$here/build" card sim lib plugin labs
	for name in card sim lib plugin labs; do
		path=/cache$(component_path "$name" | sed "s,^$OPENREG_CACHE,,")
		[ "$name" != labs ] || name=out
		export "LAB_${name^^}=$path"
	done
}

# QEMU cannot migrate a VM with shared directories. Such a VM gets a disk with copies of
# the checkout and of the components that --with names.
vm_copies()
{
	local tree=$RUN/tree root name
	root=$(root_path)
	mkdir -p "$tree/openreg" "$tree/cache"
	(cd "$OPENREG_SRC" && list_files ./[!.]* |
		xargs -0 cp -P --parents --preserve=mode,timestamps -t "$tree/openreg")
	for name in ${DRIVER:+"$kmod"} "boot$suffix" ${WITH//,/ }; do
		mkdir -p "$tree$(guest_path "$name")"
		cp -r "$(component_path "$name")/." "$tree$(guest_path "$name")"
	done
	truncate -s 4G "$RUN/copies.ext4"
	MKE2FS_CONFIG=$root/etc/mke2fs.conf "${LOADER[@]}" "$root/usr/sbin/mke2fs" -q \
		-t ext4 -O '^has_journal,^resize_inode' -E lazy_itable_init=1 \
		-d "$tree" "$RUN/copies.ext4"
	remove_tree "$tree"
}

# Makes the disk image that takes the guest's writes and its saved state.
vm_overlay()
{
	rm -f "$RUN/disk.qcow2"
	"${LOADER[@]}" "$QEMU/qemu-img" create -q -f qcow2 -F raw \
		-b "$(realpath "$DISK/root.ext4")" "$RUN/disk.qcow2"
}

vm_machine_arguments()
{
	local root machine=q35
	root=$(root_path)
	ARGS+=(-L "$root/usr/share/seabios" -L "$root/usr/share/qemu"
		-nodefaults -no-user-config -display none -no-reboot -m "$MEM"
		-smp "cpus=$CPUS,maxcpus=$((CPUS > 2 ? CPUS : 2))")
	case $ACCEL in
	kvm) ARGS+=(-accel kvm -cpu host) ;;
	# With one thread for all processors, TCG compiles locked instructions to plain
	# ones. They are then not atomic towards the card's threads. A fifth level of
	# page tables only costs time.
	tcg) ARGS+=(-accel 'tcg,thread=multi' -cpu 'max,la57=off') ;;
	esac
	if [ -n "$IOMMU" ]; then
		machine+=,kernel-irqchip=split
		ARGS+=(-device 'intel-iommu,intremap=on')
	fi
	ARGS+=(-machine "$machine")
}

# vm_reserve VRAM: has the firmware reserve addresses at each root port, for a card that
# is plugged in later. Twice the size of VRAM always holds one aligned block of it.
vm_reserve()
{
	ARGS+=(-global "pcie-root-port.pref64-reserve=$((2 * $(numfmt --from=iec "${1^^}")))")
}

# vm_share TAG DIRECTORY [OPTION]: shares DIRECTORY with the guest by 9p
vm_share()
{
	ARGS+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3:+,$3}"
		-device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

vm_port()
{
	ARGS+=(-chardev "$2,id=$1" -device "virtserialport,chardev=$1,name=org.openreg.$1")
}

vm_disks()
{
	local i
	if [ ${#MOVES[@]} -gt 0 ]; then
		ARGS+=(-drive "if=none,id=disk,file=$RUN/disk.qcow2,format=qcow2"
			-device 'virtio-blk-pci,drive=disk'
			-drive "if=none,id=copies,file=$RUN/copies.ext4,format=raw,readonly=on"
			-device 'virtio-blk-pci,drive=copies')
		return
	fi
	ARGS+=(-drive "if=none,id=disk,file=$DISK/root.ext4,format=raw,snapshot=on"
		-device 'virtio-blk-pci,drive=disk')
	vm_share openreg "$OPENREG_SRC"
	vm_share cache "$OPENREG_CACHE" readonly=on
	for ((i = 0; i < ${#SHARES[@]}; i++)); do
		vm_share "share$i" "${SHARES[i]%%:*}"
	done
}

vm_device_arguments()
{
	local i event
	ARGS+=(-device virtio-rng-pci)
	vm_disks
	[ -z "$NODE" ] || vm_network
	# append=on: after a migration the next QEMU appends to the same log.
	ARGS+=(-chardev "file,id=console,path=$RUN/console,append=on"
		-serial chardev:console
		-device virtio-serial-pci -add-fd 'fd=3,set=1' -add-fd 'fd=4,set=2')
	if [ -n "$INTERACTIVE" ]; then
		ARGS+=(-chardev 'stdio,id=tty,signal=off'
			-device 'virtconsole,chardev=tty')
	fi
	vm_port out file,path=/dev/fdset/1,append=on
	vm_port err file,path=/dev/fdset/2,append=on
	vm_port status "file,path=$RUN/status"
	# The guest's port connects to the monitor's socket: the guest controls its own VM.
	if [ -n "$MONITOR" ]; then
		ARGS+=(-chardev "socket,id=qmp,path=$RUN/monitor,server=on,wait=off"
			-mon 'chardev=qmp,mode=control')
		vm_port monitor "socket,path=$RUN/monitor"
	fi
	if [ -n "$CONTROL" ]; then
		ARGS+=(-chardev "socket,id=qmp,path=$RUN/qmp,server=on,wait=off"
			-mon 'chardev=qmp,mode=control'
			-d guest_errors -trace 'openreg_*' -D "$RUN/trace")
		vm_port control "socket,path=$RUN/control,server=on,wait=off"
	fi
	if [ -n "$HOST_TRACE" ]; then
		for event in doorbell raise reg_read reset save load pause unpause; do
			ARGS+=(-trace "openreg_$event")
		done
		ARGS+=(-msg timestamp=on -D "$HOST_TRACE/qemu.%d")
	fi
	for ((i = 0; i < CARDS; i++)); do
		ARGS+=(-device "pcie-root-port,id=port$i,chassis=$((i + 1)),slot=$((i + 1))"
			-device "openreg,id=card$i,bus=port$i${VRAM:+,vram-size=$VRAM}$PROPERTIES${OF_CARD[i]:-}")
	done
	[[ ${DEVICES[*]} != *pcie-root-port* ]] || vm_reserve "${VRAM:-1G}"
	for ((i = 0; i < ${#DEVICES[@]}; i++)); do
		ARGS+=(-device "${DEVICES[i]}")
	done
}

vm_boot_arguments()
{
	local khz line="console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off"
	line+=" no_timer_check nowatchdog cryptomgr.notests random.trust_cpu=on"
	# The kernel must not clear memory, or it would hide a driver that fails to. It also
	# takes time.
	line+=" init_on_alloc=0"
	[ -z "$IOMMU" ] || line+=" intel_iommu=on iommu.passthrough=0"
	# TCG's time stamp counter runs at the host's rate. On a busy host a guest that
	# measures the rate may be wrong by a factor of forty, and so is its clock. Trust
	# the counter: after the kernel changed to another clock, timed sleeps did not end.
	if [ "$ACCEL" = tcg ]; then
		khz=$("${LOADER[@]}" "$BOOT/tsc-khz")
		line+=" tsc=reliable${khz:+" tsc_early_khz=$khz"}"
	fi
	ARGS+=(-kernel "$BOOT/kernel" -initrd "$BOOT/initramfs"
		-append "$line $KERNEL_OPTIONS"
		-fw_cfg "name=opt/openreg/run,file=$RUN/run")
}

# vm_run_file [COMMAND...]: prints the shell code that scripts/guest/init evaluates
vm_run_file()
{
	local i
	echo "MODULES=${BOOT_IN_GUEST:+$BOOT_IN_GUEST/modules}"
	echo "DRIVER=${DRIVER:-}"
	echo "NODE=${NODE:-} NODES=${NODES:-}"
	printf 'DRIVER_OPTIONS=%q\n' "$DRIVER_OPTIONS"
	for ((i = 0; i < ${#SHARES[@]}; i++)); do
		printf 'SHARES+=(%q)\n' "share$i:${SHARES[i]#*:}"
	done
	[ ${#COPIES[@]} -eq 0 ] || printf 'COPIES+=(%q)\n' "${COPIES[@]}"
	[ ${#EXPORTS[@]} -eq 0 ] || printf 'export %q\n' "${EXPORTS[@]}"
	if [ -n "$INTERACTIVE" ]; then
		printf 'SHELL_TERM=%q SHELL_SIZE=%q\n' "${TERM:-dumb}" \
			"$(stty size 2>/dev/null | sed 's/\(.*\) \(.*\)/rows \1 cols \2/')"
	fi
	printf 'COMMAND=('
	[ $# -eq 0 ] || printf ' %q' "$@"
	echo ')'
}

# Patterns for reports of the kernel and its checkers, and of sanitizers in QEMU.
KERNEL_REPORTS='WARNING: |BUG: |BUG [a-z]|kernel BUG at|Oops|Kernel panic|general protection fault'
KERNEL_REPORTS+='|UBSAN: |KASAN: |KCSAN: |DMA-API: |ODEBUG: |refcount_t: |unreferenced object'
KERNEL_REPORTS+='|INFO: (possible|suspicious|trying|task|rcu)|rcu: INFO|list_(add|del) corruption|\[ cut here \]'
QEMU_REPORTS='ERROR: [A-Za-z]*Sanitizer|WARNING: ThreadSanitizer|runtime error:|Assertion|core dumped'

vm_tail()
{
	[ -s "$1" ] || return 0
	say "--- the end of the ${1##*/} (use --keep to keep all of it):"
	tail -n 60 "$1" | tr -d '\r' >&2
}

# Prints the console. Leaves out DMA-API debugging's messages about switching itself off
# after a test made one of its allocations fail.
vm_console()
{
	awk '/openreg-tests: allocations fail on purpose/ { purpose = 1 }
		!purpose || !/DMA-API: (cacheline tracking ENOMEM|it is off)/' "$RUN/console"
}

# Prints reports of the guest's kernel and of QEMU; false if one of them reported.
vm_judge()
{
	local good=0
	if grep -qE "$KERNEL_REPORTS" <(vm_console); then
		say "the guest's kernel reported a problem, its log:"
		tr -d '\r' < "$RUN/console" | grep -vE '^\s*$' >&2
		good=1
	fi
	if grep -qE "$QEMU_REPORTS" "$RUN/qemu"; then
		say "QEMU reported a problem:"
		cat "$RUN/qemu" >&2
		good=1
	fi
	return "$good"
}
