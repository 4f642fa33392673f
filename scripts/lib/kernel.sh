# SPDX-License-Identifier: MIT
# Functions for the recipes that build kernels, from the root's kernel source package.

# kernel_unpack TREE: gives GPU_BUDDY a prompt, so that a configuration can set it. Only
# drivers select it. DRM's tests would too, but need half of the display code.
kernel_unpack()
{
	mkdir -p "$1"
	tar -C "$1" --strip-components=1 -xf /usr/src/linux-source-7.2.tar.xz
	cd "$1" || return 1
	sed -i '/^config GPU_BUDDY$/,/help/s/bool$/bool "Buddy allocator"/' drivers/gpu/Kconfig
}

# kernel_configure BASE CHANGES: fails if an option of CHANGES does not get its value,
# because the kernel dropped the option or changed its dependencies
kernel_configure()
{
	local line
	scripts/kconfig/merge_config.sh -m "$1" "$2"
	make -s olddefconfig
	while read -r line; do
		case $line in
		CONFIG_* | "# CONFIG_"*" is not set") grep -qxF "$line" .config ;;
		esac || { echo "the kernel's configuration did not take: $line"; exit 1; }
	done < "$2"
}

# kernel_build OUT [VARIABLE...]: puts bzImage, vmlinux and the modules into OUT, and
# keeps the part of the tree that out-of-tree modules need
kernel_build()
{
	local out=$1
	shift
	make -j"$(nproc)" "$@" bzImage modules
	make -s INSTALL_MOD_PATH="$out" DEPMOD=true modules_install
	cp arch/x86/boot/bzImage vmlinux "$out"
	make -s kernelrelease > "$out/release"
	depmod -b "$out" "$(cat "$out/release")"
	find . \( -name '*.o' -o -name '*.a' -o -name '*.ko' -o -name '.*.cmd' \) \
		-not -path './scripts/*' -not -path './tools/*' -delete
}
