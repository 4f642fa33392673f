/* SPDX-License-Identifier: MIT */
/*
 * The kernels of SORT for one width of entries. The including file defines:
 *
 *   ENTRY        type of an entry
 *   KEY          type of a key
 *   MAKE(k, p)   an entry with key k and position p
 *   KEY_OF(e), PLACE_OF(e)
 *   DIGIT(e, d)  digit d of the key of *e
 */
#define INSERTION 48 /* most entries for an insertion sort */
#define RANKED 32 /* most entries for rank(), which compares all pairs */

static void load_entries(const struct openreg_sort *sort, const void *from,
			 uint32_t first, int64_t n, void *entries)
{
	KEY keys[OPENREG_SORT_LINE], flip = (KEY)sort->flip;
	ENTRY *to = entries;
	uintptr_t at = (uintptr_t)from;
	int64_t i, line, stride = sort->source.axis;

	for (; n; n -= line) {
		line = openreg_sort_min(n, OPENREG_SORT_LINE);
		sort->keys(keys, (const void *)at, stride, line);
		for (i = 0; i < line; i++)
			to[i] = MAKE(keys[i] ^ flip, first + (uint32_t)i);
		to += line;
		first += (uint32_t)line;
		at += (uintptr_t)line * (uintptr_t)stride;
	}
}

static void find_bits(const void *entries, int64_t n, uint64_t seen[2])
{
	const ENTRY *e = entries;
	KEY ones = 0, zeros = 0;
	int64_t i;

	for (i = 0; i < n; i++) {
		ones |= KEY_OF(e[i]);
		zeros |= (KEY)~KEY_OF(e[i]);
	}
	seen[0] = ones;
	seen[1] = zeros;
}

static void insert(ENTRY *e, int64_t n)
{
	int64_t i, k;

	for (i = 1; i < n; i++) {
		ENTRY x = e[i];

		for (k = i; k && KEY_OF(e[k - 1]) > KEY_OF(x); k--)
			e[k] = e[k - 1];
		e[k] = x;
	}
}

/* Sorts without a branch that depends on a key. */
static void rank(ENTRY *to, const ENTRY *e, int64_t n)
{
	int64_t before[RANKED], i, j;

	for (j = 0; j < n; j++) {
		KEY key = KEY_OF(e[j]);

		before[j] = j;
		for (i = 0; i < j; i++) {
			bool later = KEY_OF(e[i]) > key;

			before[i] += later;
			before[j] -= later;
		}
	}
	for (i = 0; i < n; i++)
		to[before[i]] = e[i];
}

static void count_digit(const void *entries, int64_t n, unsigned int digit,
			uint32_t *count)
{
	const ENTRY *e = entries;
	int64_t i;

	memset(count, 0, OPENREG_SORT_BUCKETS * sizeof(*count));
	for (i = 0; i < n; i++)
		count[DIGIT(&e[i], digit)]++;
}

static void move_entries(void *to, const void *entries, int64_t n,
			 unsigned int digit, uint32_t *place)
{
	const ENTRY *e = entries;
	int64_t i;

	for (i = 0; i < n; i++)
		((ENTRY *)to)[place[DIGIT(&e[i], digit)]++] = e[i];
}

static void *sort_entries(void *entries, void *other, int64_t n,
			  unsigned int digits)
{
	uint32_t count[OPENREG_SORT_BUCKETS];
	ENTRY *from = entries, *to = other, *swap;
	unsigned int d;

	if (n <= RANKED) {
		rank(to, from, n);
		return to;
	}
	if (n <= INSERTION) {
		insert(from, n);
		return from;
	}
	for (d = 0; d < digits; d++) {
		count_digit(from, n, d, count);
		if (count[DIGIT(from, d)] == n)
			continue;
		openreg_sort_sum(count);
		move_entries(to, from, n, d, count);
		swap = from;
		from = to;
		to = swap;
	}
	return from;
}

static int64_t keep_least(const struct openreg_sort *sort, ENTRY *entries,
			  ENTRY *other, int64_t n)
{
	int64_t keep = openreg_sort_min(n, sort->keep);
	ENTRY *sorted = sort_entries(entries, other, n, sort->digits);

	if (sorted != entries)
		memcpy(entries, sorted, (size_t)keep * sizeof(*entries));
	return keep;
}

/* Drops entries that are not below the last one kept: equal keys keep their order. */
static int64_t least_entries(const struct openreg_sort *sort, const void *from,
			     uint32_t first, int64_t n, void *entries,
			     void *other)
{
	KEY keys[OPENREG_SORT_LINE], flip = (KEY)sort->flip, bound = 0;
	ENTRY *e = entries;
	uintptr_t at = (uintptr_t)from;
	int64_t i, line, have = 0, stride = sort->source.axis;
	bool bounded = false;

	for (; n; n -= line) {
		line = openreg_sort_min(n, OPENREG_SORT_LINE);
		sort->keys(keys, (const void *)at, stride, line);
		for (i = 0; i < line; i++) {
			KEY key = keys[i] ^ flip;

			if (bounded && key >= bound)
				continue;
			if (have == sort->room) {
				have = keep_least(sort, e, other, have);
				bound = KEY_OF(e[have - 1]);
				bounded = true;
				if (key >= bound)
					continue;
			}
			e[have++] = MAKE(key, first + (uint32_t)i);
		}
		first += (uint32_t)line;
		at += (uintptr_t)line * (uintptr_t)stride;
	}
	return keep_least(sort, e, other, have);
}

static void places_of(uint32_t *place, const void *entries, int64_t n)
{
	const ENTRY *e = entries;
	int64_t i;

	for (i = 0; i < n; i++)
		place[i] = PLACE_OF(e[i]);
}

#define KERNELS                                                                \
	{                                                                      \
		.entry = sizeof(ENTRY), .load = load_entries,                  \
		.find_bits = find_bits, .sort = sort_entries,                  \
		.least = least_entries,                                        \
		.count = count_digit, .move = move_entries,                    \
		.places = places_of,                                           \
	}
