// SPDX-License-Identifier: MIT
/* Waiting for the packets of a call, while looking at the other ranks. */
#include <errno.h>

#include "comm.h"

#define STEP_NS 20000000ll /* between two looks */

int comm_fail_broken(const struct openreg_comm *comm)
{
	return comm_fail(-EIO, "the communicator is broken, create a new one: %s", comm->text);
}

int comm_fail_forked(void)
{
	return comm_fail(-EPERM,
			 "this process is a child of fork(), and its parent created the communicator: create one here, or start workers by spawn or exec");
}

static int look(struct openreg_comm *comm, bool late, int64_t waited_ns)
{
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = comm_look(comm);
	if (!ret && late)
		ret = comm_break_late(comm, waited_ns);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* A collective that has completed with different calls is wrong. */
static int compare(struct openreg_comm *comm)
{
	char text[TEXT_MAX];
	int ret = 0;

	pthread_mutex_lock(&comm->lock);
	if (comm->error == -EPROTO)
		ret = comm_fail(comm->error, "%s", comm->text);
	else if (!comm->error && board_differs(comm, text))
		ret = comm_break(comm, -EPROTO, text);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

static int fail(struct openreg_comm *comm, int error)
{
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = comm_break_fault(comm, error);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* The queue stays while this runs. */
int comm_wait_for(struct openreg_comm *comm, uint64_t seq, int64_t timeout_ns)
{
	const int64_t begin = comm_now();
	int64_t left = timeout_ns;
	int ret;

	for (;;) {
		ret = openreg_queue_wait(comm->queue, seq, left < STEP_NS ? left : STEP_NS);
		if (!ret)
			return compare(comm);
		if (ret != -ETIME)
			return fail(comm, ret);
		left = begin + timeout_ns - comm_now();
		ret = look(comm, left <= 0, timeout_ns);
		if (ret)
			return ret;
	}
}

int comm_room(struct openreg_comm *comm)
{
	uint64_t completed;
	int64_t seq;
	int ret;

	if (++comm->pushed < comm->most)
		return 0;
	seq = openreg_queue_submit(comm->queue);
	if (seq < 0)
		return (int)seq;
	ret = comm_wait_for(comm, (uint64_t)seq - comm->most / 2, comm->timeout_ns);
	if (ret)
		return ret;
	completed = openreg_queue_completed(comm->queue);
	comm->pushed = (uint64_t)seq > completed ? (uint64_t)seq - completed : 0;
	return 0;
}

int comm_break_call(struct openreg_comm *comm, int error)
{
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = error == -ETIME || comm->error ? comm_look(comm) : comm_break_fault(comm, error);
	if (!ret)
		ret = comm_break_late(comm, comm->timeout_ns);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

static int begin_wait(struct openreg_comm *comm, int64_t seq)
{
	if (!*comm->mine)
		return comm_fail_forked();
	if (seq < 0)
		return comm_fail(-EINVAL, "the call failed: there is nothing to wait for");
	atomic_fetch_add(&comm->waiters, 1);
	if (!comm->error)
		return 0;
	atomic_fetch_sub(&comm->waiters, 1);
	return comm_fail_broken(comm);
}

static int end_wait(struct openreg_comm *comm, int ret)
{
	atomic_fetch_sub(&comm->waiters, 1);
	if (ret < 0)
		comm_stop(comm);
	return ret;
}

API int openreg_comm_wait_timeout(struct openreg_comm *comm, int64_t seq,
				  int64_t timeout_ns)
{
	int ret = begin_wait(comm, seq);

	if (ret)
		return ret;
	return end_wait(comm, comm_wait_for(comm, (uint64_t)seq, timeout_ns));
}

API int openreg_comm_wait(struct openreg_comm *comm, int64_t seq)
{
	return openreg_comm_wait_timeout(comm, seq, comm->timeout_ns);
}

API int openreg_comm_query(struct openreg_comm *comm, int64_t seq)
{
	int ret = begin_wait(comm, seq);

	if (ret)
		return ret;
	ret = openreg_queue_wait(comm->queue, (uint64_t)seq, 0);
	if (!ret)
		ret = compare(comm);
	else
		ret = ret == -ETIME ? look(comm, false, 0) : fail(comm, ret);
	if (!ret)
		ret = openreg_queue_completed(comm->queue) >= (uint64_t)seq;
	return end_wait(comm, ret);
}
