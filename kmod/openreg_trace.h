/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM openreg

#if !defined(OPENREG_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define OPENREG_TRACE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* openreg_trace.c alone reads fields of these. */
struct openreg_bo;
struct openreg_device;
struct openreg_fault_record;
struct openreg_queue;

DECLARE_EVENT_CLASS(openreg_bo,
		    TP_PROTO(const struct openreg_bo *bo),
		    TP_ARGS(bo),
		    TP_STRUCT__entry(__field(u32, card)
				     __field(u32, ctx)
				     __field(u32, flags)
				     __field(u64, address)
				     __field(u64, size)),
		    TP_fast_assign(__entry->card = bo->ctx->odev->info.card;
				   __entry->ctx = bo->ctx->base.id;
				   __entry->flags = bo->flags;
				   __entry->address = bo->address;
				   __entry->size = bo->base.size;),
		    TP_printk("card=%u ctx=%u address=0x%llx size=%llu flags=0x%x",
			      __entry->card, __entry->ctx, __entry->address, __entry->size,
			      __entry->flags));

/* bind: the object got a segment. close: it was closed. unbound: the card released it. */
DEFINE_EVENT(openreg_bo, openreg_bo_bind,
	     TP_PROTO(const struct openreg_bo *bo), TP_ARGS(bo));
DEFINE_EVENT(openreg_bo, openreg_bo_close,
	     TP_PROTO(const struct openreg_bo *bo), TP_ARGS(bo));
DEFINE_EVENT(openreg_bo, openreg_bo_unbound,
	     TP_PROTO(const struct openreg_bo *bo), TP_ARGS(bo));

DECLARE_EVENT_CLASS(openreg_queue,
		    TP_PROTO(const struct openreg_queue *queue),
		    TP_ARGS(queue),
		    TP_STRUCT__entry(__field(u32, card)
				     __field(u32, ctx)
				     __field(u32, queue)
				     __field(u32, vector)),
		    TP_fast_assign(__entry->card = queue->odev->info.card;
				   __entry->ctx = queue->ctx->base.id;
				   __entry->queue = queue->id;
				   __entry->vector = queue->vector - queue->odev->vectors;),
		    TP_printk("card=%u ctx=%u queue=%u vector=%u",
			      __entry->card, __entry->ctx, __entry->queue, __entry->vector));

DEFINE_EVENT(openreg_queue, openreg_queue_create,
	     TP_PROTO(const struct openreg_queue *queue), TP_ARGS(queue));
DEFINE_EVENT(openreg_queue, openreg_queue_destroy,
	     TP_PROTO(const struct openreg_queue *queue), TP_ARGS(queue));
DEFINE_EVENT(openreg_queue, openreg_queue_reset,
	     TP_PROTO(const struct openreg_queue *queue), TP_ARGS(queue));

TRACE_EVENT(openreg_irq,
	    TP_PROTO(const struct openreg_device *odev, unsigned int vector),
	    TP_ARGS(odev, vector),
	    TP_STRUCT__entry(__field(u32, card)
			     __field(u32, vector)),
	    TP_fast_assign(__entry->card = odev->info.card;
			   __entry->vector = vector;),
	    TP_printk("card=%u vector=%u", __entry->card, __entry->vector));

TRACE_EVENT(openreg_wait_begin,
	    TP_PROTO(const struct openreg_queue *queue, u64 seq),
	    TP_ARGS(queue, seq),
	    TP_STRUCT__entry(__field(u32, card)
			     __field(u32, queue)
			     __field(u64, seq)),
	    TP_fast_assign(__entry->card = queue->odev->info.card;
			   __entry->queue = queue->id;
			   __entry->seq = seq;),
	    TP_printk("card=%u queue=%u seq=%llu", __entry->card, __entry->queue,
		      __entry->seq));

TRACE_EVENT(openreg_wait_end,
	    TP_PROTO(const struct openreg_queue *queue, u64 seq, int ret),
	    TP_ARGS(queue, seq, ret),
	    TP_STRUCT__entry(__field(u32, card)
			     __field(u32, queue)
			     __field(u64, seq)
			     __field(int, ret)),
	    TP_fast_assign(__entry->card = queue->odev->info.card;
			   __entry->queue = queue->id;
			   __entry->seq = seq;
			   __entry->ret = ret;),
	    TP_printk("card=%u queue=%u seq=%llu ret=%d", __entry->card,
		      __entry->queue, __entry->seq, __entry->ret));

TRACE_EVENT(openreg_fault,
	    TP_PROTO(const struct openreg_device *odev,
		     const struct openreg_fault_record *record),
	    TP_ARGS(odev, record),
	    TP_STRUCT__entry(__field(u32, card)
			     __field(u32, queue)
			     __field(u32, code)
			     __field(u32, opcode)
			     __field(s32, operand)
			     __field(u64, seq)
			     __field(u64, address)
			     __field(u64, detail)),
	    TP_fast_assign(__entry->card = odev->info.card;
			   __entry->queue = record->queue;
			   __entry->code = record->fault.code;
			   __entry->opcode = record->fault.opcode;
			   __entry->operand = record->fault.operand;
			   __entry->seq = record->fault.seq;
			   __entry->address = record->fault.address;
			   __entry->detail = record->fault.detail;),
	    TP_printk("card=%u queue=%u seq=%llu code=%u opcode=%u operand=%d address=0x%llx detail=0x%llx",
		      __entry->card, __entry->queue, __entry->seq, __entry->code,
		      __entry->opcode, __entry->operand, __entry->address,
		      __entry->detail));

TRACE_EVENT(openreg_reset,
	    TP_PROTO(const struct openreg_device *odev, const char *reason),
	    TP_ARGS(odev, reason),
	    TP_STRUCT__entry(__field(u32, card)
			     __string(reason, reason)),
	    TP_fast_assign(__entry->card = odev->info.card;
			   __assign_str(reason);),
	    TP_printk("card=%u reason=%s", __entry->card, __get_str(reason)));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE openreg_trace
#include <trace/define_trace.h>
