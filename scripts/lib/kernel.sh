# SPDX-License-Identifier: MIT
# For the recipes of kernels: from the source package that the root has.

# kernel_unpack TREE. GPU_BUDDY, which drivers select, gets a prompt, so that it can be
# asked for without the tests of DRM, which bring half of what displays need.
kernel_unpack()
{
	mkdir -p "$1"
	tar -C "$1" --strip-components=1 -xf /usr/src/linux-source-7.2.tar.xz
	cd "$1" || return 1
	sed -i '/^config GPU_BUDDY$/,/help/s/bool$/bool "Buddy allocator"/' drivers/gpu/Kconfig
}

# kernel_configure BASE CHANGES: an option that has gone, or has lost or won a
# dependency, must not go unnoticed.
kernel_configure()
{
	local line
	scripts/kconfig/merge_config.sh -m "$1" "$2"
	make -s olddefconfig
	while read -r line; do
		case $line in
		CONFIG_* | "# CONFIG_"*" is not set") grep -qxF "$line" .config ;;
		esac || { echo "not as asked for: $line"; exit 1; }
	done < "$2"
}

# kernel_build OUT [VARIABLE...]: bzImage, vmlinux, the modules. What is left of the
# tree serves out-of-tree modules.
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
