# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions of scripts/vm --nodes: several VMs on one network.

# Adds the network card of this node. A hub in the QEMU of node 0 is the network, and the
# other nodes connect to its sockets.
vm_network()
{
	local i mac
	# shellcheck disable=SC2153 # scripts/vm sets NODE
	if [ "$NODE" -eq 0 ]; then
		ARGS+=(-netdev 'hubport,id=net,hubid=0')
		for ((i = 1; i < NODES; i++)); do
			ARGS+=(-netdev "stream,id=node$i,server=on,addr.type=unix,addr.path=$NETWORK/$i"
				-netdev "hubport,id=hub$i,hubid=0,netdev=node$i")
		done
	else
		ARGS+=(-netdev "stream,id=net,server=off,reconnect-ms=100,addr.type=unix,addr.path=$NETWORK/$NODE")
	fi
	printf -v mac '52:54:00:00:00:%02x' $((NODE + 1))
	ARGS+=(-device "virtio-net-pci,netdev=net,mac=$mac,romfile=")
}

# vm_nodes ARGUMENT...: runs scripts/vm with these for each node. Each line of the output
# begins with the node's number. Returns when all nodes have ended, or one has failed: then
# with its status.
vm_nodes()
{
	local node out err filters=() ended status=0
	NETWORK=$(mktemp -d "${TMPDIR:-/tmp}/openreg-nodes.XXXXXX")
	declare -gA RUNNING=()
	trap vm_end_nodes EXIT
	for ((node = 0; node < NODES; node++)); do
		exec {out}> >(exec sed -u "s/^/$node: /")
		filters+=($!)
		exec {err}> >(exec sed -u "s/^/$node: /" >&2)
		filters+=($!)
		# shellcheck disable=SC2261 # descriptors
		OPENREG_VM_NODE=$node OPENREG_VM_NETWORK=$NETWORK "$here/vm" "$@" >&"$out" 2>&"$err" &
		RUNNING[$!]=yes
		exec {out}>&- {err}>&-
	done
	while [ ${#RUNNING[@]} -gt 0 ] && [ "$status" -eq 0 ]; do
		wait -n -p ended "${!RUNNING[@]}" || status=$?
		unset "RUNNING[$ended]"
	done
	vm_end_nodes
	wait "${filters[@]}" || true
	return "$status"
}

vm_end_nodes()
{
	[ ${#RUNNING[@]} -eq 0 ] || kill "${!RUNNING[@]}" 2>/dev/null || true
	[ ${#RUNNING[@]} -eq 0 ] || wait "${!RUNNING[@]}" || true
	RUNNING=()
	rm -rf "$NETWORK"
}
