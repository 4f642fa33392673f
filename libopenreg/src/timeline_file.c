// SPDX-License-Identifier: MIT
/*
 * The file of a timeline. A process maps the part that it writes. So the events of a
 * process that is killed stay in the file, up to the last complete one. A child of fork()
 * has a file of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define SLOT sizeof(struct timeline_event)
#define WINDOW (1 << 20) /* bytes of the file that are mapped at a time */
#define WINDOW_SLOTS (WINDOW / SLOT)
#define TEXT_MAX 512
#define KNOWN 8192 /* a power of two */

_Static_assert(sizeof(struct timeline_event) == 32, "timeline.py knows the size");
_Static_assert(sizeof(struct timeline_header) <= TIMELINE_HEADER, "the header has a page");

struct known {
	uint64_t hash;
	uint32_t number;
};

struct timeline {
	const volatile uint8_t *mine;
	pthread_mutex_t lock; /* protects all fields below */
	struct timeline_header *header; /* NULL: there is no file */
	int fd;
	off_t at; /* of the window in the file */
	struct timeline_event *window;
	size_t used; /* slots of the window */
	uint32_t numbers;
	uint32_t names;
	struct known known[KNOWN];
};

static _Atomic(struct timeline *) current;
bool openreg_timeline_wanted;

static __attribute__((constructor)) void read_wanted(void)
{
	const char *dir = secure_getenv(TIMELINE_ENV);

	openreg_timeline_wanted = dir && *dir;
}

/* Creates a file that no other process has; numbers of processes come again. */
static int create_file(const char *dir)
{
	char path[4096];
	int fd = -1;

	for (unsigned int i = 0; i < 10000; i++) {
		snprintf(path, sizeof(path), "%s/%d-%u.timeline", dir, getpid(), i);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	return fd;
}

/*
 * Allocates the disk's blocks: a store to a mapping of a full disk would be fatal. So would
 * be a file beyond the limit of the process.
 */
static int grow(int fd, off_t at, size_t len)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && (rlim_t)at + len > limit.rlim_cur)
		return EFBIG;
	return posix_fallocate(fd, at, (off_t)len);
}

static int open_file(struct timeline *t, const char *dir)
{
	struct timeline_header *h;
	int error;

	t->fd = create_file(dir);
	if (t->fd < 0)
		return errno;
	error = grow(t->fd, 0, TIMELINE_HEADER);
	if (error)
		return error;
	h = mmap(NULL, TIMELINE_HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (h == MAP_FAILED)
		return errno;
	h->pid = (uint32_t)getpid();
	h->begin = (uint64_t)openreg_now_ns();
	snprintf(h->program, sizeof(h->program), "%s", program_invocation_short_name);
	__atomic_store_n(&h->magic, TIMELINE_MAGIC, __ATOMIC_RELEASE);
	t->header = h;
	t->at = TIMELINE_HEADER - WINDOW;
	return 0;
}

static struct timeline *make(void)
{
	const char *dir = secure_getenv(TIMELINE_ENV);
	struct timeline *t = calloc(1, sizeof(*t));
	int error;

	if (!t)
		return NULL;
	t->mine = openreg_process_mark();
	pthread_mutex_init(&t->lock, NULL);
	error = !t->mine ? ENOMEM : !dir ? EINVAL : open_file(t, dir);
	if (error)
		fprintf(stderr,
			"openreg: this process is not traced: cannot write to the directory %s (" TIMELINE_ENV "): %s\n",
			dir ? dir : "", strerror(error));
	return t;
}

/* NULL: there is no memory. Any thread may be the first. */
struct timeline *openreg_timeline(void)
{
	struct timeline *t = atomic_load(&current), *own;

	if (!openreg_timeline_wanted)
		return NULL;
	if (t && t->mine && *t->mine)
		return t;
	own = make();
	if (!own || atomic_compare_exchange_strong(&current, &t, own))
		return own;
	/* Another thread was faster. Its file counts; ours stays empty. */
	return t;
}

static void fail(struct timeline *t, int error)
{
	if (!t->header->error)
		t->header->error = (uint32_t)error;
	t->header->dropped++;
}

static bool next_window(struct timeline *t)
{
	struct timeline_event *pad = t->window ? t->window + t->used : NULL;
	off_t at = t->at + WINDOW;
	void *window;
	int error;

	error = grow(t->fd, at, WINDOW);
	if (error) {
		fail(t, error);
		return false;
	}
	window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, at);
	if (window == MAP_FAILED) {
		fail(t, errno);
		return false;
	}
	if (pad && t->used < WINDOW_SLOTS) {
		pad->more = (uint16_t)(WINDOW_SLOTS - t->used - 1);
		__atomic_store_n(&pad->kind, TIMELINE_PAD, __ATOMIC_RELEASE);
	}
	if (t->window)
		munmap(t->window, WINDOW);
	t->window = window;
	t->at = at;
	t->used = 0;
	return true;
}

/* Under the lock. The bytes follow the event. */
static void append(struct timeline *t, const struct timeline_event *what, const void *bytes,
		   size_t len)
{
	const size_t more = (len + SLOT - 1) / SLOT;
	struct timeline_event *e;

	if (t->header->error) {
		t->header->dropped++;
		return;
	}
	if ((!t->window || t->used + 1 + more > WINDOW_SLOTS) && !next_window(t))
		return;
	e = t->window + t->used;
	e->time = what->time;
	e->value = what->value;
	e->ns = what->ns;
	e->id = what->id;
	e->thread = what->thread;
	e->more = (uint16_t)more;
	memcpy(e + 1, bytes, len);
	t->used += 1 + more;
	__atomic_store_n(&e->kind, what->kind, __ATOMIC_RELEASE);
}

/* The number of the calling thread. Its first event in a file is its name. */
static uint32_t this_thread(struct timeline *t)
{
	static __thread struct timeline *known_in;
	static __thread uint32_t number;
	struct timeline_event e = { .kind = TIMELINE_THREAD };
	char name[16] = "";

	if (known_in == t)
		return number;
	number = (uint32_t)syscall(SYS_gettid);
	known_in = t;
	prctl(PR_GET_NAME, name);
	e.time = (uint64_t)openreg_now_ns();
	e.thread = number;
	e.ns = (uint32_t)strnlen(name, sizeof(name));
	append(t, &e, name, e.ns);
	return number;
}

static void put(struct timeline *t, struct timeline_event *e, const void *bytes, size_t len)
{
	pthread_mutex_lock(&t->lock);
	e->thread = this_thread(t);
	append(t, e, bytes, len);
	pthread_mutex_unlock(&t->lock);
}

void openreg_timeline_put(enum timeline_kind kind, uint32_t id, uint64_t value,
			  int64_t time, uint32_t ns)
{
	struct timeline_event e = {
		.time = (uint64_t)time, .value = value, .ns = ns, .id = id, .kind = kind,
	};
	struct timeline *t = openreg_timeline();

	if (t && t->header)
		put(t, &e, "", 0);
}

void openreg_timeline_put_bytes(enum timeline_kind kind, uint32_t id, uint64_t value,
				const void *bytes, size_t len)
{
	struct timeline_event e = {
		.time = (uint64_t)openreg_now_ns(), .value = value, .id = id, .kind = kind,
	};
	struct timeline *t = openreg_timeline();

	if (len > TEXT_MAX)
		len = TEXT_MAX;
	e.ns = (uint32_t)len;
	if (t && t->header)
		put(t, &e, bytes, len);
}

uint32_t openreg_timeline_number(void)
{
	struct timeline *t = openreg_timeline();
	uint32_t number;

	if (!t)
		return 0;
	pthread_mutex_lock(&t->lock);
	number = ++t->numbers;
	pthread_mutex_unlock(&t->lock);
	return number;
}

uint32_t openreg_timeline_ns(int64_t begin, int64_t end)
{
	return end - begin > UINT32_MAX ? UINT32_MAX : (uint32_t)(end - begin);
}

/* Cuts the file to its events; if that fails, zeros at its end do no harm. */
void openreg_timeline_close(void)
{
	struct timeline *t = atomic_load(&current);
	int ret = 0;

	if (!t || !t->mine || !*t->mine || !t->header)
		return;
	pthread_mutex_lock(&t->lock);
	t->header->end = (uint64_t)openreg_now_ns();
	if (t->window)
		ret = ftruncate(t->fd, t->at + (off_t)((t->used + 1) * SLOT));
	(void)ret;
	pthread_mutex_unlock(&t->lock);
}

/* ---- names ------------------------------------------------------------- */

static uint64_t hash_of(const char *name, size_t len)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3;
	return h ? h : 1;
}

/* The number of a name, under the lock. A full table only makes the file longer. */
static uint32_t number_of(struct timeline *t, const char *name)
{
	const size_t len = strnlen(name, TEXT_MAX);
	const uint64_t hash = hash_of(name, len);
	struct timeline_event e = { .kind = TIMELINE_NAME };
	struct known *k = NULL;

	for (size_t i = 0; i < 16; i++) {
		k = &t->known[(hash + i) & (KNOWN - 1)];
		if (k->hash == hash)
			return k->number;
		if (!k->hash)
			break;
	}
	k->hash = hash;
	k->number = ++t->names;
	e.time = (uint64_t)openreg_now_ns();
	e.id = k->number;
	e.ns = (uint32_t)len;
	append(t, &e, name, len);
	return k->number;
}

API int openreg_timeline_on(void)
{
	const struct timeline *t = openreg_timeline();

	return t && t->header;
}

API void openreg_timeline_begin(const char *name)
{
	struct timeline_event e = { .kind = TIMELINE_RANGE_BEGIN };
	struct timeline *t = openreg_timeline();

	if (!t || !t->header)
		return;
	pthread_mutex_lock(&t->lock);
	e.thread = this_thread(t);
	e.id = number_of(t, name);
	e.time = (uint64_t)openreg_now_ns();
	append(t, &e, "", 0);
	pthread_mutex_unlock(&t->lock);
}

API void openreg_timeline_end(void)
{
	if (openreg_timeline_wanted)
		openreg_timeline_put(TIMELINE_RANGE_END, 0, 0, openreg_now_ns(), 0);
}

API void openreg_timeline_name(uint32_t cookie, const char *name)
{
	struct timeline_event e = { .kind = TIMELINE_COOKIE, .id = cookie };
	struct timeline *t = openreg_timeline();

	if (!t || !t->header)
		return;
	pthread_mutex_lock(&t->lock);
	e.thread = this_thread(t);
	e.value = number_of(t, name);
	e.time = (uint64_t)openreg_now_ns();
	append(t, &e, "", 0);
	pthread_mutex_unlock(&t->lock);
}
