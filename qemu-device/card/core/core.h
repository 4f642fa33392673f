/* SPDX-License-Identifier: MIT */
/*
 * Private interfaces of the card's core.
 *
 * Lock order, outermost first: sched.lock, context.lock, gate.lock.
 *
 * The host may hold its own big lock when it calls a register or doorbell function, and
 * its callbacks for mappings and DMA may take that lock. So that the two cannot deadlock:
 *
 * - register and doorbell functions take no lock of the card but gate.lock
 * - the card calls none of these callbacks with gate.lock held
 */
#ifndef OPENREG_CORE_H
#define OPENREG_CORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "card.h"
#include "copy.h"
#include "engine/engine.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the card is little-endian and so must its host be"
#endif

#define OPENREG_DECIDE_NS 2000000ULL /* longest time between two scheduling decisions */
#define OPENREG_TURN_NS 250000ULL /* after this time a turn begins no further packet */
#define OPENREG_MAX_WORK_LOG2 36
#define OPENREG_MAX_RUNS (1u << 23) /* page runs of all segments together */
#define OPENREG_STAGE_SIZE (256u << 10)
#define OPENREG_DMA_MAX (4ULL << 20) /* bytes of one bulk DMA callback */
#define OPENREG_PACKET_BYTES (OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE)
#define OPENREG_CONTEXT_MEMORY (256u << 20) /* a context's jobs, or one larger job */
#define OPENREG_FINISH_NS 2000000000ULL /* for all packets together, before a save */
#define OPENREG_POLLS 64 /* tails polled in a round; at least one for each context */
#define OPENREG_POLLS_EACH 16 /* tails of one context polled in a round, at most */
#define OPENREG_BACKOFF_MAX_NS 1000000ULL /* longest time between two polls of a WAIT */

struct context;
struct queue;
struct worker;

/* Pages of a system or peer segment that are adjacent on the bus. */
struct run {
	uint64_t off; /* segment offset of the first byte */
	uint64_t bus; /* bus address of the first byte */
};

struct segment {
	uint32_t kind;
	uint32_t perm;
	uint64_t length;
	uint64_t base; /* VRAM offset */
	struct run *runs;
	uint32_t nruns;
	unsigned int refs; /* context.lock */
	bool dead; /* context.lock */

	struct context *ctx;
	uint32_t id;
	struct segment *next_dead; /* on the list of dead segments that unbind.c names */
	bool clear; /* fill it with zeros before its release */
	uint64_t ncleared; /* copy thread only; bytes cleared so far */
};

/* Bytes that an operand of the current packet can reach; seg is NULL if none. */
struct reach {
	struct segment *seg;
	uint64_t off; /* segment offset of element 0, bytes */
	uint64_t lo; /* segment offset of the first byte */
	uint64_t hi; /* segment offset after the last byte */
	bool written;
};

struct context {
	uint32_t id;
	bool dying;
	uint64_t released_base; /* bus address, or 0 */
	unsigned int ndead; /* admin thread only; dead segments, not released yet */
	struct openreg_mapping *released;
	uint64_t released_bits[OPENREG_MAX_SEGMENTS / 64]; /* content of the released page */
	pthread_mutex_t lock;
	struct segment *segs[OPENREG_MAX_SEGMENTS];
	uint64_t vruntime; /* sched.lock, ns */
	uint64_t signals; /* sched.lock, SIGNAL packets of its queues */
	unsigned int nawake; /* sched.lock, its queues on sched.awake */
	unsigned int polls; /* sched.lock, tails polled in that round */
	uint64_t round; /* sched.lock, the round that polls is about */
	atomic_size_t memory; /* bytes that its jobs hold */
};

enum active {
	ACTIVE_NONE,
	ACTIVE_JOB, /* every worker may take slices of it */
	ACTIVE_COPY, /* the copy thread continues it */
};

struct job {
	struct openreg_job *engine;
	size_t memory; /* bytes that it holds */
	unsigned int phase;
	unsigned int phases;
	uint32_t next; /* next slice to hand out */
	uint32_t slices; /* of this phase */
	uint32_t running; /* slices handed out and not done */
	bool failed;
};

struct queue_config {
	uint64_t ring;
	uint64_t user_page;
	uint64_t card_page;
	uint64_t kernel_page;
	uint32_t slots;
	uint32_t doorbell;
	uint32_t vector;
	uint32_t priority;
};

struct queue {
	struct openreg_card *card;
	struct context *ctx;
	uint32_t id;
	bool dying; /* admin thread only */
	struct queue_config cfg;
	struct openreg_mapping *ring;
	struct openreg_mapping *user;
	struct openreg_mapping *page;
	struct openreg_mapping *kernel;

	/* sched.lock */
	unsigned int owners; /* threads that work on it */
	enum active active;
	enum openreg_queue_state state;
	bool awake; /* on sched.awake: workers poll its tail */
	bool asleep_clear; /* the asleep word of its card page is 0 */
	uint64_t poll_round; /* round of the last poll of its tail */
	struct queue *awake_next;
	struct queue **awake_pprev;
	struct queue *door_next; /* next queue of the same doorbell page */
	uint64_t last_active;
	uint64_t served; /* sched.served when a thread last picked it */
	bool waiting; /* its next packet is an unmet WAIT, or lacks memory */
	atomic_bool stop_at_end; /* stop after the current packet */
	uint64_t next_poll; /* a waiting queue: when to try its packet again */
	uint64_t backoff_ns; /* a waiting queue: time between two tries */
	uint64_t polled_signals; /* ctx->signals when a thread last picked it */
	uint64_t ticket; /* its place in the line for memory, or 0 */
	struct job job;
	uint64_t wakes;

	/* For the owners; without an owner, under sched.lock */
	uint64_t head;
	uint64_t tail; /* at the last poll */
	uint64_t completed;
	uint64_t interrupts;
	struct openreg_packet header;
	struct openreg_args args;
	struct reach reach[OPENREG_OPERANDS_MAX];
	struct copy copy;

	atomic_uint_fast64_t dma_read;
	atomic_uint_fast64_t dma_written;
	atomic_uint_fast64_t busy_ns;
	atomic_bool stop;
};

struct worker {
	struct openreg_card *card;
	pthread_t thread;
	bool started;
	bool access; /* between access_begin and access_end */
	atomic_int cpu; /* processor that it runs on, or CPU_ASLEEP */
	uint64_t idle_since;
	uint64_t delay_random; /* last random number for config.slow_us */
	struct openreg_scratch *scratch; /* NULL in the copy thread */
	uint8_t *stage[2];
	uint8_t packet[OPENREG_PACKET_BYTES];
};

#define CPU_ASLEEP -1

/* Which threads may run: pausing, sleeping, waking. See gate.c. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t idle; /* workers */
	pthread_cond_t copy;
	pthread_cond_t admin;
	pthread_cond_t quiet; /* active fell to 1 or 0, or the hold ended */
	unsigned int active; /* threads that may touch memory or a queue */
	unsigned int asleep; /* workers that wait for idle */
	unsigned int waking; /* of these, signalled but not running yet */
	atomic_uint hold; /* HOLD_*; written under lock */
	atomic_uint events; /* changes; a worker sleeps only if none is new */
	atomic_uint sleepers; /* workers in gate_sleep() */
	atomic_bool exit;
	bool copy_kick;
	bool admin_kick;
	bool paused;
	void (*paused_cb)(void *opaque);
	void *paused_opaque;
};
#define HOLD_PAUSE 1u
#define HOLD_ADMIN 2u

struct sched {
	pthread_mutex_t lock;
	struct queue *awake;
	struct queue *lent; /* queue that a lent thread works on */
	unsigned int nawake; /* queues on awake */
	unsigned int nctx; /* contexts with a queue on awake */
	uint64_t round; /* number of this round of polls */
	unsigned int nwaiting; /* queues with waiting set */
	atomic_uint ntickets; /* queues that hold a ticket */
	uint64_t tickets; /* the last ticket */
	struct queue *door[OPENREG_MAX_DOORBELLS]; /* queues of each page */
	struct worker *poller; /* the idle worker that polls for all */
	uint64_t min_vruntime;
	uint64_t served; /* counts picks */
	uint64_t last_work; /* when a thread last released a queue */
	struct fill *fills;
	struct segment *clears; /* for the copy thread, after the fills */
	struct segment *last_clear; /* valid unless clears is empty */
	struct segment *cleared; /* for the admin thread to release */
	bool fill_turn; /* the copy thread's next slice is a fill or a clear */
};

/* A FILL of the admin ring that is too long for fill_now(). */
struct fill {
	struct fill *next;
	uint64_t off;
	uint64_t end;
	uint8_t value;
	uint32_t index; /* of the admin command */
};

/* An admin command that has started and completes later. */
struct pending {
	struct pending *next;
	uint32_t index;
	uint16_t opcode;
	uint32_t ctx;
	uint32_t id;
};

/* In regs.control: ENABLE went from 1 to 0, and the admin thread has yet to act on it. */
#define CONTROL_FELL (1u << 31)

/* Registers that the guest writes or reads; gate.lock, except the atomic ones. */
struct regs {
	uint32_t control; /* and CONTROL_FELL */
	uint32_t card_id;
	uint64_t admin_base;
	uint64_t admin_cpl;
	uint32_t admin_slots;
	uint32_t admin_tail;
	uint64_t fault_base;
	uint32_t fault_slots;
	atomic_uint status;
	atomic_uint fault_head;
	atomic_uint fault_tail;
	atomic_uint fault_dropped;
	atomic_uint card;
};

struct stats {
	atomic_uint_fast64_t packets;
	atomic_uint_fast64_t doorbells;
	atomic_uint_fast64_t interrupts;
	atomic_uint_fast64_t dma_read;
	atomic_uint_fast64_t dma_written;
	atomic_uint_fast64_t compute_ns;
	atomic_uint_fast64_t copy_ns;
	atomic_uint_fast64_t faults;
	atomic_uint_fast64_t sleeps;
	atomic_uint_fast64_t sleep_ns;
};

/* For the admin thread; for others only while they hold or pause the card. */
struct admin {
	pthread_t thread;
	bool started;
	bool enabled;
	uint64_t base;
	uint32_t slots;
	uint32_t done; /* commands started */
	uint32_t npending;
	struct openreg_mapping *cpl;
	uint64_t cpl_base; /* bus address of cpl, for a save */
	struct pending *pending;
	struct segment *dead; /* dead segments that packets still use */
};

struct fault_ring {
	pthread_mutex_t lock;
	struct openreg_mapping *mapping;
	uint64_t base;
	uint32_t slots;
};

struct openreg_card {
	struct openreg_card_config config;
	const struct openreg_host_ops *ops;
	void *host;
	struct gate gate;
	struct sched sched;
	struct regs regs;
	struct stats stats;
	struct admin admin;
	struct fault_ring faults;
	pthread_mutex_t signal_lock;
	atomic_uint_fast64_t doors[OPENREG_MAX_DOORBELLS / 64];
	/* The admin thread writes both under sched.lock. */
	struct context *ctx[OPENREG_MAX_CONTEXTS];
	struct queue *queue[OPENREG_MAX_QUEUES];
	uint32_t nruns; /* admin thread only */
	bool loaded; /* raise every vector at resume */
	atomic_size_t extra; /* bytes that jobs hold beside their operands */
	struct worker copier;
	struct worker *workers;
	atomic_int caller_cpu; /* processor of the last doorbell or lent thread */
	pthread_mutex_t lending; /* for lent */
	struct worker lent; /* for a thread that the host lends */
};

static inline uint8_t *card_vram(struct openreg_card *card)
{
	return card->config.vram;
}

/* card.c */
uint64_t now_ns(void);
void cpu_relax(void);
/* Makes a card without threads; openreg_card_new() starts them. */
struct openreg_card *card_make(const struct openreg_card_config *config,
			       const struct openreg_host_ops *ops, void *host,
			       const char **error);
void card_guest_error(struct openreg_card *card, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void card_raise(struct openreg_card *card, unsigned int vector);
void card_drop_state(struct openreg_card *card);
void card_clear(struct openreg_card *card);
void card_clear_stats(struct openreg_card *card);
bool worker_init(struct openreg_card *card, struct worker *w, bool compute);
void worker_fini(struct worker *w);

/* gate.c */
bool gate_init(struct gate *gate);
void gate_fini(struct gate *gate);
bool gate_enter(struct openreg_card *card);
bool gate_try_enter(struct openreg_card *card);
void gate_leave(struct openreg_card *card);
bool gate_held(struct openreg_card *card);
void gate_wake(struct openreg_card *card, unsigned int n);
void gate_count_event(struct openreg_card *card);
void gate_sleep(struct openreg_card *card, unsigned int events,
		uint64_t timeout_ns);
void gate_kick_copy(struct openreg_card *card);
void gate_kick_admin(struct openreg_card *card);
bool gate_wait_kick(struct openreg_card *card, pthread_cond_t *cond,
		    bool *kick);
void gate_hold_admin(struct openreg_card *card);
void gate_release_admin(struct openreg_card *card);
void gate_exit(struct openreg_card *card);

/* admin.c, admin_cmd.c, admin_queue.c */
#define ADMIN_SLOTS_MAX 4096
#define ADMIN_AGAIN UINT32_MAX /* the card is held: run the command again later */
struct admin_result {
	uint32_t status;
	bool late;
	uint64_t result;
};
typedef struct admin_result admin_fn(struct openreg_card *card,
				     const struct openreg_admin_cmd *cmd,
				     uint32_t index);
admin_fn admin_ctx_create, admin_ctx_destroy, admin_seg_bind, admin_seg_unbind;
admin_fn admin_queue_create, admin_queue_stop, admin_queue_reset;
admin_fn admin_queue_destroy, admin_fill;
bool admin_ctx_gone(struct openreg_card *card, const struct pending *p);
bool admin_queue_stopped(struct openreg_card *card, const struct pending *p);
bool admin_queue_gone(struct openreg_card *card, const struct pending *p);
bool admin_fill_done(struct openreg_card *card, const struct pending *p);
void admin_step(struct openreg_card *card);
void *admin_main(void *opaque);
bool admin_map(struct openreg_card *card);
bool admin_is_late(unsigned int opcode);
bool admin_add_pending(struct openreg_card *card, const struct pending *p);
struct admin_result queue_make(struct openreg_card *card,
			       const struct openreg_admin_cmd *cmd,
			       struct queue **made);
void admin_drop_state(struct openreg_card *card);

/* fill.c */
bool fill_is_short(uint64_t len);
void fill_now(struct openreg_card *card, uint64_t off, uint64_t len,
	      uint8_t value);
struct fill *fill_new(uint64_t off, uint64_t len, uint8_t value);
void fill_append(struct openreg_card *card, struct fill *fill);
void fill_begin(struct openreg_card *card, struct fill *fill);
bool fill_end(struct openreg_card *card, struct fill *fill);

/* unbind.c */
bool segment_kill(struct openreg_card *card, struct segment *seg, bool clear);
void segment_load_dead(struct openreg_card *card, struct segment *seg);
void segments_release(struct openreg_card *card);

/* context.c, segment.c */
struct context *context_new(uint32_t id);
bool context_map_released(struct openreg_card *card, struct context *ctx,
			  uint64_t bus);
void context_clear_released(struct openreg_card *card, struct context *ctx);
void context_set_released(struct openreg_card *card, struct context *ctx,
			  uint32_t id, bool released);
void context_free(struct openreg_card *card, struct context *ctx);
struct segment *segment_new(struct openreg_card *card,
			    const struct openreg_admin_cmd *cmd,
			    uint32_t *status);
void segment_free(struct openreg_card *card, struct segment *seg);
void segments_put(struct queue *q, unsigned int n);
int segment_read(struct queue *q, const struct segment *seg, uint64_t off,
		 void *buf, uint64_t len);
int segment_write(struct queue *q, const struct segment *seg, uint64_t off,
		  const void *buf, uint64_t len);
uint64_t segment_bus(const struct segment *seg, uint64_t off, uint64_t *left);

/* address.c */
#define ADDRESS_COMPUTE 1u /* operands must be in VRAM */
struct openreg_verdict address_check(struct queue *q, struct openreg_args *args,
				     unsigned int flags);

/* decode.c */
struct openreg_verdict decode_header(const struct openreg_packet *header);
struct openreg_verdict decode_body(const uint8_t *packet,
				   struct openreg_args *args);

/* queue.c */
bool queue_map(struct queue *q);
void queue_link(struct queue *q);
void queue_unlink(struct queue *q);
void queue_free(struct queue *q);
void queue_request_stop(struct queue *q);
void queue_request_stop_at_end(struct queue *q);
void queue_free_job(struct queue *q);
void queue_drop_work(struct queue *q);
uint64_t queue_tail(struct queue *q);
void queue_publish(struct queue *q, uint64_t head, uint64_t seq);
void queue_store_state(struct queue *q, enum openreg_queue_state state);
void queue_store_stats(struct queue *q);
void queue_release_operands(struct queue *q);
void queue_done(struct worker *w, struct queue *q);
void queue_fault(struct worker *w, struct queue *q, struct openreg_verdict v);
void access_begin(struct worker *w);
void access_end(struct worker *w);

/* exec.c */
enum step {
	STEP_DONE, /* one packet done */
	STEP_EMPTY,
	STEP_WAIT, /* the packet starts again from its fetch, later */
	STEP_FAULT,
	STEP_BUSY, /* the workers or the copy thread continue the packet */
};

struct openreg_verdict exec_check(struct queue *q);
void exec_turn(struct worker *w, struct queue *q);
void exec_slice(struct worker *w, struct queue *q, uint32_t slice);
void exec_copy(struct worker *w, struct queue *q);
bool exec_finish(struct worker *w, struct queue *q);
void exec_abort(struct worker *w, struct queue *q);

/* sched.c */
enum pick { PICK_NONE, PICK_TURN, PICK_SLICE };
enum pick sched_pick(struct worker *w, struct queue **q, uint32_t *slice);
bool sched_better(const struct queue *a, const struct queue *b);
bool sched_ready(struct worker *w, const struct queue *but);
bool sched_sleep_idle(struct worker *w, uint64_t now, uint64_t *timeout);
void sched_queue_wake(struct queue *q);
void sched_queue_remove(struct queue *q);
void sched_release(struct queue *q, uint64_t ns);
void sched_set_waiting(struct queue *q, bool waiting);
bool sched_must_wait_for_memory(struct queue *q);
void sched_add_memory_waiter(struct queue *q);
void sched_got_memory(struct queue *q);
void sched_signal(struct queue *from);
void sched_wake_poller(struct openreg_card *card);
void sched_ensure_polled(struct openreg_card *card);

/* worker.c, copier.c */
void *worker_main(void *opaque);
bool copier_step(struct worker *w);
void *copier_main(void *opaque);

/* lent_thread.c */
void worker_set_cpu(struct worker *w, int cpu);
void caller_set_cpu(struct openreg_card *card);

/* delay.c */
void delay_step(struct worker *w);

/* sync.c */
struct openreg_verdict sync_check(struct openreg_args *args);
enum step sync_exec(struct queue *q, struct openreg_verdict *v);

/* state.c */
void state_finish(struct openreg_card *card, uint64_t end);
/* Counts of the 64-bit words that a save writes and a load reads. */
#define STATE_MAGIC 0x0132564153474552ULL
#define STATE_REGS 12
#define STATE_STATS 10
#define STATE_QUEUE_STATS 5
void state_regs(struct openreg_card *card, uint64_t *words, bool load);
void state_stats(struct openreg_card *card, uint64_t *words, bool load);
void state_queue_stats(struct queue *q, uint64_t *words, bool load);

#endif
