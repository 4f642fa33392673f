// SPDX-License-Identifier: MIT
/*
 * The memory of objects. Each object of VRAM or system memory has a memfd of its own, so
 * that an export gives away this object and nothing else. A memfd begins with a header of
 * one page, which other processes read; the data follow.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* This lock protects all_files. fork() happens under it: the child closes these files. */
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_file *all_files; /* those with an open memfd */

/* Half of the file descriptors remain for the program. */
static bool may_open(int fd, uint64_t size)
{
	struct rlimit files, length;

	if (getrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_FSIZE, &length))
		return false;
	/* ftruncate() beyond this limit would kill the process. */
	return (uint64_t)fd < files.rlim_cur / 2 && size <= length.rlim_cur;
}

static int new_memfd(uint64_t size)
{
	int fd = memfd_create("openreg", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (may_open(fd, size) && !ftruncate(fd, (off_t)size) &&
	    !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	close(fd);
	return -1;
}

static void *map(void *fixed, const struct sim_file *f, int prot)
{
	const int anonymous = f->fd < 0 ? MAP_ANONYMOUS : 0;
	void *p = mmap(fixed, f->size, prot,
		       MAP_SHARED | MAP_NORESERVE | anonymous | (fixed ? MAP_FIXED : 0),
		       f->fd, (off_t)f->data);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, f->size, MADV_DONTFORK);
	/* The engines' threads then miss the TLB less. */
	madvise(p, f->size, MADV_HUGEPAGE);
	return p;
}

static void remember(struct sim_file *f)
{
	struct stat st;

	if (f->fd < 0)
		return;
	if (fstat(f->fd, &st)) {
		close(f->fd);
		f->fd = -1;
		return;
	}
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	pthread_mutex_lock(&files_lock);
	f->next_open = all_files;
	f->prev_open = &all_files;
	if (all_files)
		all_files->prev_open = &f->next_open;
	all_files = f;
	pthread_mutex_unlock(&files_lock);
}

/* The program may have closed the file descriptor, and opened another file with it. */
static bool is_mine(const struct sim_file *f)
{
	struct stat st;

	return f->fd >= 0 && !fstat(f->fd, &st) && st.st_dev == f->dev &&
	       st.st_ino == f->ino;
}

static void close_file(struct sim_file *f)
{
	if (f->fd < 0)
		return;
	pthread_mutex_lock(&files_lock);
	*f->prev_open = f->next_open;
	if (f->next_open)
		f->next_open->prev_open = f->prev_open;
	if (is_mine(f))
		close(f->fd);
	f->fd = -1;
	pthread_mutex_unlock(&files_lock);
}

void sim_files_fork_begin(void)
{
	pthread_mutex_lock(&files_lock);
}

/* child: else its copies of the descriptors would keep memory that the parent frees. */
void sim_files_fork_end(bool child)
{
	struct sim_file *f;

	for (f = child ? all_files : NULL; f; f = f->next_open) {
		if (is_mine(f))
			close(f->fd);
		f->fd = -1;
	}
	if (child)
		all_files = NULL;
	pthread_mutex_unlock(&files_lock);
}

struct sim_file *sim_file_new(uint64_t size, uint32_t flags, uint8_t *at)
{
	struct sim_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->users = 1;
	f->size = size;
	f->flags = flags;
	/* Where the address is a multiple of 2 MiB, so is the place in the file. */
	f->data = SIM_HUGE + (uintptr_t)at % SIM_HUGE;
	f->fd = new_memfd(f->data + size);
	f->at = map(at, f, PROT_READ | PROT_WRITE);
	if (!f->at) {
		if (f->fd >= 0)
			close(f->fd);
		free(f);
		return NULL;
	}
	remember(f);
	return f;
}

/* VRAM without an object: reads as zeros, takes no memory, and neighbours merge. */
bool sim_reserve(void *at, uint64_t size)
{
	if (mmap(at, size, PROT_READ,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		return false;
	madvise(at, size, MADV_DONTFORK);
	return true;
}

bool sim_file_free(struct sim_file *f)
{
	bool ok = true;

	if (f->flags & OPENREG_BO_VRAM && (!f->foreign || f->alias))
		ok = sim_reserve(f->at, f->size);
	else
		munmap(f->at, f->size);
	close_file(f);
	free(f);
	return ok;
}

static struct sim_bell *new_bell(int fd, bool readonly)
{
	struct sim_bell *b = calloc(1, sizeof(*b));
	void *p = mmap(NULL, SIM_PAGE, PROT_READ | (readonly ? 0 : PROT_WRITE), MAP_SHARED,
		       fd, 0);

	if (!b || p == MAP_FAILED) {
		if (p != MAP_FAILED)
			munmap(p, SIM_PAGE);
		free(b);
		return NULL;
	}
	madvise(p, SIM_PAGE, MADV_DONTFORK);
	b->header = p;
	b->readonly = readonly;
	b->users = 1;
	return b;
}

static void free_bell(struct sim_bell *b)
{
	if (b)
		munmap(b->header, SIM_PAGE);
	free(b);
}

/* Makes the memfd ready for other processes. */
static int prepare(struct sim_file *f, uint32_t card, bool readonly)
{
	const int seals = F_SEAL_SEAL | (readonly ? F_SEAL_FUTURE_WRITE : 0);
	struct sim_bell *b = new_bell(f->fd, false);
	int ret;

	if (!b)
		return -ENOMEM;
	b->header->magic = SIM_MAGIC;
	b->header->kind = f->flags;
	b->header->data = f->data;
	b->header->card = card;
	b->sealed = readonly;
	/* Mappings that exist stay writable. */
	if (fcntl(f->fd, F_ADD_SEALS, seals)) {
		ret = -errno;
		free_bell(b);
		return ret;
	}
	f->bell = b;
	f->readonly = readonly;
	return 0;
}

/* Under the card's lock. *first: the file has not been shared before. */
int sim_file_export(struct sim_file *f, uint32_t card, bool readonly, int *fd, bool *first)
{
	int ret = 0;

	*first = false;
	if (!is_mine(f))
		return -EMFILE;
	if (f->bell && f->readonly != readonly)
		return -EACCES;
	if (!f->bell) {
		ret = prepare(f, card, readonly);
		*first = !ret;
	}
	if (ret)
		return ret;
	*fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? -errno : 0;
}

/* Everything in an imported file is hostile, but its size, which is sealed. */
int sim_file_check(int fd, struct sim_file *f)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct sim_header h;
	struct stat st;

	if (seals < 0)
		return errno == EBADF ? -EBADF : -EINVAL;
	if ((seals & (SEALS | F_SEAL_SEAL)) != (SEALS | F_SEAL_SEAL) || fstat(fd, &st) ||
	    pread(fd, &h, sizeof(h), 0) != sizeof(h))
		return -EINVAL;
	if (h.magic != SIM_MAGIC || h.data < SIM_HUGE || h.data >= 2 * SIM_HUGE || h.data % SIM_PAGE ||
	    (uint64_t)st.st_size <= h.data || st.st_size % SIM_PAGE ||
	    (h.kind != OPENREG_BO_VRAM && h.kind != OPENREG_BO_SYSTEM))
		return -EINVAL;
	*f = (struct sim_file){
		.size = (uint64_t)st.st_size - h.data,
		.data = h.data,
		.flags = (uint32_t)h.kind,
		.card = (uint32_t)h.card,
		.readonly = seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE),
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return 0;
}

/* A file of another process, or of another card; found is from sim_file_check(). */
struct sim_file *sim_file_import(int fd, const struct sim_file *found, uint8_t *at)
{
	struct sim_file *f = malloc(sizeof(*f));

	if (!f)
		return NULL;
	*f = *found;
	f->users = 1;
	f->foreign = true;
	f->alias = at;
	f->fd = fd;
	f->bell = new_bell(fd, f->readonly);
	f->at = f->bell ? map(at, f, PROT_READ | (f->readonly ? 0 : PROT_WRITE)) : NULL;
	if (!f->at) {
		free_bell(f->bell);
		free(f);
		return NULL;
	}
	/* For exports of this object. */
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (f->fd >= 0 && !may_open(f->fd, 0)) {
		close(f->fd);
		f->fd = -1;
	}
	remember(f);
	return f;
}

int sim_map(struct transport *t, const struct transport_bo *bo, void **ptr)
{
	void *p = sim_pages_again((void *)(uintptr_t)bo->map_offset, bo->size);

	(void)t;
	if (p && bo->readonly && mprotect(p, bo->size, PROT_READ)) {
		munmap(p, bo->size);
		p = NULL;
	}
	*ptr = p;
	return p ? 0 : -ENOMEM;
}

void sim_unmap(void *ptr, size_t size)
{
	munmap(ptr, size);
}
